// What classifiers see of states: what the adapter of the exit makes of them, where it has one.
#pragma once

#include <vector>

#include "model/model.h"

namespace anydepth {

class ScoredStates {
  public:
    ScoredStates(const Model& model, Scratch& scratch) : model_(model), scratch_(scratch) {}

    // Of m states at exit n: these themselves, or others, which stay until the next call.
    const float* at(int n, const float* states, int m);

    // Of states that left at exits of their own, in place.
    void replace(const std::vector<int>& exits, float* states);

  private:
    const Model& model_;
    Scratch& scratch_;
    Buffer<float> inner_, scored_, gathered_;
    std::vector<int> places_;
};

}  // namespace anydepth
