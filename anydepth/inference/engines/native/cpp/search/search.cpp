#include "search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "search/job.h"
#include "search/worker.h"

namespace anydepth {
namespace {

using LookUp = std::function<void()>;

// The threads of a search; the first that fails ends it for all.
class Workers {
  public:
    // `members` threads share the products of each worker.
    Workers(Job& job, int members, Counts& counts) : job_(job), members_(members), counts_(counts) {}

    // Returns when all sentences are searched; the calling thread works, too.
    void run(const LookUp& look_up) {
        std::vector<std::thread> threads;
        at_work_ = 1;
        for (int i = 1; i < job_.workers; ++i) {
            ++at_work_;
            try {
                threads.emplace_back([this] { work(nullptr); });
            } catch (const std::system_error&) {  // the system has no more threads to give; the others do it all
                --at_work_;
                break;
            }
        }
        work(look_up);
        while (at_work_ > 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
            try {
                if (look_up && !is_over_) look_up();
            } catch (...) {
                fail();
            }
        }
        for (std::thread& thread : threads) thread.join();
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    void work(const LookUp& look_up) {
        try {
            const std::unique_ptr<Team> team = members_ > 1 ? std::make_unique<Team>(members_) : nullptr;
            Worker worker(job_, team.get());
            worker.run(is_over_, look_up);
            const std::lock_guard<std::mutex> guard(mutex_);
            counts_.add(worker.counts());
        } catch (...) {
            fail();
        }
        --at_work_;
    }
    void fail() {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (!failure_) failure_ = std::current_exception();
        is_over_ = true;
    }

    Job& job_;
    const int members_;
    Counts& counts_;
    std::mutex mutex_;  // of the counts and the failure
    std::exception_ptr failure_;
    std::atomic<bool> is_over_{false};
    std::atomic<int> at_work_{0};
};

// Longest first: then the last sentences, which run with fewer and fewer others beside them, are
// short.
std::vector<int> longest_first(const std::vector<std::vector<int>>& sources) {
    std::vector<int> order(sources.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return sources[a].size() > sources[b].size(); });
    return order;
}

}  // namespace

std::vector<std::vector<Found>> search(const Model& model, const std::vector<std::vector<int>>& sources,
                                       const std::vector<int>& limits, const Policy& policy,
                                       const Selection* selection, const Settings& settings, Counts& counts,
                                       const LookUp& look_up) {
    // Sentences are independent, so a thread for each comes first; threads to spare share the
    // products of one.
    const int workers = std::max(1, std::min(settings.threads, (int)sources.size()));
    std::vector<std::vector<Found>> results(sources.size());
    Job job{model,    sources, limits,  policy,
            selection, settings, workers, longest_first(sources), std::move(results)};
    Workers(job, settings.threads / workers, counts).run(look_up);
    return std::move(job.results);
}

}  // namespace anydepth
