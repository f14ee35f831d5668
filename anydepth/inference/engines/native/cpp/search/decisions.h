// Where rows leave: the exits that a policy plans, and the signals by which it stops after a block.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/policy.h"
#include "search/step.h"
#include "search/words.h"

namespace anydepth {

class Decisions {
  public:
    Decisions(const Model& model, const Policy& policy, Scratch& scratch)
        : model_(model), ops_(model.kernels), policy_(policy), scratch_(scratch) {}

    // Once for each sentence, when it is encoded: the exit of all its tokens, if the rule is such.
    void plan(Sentence& sentence);

    // At the beginning of a step: what is known of the exits of its rows.
    void begin(Step& step);

    // Before block n: remembers the states, if the rule compares them with those after the block.
    void look_at(int n, const Step& step, const float* hidden);

    // After block n: sets the exits of the running rows that stop there.
    void decide(int n, Step& step, const float* hidden);

  private:
    struct Shortlist {
        std::vector<float> values;
        std::vector<int> places;  // of its words among those of the sentence
    };

    int planned_exit(const Sentence& sentence) const;
    bool needs_signal(int n) const;
    void choose_multinomial(Step& step, const float* hidden);
    void make_signals(int n, Step& step, const float* hidden);
    void geometric_signals(int rows, const float* hidden);
    void similarity_signals(int rows, const float* hidden);
    void word_signals(int n, Step& step, const float* hidden);
    void shortlist_signals(int n, const Step& step, const float* hidden);
    void halt_logits(int rows, const float* hidden);
    float margin(const float* logits, int count, float log_sum) const;
    Shortlist& shortlist(const StepRow& row);

    const Model& model_;
    const Kernels& ops_;
    const Policy& policy_;
    Scratch& scratch_;
    Buffer<float> signal_;               // of the running rows after the last block
    Buffer<float> below_;                // their states before it
    Buffer<float> units_;                // of the geometric module
    std::vector<WordScores> scores_;     // by exit; rows keep pointing there until the step is over
    std::vector<Shortlist> shortlists_;  // by the number of the row
    bool has_shortlists_ = false;        // of this step
};

}  // namespace anydepth
