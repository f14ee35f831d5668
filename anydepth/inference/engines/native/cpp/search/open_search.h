// A search that stays open: sentences are submitted at any time from any thread, and come back as
// each of them is found.
#pragma once

#include <stdexcept>
#include <utility>
#include <vector>

#include "search/workers.h"

namespace anydepth {

class OpenSearch {
  public:
    // `model` must live as long as the search.
    OpenSearch(const Model& model, const Batching& batching)
        : batching_(batching), queue_(batching.threads), job_{model, batching_, queue_}, workers_(job_, 1) {
        if (workers_.start(batching.threads) == 0) throw std::runtime_error("the system has no thread to give");
    }
    ~OpenSearch() { queue_.stop(); }  // the workers are joined next
    OpenSearch(const OpenSearch&) = delete;
    OpenSearch& operator=(const OpenSearch&) = delete;

    Queue& queue() { return queue_; }

    // What was done in all; waits for the workers to end, so the queue must be closed or stopped.
    Counts join() {
        workers_.join();
        return workers_.counts();
    }

  private:
    const Batching batching_;
    Queue queue_;
    const Job job_;
    Workers workers_;
};

}  // namespace anydepth
