#include "model/matrix.h"

#include <algorithm>
#include <cmath>

namespace anydepth {

// Multiplications of a product; below, waiting for the other threads costs more than it saves.
constexpr int64_t WORTH_SHARING = 150'000, WORTH_SHARING_INT8 = 1'000'000;

Matrix::Matrix(const Kernels& kernels, const std::vector<const float*>& weights,
               const std::vector<const float*>& biases, int n_each, int k, bool is_int8)
    : n_(n_each * (int)weights.size()), k_(k), is_int8_(is_int8), has_bias_(!biases.empty()) {
    const int columns = kernels.columns;
    const int padded_n = (n_ + columns - 1) / columns * columns, padded_k = (k + 3) / 4 * 4;
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
    std::vector<int8_t> bytes(padded_k);
    for (int n = 0; n < padded_n; ++n) {
        const Quantized quantized = quantize_weights(n < n_ ? row(n) : nullptr, k, padded_k, bytes.data());
        scales[n] = quantized.scale;
        offsets[n] = quantized.offset;
        int8_t* column = packed + (int64_t)(n / columns) * columns * padded_k + n % columns * 4;
        for (int i = 0; i < padded_k; ++i) column[(int64_t)(i / 4) * 4 * columns + i % 4] = bytes[i];
    }
}

ByteRows::ByteRows(const float* rows, int count, int k) : k(k), padded((k + 3) / 4 * 4) {
    bytes.at_least((size_t)count * padded);
    scales.at_least(count);
    offsets.at_least(count);
    for (int n = 0; n < count; ++n) {
        const Quantized quantized =
            quantize_weights(rows + (int64_t)n * k, k, padded, bytes.get() + (int64_t)n * padded);
        scales.get()[n] = quantized.scale;
        offsets.get()[n] = quantized.offset;
    }
}

Matrix::Matrix(const Kernels& kernels, const ByteRows& rows, const std::vector<int>& chosen, const float* bias)
    : n_((int)chosen.size()), k_(rows.k), is_int8_(true), has_bias_(bias != nullptr) {
    const int columns = kernels.columns, padded_n = (n_ + columns - 1) / columns * columns;
    int8_t* packed = bytes_.at_least((size_t)padded_n * rows.padded);
    float* scales = scales_.at_least(padded_n);
    int32_t* offsets = offsets_.at_least(padded_n);
    std::vector<const void*> panel(columns);
    for (int first = 0; first < n_; first += columns) {
        const int width = std::min(columns, n_ - first);
        for (int c = 0; c < width; ++c) panel[c] = rows.row(chosen[first + c]);
        kernels.transpose(panel.data(), width, rows.padded / 4, packed + (int64_t)first * rows.padded, columns);
    }
    for (int n = 0; n < padded_n; ++n) {
        const int row = chosen[std::min(n, n_ - 1)];
        scales[n] = rows.scales.get()[row];
        offsets[n] = rows.offsets.get()[row];
        if (has_bias_) bias_.at_least(padded_n)[n] = bias[row];
    }
}

Quantized quantize_weights(const float* row, int k, int padded, int8_t* bytes) {
    float greatest = 0;
    for (int i = 0; row && i < k; ++i) greatest = std::fmax(greatest, std::fabs(row[i]));
    const float scale = greatest > 0 ? greatest / 127.0f : 1.0f;
    int32_t total = 0;
    for (int i = 0; i < padded; ++i) {
        bytes[i] = row && i < k ? (int8_t)std::lrintf(row[i] / scale) : 0;
        total += bytes[i];
    }
    return {scale, 128 * total};
}

void Matrix::apply(const Kernels& kernels, const float* x, int m, float* y, Scratch& scratch, Activation activation,
                   int n) const {
    if (n == 0) n = n_;
    scratch.flops += 2LL * m * n * k_;
    if (is_int8_) {
        uint8_t* q = scratch.quantized.at_least((size_t)m * ((k_ + 3) / 4 * 4));
        kernels.quantize(x, m, k_, q, scratch.scales.at_least(m));
    }
    const int panels = (n + kernels.columns - 1) / kernels.columns;
    const int64_t worth_sharing = is_int8_ ? WORTH_SHARING_INT8 : WORTH_SHARING;
    if (scratch.team == nullptr || panels < 2 || (int64_t)m * n * k_ < worth_sharing) {
        apply_part(kernels, x, m, y, 0, n, n, activation, scratch);
        return;
    }
    const int parts = scratch.team->size();
    const auto boundary = [&](int part) {
        return std::min(n, (int)((int64_t)panels * part / parts) * kernels.columns);
    };
    scratch.team->share([&](int part) {
        if (boundary(part) < boundary(part + 1))
            apply_part(kernels, x, m, y, boundary(part), boundary(part + 1), n, activation, scratch);
    });
}

// The outputs from `first`, where a panel begins, to `last`; quantized rows are in `scratch`.
void Matrix::apply_part(const Kernels& kernels, const float* x, int m, float* y, int first, int last, int stride,
                        Activation activation, Scratch& scratch) const {
    const float* bias = has_bias_ ? bias_.get() + first : nullptr;
    const bool is_rectified = activation == Activation::relu;
    if (is_int8_)
        kernels.linear_int8(scratch.quantized.get(), scratch.scales.get(), m, k_,
                            bytes_.get() + (int64_t)first * ((k_ + 3) / 4 * 4), scales_.get() + first,
                            offsets_.get() + first, bias, y + first, last - first, stride, is_rectified);
    else
        kernels.linear(x, m, k_, numbers_.get() + (int64_t)first * k_, bias, y + first, last - first, stride,
                       is_rectified);
    if (activation == Activation::none || is_rectified) return;
    const auto activate = activation == Activation::gelu ? kernels.gelu : kernels.swish;
    for (int r = 0; r < m; ++r) activate(y + (int64_t)r * stride + first, last - first);
}

}  // namespace anydepth
