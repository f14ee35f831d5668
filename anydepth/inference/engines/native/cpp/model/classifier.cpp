#include "model/classifier.h"

namespace anydepth {

Classifier::Classifier(const Kernels& kernels, const float* rows, const float* bias, int words, int dim, bool is_int8)
    : rows_(rows), bias_(bias), dim_(dim), is_int8_(is_int8),
      all_(kernels, {rows}, bias ? std::vector<const float*>{bias} : std::vector<const float*>{}, words, dim, is_int8) {
    if (is_int8) bytes_ = ByteRows(rows, words, dim);
}

// In 8 bits arithmetic is the limit of a look, and words that were gathered into panels take the fewest
// instructions. In float32 it is bytes: words that stay where they are remain in the cache for all
// sentences, where panels would be four times as large, and a sentence's own.
void Classifier::score_some(const Kernels& kernels, const float* states, int m, const std::vector<int>& words,
                            Matrix& gathered, float* out, Scratch& scratch) const {
    const int count = (int)words.size();
    if (is_int8_) {
        if (gathered.outputs() == 0) gathered = Matrix(kernels, bytes_, words, bias_);
        gathered.apply(kernels, states, m, out, scratch);
        return;
    }
    scratch.flops += 2LL * m * count * dim_;
    kernels.score_words(states, m, rows_, dim_, words.data(), count, out, room_for(count));
    if (!bias_) return;
    for (int r = 0; r < m; ++r)
        for (int i = 0; i < count; ++i) out[(int64_t)r * room_for(count) + i] += bias_[words[i]];
}

}  // namespace anydepth
