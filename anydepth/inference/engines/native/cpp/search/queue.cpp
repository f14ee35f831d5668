#include "search/queue.h"

#include <algorithm>
#include <stdexcept>

namespace anydepth {

void Queue::submit(RequestPointer request) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (is_closed_) throw std::runtime_error("this search is closed");
    if (!in_hand_.emplace(request->number, request).second)
        throw std::invalid_argument("this search has a sentence of that number");
    waiting_[request->owner].push_back(std::move(request));
    ++left_;
    has_arrived_.notify_one();
}

bool Queue::cancel(int64_t number) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = in_hand_.find(number);
    if (found == in_hand_.end()) return false;
    found->second->is_cancelled = true;
    if (found->second->is_waiting && --left_ == 0) waiting_.clear();
    in_hand_.erase(found);
    has_found_.notify_all();  // it may have been the last
    return true;
}

void Queue::close() {
    const std::lock_guard<std::mutex> guard(mutex_);
    is_closed_ = true;
    has_arrived_.notify_all();
    has_found_.notify_all();
}

void Queue::stop(std::exception_ptr failure) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!failure_) failure_ = std::move(failure);
    is_closed_ = is_over_ = true;
    waiting_.clear();
    left_ = 0;
    has_arrived_.notify_all();
    has_found_.notify_all();
}

std::optional<std::vector<Result>> Queue::results(std::chrono::milliseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_ended = [&] { return is_over_ || (is_closed_ && in_hand_.empty()); };
    has_found_.wait_for(lock, timeout, [&] { return !found_.empty() || is_ended(); });
    if (found_.empty() && failure_) std::rethrow_exception(failure_);
    if (found_.empty() && is_ended()) return std::nullopt;
    return std::exchange(found_, {});
}

std::vector<RequestPointer> Queue::take(int places, int most, bool is_idle) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (is_idle) {
        ++idle_;
        has_arrived_.wait(lock, [&] { return left_ > 0 || is_closed_; });
        --idle_;
    }
    // While others may come, nothing is taken before there is a place for it: it would have its turn
    // before theirs.
    const int64_t count = std::min<int64_t>(is_closed_ ? most : places, share(is_idle));
    std::vector<RequestPointer> taken;
    while ((int64_t)taken.size() < count) taken.push_back(next());
    return taken;
}

// How many sentences one worker may take: others need some, too, those that wait before all.
int64_t Queue::share(bool is_idle) const {
    const int64_t fair = (left_ + workers_ - 1) / workers_;
    return is_idle ? fair : std::min(fair, std::max<int64_t>(0, left_ - idle_));
}

// The first sentence of the owner whose turn it is; there must be one.
RequestPointer Queue::next() {
    for (;;) {
        auto owner = waiting_.upper_bound(last_owner_);
        if (owner == waiting_.end()) owner = waiting_.begin();
        std::deque<RequestPointer>& own = owner->second;
        while (!own.empty() && own.front()->is_cancelled) own.pop_front();
        RequestPointer request;
        if (!own.empty()) {
            request = std::move(own.front());
            own.pop_front();
        }
        last_owner_ = owner->first;
        if (own.empty()) waiting_.erase(owner);
        if (!request) continue;
        request->is_waiting = false;
        --left_;
        return request;
    }
}

void Queue::give(const Request& request, std::vector<Found> found) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (is_over_) return;  // those who asked were told that there is no more
    const auto own = in_hand_.find(request.number);
    if (own == in_hand_.end() || own->second.get() != &request) return;  // it was cancelled
    in_hand_.erase(own);
    found_.emplace_back(request.number, std::move(found));
    has_found_.notify_all();
}

}  // namespace anydepth
