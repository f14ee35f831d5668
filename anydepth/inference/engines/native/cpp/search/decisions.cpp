#include "search/decisions.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace anydepth {

void Decisions::plan(Sentence& sentence) {
    if (sentence.policy().rule != Rule::sequence) return;
    const int dim = model_.shape.encoder_dim;
    std::vector<float> mean(dim, 0.0f), scores(model_.shape.blocks);
    for (int s = 0; s < sentence.length; ++s)
        for (int i = 0; i < dim; ++i) mean[i] += sentence.source->memory[(size_t)s * dim + i];
    for (float& number : mean) number /= sentence.length;
    model_.scores.apply(ops_, mean.data(), 1, scores.data(), scratch_);
    sentence.planned = 1 + (int)(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void Decisions::begin(Step& step) {
    for (Shortlist& list : shortlists_) list.is_made = false;
    for (const StepRow& each : step.running) step.exits[each.row] = planned_exit(*each.sentence);
}

int Decisions::planned_exit(const Sentence& sentence) const {
    const Policy& policy = sentence.policy();
    if (policy.rule == Rule::sequence) return sentence.planned;
    if (policy.rule != Rule::planned) return model_.shape.blocks;
    const std::vector<int>& plan = policy.plans[sentence.request->plan];
    return plan[std::min<size_t>(sentence.time, plan.size() - 1)];
}

// Whether a signal decides after block n: nothing is above a threshold of 1, and at one of 0 every
// row leaves.
bool Decisions::needs_signal(int n, const Policy& policy) const {
    return n < model_.shape.blocks && policy.thresholds[n - 1] > 0 && policy.thresholds[n - 1] < 1;
}

Decisions::Look Decisions::look_of(int n, const StepRow& row) const {
    const Policy& policy = row.policy();
    switch (policy.rule) {
        case Rule::planned:
            return policy.is_halting_watched ? watching : no_look;
        case Rule::sequence:
            return no_look;
        case Rule::multinomial:
            return n == 1 ? choosing_exit : no_look;
        case Rule::geometric:
            return needs_signal(n, policy) ? halting : no_look;
        case Rule::similarity:
            return needs_signal(n, policy) ? comparing : no_look;
        case Rule::confidence:
        case Rule::margin:
            return needs_signal(n, policy) ? all_words : no_look;
        case Rule::shortlist:  // the first exit that decides looks at all words
            if (!needs_signal(n, policy)) return no_look;
            return row.row < (int)shortlists_.size() && shortlists_[row.row].is_made ? few_words : all_words;
    }
    return no_look;
}

void Decisions::look_at(int n, const Step& step, const float* hidden) {
    const auto is_compared = [&](const StepRow& row) {
        return row.policy().rule == Rule::similarity && needs_signal(n, row.policy());
    };
    if (std::none_of(step.running.begin(), step.running.end(), is_compared)) return;
    const size_t count = step.running.size() * model_.shape.decoder_dim;
    std::memcpy(below_.at_least(count), hidden, sizeof(float) * count);
}

void Decisions::decide(int n, Step& step, const float* hidden) {
    if (n == model_.shape.blocks) return;
    for (const StepRow& each : step.running) {
        const std::vector<float>& thresholds = each.policy().thresholds;
        if (!thresholds.empty() && thresholds[n - 1] <= 0) step.exits[each.row] = n;
    }
    group_rows(n, step, hidden);
    if (groups_[watching].count()) halt_logits(groups_[watching]);
    if (groups_[choosing_exit].count()) choose_multinomial(groups_[choosing_exit], step);
    for (const Look look : {halting, comparing, all_words, few_words}) {
        const Group& group = groups_[look];
        if (group.count() == 0) continue;
        signal_.at_least(group.count());
        if (look == halting) geometric_signals(group);
        if (look == comparing) similarity_signals(group);
        if (look == all_words) word_signals(n, group, step);
        if (look == few_words) shortlist_signals(n, group);
        compare_with_thresholds(n, group, step);
    }
}

void Decisions::group_rows(int n, const Step& step, const float* hidden) {
    for (Group& group : groups_) {
        group.rows.clear();
        group.places.clear();
    }
    for (size_t r = 0; r < step.running.size(); ++r) {
        const Look look = look_of(n, step.running[r]);
        if (look == no_look) continue;
        groups_[look].rows.push_back(step.running[r]);
        groups_[look].places.push_back((int)r);
    }
    for (Group& group : groups_) gather(group, step, hidden);
}

// Puts the states of the group together; those of all running rows are together already.
void Decisions::gather(Group& group, const Step& step, const float* hidden) const {
    group.states = hidden;
    if (group.rows.size() == step.running.size()) return;
    const int dim = model_.shape.decoder_dim;
    float* to = group.gathered.at_least((size_t)group.count() * dim);
    for (int i = 0; i < group.count(); ++i)
        std::memcpy(to + (size_t)i * dim, hidden + (size_t)group.places[i] * dim, sizeof(float) * dim);
    group.states = to;
}

void Decisions::choose_multinomial(const Group& group, Step& step) {
    const int blocks = model_.shape.blocks;
    float* scores = signal_.at_least((size_t)group.count() * blocks);
    model_.scores.apply(ops_, group.states, group.count(), scores, scratch_);
    for (int r = 0; r < group.count(); ++r) {
        const float* own = scores + (size_t)r * blocks;
        step.exits[group.rows[r].row] = 1 + (int)(std::max_element(own, own + blocks) - own);
    }
}

void Decisions::compare_with_thresholds(int n, const Group& group, Step& step) const {
    const float* signal = signal_.get();
    for (int r = 0; r < group.count(); ++r)
        if (signal[r] > group.rows[r].policy().thresholds[n - 1]) step.exits[group.rows[r].row] = n;
}

void Decisions::geometric_signals(const Group& group) {
    halt_logits(group);
    float* signal = signal_.get();
    for (int r = 0; r < group.count(); ++r) signal[r] = 1.0f / (1.0f + std::exp(-signal[r]));
}

// Leaves w_h h + b_h of the group's rows in signal_.
void Decisions::halt_logits(const Group& group) {
    const int rows = group.count();
    const float* seen = group.states;
    if (model_.has_units) {
        float* units = units_.at_least((size_t)rows * model_.units.outputs());
        model_.units.apply(ops_, group.states, rows, units, scratch_, Activation::relu);
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
void Decisions::similarity_signals(const Group& group) {
    const int dim = model_.shape.decoder_dim;
    float* signal = signal_.get();
    for (int r = 0; r < group.count(); ++r) {
        const float *a = group.states + (size_t)r * dim, *b = below_.get() + (size_t)group.places[r] * dim;
        const float length = std::sqrt(ops_.dot(a, a, dim)) * std::sqrt(ops_.dot(b, b, dim));
        signal[r] = std::clamp((1.0f + ops_.dot(a, b, dim) / std::max(length, 1e-8f)) / 2.0f, 0.0f, 1.0f);
    }
}

// The probability of the best word, or its margin over the second; rows that leave keep the logits.
void Decisions::word_signals(int n, const Group& group, Step& step) {
    float* signal = signal_.get();
    scores_.resize(model_.shape.blocks);
    scores_[n].make(model_, n, group.rows, scored_.at(n, group.states, group.count()), scratch_);
    for (int r = 0; r < group.count(); ++r) {
        const int row = group.rows[r].row, count = group.rows[r].words().count;
        const Rule rule = group.rows[r].policy().rule;
        float* own = scores_[n].of(r);
        float greatest, sum;
        ops_.max_and_sum(own, count, &greatest, &sum);
        signal[r] = std::min(1.0f, std::exp(-std::log(sum)));
        if (rule == Rule::margin) signal[r] = margin(own, count, greatest + std::log(sum));
        if (rule == Rule::shortlist) {
            Shortlist& list = shortlist(group.rows[r]);
            ops_.top(own, count, (int)list.places.size(), list.values.data(), list.places.data());
            list.is_made = true;
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
void Decisions::shortlist_signals(int n, const Group& group) {
    const int dim = model_.shape.decoder_dim;
    const Classifier& classifier = model_.classifier(n);
    const float* states = scored_.at(n, group.states, group.count());
    float* signal = signal_.get();
    for (int r = 0; r < group.count(); ++r) {
        const SentenceWords& words = group.rows[r].words();
        Shortlist& list = shortlist(group.rows[r]);
        const int count = (int)list.places.size();
        for (int i = 0; i < count; ++i)
            list.values[i] = classifier.score(ops_, states + (size_t)r * dim, words.token(list.places[i]));
        scratch_.flops += 2LL * count * dim;
        float greatest, sum;
        ops_.max_and_sum(list.values.data(), count, &greatest, &sum);
        signal[r] = std::min(1.0f, std::exp(-std::log(sum)));
    }
}

Decisions::Shortlist& Decisions::shortlist(const StepRow& row) {
    if ((int)shortlists_.size() <= row.row) shortlists_.resize(row.row + 1);
    Shortlist& list = shortlists_[row.row];
    const int count = std::min(row.policy().shortlist, row.words().count);
    list.values.resize(count);
    list.places.resize(count);
    return list;
}

}  // namespace anydepth
