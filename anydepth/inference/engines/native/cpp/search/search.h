// Beam search with exits that every row chooses for itself: the whole of it, so that nothing but the
// results goes back to Python.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/model.h"
#include "search/counts.h"
#include "search/policy.h"
#include "search/selection.h"

namespace anydepth {

struct Settings {
    int beam = 1, best = 1;
    double length_penalty = 1.0;
    std::vector<int> banned;  // tokens that continue nothing
    int eos = 0, bos = 0;
    int batch_sentences = 1;
    int64_t batch_tokens = 0;
    bool is_deferred = true;  // keys and values of copied states are made when a block first needs them, not at once
    int threads = 1;
};

struct Found {
    std::vector<int> tokens, exits;
    std::vector<float> token_scores;
    double score = 0;
    bool has_finished = true;  // of its own accord, not at the limit
    int words = 0;             // how many the sentence chose among
};

// The hypotheses of each sentence, best first. `sources` end with EOS; `limits` are the most tokens
// that each output may have; `selection` chooses the words of each, or there is none. The calling
// thread calls `look_up` now and then; what it throws ends the search.
std::vector<std::vector<Found>> search(const Model& model, const std::vector<std::vector<int>>& sources,
                                       const std::vector<int>& limits, const Policy& policy,
                                       const Selection* selection, const Settings& settings, Counts& counts,
                                       const std::function<void()>& look_up);

}  // namespace anydepth
