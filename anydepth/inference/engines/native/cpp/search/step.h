// One step of a worker: one more token of every row of every active sentence.
#pragma once

#include <vector>

#include "search/sentence.h"

namespace anydepth {

// A row of a step.
struct StepRow {
    int row;  // its number in the step
    Sentence* sentence;
    int place;  // its number among the rows of the sentence

    Row& hypothesis() const { return sentence->rows[place]; }
    const SentenceWords& words() const { return sentence->source->words; }
    const Policy& policy() const { return sentence->policy(); }
};

// The rows of the step, those of one sentence one after the other.
struct Step {
    std::vector<StepRow> every;    // in the order of the rows
    std::vector<StepRow> running;  // those that have not left yet

    // By the number of the row:
    std::vector<int> exits, nodes;
    std::vector<float*> logits;         // the scores of its words at its exit, or nullptr before they are made
    std::vector<float> greatest, sums;  // of the logits, and of exp(logit - greatest); a sum of 0 is not known yet

    int rows() const { return (int)exits.size(); }

    void begin(const Sentences& active, int blocks) {
        every.clear();
        for (const auto& sentence : active)
            for (int place = 0; place < (int)sentence->rows.size(); ++place)
                every.push_back({(int)every.size(), sentence.get(), place});
        running = every;
        const size_t rows = every.size();
        exits.assign(rows, blocks);
        nodes.resize(rows);
        logits.assign(rows, nullptr);
        greatest.assign(rows, 0.0f);
        sums.assign(rows, 0.0f);
    }
};

}  // namespace anydepth
