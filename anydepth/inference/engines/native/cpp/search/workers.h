// The threads of a search; the first that fails ends it for all.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "search/counts.h"
#include "search/job.h"

namespace anydepth {

using LookUp = std::function<void()>;

class Workers {
  public:
    // `members` threads share the products of each worker.
    Workers(const Job& job, int members) : job_(job), members_(members) {}
    ~Workers() { join(); }

    // Starts threads, or as many as the system has to give; returns how many.
    int start(int count);
    // The calling thread works, too, and then waits for the others; it calls `look_up` now and then,
    // and what that throws ends the search.
    void work_along(const LookUp& look_up);
    // Returns when all threads have ended, which they do when the queue is closed or stopped.
    void join();
    // Of the workers that have ended.
    Counts counts();

  private:
    void work(const LookUp& look_up);

    const Job& job_;
    const int members_;
    std::mutex mutex_;  // of the counts
    Counts counts_;
    std::mutex joining_;  // of the threads
    std::vector<std::thread> threads_;
    std::atomic<int> at_work_{0};
};

}  // namespace anydepth
