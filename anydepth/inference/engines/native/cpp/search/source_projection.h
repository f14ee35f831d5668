// Keys and values of the source sentences, made for each block when it first runs for a sentence.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/step.h"

namespace anydepth {

class SourceProjection {
  public:
    SourceProjection(const Model& model, Scratch& scratch) : model_(model), scratch_(scratch) {}

    // Those of block n that the sources of the running rows lack, in one product.
    void make_at(int n, const Step& step);

  private:
    const Model& model_;
    Scratch& scratch_;
    std::vector<const Sentence*> missing_;  // one for each source that lacks them
    Buffer<float> memory_, pairs_;
};

}  // namespace anydepth
