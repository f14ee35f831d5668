// What the workers of one search share: what is asked, what is left to do, and what was found.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "search/search.h"

namespace anydepth {

struct Job {
    const Model& model;
    const std::vector<std::vector<int>>& sources;
    const std::vector<int>& limits;
    const Policy& policy;
    const Selection* selection;  // of the words of each sentence; none: all words
    const Settings& settings;
    const int workers;
    const std::vector<int> order;             // numbers of the sentences, in the order in which they are taken
    std::vector<std::vector<Found>> results;  // of each sentence, written by the worker that took it
    std::atomic<size_t> next{0};              // place in `order` of the next sentence to take
};

}  // namespace anydepth
