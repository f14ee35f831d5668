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
    Admission(Job& job, Decisions& decisions, Scratch& scratch, Meter& meter)
        : job_(job), decisions_(decisions), scratch_(scratch), meter_(meter) {}

    // Adds sentences to `active` up to the limits of a batch, or as many as are left.
    void admit(Sentences& active);

  private:
    void encode_more();
    std::unique_ptr<Sentence> make_sentence(int number) const;
    bool is_repeated(int number) const;
    void encode();
    SentenceWords choose_words(const int* pieces, int length, const float* memory);

    Job& job_;
    Decisions& decisions_;
    Scratch& scratch_;
    Meter& meter_;
    Sentences waiting_;     // encoded, the next one last
    int last_number_ = -1;  // the sentence taken last, and its source
    std::shared_ptr<Source> last_source_;
    std::vector<Source*> fresh_;  // to be encoded: their tokens one after the other, and where each begins
    std::vector<int> tokens_, starts_;
    Buffer<float> memory_;
};

}  // namespace anydepth
