// Threads that share one product after the other, for when there are fewer sentences than threads.
#pragma once

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace anydepth {

// The products of a step take microseconds, so members wait for the next one awake.
class Team {
  public:
    explicit Team(int threads) {
        try {
            for (int part = 1; part < threads; ++part) members_.emplace_back([this, part] { serve(part); });
        } catch (const std::system_error&) {
            // the system has no more threads to give: a smaller team
        }
    }
    ~Team() {
        is_over_ = true;
        for (std::thread& member : members_) member.join();
    }
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return 1 + (int)members_.size(); }

    // Calls work(part) for each part of the team at the same time and returns when all are done.
    template <class Work>
    void share(const Work& work) {
        work_ = &work;
        call_ = [](const void* it, int part) { (*static_cast<const Work*>(it))(part); };
        left_.store((int)members_.size(), std::memory_order_relaxed);
        round_.fetch_add(1, std::memory_order_release);
        work(0);
        wait([&] { return left_.load(std::memory_order_acquire) == 0; });
    }

  private:
    template <class Done>
    static void wait(const Done& is_done) {
        for (int tries = 0; !is_done(); ++tries)
            if (tries > 4000) std::this_thread::yield();
    }
    void serve(int part) {
        for (int seen = 0;;) {
            wait([&] { return is_over_ || round_.load(std::memory_order_acquire) != seen; });
            if (is_over_) return;
            ++seen;
            call_(work_, part);
            left_.fetch_sub(1, std::memory_order_release);
        }
    }

    const void* work_ = nullptr;
    void (*call_)(const void*, int) = nullptr;
    std::atomic<int> round_{0}, left_{0};
    std::atomic<bool> is_over_{false};
    std::vector<std::thread> members_;
};

}  // namespace anydepth
