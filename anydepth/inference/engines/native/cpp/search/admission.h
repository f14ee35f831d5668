// Continuous batching: sentences are encoded many at a time and wait; one takes the place of each
// that finishes.
#pragma once

#include <memory>
#include <vector>

#include "search/counts.h"
#include "search/decisions.h"
#include "search/job.h"
#include "search/sentence.h"

namespace anydepth {

class Admission {
  public:
    Admission(const Job& job, Decisions& decisions, Scratch& scratch, Meter& meter)
        : job_(job), decisions_(decisions), scratch_(scratch), meter_(meter) {}

    // Adds sentences to `active` up to the limits of a batch, or as many as there are; waits for one if
    // nothing is active, and adds none only if there will be no more.
    void admit(Sentences& active);

  private:
    bool has_room(const Sentences& active, const Sentence& more) const;
    void encode_more(int active);
    void prepare(RequestPointer request);
    bool is_repeated(const Request& request) const;
    void encode();
    SentenceWords choose_words(const Request& request, const float* memory);

    const Job& job_;
    Decisions& decisions_;
    Scratch& scratch_;
    Meter& meter_;
    Sentences waiting_;                            // encoded, the next one last
    std::shared_ptr<const Request> last_request_;  // the sentence taken last, and its source
    std::shared_ptr<Source> last_source_;
    std::vector<const Sentence*> fresh_;  // to be encoded: their tokens one after the other, and where each begins
    std::vector<int> tokens_, starts_;
    Buffer<float> memory_;
};

}  // namespace anydepth
