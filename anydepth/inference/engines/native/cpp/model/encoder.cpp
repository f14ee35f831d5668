#include "model/model.h"

#include <cstring>

namespace anydepth {

void Model::encode(const int* tokens, const std::vector<int>& starts, float* memory, Scratch& scratch) const {
    const int rows = starts.back(), dim = shape.encoder_dim, heads = shape.encoder_heads;
    const float rate = shape.embedding_rate(dim);
    for (size_t s = 0; s + 1 < starts.size(); ++s)
        for (int r = starts[s]; r < starts[s + 1]; ++r) {
            const float* word = source_embedding + (int64_t)tokens[r] * dim;
            const float* place = encoder_positions + (int64_t)(r - starts[s]) * dim;
            for (int i = 0; i < dim; ++i) memory[(int64_t)r * dim + i] = word[i] * rate + place[i];
        }
    Buffer<float> kvq, gathered, delta, inner, keys, values, scores;
    for (const EncoderWeights& block : encoder) {
        block.kvq.apply(kernels, memory, rows, kvq.at_least((size_t)rows * 3 * dim), scratch);
        gathered.at_least((size_t)rows * dim);
        for (size_t s = 0; s + 1 < starts.size(); ++s) {
            const int first = starts[s], count = starts[s + 1] - first, padded = (count + 15) / 16 * 16;
            const float* pairs = kvq.get() + (int64_t)first * 3 * dim;
            lay_out_keys(kernels, pairs, 3 * dim, count, padded, dim, keys.at_least((size_t)padded * dim),
                         values.at_least((size_t)count * dim));
            kernels.attend_dense(pairs + 2 * dim, count, 3 * dim, keys.get(), values.get(), count, padded, heads, dim,
                                 scores.at_least(4 * padded), gathered.get() + (int64_t)first * dim);
        }
        block.output.apply(kernels, gathered.get(), rows, delta.at_least((size_t)rows * dim), scratch);
        kernels.add_norm(memory, delta.get(), block.attention_norm.gain, block.attention_norm.bias, memory, rows, dim);
        block.inner.apply(kernels, memory, rows, inner.at_least((size_t)rows * shape.encoder_ffn), scratch,
                          shape.activation);
        block.outer.apply(kernels, inner.get(), rows, delta.get(), scratch);
        kernels.add_norm(memory, delta.get(), block.feed_forward_norm.gain, block.feed_forward_norm.bias, memory, rows,
                         dim);
    }
}

void lay_out_keys(const Kernels& kernels, const float* pairs, int stride, int count, int padded, int dim,
                  float* keys, float* values) {
    std::vector<const void*> rows(count);
    for (int s = 0; s < count; ++s) {
        const float* pair = pairs + (int64_t)s * stride;
        rows[s] = pair;
        std::memcpy(values + (int64_t)s * dim, pair + dim, sizeof(float) * dim);
    }
    kernels.transpose(rows.data(), count, dim, keys, padded);
}

}  // namespace anydepth
