#include "search/copies.h"

#include <cstring>

namespace anydepth {

void Copies::make_at(int n, const Step& step) {
    pending_.clear();
    for (const StepRow& each : step.running)
        for (const int id : each.hypothesis().path) want(id, n);
    fill(n);
}

void Copies::make_all(const Step& step) {
    for (int n = 2; n <= model_.shape.key_blocks; ++n) {
        pending_.clear();
        for (const int id : step.nodes) want(id, n);
        fill(n);
    }
}

// Makes the pair of a node pending, once.
void Copies::want(int id, int n) {
    if (nodes_.has_pair(id, n)) return;
    nodes_.note_pair(id, n);
    pending_.push_back(id);
}

void Copies::fill(int n) {
    if (pending_.empty()) return;
    const int dim = model_.shape.decoder_dim, count = (int)pending_.size();
    float* states = states_.at_least((size_t)count * dim);
    float* pairs = pairs_.at_least((size_t)count * 2 * dim);
    for (int i = 0; i < count; ++i)
        std::memcpy(states + (size_t)i * dim, nodes_.attended(pending_[i]), sizeof(float) * dim);
    model_.decoder[n - 1].kvq.apply(model_.kernels, states, count, pairs, scratch_, Activation::none, 2 * dim);
    for (int i = 0; i < count; ++i)
        std::memcpy(nodes_.pair(pending_[i], n), pairs + (size_t)i * 2 * dim, sizeof(float) * 2 * dim);
    counts_.copied_pairs += count;
}

}  // namespace anydepth
