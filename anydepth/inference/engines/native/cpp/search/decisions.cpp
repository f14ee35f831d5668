#include "search/decisions.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace anydepth {

void Decisions::plan(Sentence& sentence) {
    if (policy_.rule != Rule::sequence) return;
    const int dim = model_.shape.encoder_dim;
    std::vector<float> mean(dim, 0.0f), scores(model_.shape.blocks);
    for (int s = 0; s < sentence.length; ++s)
        for (int i = 0; i < dim; ++i) mean[i] += sentence.source->memory[(size_t)s * dim + i];
    for (float& number : mean) number /= sentence.length;
    model_.scores.apply(ops_, mean.data(), 1, scores.data(), scratch_);
    sentence.planned = 1 + (int)(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void Decisions::begin(Step& step) {
    has_shortlists_ = false;
    for (const StepRow& each : step.running) step.exits[each.row] = planned_exit(*each.sentence);
}

int Decisions::planned_exit(const Sentence& sentence) const {
    if (policy_.rule == Rule::sequence) return sentence.planned;
    if (policy_.rule != Rule::planned) return model_.shape.blocks;
    const std::vector<int>& plan = policy_.plans[sentence.number];
    return plan[std::min<size_t>(sentence.time, plan.size() - 1)];
}

// Whether a signal decides after block n: nothing is above a threshold of 1, and at one of 0 every
// row leaves.
bool Decisions::needs_signal(int n) const {
    return n < model_.shape.blocks && policy_.thresholds[n - 1] > 0 && policy_.thresholds[n - 1] < 1;
}

void Decisions::look_at(int n, const Step& step, const float* hidden) {
    if (policy_.rule != Rule::similarity || !needs_signal(n)) return;
    const size_t count = step.running.size() * model_.shape.decoder_dim;
    std::memcpy(below_.at_least(count), hidden, sizeof(float) * count);
}

void Decisions::decide(int n, Step& step, const float* hidden) {
    const int rows = (int)step.running.size();
    if (n == model_.shape.blocks) return;
    if (policy_.is_halting_watched) halt_logits(rows, hidden);
    if (policy_.rule == Rule::planned || policy_.rule == Rule::sequence) return;
    if (policy_.rule == Rule::multinomial) {
        if (n == 1) choose_multinomial(step, hidden);
        return;
    }
    const float threshold = policy_.thresholds[n - 1];
    if (threshold <= 0)
        for (const StepRow& each : step.running) step.exits[each.row] = n;
    if (!needs_signal(n)) return;
    make_signals(n, step, hidden);
    const float* signal = signal_.get();
    for (int r = 0; r < rows; ++r)
        if (signal[r] > threshold) step.exits[step.running[r].row] = n;
}

void Decisions::choose_multinomial(Step& step, const float* hidden) {
    const int rows = (int)step.running.size(), blocks = model_.shape.blocks;
    float* scores = signal_.at_least((size_t)rows * blocks);
    model_.scores.apply(ops_, hidden, rows, scores, scratch_);
    for (int r = 0; r < rows; ++r) {
        const float* own = scores + (size_t)r * blocks;
        step.exits[step.running[r].row] = 1 + (int)(std::max_element(own, own + blocks) - own);
    }
}

// Leaves the signals of the running rows after block n, which are compared with its threshold, in
// signal_.
void Decisions::make_signals(int n, Step& step, const float* hidden) {
    const int rows = (int)step.running.size();
    signal_.at_least(rows);
    switch (policy_.rule) {
        case Rule::geometric:
            return geometric_signals(rows, hidden);
        case Rule::similarity:
            return similarity_signals(rows, hidden);
        case Rule::shortlist:
            if (has_shortlists_) return shortlist_signals(n, step, hidden);
            has_shortlists_ = true;  // the first exit that decides looks at all words
            return word_signals(n, step, hidden);
        default:
            return word_signals(n, step, hidden);
    }
}

void Decisions::geometric_signals(int rows, const float* hidden) {
    halt_logits(rows, hidden);
    float* signal = signal_.get();
    for (int r = 0; r < rows; ++r) signal[r] = 1.0f / (1.0f + std::exp(-signal[r]));
}

// Leaves w_h h + b_h of the running rows in signal_.
void Decisions::halt_logits(int rows, const float* hidden) {
    const float* seen = hidden;
    if (model_.has_units) {
        float* units = units_.at_least((size_t)rows * model_.units.outputs());
        model_.units.apply(ops_, hidden, rows, units, scratch_, true);
        seen = units;
    }
    // One output: a dot-product for each row, where a product of matrices would fill a panel with
    // zeros.
    float* signal = signal_.at_least(rows);
    const int k = model_.has_units ? model_.units.outputs() : model_.shape.decoder_dim;
    scratch_.flops += 2LL * rows * k;
    for (int r = 0; r < rows; ++r)
        signal[r] = ops_.dot(seen + (size_t)r * k, model_.stop_weight, k) + model_.stop_bias;
}

// The cosine of the states below and above the block, from 0 to 1.
void Decisions::similarity_signals(int rows, const float* hidden) {
    const int dim = model_.shape.decoder_dim;
    float* signal = signal_.get();
    for (int r = 0; r < rows; ++r) {
        const float *a = hidden + (size_t)r * dim, *b = below_.get() + (size_t)r * dim;
        const float length = std::sqrt(ops_.dot(a, a, dim)) * std::sqrt(ops_.dot(b, b, dim));
        signal[r] = std::clamp((1.0f + ops_.dot(a, b, dim) / std::max(length, 1e-8f)) / 2.0f, 0.0f, 1.0f);
    }
}

// The probability of the best word, or its margin over the second; rows that leave keep the logits.
void Decisions::word_signals(int n, Step& step, const float* hidden) {
    const int rows = (int)step.running.size();
    float* signal = signal_.get();
    scores_.resize(model_.shape.blocks);
    scores_[n].make(model_, n, step.running, hidden, scratch_);
    for (int r = 0; r < rows; ++r) {
        const int row = step.running[r].row, count = step.running[r].words().count;
        float* own = scores_[n].of(r);
        float greatest, sum;
        ops_.max_and_sum(own, count, &greatest, &sum);
        signal[r] = std::min(1.0f, std::exp(-std::log(sum)));
        if (policy_.rule == Rule::margin) signal[r] = margin(own, count, greatest + std::log(sum));
        if (policy_.rule == Rule::shortlist) {
            Shortlist& list = shortlist(step.running[r]);
            ops_.top(own, count, (int)list.places.size(), list.values.data(), list.places.data());
        }
        step.logits[row] = own;
        step.greatest[row] = greatest;
        step.sums[row] = sum;
    }
}

float Decisions::margin(const float* logits, int count, float log_sum) const {
    float values[2];
    int places[2];
    ops_.top(logits, count, 2, values, places);
    return std::clamp(std::exp(values[0] - log_sum) - std::exp(values[1] - log_sum), 0.0f, 1.0f);
}

// The probability of the best word among those of the row's shortlist.
void Decisions::shortlist_signals(int n, const Step& step, const float* hidden) {
    const int dim = model_.shape.decoder_dim;
    const Classifier& classifier = model_.classifier(n);
    float* signal = signal_.get();
    for (size_t r = 0; r < step.running.size(); ++r) {
        const SentenceWords& words = step.running[r].words();
        Shortlist& list = shortlist(step.running[r]);
        const int count = (int)list.places.size();
        for (int i = 0; i < count; ++i)
            list.values[i] = ops_.dot(classifier.row(words.token(list.places[i])), hidden + r * dim, dim);
        scratch_.flops += 2LL * count * dim;
        float greatest, sum;
        ops_.max_and_sum(list.values.data(), count, &greatest, &sum);
        signal[r] = std::min(1.0f, std::exp(-std::log(sum)));
    }
}

Decisions::Shortlist& Decisions::shortlist(const StepRow& row) {
    if ((int)shortlists_.size() <= row.row) shortlists_.resize(row.row + 1);
    Shortlist& list = shortlists_[row.row];
    const int count = std::min(policy_.shortlist, row.words().count);
    list.values.resize(count);
    list.places.resize(count);
    return list;
}

}  // namespace anydepth
