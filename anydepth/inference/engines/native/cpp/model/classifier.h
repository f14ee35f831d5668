// An output classifier: the scores of all words, or of those that a sentence may use.
#pragma once

#include <vector>

#include "model/matrix.h"

namespace anydepth {

class Classifier {
  public:
    // From the rows of the checkpoint, one for each word, and the bias of the words, or none; both stay
    // where they are.
    Classifier(const Kernels& kernels, const float* rows, const float* bias, int words, int dim, bool is_int8);

    // Of all words for m states; out is (m, words).
    void score_all(const Kernels& kernels, const float* states, int m, float* out, Scratch& scratch) const {
        all_.apply(kernels, states, m, out, scratch);
    }
    // Of the chosen words for m states; out is (m, room_for(words)). `gathered` is what it keeps of these
    // words from one call to the next, empty at first.
    void score_some(const Kernels& kernels, const float* states, int m, const std::vector<int>& words,
                    Matrix& gathered, float* out, Scratch& scratch) const;
    int room_for(int count) const { return is_int8_ ? count : (count + 15) / 16 * 16; }

    // Of one word for one state, in float32.
    float score(const Kernels& kernels, const float* state, int word) const {
        return kernels.dot(rows_ + (int64_t)word * dim_, state, dim_) + (bias_ ? bias_[word] : 0.0f);
    }

  private:
    const float *rows_, *bias_;
    int dim_;
    bool is_int8_;
    Matrix all_;
    ByteRows bytes_;  // the rows in 8 bits
};

}  // namespace anydepth
