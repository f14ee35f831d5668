// Beam search with exits that every row chooses for itself: the whole of it, so that nothing but the results goes back to Python.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "model.h"

namespace anydepth {

enum class Rule { planned, sequence, multinomial, geometric, confidence, margin, similarity, shortlist };

struct Policy {
    Rule rule = Rule::planned;
    std::vector<float> thresholds;       // one for each block but the last
    int shortlist = 0;                   // words of the rule of that name
    std::vector<std::vector<int>> plans;  // for the planned rule: the exit of each token of each sentence; the last goes on
    bool is_halting_watched = false;     // evaluate the geometric module after each block and pay no heed: for timing
};

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
};

// Where the time goes.
enum Phase { encoding, projecting_source, copying, attending, transforming, deciding, scoring_words, choosing, PHASES };
constexpr const char* PHASE_NAMES[] = {"encoder",   "source keys", "copied states", "attention",
                                       "blocks",    "decisions",   "classifiers",   "search"};

struct Counts {
    int64_t encoder_flops = 0, decoder_flops = 0, copied_pairs = 0, rows = 0, steps = 0, nodes = 0;
    double seconds[PHASES] = {};
};

// The hypotheses of each sentence, best first. `sources` end with EOS; `limits` are the most tokens that each output may have.
// The calling thread calls `look_up` now and then; what it throws ends the search.
std::vector<std::vector<Found>> search(const Model& model, const std::vector<std::vector<int>>& sources, const std::vector<int>& limits,
                                       const Policy& policy, const Settings& settings, Counts& counts,
                                       const std::function<void()>& look_up);

}  // namespace anydepth
