#include "search/words.h"

#include <cstring>

namespace anydepth {

void WordScores::make(const Classifier& classifier, const Kernels& kernels, const std::vector<StepRow>& rows,
                      const float* states, int dim, Scratch& scratch) {
    const int count = (int)rows.size();
    at_.resize(count);
    if (count == 0) return;
    if (rows[0].words().tokens.empty()) {  // then it is so for every sentence of the search
        const int vocab = rows[0].words().count;
        float* scores = scores_.at_least((size_t)count * vocab);
        classifier.score_all(kernels, states, count, scores, scratch);
        for (int r = 0; r < count; ++r) at_[r] = scores + (size_t)r * vocab;
        return;
    }
    size_t room = 0;
    for (const StepRow& row : rows) room += Classifier::room_for(row.words().count);
    float* scores = scores_.at_least(room);
    for (int r = 0, next; r < count; r = next) {  // the rows of a sentence have the same words
        for (next = r + 1; next < count && rows[next].sentence == rows[r].sentence; ++next) {
        }
        const SentenceWords& words = rows[r].words();
        classifier.score_some(kernels, states + (size_t)r * dim, next - r, words.tokens.data(), words.count, scores,
                              scratch);
        for (int row = r; row < next; ++row, scores += Classifier::room_for(words.count)) at_[row] = scores;
    }
}

void Words::score(Step& step) {
    const int dim = model_.shape.decoder_dim;
    const bool is_one = model_.classifiers.size() == 1;
    scores_.resize(model_.shape.blocks + 1);
    for (int n = is_one ? model_.shape.blocks : 1; n <= model_.shape.blocks; ++n) {
        chosen_.clear();
        for (const StepRow& row : step.every)
            if (!step.logits[row.row] && (is_one || step.exits[row.row] == n)) chosen_.push_back(row);
        if (chosen_.empty()) continue;
        float* states = states_.at_least(chosen_.size() * dim);
        for (size_t i = 0; i < chosen_.size(); ++i)
            std::memcpy(states + i * dim, nodes_.state(step.nodes[chosen_[i].row]), sizeof(float) * dim);
        scores_[n].make(model_.classifier(n), model_.kernels, chosen_, states, dim, scratch_);
        for (size_t i = 0; i < chosen_.size(); ++i) step.logits[chosen_[i].row] = scores_[n].of((int)i);
    }
}

}  // namespace anydepth
