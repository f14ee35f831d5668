// An output classifier: the scores of all words, or of those that a sentence may use.
#pragma once

#include "model/matrix.h"

namespace anydepth {

class Classifier {
  public:
    // From the rows of the checkpoint, one for each word, which stay where they are.
    Classifier(const Kernels& kernels, const float* rows, int words, int dim, bool is_int8);

    // Of all words for m states; out is (m, words).
    void score_all(const Kernels& kernels, const float* states, int m, float* out, Scratch& scratch) const {
        all_.apply(kernels, states, m, out, scratch);
    }
    // Of `count` words for m states; out is (m, room_for(count)).
    void score_some(const Kernels& kernels, const float* states, int m, const int* words, int count, float* out,
                    Scratch& scratch) const;
    static int room_for(int count) { return (count + 15) / 16 * 16; }

    const float* row(int word) const { return rows_ + (int64_t)word * dim_; }

  private:
    const float* rows_;
    int dim_, padded_;
    bool is_int8_;
    Matrix all_;
    Buffer<int8_t> bytes_;  // the rows in 8 bits, one after the other
    Buffer<float> scales_;
    Buffer<int32_t> offsets_;
};

}  // namespace anydepth
