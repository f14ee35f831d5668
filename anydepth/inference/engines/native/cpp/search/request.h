// What a sentence asks of a search, and what it gets.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "search/policy.h"
#include "search/selection.h"

namespace anydepth {

// How wide to search and how to rank.
struct Settings {
    int beam = 1, best = 1;
    double length_penalty = 1.0;
    bool early_stopping = true;  // a sentence is over once `beam` hypotheses have ended
    std::vector<int> banned;  // tokens that continue nothing
    int eos = 0, bos = 0;
};

// How a sentence is to be searched. Sentences of one call share their terms; those beside them in the
// batch may have others.
struct Terms {
    Policy policy;
    Settings settings;
    std::shared_ptr<const Selection> selection;  // of the words of the sentence; none: all words
};

struct Request {
    int64_t number = 0;       // by which its hypotheses are told from those of others
    int64_t owner = 0;        // owners take turns
    std::vector<int> source;  // ends with EOS
    int limit = 0;            // the most tokens that an output may have
    size_t plan = 0;          // which of the policy's plans is its own
    std::shared_ptr<const Terms> terms;
    bool is_waiting = true;  // until a worker takes it
    std::atomic<bool> is_cancelled{false};
};

struct Found {
    std::vector<int> tokens, exits;
    std::vector<float> token_scores;
    double score = 0;
    bool has_finished = true;  // of its own accord, not at the limit
    int words = 0;             // how many the sentence chose among
};

}  // namespace anydepth
