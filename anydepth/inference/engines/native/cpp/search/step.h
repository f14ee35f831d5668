// One step of a worker: one more token of every row of every active sentence.
#pragma once

#include <vector>

#include "search/sentence.h"

namespace anydepth {

// A row that has not left yet.
struct Running {
    int row;  // its number in the step
    Sentence* sentence;
    int place;  // its number among the rows of the sentence

    Row& hypothesis() const { return sentence->rows[place]; }
};

// The rows of the step, those of one sentence one after the other.
struct Step {
    std::vector<Running> running;  // in the order of the rows

    // By the number of the row:
    std::vector<int> exits, nodes;
    std::vector<float*> logits;         // the scores of all words at its exit, or nullptr before they are made
    std::vector<float> greatest, sums;  // of the logits, and of exp(logit - greatest); a sum of 0 is not known yet

    int rows() const { return (int)exits.size(); }

    void begin(const Sentences& active, int blocks) {
        running.clear();
        for (const auto& sentence : active)
            for (int place = 0; place < (int)sentence->rows.size(); ++place)
                running.push_back({(int)running.size(), sentence.get(), place});
        const size_t rows = running.size();
        exits.assign(rows, blocks);
        nodes.resize(rows);
        logits.assign(rows, nullptr);
        greatest.assign(rows, 0.0f);
        sums.assign(rows, 0.0f);
    }
};

}  // namespace anydepth
