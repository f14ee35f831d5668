// One thread of a search: it takes sentences from the queue, runs the decoder for all of their rows
// step by step, and gives their hypotheses back.
#pragma once

#include <functional>

#include "search/admission.h"
#include "search/beam.h"
#include "search/copies.h"
#include "search/counts.h"
#include "search/decisions.h"
#include "search/decoder.h"
#include "search/job.h"
#include "search/nodes.h"
#include "search/step.h"
#include "search/words.h"

namespace anydepth {

class Worker {
  public:
    Worker(const Job& job, Team* team);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Searches until nothing is left and nothing can come, or the search is over; `look_up` is called
    // ten times a second.
    void run(const std::function<void()>& look_up);
    const Counts& counts() const { return meter_.counts; }

  private:
    void take_step();
    void begin_step(float* hidden);
    void leave(int n, float* hidden);

    const Model& model_;
    const Queue& queue_;
    const bool is_deferred_;
    Scratch scratch_;
    Meter meter_;
    Nodes nodes_;
    Copies copies_;
    Decoder decoder_;
    Decisions decisions_;
    Words words_;
    Beam beam_;
    Admission admission_;
    Sentences active_;
    Step step_;
    Buffer<float> hidden_;  // (running row, dim)
};

}  // namespace anydepth
