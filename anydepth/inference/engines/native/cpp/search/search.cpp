#include "search/search.h"

#include <algorithm>

namespace anydepth {

std::vector<std::vector<Found>> search(const Model& model, std::vector<RequestPointer> requests,
                                       const Batching& batching, Counts& counts, const LookUp& look_up) {
    // Sentences are independent, so a thread for each comes first; threads to spare share the
    // products of one.
    const int count = std::max(1, std::min(batching.threads, (int)requests.size()));
    Queue queue(count);
    // Longest first: then the last sentences, which run with fewer and fewer others beside them, are
    // short.
    std::stable_sort(requests.begin(), requests.end(), [](const RequestPointer& a, const RequestPointer& b) {
        return a->source.size() > b->source.size();
    });
    for (const RequestPointer& request : requests) queue.submit(request);
    queue.close();

    const Job job{model, batching, queue};
    Workers workers(job, batching.threads / count);
    workers.start(count - 1);
    workers.work_along(look_up);
    workers.join();
    counts = workers.counts();

    std::vector<std::vector<Found>> results(requests.size());
    while (auto some = queue.results(std::chrono::milliseconds(0)))
        for (auto& [number, found] : *some) results[number] = std::move(found);
    return results;
}

}  // namespace anydepth
