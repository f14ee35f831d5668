// The sentences of a search between those who ask and the workers: what waits, what is being
// searched, and what was found.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "search/request.h"

namespace anydepth {

using RequestPointer = std::shared_ptr<Request>;
using Result = std::pair<int64_t, std::vector<Found>>;  // the number of a sentence, its hypotheses best first

class Queue {
  public:
    explicit Queue(int workers) : workers_(workers) {}

    // For those who ask, in any thread:

    // Throws if the queue takes nothing more, or still has a sentence of that number.
    void submit(RequestPointer request);
    // Drops a sentence, waiting or half searched; false if it is not there, because it was found.
    bool cancel(int64_t number);
    // Nothing more is submitted; what is there is searched.
    void close();
    // Workers leave what they have after the step that they are in, because of `failure` or none.
    void stop(std::exception_ptr failure = nullptr);
    // What was found since the last call; waits for it up to `timeout`. Nothing at all if there will
    // never be more; throws the failure that ended the search.
    std::optional<std::vector<Result>> results(std::chrono::milliseconds timeout);

    // For workers:

    // The next sentences for a worker with so many free places, or up to `most` if nobody else can
    // come. One that `is_idle` waits for them; it gets none only if there will be no more.
    std::vector<RequestPointer> take(int places, int most, bool is_idle);
    void give(const Request& request, std::vector<Found> found);
    bool is_over() const { return is_over_; }

  private:
    RequestPointer next();
    int64_t share(bool is_idle) const;

    const int workers_;
    std::mutex mutex_;  // of all below
    std::condition_variable has_arrived_, has_found_;
    std::map<int64_t, std::deque<RequestPointer>> waiting_;  // by owner; cancelled ones are passed over
    std::unordered_map<int64_t, RequestPointer> in_hand_;    // waiting or being searched, by number
    std::vector<Result> found_;
    std::exception_ptr failure_;
    int64_t last_owner_ = 0;  // whose turn was last
    int64_t left_ = 0;        // waiting and not cancelled
    int idle_ = 0;            // workers that wait
    bool is_closed_ = false;
    std::atomic<bool> is_over_{false};
};

}  // namespace anydepth
