// Beam search with exits that every row chooses for itself: the whole of it, so that nothing but the
// results goes back to Python.
#pragma once

#include <vector>

#include "search/counts.h"
#include "search/job.h"
#include "search/workers.h"

namespace anydepth {

// The hypotheses of each sentence, best first; the number of a request is its place among them. The
// calling thread works and calls `look_up` now and then; what it throws ends the search.
std::vector<std::vector<Found>> search(const Model& model, std::vector<RequestPointer> requests,
                                       const Batching& batching, Counts& counts, const LookUp& look_up);

}  // namespace anydepth
