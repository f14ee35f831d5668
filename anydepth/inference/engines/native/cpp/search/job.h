// What the workers of one search share.
#pragma once

#include <cstdint>

#include "model/model.h"
#include "search/queue.h"

namespace anydepth {

// How much is searched together, and by whom; both limits hold for each worker.
struct Batching {
    int sentences = 1;
    int64_t tokens = 0;       // sum of the beams * longest source
    bool is_deferred = true;  // keys and values of copied states are made when a block first needs them, not at once
    int threads = 1;
};

struct Job {
    const Model& model;
    const Batching& batching;
    Queue& queue;
};

}  // namespace anydepth
