// Where rows leave: the exits that policies plan, and the signals by which they stop after a block.
#pragma once

#include <array>
#include <vector>

#include "model/model.h"
#include "search/policy.h"
#include "search/step.h"
#include "search/words.h"

namespace anydepth {

// Sentences of a step may have policies of their own. After each block the rows that are judged by
// the same kind of look are judged together, each by its own threshold.
class Decisions {
  public:
    Decisions(const Model& model, Scratch& scratch)
        : model_(model), ops_(model.kernels), scratch_(scratch), scored_(model, scratch) {}

    // Once for each sentence, when it is encoded: the exit of all its tokens, if the rule is such.
    void plan(Sentence& sentence);

    // At the beginning of a step: what is known of the exits of its rows.
    void begin(Step& step);

    // Before block n: remembers the states, if a rule compares them with those after the block.
    void look_at(int n, const Step& step, const float* hidden);

    // After block n: sets the exits of the running rows that stop there.
    void decide(int n, Step& step, const float* hidden);

  private:
    // By what a row is judged after a block.
    enum Look { no_look, watching, choosing_exit, halting, comparing, all_words, few_words, LOOKS };

    // The rows of one kind of look, and their states one after the other.
    struct Group {
        std::vector<StepRow> rows;
        std::vector<int> places;  // among the running rows
        const float* states = nullptr;
        Buffer<float> gathered;

        int count() const { return (int)rows.size(); }
    };

    struct Shortlist {
        std::vector<float> values;
        std::vector<int> places;  // of its words among those of the sentence
        bool is_made = false;     // in this step
    };

    int planned_exit(const Sentence& sentence) const;
    bool needs_signal(int n, const Policy& policy) const;
    Look look_of(int n, const StepRow& row) const;
    void group_rows(int n, const Step& step, const float* hidden);
    void gather(Group& group, const Step& step, const float* hidden) const;
    void choose_multinomial(const Group& group, Step& step);
    void compare_with_thresholds(int n, const Group& group, Step& step) const;
    void geometric_signals(const Group& group);
    void similarity_signals(const Group& group);
    void word_signals(int n, const Group& group, Step& step);
    void shortlist_signals(int n, const Group& group);
    void halt_logits(const Group& group);
    float margin(const float* logits, int count, float log_sum) const;
    Shortlist& shortlist(const StepRow& row);

    const Model& model_;
    const Kernels& ops_;
    Scratch& scratch_;
    ScoredStates scored_;
    std::array<Group, LOOKS> groups_;
    Buffer<float> signal_;               // of the rows of a group after the last block
    Buffer<float> below_;                // the states of the running rows before it
    Buffer<float> units_;                // of the geometric module
    std::vector<WordScores> scores_;     // by exit; rows keep pointing there until the step is over
    std::vector<Shortlist> shortlists_;  // by the number of the row
};

}  // namespace anydepth
