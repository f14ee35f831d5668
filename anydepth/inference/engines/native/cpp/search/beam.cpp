#include "search/beam.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace anydepth {

void Beam::choose(Sentences& active, const Step& step) {
    int row = 0;
    size_t kept = 0;
    for (size_t s = 0; s < active.size(); ++s) {
        Sentence& sentence = *active[s];
        const int width = (int)sentence.rows.size();
        make_candidates(sentence, step, row);
        const bool is_over = advance(sentence, step.exits.data() + row);
        row += width;
        if (is_over) {
            release(sentence);
            queue_.give(*sentence.request, ranked(sentence));
        } else {
            if (kept != s) active[kept] = std::move(active[s]);
            ++kept;
        }
    }
    active.resize(kept);
}

void Beam::drop_cancelled(Sentences& active) {
    const auto is_cancelled = [&](const std::unique_ptr<Sentence>& sentence) {
        if (!sentence->request->is_cancelled) return false;
        release(*sentence);
        return true;
    };
    active.erase(std::remove_if(active.begin(), active.end(), is_cancelled), active.end());
}

void Beam::release(const Sentence& sentence) {
    for (const Row& row : sentence.rows)
        if (!row.path.empty()) nodes_.release(row.path.back());
}

// The best continuations of a sentence, whose rows have the numbers from `first` on in the step.
void Beam::make_candidates(const Sentence& sentence, const Step& step, int first) {
    const int width = (int)sentence.rows.size();
    const SentenceWords& words = sentence.source->words;
    const int64_t continuations = (int64_t)width * (words.count - (int)words.banned.size());
    const int count = (int)std::min<int64_t>(2LL * sentence.settings().beam, continuations);
    candidates_.clear();
    end_scores_.clear();
    for (int place = 0; place < width; ++place) offer(sentence.rows[place], words, step, first + place, place, count);
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.total > b.total; });
    candidates_.resize(std::min<size_t>(count, candidates_.size()));
}

// The best continuations of one row.
void Beam::offer(const Row& row, const SentenceWords& words, const Step& step, int number, int place, int count) {
    float* logits = step.logits[number];
    float greatest = step.greatest[number], sum = step.sums[number];
    if (sum == 0) ops_.max_and_sum(logits, words.count, &greatest, &sum);
    const float log_sum = std::log(sum);
    for (const int banned : words.banned) logits[banned] = -std::numeric_limits<float>::infinity();
    end_scores_.push_back(logits[words.end] - greatest - log_sum);
    const int most = std::min(count, words.count - (int)words.banned.size());
    top_values_.resize(most);
    top_places_.resize(most);
    ops_.top(logits, words.count, most, top_values_.data(), top_places_.data());
    for (int i = 0; i < most; ++i) {
        const float score = top_values_[i] - greatest - log_sum;
        candidates_.push_back({row.total + score, place, words.token(top_places_[i]), score});
    }
}

// As `advance` of anydepth/search/beam.py: EOS among the `beam` best ends a hypothesis, the best
// others live on; at the limit those that have not ended are made to, unless EOS is banned. True if
// the sentence is over. `exits` are those of its rows.
bool Beam::advance(Sentence& sentence, const int* exits) {
    take(sentence, exits);
    if (has_enough(sentence)) return true;
    if (sentence.request->limit <= sentence.time) {
        end_at_limit(sentence, exits);
        return true;
    }
    go_on(sentence);
    return false;
}

// Records the candidates that end and those that become new rows.
void Beam::take(Sentence& sentence, const int* exits) {
    const int old_width = (int)sentence.rows.size(), count = (int)candidates_.size();
    const int beam = sentence.settings().beam, eos = sentence.settings().eos;
    const int width = std::min(beam, count - old_width);
    new_rows_.clear();
    new_places_.clear();
    has_ended_.assign(old_width, false);
    for (int c = 0; c < count; ++c) {
        const Candidate& candidate = candidates_[c];
        const bool is_end = candidate.token == eos;
        if (is_end ? c >= beam : (int)new_rows_.size() >= width) continue;
        const Row& from = sentence.rows[candidate.place];
        sentence.entries.push_back({from.entry, candidate.token, exits[candidate.place], candidate.score});
        const int entry = (int)sentence.entries.size() - 1;
        if (is_end) {
            sentence.ends.push_back({entry, true});
            has_ended_[candidate.place] = true;
            ++sentence.finished;
            note_end(sentence, candidate.total);
        } else {
            new_rows_.push_back({candidate.token, entry, candidate.total, {}});
            new_places_.push_back(candidate.place);
        }
    }
}

// Keeps the score of a hypothesis that has ended among the best of its sentence.
void Beam::note_end(Sentence& sentence, float total) {
    const Settings& settings = sentence.settings();
    if (settings.early_stopping) return;
    const float score = (float)(total / std::pow((double)sentence.time, settings.length_penalty));
    sentence.ended.insert(
        std::upper_bound(sentence.ended.begin(), sentence.ended.end(), score, std::greater<float>()), score);
    if ((int)sentence.ended.size() > settings.beam) sentence.ended.pop_back();
}

// Whether `beam` hypotheses have finished and, without early stopping, none that runs could be ranked
// before the last of them at its present length.
bool Beam::has_enough(const Sentence& sentence) const {
    const Settings& settings = sentence.settings();
    if (sentence.finished < settings.beam) return false;
    if (settings.early_stopping || new_rows_.empty()) return true;
    return (float)(new_rows_[0].total / std::pow((double)sentence.time, settings.length_penalty)) <=
           sentence.ended.back();
}

void Beam::end_at_limit(Sentence& sentence, const int* exits) {
    const std::vector<int>& banned = sentence.settings().banned;
    const int eos = sentence.settings().eos;
    if (std::find(banned.begin(), banned.end(), eos) != banned.end()) {
        for (const Row& row : new_rows_) sentence.ends.push_back({row.entry, false});
        return;
    }
    for (size_t place = 0; place < sentence.rows.size(); ++place) {
        if (has_ended_[place]) continue;
        sentence.entries.push_back({sentence.rows[place].entry, eos, exits[place], end_scores_[place]});
        sentence.ends.push_back({(int)sentence.entries.size() - 1, false});
    }
}

// Puts the new rows in the place of the old ones.
void Beam::go_on(Sentence& sentence) {
    for (size_t i = 0; i < new_rows_.size(); ++i) {
        new_rows_[i].path = sentence.rows[new_places_[i]].path;
        nodes_.keep(new_rows_[i].path.back());
    }
    for (const Row& row : sentence.rows) nodes_.release(row.path.back());
    std::swap(sentence.rows, new_rows_);
}

std::vector<Found> Beam::ranked(const Sentence& sentence) {
    std::vector<Found> found;
    for (const Sentence::End& end : sentence.ends) {
        Found hypothesis;
        hypothesis.has_finished = end.has_finished;
        hypothesis.words = sentence.source->words.count;
        for (int entry = end.entry; entry >= 0; entry = sentence.entries[entry].parent) {
            hypothesis.tokens.push_back(sentence.entries[entry].token);
            hypothesis.exits.push_back(sentence.entries[entry].exit);
            hypothesis.token_scores.push_back(sentence.entries[entry].score);
        }
        std::reverse(hypothesis.tokens.begin(), hypothesis.tokens.end());
        std::reverse(hypothesis.exits.begin(), hypothesis.exits.end());
        std::reverse(hypothesis.token_scores.begin(), hypothesis.token_scores.end());
        const double total = std::accumulate(hypothesis.token_scores.begin(), hypothesis.token_scores.end(), 0.0);
        hypothesis.score = total / std::pow((double)hypothesis.tokens.size(), sentence.settings().length_penalty);
        found.push_back(std::move(hypothesis));
    }
    std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
    if ((int)found.size() > sentence.settings().best) found.resize(sentence.settings().best);
    return found;
}

}  // namespace anydepth
