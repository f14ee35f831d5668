#include "search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

namespace anydepth {
namespace {

constexpr int NODES_AT_ONCE = 64;  // allocated together

// One token of one or several hypotheses: its state where it left, and for each block its key and value once they have been made.
// Hypotheses that share a beginning share its nodes, so that nothing is copied when the beam is reordered.
struct Node {
    int parent;
    int users;       // rows that end here, and children
    uint64_t ready;  // bit n - 1: block n has the key and the value
};

class Nodes {
  public:
    Nodes(int blocks, int dim) : blocks_(blocks), dim_(dim) {}

    int add(int parent) {
        if (free_.empty()) {
            const int first = (int)nodes_.size();
            nodes_.resize(first + NODES_AT_ONCE);
            chunks_.emplace_back();
            chunks_.back().at_least((size_t)NODES_AT_ONCE * stride());
            for (int i = NODES_AT_ONCE; i-- > 0;) free_.push_back(first + i);
        }
        const int id = free_.back();
        free_.pop_back();
        nodes_[id] = {parent, 1, 0};  // the row's use of the parent becomes that of the child
        return id;
    }
    void keep(int id) { ++nodes_[id].users; }
    void release(int id) {
        while (id >= 0 && --nodes_[id].users == 0) {
            free_.push_back(id);
            id = nodes_[id].parent;
        }
    }
    bool has_pair(int id, int n) const { return nodes_[id].ready >> (n - 1) & 1; }
    void note_pair(int id, int n) { nodes_[id].ready |= 1ull << (n - 1); }
    size_t size() const { return nodes_.size(); }
    float* state(int id) { return chunks_[id / NODES_AT_ONCE].get() + (size_t)(id % NODES_AT_ONCE) * stride(); }
    float* pair(int id, int n) { return state(id) + dim_ + (size_t)(n - 1) * 2 * dim_; }

  private:
    size_t stride() const { return (size_t)dim_ * (1 + 2 * blocks_); }
    int blocks_, dim_;
    std::vector<Node> nodes_;
    std::vector<Buffer<float>> chunks_;
    std::vector<int> free_;
};

// A token in the record of a sentence's search, pointing back to the one before it.
struct Entry {
    int parent, token, exit;
    float score;
};

struct Row {
    int token, entry;
    float total;
    std::vector<int> path;  // nodes from the first token to the last
};

struct SourceKeys {
    Buffer<float> keys, values;
    bool is_ready = false;
};

// What a source sentence is to the decoder; those that are the same sentence again share it.
struct Source {
    std::vector<float> memory;
    std::vector<SourceKeys> keys;  // one for each block, made when the block first runs
};

struct Sentence {
    int number = 0, length = 0, padded = 0, limit = 0, time = 0, planned = 0;
    std::shared_ptr<Source> source;
    std::vector<Row> rows;
    std::vector<Entry> entries;
    struct End {
        int entry;
        bool has_finished;
    };
    std::vector<End> ends;  // entries with which hypotheses came to their end, in that order
    int finished = 0;
};

struct Running {
    int row, sentence, place;  // number in the step, active sentence, row of the sentence
};

class Worker {
  public:
    Worker(const Model& model, const std::vector<std::vector<int>>& sources, const std::vector<int>& limits, const std::vector<int>& order,
           const Policy& policy, const Settings& settings, int workers, Team* team, std::atomic<size_t>& next,
           std::vector<std::vector<Found>>& results)
        : model_(model), ops_(model.kernels), sources_(sources), limits_(limits), order_(order), policy_(policy), settings_(settings),
          workers_(workers), next_(next), results_(results), nodes_(model.shape.blocks, model.shape.decoder_dim) {
        scratch_.team = team;
    }

    // Searches until there is nothing left, or `is_over`; `look_up` is called ten times a second.
    void run(const std::atomic<bool>& is_over, const std::function<void()>& look_up) {
        since_ = std::chrono::steady_clock::now();
        auto looked_up = since_;
        while (!is_over) {
            admit();
            if (active_.empty()) break;
            step();
            if (look_up && since_ - looked_up > std::chrono::milliseconds(100)) {
                look_up();
                looked_up = since_;
            }
        }
        counts.decoder_flops = scratch_.flops;
        counts.nodes = (int64_t)nodes_.size();
    }
    Counts counts;

  private:
    // Sentences are encoded many at a time and wait; one takes the place of each that finishes.
    void admit() {
        while ((int)active_.size() < settings_.batch_sentences) {
            if (waiting_.empty()) encode_more();
            if (waiting_.empty()) return;
            int64_t longest = waiting_.back()->length;
            for (const auto& sentence : active_) longest = std::max<int64_t>(longest, sentence->length);
            if (!active_.empty() && (int64_t)(active_.size() + 1) * settings_.beam * longest > settings_.batch_tokens) return;
            active_.push_back(std::move(waiting_.back()));
            waiting_.pop_back();
        }
    }

    void encode_more() {
        // No more than a fair share of what is left: the other workers want some, too.
        const int64_t left = std::max<int64_t>(0, (int64_t)order_.size() - (int64_t)next_.load());
        const int64_t portion = std::min<int64_t>(settings_.batch_sentences, (left + workers_ - 1) / workers_);
        std::vector<int> tokens, starts{0};
        std::vector<Source*> fresh;
        while ((int64_t)waiting_.size() < portion) {
            const size_t place = next_.fetch_add(1);
            if (place >= order_.size()) break;
            auto sentence = std::make_unique<Sentence>();
            const std::vector<int>& source = sources_[order_[place]];
            sentence->number = order_[place];
            sentence->length = (int)source.size();
            sentence->padded = (sentence->length + 15) / 16 * 16;
            sentence->limit = limits_[sentence->number];
            sentence->rows.push_back({settings_.bos, -1, 0.0f, {}});
            if (last_number_ < 0 || sources_[last_number_] != source) {  // else the sentence is decoded once more, to another exit
                last_source_ = std::make_shared<Source>();
                last_source_->keys.resize(model_.shape.blocks);
                fresh.push_back(last_source_.get());
                tokens.insert(tokens.end(), source.begin(), source.end());
                starts.push_back((int)tokens.size());
            }
            last_number_ = sentence->number;
            sentence->source = last_source_;
            waiting_.push_back(std::move(sentence));
        }
        if (waiting_.empty()) return;
        const int dim = model_.shape.encoder_dim;
        float* memory = memory_.at_least(tokens.size() * dim);
        const int64_t before = scratch_.flops;
        if (!fresh.empty()) model_.encode(tokens.data(), starts, memory, scratch_);
        counts.encoder_flops += scratch_.flops - before;
        scratch_.flops = before;
        for (size_t s = 0; s < fresh.size(); ++s)
            fresh[s]->memory.assign(memory + (int64_t)starts[s] * dim, memory + (int64_t)starts[s + 1] * dim);
        for (auto& sentence : waiting_)
            if (policy_.rule == Rule::sequence) sentence->planned = sequence_exit(*sentence);
        std::reverse(waiting_.begin(), waiting_.end());
        spent(encoding);
    }

    // The time since the last call went into `phase`.
    void spent(Phase phase) {
        const auto now = std::chrono::steady_clock::now();
        counts.seconds[phase] += std::chrono::duration<double>(now - since_).count();
        since_ = now;
    }

    int sequence_exit(const Sentence& sentence) {
        const int dim = model_.shape.encoder_dim;
        std::vector<float> mean(dim, 0.0f), scores(model_.shape.blocks);
        for (int s = 0; s < sentence.length; ++s)
            for (int i = 0; i < dim; ++i) mean[i] += sentence.source->memory[(size_t)s * dim + i];
        for (float& number : mean) number /= sentence.length;
        model_.scores.apply(ops_, mean.data(), 1, scores.data(), scratch_);
        return 1 + (int)(std::max_element(scores.begin(), scores.end()) - scores.begin());
    }

    // ---- one more token of every row ------------------------------------------------------------------------------------------------

    void step() {
        const int dim = model_.shape.decoder_dim, blocks = model_.shape.blocks;
        running_.clear();
        for (int s = 0; s < (int)active_.size(); ++s)
            for (int place = 0; place < (int)active_[s]->rows.size(); ++place) running_.push_back({(int)running_.size(), s, place});
        const int rows = (int)running_.size();
        ++counts.steps;
        counts.rows += rows;
        exits_.assign(rows, blocks);
        row_logits_.assign(rows, nullptr);
        row_greatest_.assign(rows, 0.0f);
        row_sum_.assign(rows, 0.0f);  // 0 is not known: no sum of exponentials is
        row_nodes_.resize(rows);
        has_shortlists_ = false;
        float* hidden = hidden_.at_least((size_t)rows * dim);
        const float rate = std::sqrt((float)dim);
        for (const Running& each : running_) {
            Sentence& sentence = *active_[each.sentence];
            Row& row = sentence.rows[each.place];
            const float *word = model_.target_embedding + (int64_t)row.token * dim;
            const float* place = model_.decoder_positions + (int64_t)sentence.time * dim;
            for (int i = 0; i < dim; ++i) hidden[(size_t)each.row * dim + i] = word[i] * rate + place[i];
            row_nodes_[each.row] = nodes_.add(row.path.empty() ? -1 : row.path.back());
            row.path.push_back(row_nodes_[each.row]);
            exits_[each.row] = planned_exit(sentence);
        }
        for (int n = 1; n <= blocks && !running_.empty(); ++n) {
            if (policy_.rule == Rule::similarity && decides(n)) {
                below_.at_least(running_.size() * dim);
                std::memcpy(below_.get(), hidden, sizeof(float) * running_.size() * dim);
            }
            block(n, hidden);
            decide(n, hidden);
            leave(n, hidden);
            spent(deciding);
        }
        if (!settings_.is_deferred) copy_upward();
        spent(copying);
        word_scores();
        spent(scoring_words);
        for (auto& sentence : active_) ++sentence->time;
        choose();
        spent(choosing);
    }

    int planned_exit(const Sentence& sentence) const {
        if (policy_.rule == Rule::sequence) return sentence.planned;
        if (policy_.rule != Rule::planned) return model_.shape.blocks;
        const std::vector<int>& plan = policy_.plans[sentence.number];
        return plan[std::min<size_t>(sentence.time, plan.size() - 1)];
    }

    // Block n for the running rows, in place.
    void block(int n, float* hidden) {
        const DecoderWeights& weights = model_.decoder[n - 1];
        const int rows = (int)running_.size(), dim = model_.shape.decoder_dim, heads = model_.shape.heads;
        float* kvq = kvq_.at_least((size_t)rows * 3 * dim);
        float* gathered = gathered_.at_least((size_t)rows * dim);
        float* delta = delta_.at_least((size_t)rows * dim);

        weights.kvq.apply(ops_, hidden, rows, kvq, scratch_);
        for (int r = 0; r < rows; ++r) {
            const int node = row_nodes_[running_[r].row];
            std::memcpy(nodes_.pair(node, n), kvq + (size_t)r * 3 * dim, sizeof(float) * 2 * dim);
            nodes_.note_pair(node, n);
        }
        spent(transforming);
        make_pairs(n);
        spent(copying);
        for (int r = 0; r < rows; ++r) {
            const std::vector<int>& path = active_[running_[r].sentence]->rows[running_[r].place].path;
            const int count = (int)path.size();
            keys_.resize(count);
            values_.resize(count);
            for (int s = 0; s < count; ++s) {
                keys_[s] = nodes_.pair(path[s], n);
                values_[s] = keys_[s] + dim;
            }
            scratch_.flops += 4LL * count * dim;
            ops_.attend_scattered(kvq + (size_t)r * 3 * dim + 2 * dim, keys_.data(), values_.data(), count, heads, dim,
                                  scores_.at_least(count + 16), gathered + (size_t)r * dim);
        }
        spent(attending);
        weights.self_output.apply(ops_, gathered, rows, delta, scratch_);
        ops_.add_norm(hidden, delta, weights.self_norm.gain, weights.self_norm.bias, hidden, rows, dim);

        spent(transforming);
        make_source_keys(n);
        spent(projecting_source);
        weights.source_query.apply(ops_, hidden, rows, kvq, scratch_);
        spent(transforming);
        for (int r = 0, next; r < rows; r = next) {  // the rows of a sentence look at its source together
            for (next = r + 1; next < rows && running_[next].sentence == running_[r].sentence; ++next) {
            }
            const Sentence& sentence = *active_[running_[r].sentence];
            const SourceKeys& source = sentence.source->keys[n - 1];
            scratch_.flops += 4LL * (next - r) * sentence.length * dim;
            ops_.attend_dense(kvq + (size_t)r * dim, next - r, dim, source.keys.get(), source.values.get(), sentence.length,
                              sentence.padded, heads, dim, scores_.at_least(4 * sentence.padded), gathered + (size_t)r * dim);
        }
        spent(attending);
        weights.source_output.apply(ops_, gathered, rows, delta, scratch_);
        ops_.add_norm(hidden, delta, weights.source_norm.gain, weights.source_norm.bias, hidden, rows, dim);

        float* inner = inner_.at_least((size_t)rows * model_.shape.decoder_ffn);
        weights.inner.apply(ops_, hidden, rows, inner, scratch_, true);
        weights.outer.apply(ops_, inner, rows, delta, scratch_);
        ops_.add_norm(hidden, delta, weights.feed_forward_norm.gain, weights.feed_forward_norm.bias, hidden, rows, dim);
        spent(transforming);
    }

    // The keys and values at block n of earlier tokens that left below it, in one product for all running rows.
    void make_pairs(int n) {
        pending_.clear();
        for (const Running& each : running_)
            for (const int id : active_[each.sentence]->rows[each.place].path)
                if (!nodes_.has_pair(id, n)) {
                    nodes_.note_pair(id, n);
                    pending_.push_back(id);
                }
        fill_pairs(n, pending_);
    }

    void fill_pairs(int n, const std::vector<int>& ids) {
        if (ids.empty()) return;
        const int dim = model_.shape.decoder_dim, count = (int)ids.size();
        float *states = states_.at_least((size_t)count * dim), *pairs = pairs_.at_least((size_t)count * 2 * dim);
        for (int i = 0; i < count; ++i) std::memcpy(states + (size_t)i * dim, nodes_.state(ids[i]), sizeof(float) * dim);
        model_.decoder[n - 1].kvq.apply(ops_, states, count, pairs, scratch_, false, 2 * dim);
        for (int i = 0; i < count; ++i) std::memcpy(nodes_.pair(ids[i], n), pairs + (size_t)i * 2 * dim, sizeof(float) * 2 * dim);
        counts.copied_pairs += count;
    }

    // The plain way: every token of the step gets the keys and values of all blocks above its exit now.
    void copy_upward() {
        for (int n = 2; n <= model_.shape.blocks; ++n) {
            pending_.clear();
            for (const int id : row_nodes_)
                if (!nodes_.has_pair(id, n)) {
                    nodes_.note_pair(id, n);
                    pending_.push_back(id);
                }
            fill_pairs(n, pending_);
        }
    }

    void make_source_keys(int n) {
        const int wide = model_.shape.encoder_dim, dim = model_.shape.decoder_dim;
        missing_.clear();
        int rows = 0;
        for (const Running& each : running_) {
            Sentence& sentence = *active_[each.sentence];
            if (sentence.source->keys[n - 1].is_ready) continue;
            sentence.source->keys[n - 1].is_ready = true;
            missing_.push_back(each.sentence);
            rows += sentence.length;
        }
        if (missing_.empty()) return;
        float *memory = states_.at_least((size_t)rows * wide), *pairs = pairs_.at_least((size_t)rows * 2 * dim);
        float* to = memory;
        for (const int s : missing_) to = std::copy(active_[s]->source->memory.begin(), active_[s]->source->memory.end(), to);
        model_.decoder[n - 1].source_kv.apply(ops_, memory, rows, pairs, scratch_);
        for (const int s : missing_) {
            Sentence& sentence = *active_[s];
            SourceKeys& source = sentence.source->keys[n - 1];
            lay_out_keys(pairs, 2 * dim, sentence.length, sentence.padded, model_.shape.heads, dim,
                         source.keys.at_least((size_t)sentence.padded * dim), source.values.at_least((size_t)sentence.length * dim));
            pairs += (size_t)sentence.length * 2 * dim;
        }
    }

    // ---- decisions ----------------------------------------------------------------------------------------------------------------------

    // Whether a signal decides after block n: nothing is above a threshold of 1, and at one of 0 everybody leaves.
    bool decides(int n) const {
        return n < model_.shape.blocks && policy_.thresholds[n - 1] > 0 && policy_.thresholds[n - 1] < 1;
    }

    // Sets the exits of the running rows that stop after block n.
    void decide(int n, const float* hidden) {
        const int rows = (int)running_.size(), blocks = model_.shape.blocks;
        if (n == blocks) return;
        if (policy_.is_halting_watched) halt_logits(hidden, rows);
        if (policy_.rule == Rule::planned || policy_.rule == Rule::sequence) return;
        if (policy_.rule == Rule::multinomial) {
            if (n > 1) return;
            float* scores = signal_.at_least((size_t)rows * blocks);
            model_.scores.apply(ops_, hidden, rows, scores, scratch_);
            for (int r = 0; r < rows; ++r) {
                const float* own = scores + (size_t)r * blocks;
                exits_[running_[r].row] = 1 + (int)(std::max_element(own, own + blocks) - own);
            }
            return;
        }
        const float threshold = policy_.thresholds[n - 1];
        if (threshold <= 0)
            for (const Running& each : running_) exits_[each.row] = n;
        if (!decides(n)) return;
        signals(n, hidden);
        const float* signal = signal_.get();
        for (int r = 0; r < rows; ++r)
            if (signal[r] > threshold) exits_[running_[r].row] = n;
    }

    void signals(int n, const float* hidden) {
        const int rows = (int)running_.size(), dim = model_.shape.decoder_dim, vocab = model_.shape.target_vocab;
        float* signal = signal_.at_least(rows);
        switch (policy_.rule) {
            case Rule::geometric:
                halt_logits(hidden, rows);
                for (int r = 0; r < rows; ++r) signal[r] = 1.0f / (1.0f + std::exp(-signal[r]));
                return;
            case Rule::similarity:
                for (int r = 0; r < rows; ++r) {
                    const float *a = hidden + (size_t)r * dim, *b = below_.get() + (size_t)r * dim;
                    const float length = std::sqrt(ops_.dot(a, a, dim)) * std::sqrt(ops_.dot(b, b, dim));
                    signal[r] = std::clamp((1.0f + ops_.dot(a, b, dim) / std::max(length, 1e-8f)) / 2.0f, 0.0f, 1.0f);
                }
                return;
            case Rule::shortlist:
                if (has_shortlists_) {
                    shortlist_signals(n, hidden);
                    return;
                }
                has_shortlists_ = true;  // the first exit that decides looks at all words
                [[fallthrough]];
            default: {
                float* logits = logits_of(n).at_least((size_t)rows * vocab);
                model_.classifier(n).apply(ops_, hidden, rows, logits, scratch_);
                for (int r = 0; r < rows; ++r) {
                    const float* own = logits + (size_t)r * vocab;
                    float greatest, sum;
                    ops_.max_and_sum(own, vocab, &greatest, &sum);
                    signal[r] = std::min(1.0f, std::exp(-std::log(sum)));
                    if (policy_.rule == Rule::margin) {
                        float values[2];
                        int places[2];
                        ops_.top(own, vocab, 2, values, places);
                        const float log_sum = greatest + std::log(sum);
                        signal[r] = std::clamp(std::exp(values[0] - log_sum) - std::exp(values[1] - log_sum), 0.0f, 1.0f);
                    }
                    if (policy_.rule == Rule::shortlist) {
                        Shortlist& list = shortlist(running_[r].row);
                        ops_.top(own, vocab, std::min(policy_.shortlist, vocab), list.values.data(), list.words.data());
                    }
                    row_logits_[running_[r].row] = own;
                    row_greatest_[running_[r].row] = greatest;
                    row_sum_[running_[r].row] = sum;
                }
            }
        }
    }

    struct Shortlist {
        std::vector<float> values;
        std::vector<int> words;
    };

    Shortlist& shortlist(int row) {
        if ((int)shortlists_.size() <= row) shortlists_.resize(row + 1);
        shortlists_[row].values.resize(policy_.shortlist);
        shortlists_[row].words.resize(policy_.shortlist);
        return shortlists_[row];
    }

    void shortlist_signals(int n, const float* hidden) {
        const int dim = model_.shape.decoder_dim, count = std::min(policy_.shortlist, model_.shape.target_vocab);
        const float* matrix = model_.classifier_rows[model_.classifier_rows.size() == 1 ? 0 : n - 1];
        for (size_t r = 0; r < running_.size(); ++r) {
            Shortlist& list = shortlist(running_[r].row);
            for (int i = 0; i < count; ++i)
                list.values[i] = ops_.dot(matrix + (int64_t)list.words[i] * dim, hidden + r * dim, dim);
            scratch_.flops += 2LL * count * dim;
            float greatest, sum;
            ops_.max_and_sum(list.values.data(), count, &greatest, &sum);
            signal_.get()[r] = std::min(1.0f, std::exp(-std::log(sum)));
        }
    }

    // Leaves w_h h + b_h of the running rows in signal_.
    void halt_logits(const float* hidden, int rows) {
        const float* seen = hidden;
        if (model_.has_units) {
            float* units = inner_.at_least((size_t)rows * std::max(model_.units.outputs(), model_.shape.decoder_ffn));
            model_.units.apply(ops_, hidden, rows, units, scratch_, true);
            seen = units;
        }
        // One output: a dot-product a row, where the product of matrices would fill a panel with nothing.
        float* signal = signal_.at_least(rows);
        const int k = model_.has_units ? model_.units.outputs() : model_.shape.decoder_dim;
        scratch_.flops += 2LL * rows * k;
        for (int r = 0; r < rows; ++r) signal[r] = ops_.dot(seen + (size_t)r * k, model_.stop_weight, k) + model_.stop_bias;
    }

    // Takes the rows whose exit is n out of the running ones and closes the gaps; their states go to their nodes.
    void leave(int n, float* hidden) {
        const int dim = model_.shape.decoder_dim;
        size_t kept = 0;
        for (size_t r = 0; r < running_.size(); ++r) {
            const int row = running_[r].row;
            float* own = hidden + r * dim;
            if (exits_[row] <= n) {
                std::memcpy(nodes_.state(row_nodes_[row]), own, sizeof(float) * dim);
                continue;
            }
            row_logits_[row] = nullptr;  // what it decided by, if anything, is not what it leaves with
            row_sum_[row] = 0.0f;
            if (kept != r) std::memcpy(hidden + kept * dim, own, sizeof(float) * dim);
            running_[kept++] = running_[r];
        }
        running_.resize(kept);
    }

    // ---- words --------------------------------------------------------------------------------------------------------------------------

    Buffer<float>& logits_of(int n) {
        if ((int)logits_.size() <= n) logits_.resize(n + 1);
        return logits_[n];
    }

    // The scores of all words for the rows that have none yet, those of one classifier together.
    void word_scores() {
        const int dim = model_.shape.decoder_dim, vocab = model_.shape.target_vocab, rows = (int)exits_.size();
        const bool is_one = model_.classifiers.size() == 1;
        for (int n = is_one ? model_.shape.blocks : 1; n <= model_.shape.blocks; ++n) {
            chosen_.clear();
            for (int row = 0; row < rows; ++row)
                if (!row_logits_[row] && (is_one || exits_[row] == n)) chosen_.push_back(row);
            if (chosen_.empty()) continue;
            float* states = states_.at_least(chosen_.size() * dim);
            float* logits = final_logits_at(n, chosen_.size() * vocab);
            for (size_t i = 0; i < chosen_.size(); ++i)
                std::memcpy(states + i * dim, nodes_.state(row_nodes_[chosen_[i]]), sizeof(float) * dim);
            model_.classifier(n).apply(ops_, states, (int)chosen_.size(), logits, scratch_);
            for (size_t i = 0; i < chosen_.size(); ++i) row_logits_[chosen_[i]] = logits + i * vocab;
        }
    }

    float* final_logits_at(int n, size_t count) {
        if ((int)final_logits_.size() <= n) final_logits_.resize(n + 1);
        return final_logits_[n].at_least(count);
    }

    struct Candidate {
        float total;
        int place, token;
        float score;
    };

    // The best continuations of every sentence become its rows; what came to its end is noted.
    void choose() {
        const int vocab = model_.shape.target_vocab, beam = settings_.beam;
        int row = 0;
        size_t kept = 0;
        for (size_t s = 0; s < active_.size(); ++s) {
            Sentence& sentence = *active_[s];
            const int width = (int)sentence.rows.size();
            const int count = std::min<int64_t>(2LL * beam, (int64_t)width * (vocab - (int)settings_.banned.size()));
            candidates_.clear();
            end_scores_.clear();
            for (int place = 0; place < width; ++place) offer(sentence.rows[place], row + place, place, count);
            std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) { return a.total > b.total; });
            candidates_.resize(std::min<size_t>(count, candidates_.size()));
            const bool is_over = advance(sentence, row, width);
            row += width;
            if (is_over) {
                for (const Row& each : sentence.rows) nodes_.release(each.path.back());
                results_[sentence.number] = ranked(sentence);
            } else {
                if (kept != s) active_[kept] = std::move(active_[s]);
                ++kept;
            }
        }
        active_.resize(kept);
    }

    // The best continuations of one row.
    void offer(const Row& row, int number, int place, int count) {
        const int vocab = model_.shape.target_vocab;
        float* logits = const_cast<float*>(row_logits_[number]);
        float greatest = row_greatest_[number], sum = row_sum_[number];
        if (sum == 0) ops_.max_and_sum(logits, vocab, &greatest, &sum);
        const float log_sum = std::log(sum);
        for (const int token : settings_.banned) logits[token] = -std::numeric_limits<float>::infinity();
        end_scores_.push_back(logits[settings_.eos] - greatest - log_sum);
        const int most = std::min(count, vocab - (int)settings_.banned.size());
        top_values_.resize(most);
        top_places_.resize(most);
        ops_.top(logits, vocab, most, top_values_.data(), top_places_.data());
        for (int i = 0; i < most; ++i) {
            const float score = top_values_[i] - greatest - log_sum;
            candidates_.push_back({row.total + score, place, top_places_[i], score});
        }
    }

    // As `advance` of anydepth/search/beam.py: EOS among the `beam` best ends a hypothesis, the best others live on; at the limit those
    // that have not ended are made to, unless EOS is banned. Tells whether it is over.
    bool advance(Sentence& sentence, int first, int old_width) {
        const int beam = settings_.beam, count = (int)candidates_.size(), width = std::min(beam, count - old_width);
        new_rows_.clear();
        new_places_.clear();
        has_ended_.assign(old_width, false);
        for (int c = 0; c < count; ++c) {
            const Candidate& candidate = candidates_[c];
            const bool is_end = candidate.token == settings_.eos;
            if (is_end ? c >= beam : (int)new_rows_.size() >= width) continue;
            const Row& from = sentence.rows[candidate.place];
            sentence.entries.push_back({from.entry, candidate.token, exits_[first + candidate.place], candidate.score});
            const int entry = (int)sentence.entries.size() - 1;
            if (is_end) {
                sentence.ends.push_back({entry, true});
                has_ended_[candidate.place] = true;
                ++sentence.finished;
            } else {
                new_rows_.push_back({candidate.token, entry, candidate.total, {}});
                new_places_.push_back(candidate.place);
            }
        }
        const bool is_full = sentence.finished >= beam;
        if (is_full) return true;
        if (sentence.limit <= sentence.time) {
            if (std::find(settings_.banned.begin(), settings_.banned.end(), settings_.eos) != settings_.banned.end()) {
                for (const Row& row : new_rows_) sentence.ends.push_back({row.entry, false});
                return true;
            }
            for (int place = 0; place < old_width; ++place) {
                if (has_ended_[place]) continue;
                sentence.entries.push_back({sentence.rows[place].entry, settings_.eos, exits_[first + place], end_scores_[place]});
                sentence.ends.push_back({(int)sentence.entries.size() - 1, false});
            }
            return true;
        }
        for (size_t i = 0; i < new_rows_.size(); ++i) {
            new_rows_[i].path = sentence.rows[new_places_[i]].path;
            nodes_.keep(new_rows_[i].path.back());
        }
        for (const Row& row : sentence.rows) nodes_.release(row.path.back());
        std::swap(sentence.rows, new_rows_);
        return false;
    }

    std::vector<Found> ranked(const Sentence& sentence) const {
        std::vector<Found> found;
        for (const Sentence::End& end : sentence.ends) {
            Found hypothesis;
            hypothesis.has_finished = end.has_finished;
            for (int entry = end.entry; entry >= 0; entry = sentence.entries[entry].parent) {
                hypothesis.tokens.push_back(sentence.entries[entry].token);
                hypothesis.exits.push_back(sentence.entries[entry].exit);
                hypothesis.token_scores.push_back(sentence.entries[entry].score);
            }
            std::reverse(hypothesis.tokens.begin(), hypothesis.tokens.end());
            std::reverse(hypothesis.exits.begin(), hypothesis.exits.end());
            std::reverse(hypothesis.token_scores.begin(), hypothesis.token_scores.end());
            const double total = std::accumulate(hypothesis.token_scores.begin(), hypothesis.token_scores.end(), 0.0);
            hypothesis.score = total / std::pow((double)hypothesis.tokens.size(), settings_.length_penalty);
            found.push_back(std::move(hypothesis));
        }
        std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
        if ((int)found.size() > settings_.best) found.resize(settings_.best);
        return found;
    }

    const Model& model_;
    const Kernels& ops_;
    const std::vector<std::vector<int>>& sources_;
    const std::vector<int>&limits_, &order_;
    const Policy& policy_;
    const Settings& settings_;
    const int workers_;
    std::atomic<size_t>& next_;
    std::vector<std::vector<Found>>& results_;

    Nodes nodes_;
    std::vector<std::unique_ptr<Sentence>> active_, waiting_;
    int last_number_ = -1;  // the sentence admitted last
    std::shared_ptr<Source> last_source_;
    std::vector<Running> running_;
    std::vector<int> exits_, row_nodes_, pending_, missing_, chosen_, new_places_, top_places_;
    std::vector<const float*> keys_, values_, row_logits_;
    std::vector<Buffer<float>> logits_, final_logits_;
    std::vector<Shortlist> shortlists_;
    bool has_shortlists_ = false;  // of this step
    std::vector<Candidate> candidates_;
    std::vector<Row> new_rows_;
    std::vector<float> top_values_, row_greatest_, row_sum_, end_scores_;
    std::vector<bool> has_ended_;  // which rows of the sentence have
    Buffer<float> memory_, hidden_, below_, kvq_, gathered_, delta_, inner_, states_, pairs_, scores_, signal_;
    Scratch scratch_;
    std::chrono::steady_clock::time_point since_;
};

}  // namespace

std::vector<std::vector<Found>> search(const Model& model, const std::vector<std::vector<int>>& sources, const std::vector<int>& limits,
                                       const Policy& policy, const Settings& settings, Counts& counts,
                                       const std::function<void()>& look_up) {
    // Longest first: then the last sentences, which run with fewer and fewer others beside them, are short.
    std::vector<int> order(sources.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return sources[a].size() > sources[b].size(); });
    std::vector<std::vector<Found>> results(sources.size());
    std::atomic<size_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;
    std::atomic<bool> is_over{false};
    // Sentences are independent, so a thread for each comes first; threads to spare share the products of one.
    const int workers = std::max(1, std::min(settings.threads, (int)sources.size())), members = settings.threads / workers;
    std::atomic<int> at_work{0};
    const auto fail = [&] {
        const std::lock_guard<std::mutex> guard(mutex);
        if (!failure) failure = std::current_exception();
        is_over = true;
    };
    const auto work = [&](const std::function<void()>& own_look_up) {
        try {
            const std::unique_ptr<Team> team = members > 1 ? std::make_unique<Team>(members) : nullptr;
            Worker worker(model, sources, limits, order, policy, settings, workers, team.get(), next, results);
            worker.run(is_over, own_look_up);
            const std::lock_guard<std::mutex> guard(mutex);
            counts.encoder_flops += worker.counts.encoder_flops;
            counts.decoder_flops += worker.counts.decoder_flops;
            counts.copied_pairs += worker.counts.copied_pairs;
            counts.rows += worker.counts.rows;
            counts.steps += worker.counts.steps;
            counts.nodes += worker.counts.nodes;
            for (int phase = 0; phase < PHASES; ++phase) counts.seconds[phase] += worker.counts.seconds[phase];
        } catch (...) {
            fail();
        }
        --at_work;
    };
    std::vector<std::thread> threads;
    at_work = 1;
    for (int i = 1; i < workers; ++i) {
        ++at_work;
        try {
            threads.emplace_back(work, nullptr);
        } catch (const std::system_error&) {  // the system has no more threads to give; the others do it all
            --at_work;
            break;
        }
    }
    work(look_up);
    while (at_work > 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        try {
            if (look_up && !is_over) look_up();
        } catch (...) {
            fail();
        }
    }
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    return results;
}

}  // namespace anydepth
