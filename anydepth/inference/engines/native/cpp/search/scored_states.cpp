#include "search/scored_states.h"

#include <cstring>

namespace anydepth {

const float* ScoredStates::at(int n, const float* states, int m) {
    if (n > (int)model_.adapters.size()) return states;
    const AdapterWeights& weights = model_.adapters[n - 1];
    const int dim = model_.shape.decoder_dim;
    float* inner = inner_.at_least((size_t)m * model_.shape.adapter);
    float* scored = scored_.at_least((size_t)m * dim);
    weights.down.apply(model_.kernels, states, m, inner, scratch_, Activation::relu);
    weights.up.apply(model_.kernels, inner, m, scored, scratch_);
    model_.kernels.add_norm(states, scored, weights.norm.gain, weights.norm.bias, scored, m, dim);
    return scored;
}

void ScoredStates::replace(const std::vector<int>& exits, float* states) {
    const size_t dim = model_.shape.decoder_dim;
    for (int n = 1; n <= (int)model_.adapters.size(); ++n) {
        places_.clear();
        for (size_t place = 0; place < exits.size(); ++place)
            if (exits[place] == n) places_.push_back((int)place);
        if (places_.empty()) continue;
        float* gathered = gathered_.at_least(places_.size() * dim);
        for (size_t i = 0; i < places_.size(); ++i)
            std::memcpy(gathered + i * dim, states + places_[i] * dim, sizeof(float) * dim);
        const float* scored = at(n, gathered, (int)places_.size());
        for (size_t i = 0; i < places_.size(); ++i)
            std::memcpy(states + places_[i] * dim, scored + i * dim, sizeof(float) * dim);
    }
}

}  // namespace anydepth
