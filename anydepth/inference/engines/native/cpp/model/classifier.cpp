#include "model/classifier.h"

namespace anydepth {

Classifier::Classifier(const Kernels& kernels, const float* rows, int words, int dim, bool is_int8)
    : rows_(rows), dim_(dim), padded_((dim + 3) / 4 * 4), is_int8_(is_int8),
      all_(kernels, {rows}, {}, words, dim, is_int8) {
    if (!is_int8) return;
    int8_t* bytes = bytes_.at_least((size_t)words * padded_);
    float* scales = scales_.at_least(words);
    int32_t* offsets = offsets_.at_least(words);
    for (int word = 0; word < words; ++word) {
        const Quantized quantized = quantize_weights(row(word), dim, padded_, bytes + (int64_t)word * padded_);
        scales[word] = quantized.scale;
        offsets[word] = quantized.offset;
    }
}

void Classifier::score_some(const Kernels& kernels, const float* states, int m, const int* words, int count,
                            float* out, Scratch& scratch) const {
    scratch.flops += 2LL * m * count * dim_;
    const int stride = room_for(count);
    if (!is_int8_) {
        kernels.score_words(states, m, rows_, dim_, words, count, out, stride);
        return;
    }
    uint8_t* q = scratch.quantized.at_least((size_t)m * padded_);
    kernels.quantize(states, m, dim_, q, scratch.scales.at_least(m));
    kernels.score_words_int8(q, scratch.scales.get(), m, padded_, bytes_.get(), scales_.get(), offsets_.get(), words,
                             count, out, stride);
}

}  // namespace anydepth
