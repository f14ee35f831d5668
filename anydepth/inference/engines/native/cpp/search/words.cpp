#include "search/words.h"

#include <cstring>

namespace anydepth {

void WordScores::make(const Model& model, int n, const std::vector<StepRow>& rows, const float* states,
                      Scratch& scratch) {
    const Classifier& classifier = model.classifier(n);
    const int count = (int)rows.size(), dim = model.shape.decoder_dim;
    at_.resize(count);
    unselective_.clear();
    size_t room = 0;
    int vocab = 0;
    for (int r = 0; r < count; ++r) {
        const SentenceWords& words = rows[r].words();
        room += classifier.room_for(words.count);
        if (!words.tokens.empty()) continue;
        unselective_.push_back(r);
        vocab = words.count;
    }
    float* scores = scores_.at_least(room);
    for (int r = 0, next; r < count; r = next) {  // the rows of a sentence have the same words
        for (next = r + 1; next < count && rows[next].sentence == rows[r].sentence; ++next) {
        }
        if (rows[r].words().tokens.empty()) continue;
        Source& source = *rows[r].sentence->source;
        source.gathered.resize(model.classifiers.size());
        Matrix& gathered = source.gathered[&classifier - model.classifiers.data()];
        classifier.score_some(model.kernels, states + (size_t)r * dim, next - r, source.words.tokens, gathered, scores,
                              scratch);
        for (int row = r; row < next; ++row, scores += classifier.room_for(source.words.count)) at_[row] = scores;
    }
    if (!unselective_.empty()) make_all(classifier, model.kernels, states, dim, vocab, scores, scratch);
}

void WordScores::make_all(const Classifier& classifier, const Kernels& kernels, const float* states, int dim,
                          int vocab, float* scores, Scratch& scratch) {
    const int count = (int)unselective_.size();
    const float* together = states;
    if (count < (int)at_.size()) {
        float* to = states_.at_least((size_t)count * dim);
        for (int i = 0; i < count; ++i)
            std::memcpy(to + (size_t)i * dim, states + (size_t)unselective_[i] * dim, sizeof(float) * dim);
        together = to;
    }
    classifier.score_all(kernels, together, count, scores, scratch);
    for (int i = 0; i < count; ++i) at_[unselective_[i]] = scores + (size_t)i * vocab;
}

void Words::score(Step& step) {
    const int dim = model_.shape.decoder_dim;
    const bool is_one = model_.classifiers.size() == 1;
    scores_.resize(model_.shape.blocks + 1);
    for (int n = is_one ? model_.shape.blocks : 1; n <= model_.shape.blocks; ++n) {
        chosen_.clear();
        exits_.clear();
        for (const StepRow& row : step.every) {
            if (step.logits[row.row] || (!is_one && step.exits[row.row] != n)) continue;
            chosen_.push_back(row);
            exits_.push_back(step.exits[row.row]);
        }
        if (chosen_.empty()) continue;
        float* states = states_.at_least(chosen_.size() * dim);
        for (size_t i = 0; i < chosen_.size(); ++i)
            std::memcpy(states + i * dim, nodes_.state(step.nodes[chosen_[i].row]), sizeof(float) * dim);
        scored_.replace(exits_, states);
        scores_[n].make(model_, n, chosen_, states, scratch_);
        for (size_t i = 0; i < chosen_.size(); ++i) step.logits[chosen_[i].row] = scores_[n].of((int)i);
    }
}

}  // namespace anydepth
