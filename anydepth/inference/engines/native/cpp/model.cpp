#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace anydepth {

constexpr int64_t WORTH_SHARING = 150'000, WORTH_SHARING_INT8 = 1'000'000;  // multiplications: below, waiting costs more than it saves

Matrix::Matrix(const Kernels& kernels, const std::vector<const float*>& weights, const std::vector<const float*>& biases, int n_each,
               int k, bool is_int8)
    : n_(n_each * (int)weights.size()), k_(k), is_int8_(is_int8), has_bias_(!biases.empty()) {
    const int columns = kernels.columns, padded_n = (n_ + columns - 1) / columns * columns, padded_k = (k + 3) / 4 * 4;
    const auto row = [&](int n) { return weights[n / n_each] + (int64_t)(n % n_each) * k; };
    if (has_bias_) {
        float* bias = bias_.at_least(padded_n);
        for (int n = 0; n < padded_n; ++n) bias[n] = n < n_ ? biases[n / n_each][n % n_each] : 0.0f;
    }
    if (!is_int8) {
        float* packed = numbers_.at_least((size_t)padded_n * k);
        for (int n = 0; n < padded_n; ++n) {
            float* column = packed + (int64_t)(n / columns) * columns * k + n % columns;
            for (int i = 0; i < k; ++i) column[(int64_t)i * columns] = n < n_ ? row(n)[i] : 0.0f;
        }
        return;
    }
    int8_t* packed = bytes_.at_least((size_t)padded_n * padded_k);
    float* scales = scales_.at_least(padded_n);
    int32_t* offsets = offsets_.at_least(padded_n);
    for (int n = 0; n < padded_n; ++n) {
        float greatest = 0;
        for (int i = 0; n < n_ && i < k; ++i) greatest = std::fmax(greatest, std::fabs(row(n)[i]));
        scales[n] = greatest > 0 ? greatest / 127.0f : 1.0f;
        int32_t total = 0;
        int8_t* column = packed + (int64_t)(n / columns) * columns * padded_k + n % columns * 4;
        for (int i = 0; i < padded_k; ++i) {
            const int8_t value = n < n_ && i < k ? (int8_t)std::lrintf(row(n)[i] / scales[n]) : 0;
            column[(int64_t)(i / 4) * 4 * columns + i % 4] = value;
            total += value;
        }
        offsets[n] = 128 * total;
    }
}

void Matrix::apply(const Kernels& kernels, const float* x, int m, float* y, Scratch& scratch, bool is_rectified, int n) const {
    if (n == 0) n = n_;
    scratch.flops += 2LL * m * n * k_;
    if (is_int8_) {
        uint8_t* q = scratch.quantized.at_least((size_t)m * ((k_ + 3) / 4 * 4));
        kernels.quantize(x, m, k_, q, scratch.scales.at_least(m));
    }
    const int panels = (n + kernels.columns - 1) / kernels.columns;
    if (scratch.team == nullptr || panels < 2 || (int64_t)m * n * k_ < (is_int8_ ? WORTH_SHARING_INT8 : WORTH_SHARING)) {
        apply_part(kernels, x, m, y, 0, n, n, is_rectified, scratch);
        return;
    }
    const int parts = scratch.team->size();
    const auto boundary = [&](int part) { return std::min(n, (int)((int64_t)panels * part / parts) * kernels.columns); };
    scratch.team->share([&](int part) {
        if (boundary(part) < boundary(part + 1))
            apply_part(kernels, x, m, y, boundary(part), boundary(part + 1), n, is_rectified, scratch);
    });
}

// The outputs from `first`, where a panel begins, to `last`; quantized rows are in `scratch` already.
void Matrix::apply_part(const Kernels& kernels, const float* x, int m, float* y, int first, int last, int stride, bool is_rectified,
                        Scratch& scratch) const {
    const float* bias = has_bias_ ? bias_.get() + first : nullptr;
    if (is_int8_)
        kernels.linear_int8(scratch.quantized.get(), scratch.scales.get(), m, k_, bytes_.get() + (int64_t)first * ((k_ + 3) / 4 * 4),
                            scales_.get() + first, offsets_.get() + first, bias, y + first, last - first, stride, is_rectified);
    else
        kernels.linear(x, m, k_, numbers_.get() + (int64_t)first * k_, bias, y + first, last - first, stride, is_rectified);
}

Model::Model(const Kernels& kernels, const Shape& shape, bool is_int8, Halting halting, int halting_units,
             const std::vector<std::string>& classifier_names, const Lookup& tensor)
    : kernels(kernels), shape(shape), has_units(halting_units > 0) {
    const auto matrix = [&](const std::vector<std::string>& names, int n, int k) {
        std::vector<const float*> weights, biases;
        for (const auto& name : names) {
            weights.push_back(tensor(name + ".weight"));
            biases.push_back(tensor(name + ".bias"));
        }
        return Matrix(kernels, weights, biases, n, k, is_int8);
    };
    const auto norm = [&](const std::string& name) { return Norm{tensor(name + ".weight"), tensor(name + ".bias")}; };
    source_embedding = tensor("source_embedding.weight");
    target_embedding = tensor("target_embedding.weight");
    encoder_positions = tensor("encoder_positions");
    decoder_positions = tensor("decoder_positions");
    const int wide = shape.encoder_dim, dim = shape.decoder_dim;
    for (int n = 0; n < shape.encoder_blocks; ++n) {
        const std::string at = "encoder." + std::to_string(n) + ".", attention = at + "attention.";
        encoder.push_back({matrix({attention + "key", attention + "value", attention + "query"}, wide, wide),
                           matrix({attention + "output"}, wide, wide), matrix({at + "feed_forward.inner"}, shape.encoder_ffn, wide),
                           matrix({at + "feed_forward.outer"}, wide, shape.encoder_ffn), norm(at + "attention_norm"),
                           norm(at + "feed_forward_norm")});
    }
    for (int n = 0; n < shape.blocks; ++n) {
        const std::string at = "decoder." + std::to_string(n) + ".", own = at + "self_attention.", source = at + "source_attention.";
        decoder.push_back({matrix({own + "key", own + "value", own + "query"}, dim, dim), matrix({own + "output"}, dim, dim),
                           matrix({source + "query"}, dim, dim), matrix({source + "key", source + "value"}, dim, wide),
                           matrix({source + "output"}, dim, dim), matrix({at + "feed_forward.inner"}, shape.decoder_ffn, dim),
                           matrix({at + "feed_forward.outer"}, dim, shape.decoder_ffn), norm(at + "self_attention_norm"),
                           norm(at + "source_attention_norm"), norm(at + "feed_forward_norm")});
    }
    for (const auto& name : classifier_names) {
        classifier_rows.push_back(tensor(name));
        classifiers.push_back(Matrix(kernels, {tensor(name)}, {}, shape.target_vocab, dim, is_int8));
    }
    // A decision is cheap and sharp: its weights stay as they are.
    const auto exact = [&](const std::string& name, int n, int k) {
        return Matrix(kernels, {tensor(name + ".weight")}, {tensor(name + ".bias")}, n, k, false);
    };
    if (halting == Halting::sequence) scores = exact("halting.sentence_scores", shape.blocks, wide);
    if (halting == Halting::multinomial) scores = exact("halting.token_scores", shape.blocks, dim);
    if (halting == Halting::geometric) {
        if (has_units) units = exact("halting.features", halting_units, dim);
        stop_weight = tensor("halting.stop_score.weight");
        stop_bias = *tensor("halting.stop_score.bias");
    }
}

void Model::encode(const int* tokens, const std::vector<int>& starts, float* memory, Scratch& scratch) const {
    const int rows = starts.back(), dim = shape.encoder_dim, heads = shape.heads;
    const float rate = std::sqrt((float)dim);
    for (size_t s = 0; s + 1 < starts.size(); ++s)
        for (int r = starts[s]; r < starts[s + 1]; ++r) {
            const float *word = source_embedding + (int64_t)tokens[r] * dim, *place = encoder_positions + (int64_t)(r - starts[s]) * dim;
            for (int i = 0; i < dim; ++i) memory[(int64_t)r * dim + i] = word[i] * rate + place[i];
        }
    Buffer<float> kvq, gathered, delta, inner, keys, values, scores;
    for (const EncoderWeights& block : encoder) {
        block.kvq.apply(kernels, memory, rows, kvq.at_least((size_t)rows * 3 * dim), scratch);
        gathered.at_least((size_t)rows * dim);
        for (size_t s = 0; s + 1 < starts.size(); ++s) {
            const int first = starts[s], count = starts[s + 1] - first, padded = (count + 15) / 16 * 16;
            const float* pairs = kvq.get() + (int64_t)first * 3 * dim;
            lay_out_keys(pairs, 3 * dim, count, padded, heads, dim, keys.at_least((size_t)padded * dim), values.at_least((size_t)count * dim));
            kernels.attend_dense(pairs + 2 * dim, count, 3 * dim, keys.get(), values.get(), count, padded, heads, dim,
                                 scores.at_least(4 * padded), gathered.get() + (int64_t)first * dim);
        }
        block.output.apply(kernels, gathered.get(), rows, delta.at_least((size_t)rows * dim), scratch);
        kernels.add_norm(memory, delta.get(), block.attention_norm.gain, block.attention_norm.bias, memory, rows, dim);
        block.inner.apply(kernels, memory, rows, inner.at_least((size_t)rows * shape.encoder_ffn), scratch, true);
        block.outer.apply(kernels, inner.get(), rows, delta.get(), scratch);
        kernels.add_norm(memory, delta.get(), block.feed_forward_norm.gain, block.feed_forward_norm.bias, memory, rows, dim);
    }
}

void lay_out_keys(const float* pairs, int stride, int count, int padded, int heads, int dim, float* keys, float* values) {
    const int width = dim / heads;
    std::memset(keys, 0, sizeof(float) * (size_t)padded * dim);
    for (int s = 0; s < count; ++s) {
        const float* pair = pairs + (int64_t)s * stride;
        for (int head = 0; head < heads; ++head)
            for (int i = 0; i < width; ++i) keys[((int64_t)head * width + i) * padded + s] = pair[head * width + i];
        std::memcpy(values + (int64_t)s * dim, pair + dim, sizeof(float) * dim);
    }
}

}  // namespace anydepth
