// What a search has done and where its time went.
#pragma once

#include <chrono>
#include <cstdint>

namespace anydepth {

enum Phase { encoding, projecting_source, copying, attending, transforming, deciding, scoring_words, choosing, PHASES };
constexpr const char* PHASE_NAMES[] = {"encoder", "source keys", "copied states", "attention",
                                       "blocks",  "decisions",   "classifiers",   "search"};

struct Counts {
    int64_t encoder_flops = 0, decoder_flops = 0, copied_pairs = 0, rows = 0, steps = 0, nodes = 0;
    double seconds[PHASES] = {};

    void add(const Counts& other) {
        encoder_flops += other.encoder_flops;
        decoder_flops += other.decoder_flops;
        copied_pairs += other.copied_pairs;
        rows += other.rows;
        steps += other.steps;
        nodes += other.nodes;
        for (int phase = 0; phase < PHASES; ++phase) seconds[phase] += other.seconds[phase];
    }
};

// The counts of one worker, with a clock that runs from one phase to the next.
class Meter {
  public:
    using Time = std::chrono::steady_clock::time_point;

    Counts counts;

    Time start() { return since_ = std::chrono::steady_clock::now(); }
    Time since() const { return since_; }  // when the last phase ended

    // The time since the last call went into `phase`.
    void spent(Phase phase) {
        const Time now = std::chrono::steady_clock::now();
        counts.seconds[phase] += std::chrono::duration<double>(now - since_).count();
        since_ = now;
    }

  private:
    Time since_;
};

}  // namespace anydepth
