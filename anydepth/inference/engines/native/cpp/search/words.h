// The scores of words for the rows of a step, at the exits where they left.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/nodes.h"
#include "search/scored_states.h"
#include "search/step.h"

namespace anydepth {

// The scores of the words of some rows at one exit.
class WordScores {
  public:
    // By the classifier of exit n, of rows whose ScoredStates stand in `states` one after the other,
    // those of a sentence together. Rows of sentences that may use all words share one product; what a
    // row points to stays until the next call.
    void make(const Model& model, int n, const std::vector<StepRow>& rows, const float* states, Scratch& scratch);
    float* of(int place) const { return at_[place]; }

  private:
    void make_all(const Classifier& classifier, const Kernels& kernels, const float* states, int dim, int vocab,
                  float* scores, Scratch& scratch);

    Buffer<float> scores_;
    std::vector<float*> at_;        // by the place of the row
    std::vector<int> unselective_;  // the places of rows that may use all words
    Buffer<float> states_;          // theirs, where they do not stand together
};

class Words {
  public:
    Words(const Model& model, Nodes& nodes, Scratch& scratch)
        : model_(model), nodes_(nodes), scratch_(scratch), scored_(model, scratch) {}

    // Those of the rows that have none from their decision, for each classifier.
    void score(Step& step);

  private:
    const Model& model_;
    Nodes& nodes_;
    Scratch& scratch_;
    ScoredStates scored_;
    std::vector<StepRow> chosen_;
    std::vector<int> exits_;          // of the chosen rows
    std::vector<WordScores> scores_;  // by exit
    Buffer<float> states_;
};

}  // namespace anydepth
