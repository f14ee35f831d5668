// The beam: which continuations of a sentence's rows live on, which end, and how those are ranked.
#pragma once

#include <vector>

#include "model/model.h"
#include "search/nodes.h"
#include "search/queue.h"
#include "search/step.h"

namespace anydepth {

class Beam {
  public:
    Beam(const Model& model, Nodes& nodes, Queue& queue) : ops_(model.kernels), nodes_(nodes), queue_(queue) {}

    // The best continuations of every sentence become its rows; a sentence that is over leaves
    // `active`, and its hypotheses go to the queue.
    void choose(Sentences& active, const Step& step);

    // Sentences that were cancelled leave `active`.
    void drop_cancelled(Sentences& active);

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
    static void note_end(Sentence& sentence, float total);
    bool has_enough(const Sentence& sentence) const;
    void end_at_limit(Sentence& sentence, const int* exits);
    void go_on(Sentence& sentence);
    void release(const Sentence& sentence);
    static std::vector<Found> ranked(const Sentence& sentence);

    const Kernels& ops_;
    Nodes& nodes_;
    Queue& queue_;
    std::vector<Candidate> candidates_;
    std::vector<float> top_values_;
    std::vector<int> top_places_;
    std::vector<float> end_scores_;  // of EOS, for each row of the sentence
    std::vector<bool> has_ended_;    // which rows of the sentence have
    std::vector<Row> new_rows_;
    std::vector<int> new_places_;  // the rows that they continue
};

}  // namespace anydepth
