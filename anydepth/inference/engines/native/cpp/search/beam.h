// The beam: which continuations of a sentence's rows live on, which end, and how those are ranked.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/nodes.h"
#include "search/search.h"
#include "search/step.h"

namespace anydepth {

class Beam {
  public:
    Beam(const Model& model, const Settings& settings, Nodes& nodes, std::vector<std::vector<Found>>& results)
        : ops_(model.kernels), settings_(settings), nodes_(nodes), results_(results) {}

    // The best continuations of every sentence become its rows; a sentence that is over leaves
    // `active`, and its hypotheses are in the results.
    void choose(Sentences& active, const Step& step);

  private:
    struct Candidate {
        float total;
        int place, token;
        float score;
    };

    void make_candidates(const Sentence& sentence, const Step& step, int first);
    void offer(const Row& row, const SentenceWords& words, const Step& step, int number, int place, int count);
    bool advance(Sentence& sentence, const int* exits);
    void take(Sentence& sentence, const int* exits);
    void end_at_limit(Sentence& sentence, const int* exits);
    void go_on(Sentence& sentence);
    std::vector<Found> ranked(const Sentence& sentence) const;

    const Kernels& ops_;
    const Settings& settings_;
    Nodes& nodes_;
    std::vector<std::vector<Found>>& results_;
    std::vector<Candidate> candidates_;
    std::vector<float> top_values_;
    std::vector<int> top_places_;
    std::vector<float> end_scores_;  // of EOS, for each row of the sentence
    std::vector<bool> has_ended_;    // which rows of the sentence have
    std::vector<Row> new_rows_;
    std::vector<int> new_places_;  // the rows that they continue
};

}  // namespace anydepth
