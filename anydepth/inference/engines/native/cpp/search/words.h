// The scores of all words for the rows of a step, at the exits where they left.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/nodes.h"
#include "search/step.h"

namespace anydepth {

class Words {
  public:
    Words(const Model& model, Nodes& nodes, Scratch& scratch) : model_(model), nodes_(nodes), scratch_(scratch) {}

    // Those of the rows that have none from their decision, one product for each classifier.
    void score(Step& step);

  private:
    Buffer<float>& logits_of(int n);

    const Model& model_;
    Nodes& nodes_;
    Scratch& scratch_;
    std::vector<int> chosen_;
    std::vector<Buffer<float>> logits_;  // by exit; rows keep pointing there until the step is over
    Buffer<float> states_;
};

}  // namespace anydepth
