#include "search/words.h"

#include <cstring>

namespace anydepth {

void Words::score(Step& step) {
    const int dim = model_.shape.decoder_dim, vocab = model_.shape.target_vocab, rows = step.rows();
    const bool is_one = model_.classifiers.size() == 1;
    for (int n = is_one ? model_.shape.blocks : 1; n <= model_.shape.blocks; ++n) {
        chosen_.clear();
        for (int row = 0; row < rows; ++row)
            if (!step.logits[row] && (is_one || step.exits[row] == n)) chosen_.push_back(row);
        if (chosen_.empty()) continue;
        float* states = states_.at_least(chosen_.size() * dim);
        float* logits = logits_of(n).at_least(chosen_.size() * vocab);
        for (size_t i = 0; i < chosen_.size(); ++i)
            std::memcpy(states + i * dim, nodes_.state(step.nodes[chosen_[i]]), sizeof(float) * dim);
        model_.classifier(n).apply(model_.kernels, states, (int)chosen_.size(), logits, scratch_);
        for (size_t i = 0; i < chosen_.size(); ++i) step.logits[chosen_[i]] = logits + i * vocab;
    }
}

Buffer<float>& Words::logits_of(int n) {
    if ((int)logits_.size() <= n) logits_.resize(n + 1);
    return logits_[n];
}

}  // namespace anydepth
