#include "search/workers.h"

#include <chrono>
#include <exception>
#include <memory>
#include <system_error>

#include "search/worker.h"

namespace anydepth {

int Workers::start(int count) {
    int started = 0;
    for (; started < count; ++started) {
        ++at_work_;
        try {
            threads_.emplace_back([this] { work(nullptr); });
        } catch (const std::system_error&) {  // the system has no more threads to give; the others do it all
            --at_work_;
            break;
        }
    }
    return started;
}

void Workers::work_along(const LookUp& look_up) {
    ++at_work_;
    work(look_up);
    while (at_work_ > 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        try {
            if (look_up && !job_.queue.is_over()) look_up();
        } catch (...) {
            job_.queue.stop(std::current_exception());
        }
    }
}

void Workers::join() {
    const std::lock_guard<std::mutex> guard(joining_);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
}

Counts Workers::counts() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return counts_;
}

void Workers::work(const LookUp& look_up) {
    try {
        const std::unique_ptr<Team> team = members_ > 1 ? std::make_unique<Team>(members_) : nullptr;
        Worker worker(job_, team.get());
        worker.run(look_up);
        const std::lock_guard<std::mutex> guard(mutex_);
        counts_.add(worker.counts());
    } catch (...) {
        job_.queue.stop(std::current_exception());
    }
    --at_work_;
}

}  // namespace anydepth
