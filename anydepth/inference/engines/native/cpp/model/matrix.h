// A matrix in the layout of the kernels, in float32 or in 8-bit integers, and its product with rows.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "model/buffer.h"
#include "model/team.h"

namespace anydepth {

// What one thread works with; every product uses the same room for its quantized rows.
struct Scratch {
    Buffer<uint8_t> quantized;
    Buffer<float> scales;
    Team* team = nullptr;  // threads that share its products, if there are any
    int64_t flops = 0;     // of the products and attention so far, each multiplication and addition one
};

// What a row of weights in 8 bits stands for: value = scale * byte. The offset is what a product with
// rows that were shifted by 128 has too much.
struct Quantized {
    float scale;
    int32_t offset;
};

// Writes `k` weights as bytes, padded with zeros; no weights are zeros.
Quantized quantize_weights(const float* row, int k, int padded, int8_t* bytes);

// Rows of weights in 8 bits, one after the other.
struct ByteRows {
    int k = 0, padded = 0;
    Buffer<int8_t> bytes;
    Buffer<float> scales;
    Buffer<int32_t> offsets;

    ByteRows() = default;
    ByteRows(const float* rows, int count, int k);
    const int8_t* row(int n) const { return bytes.get() + (int64_t)n * padded; }
};

// A matrix with a bias, or none.
class Matrix {
  public:
    Matrix() = default;
    // From rows of `weights`, one for each output, stacked from several matrices of `k` inputs.
    Matrix(const Kernels& kernels, const std::vector<const float*>& weights, const std::vector<const float*>& biases,
           int n_each, int k, bool is_int8);
    // Of chosen rows in 8 bits; `bias` is that of all rows, or none.
    Matrix(const Kernels& kernels, const ByteRows& rows, const std::vector<int>& chosen, const float* bias);

    // y = x w^T + bias, activated, for m rows and the first `n` outputs, or all outputs for n = 0.
    void apply(const Kernels& kernels, const float* x, int m, float* y, Scratch& scratch,
               Activation activation = Activation::none, int n = 0) const;
    int outputs() const { return n_; }

  private:
    void apply_part(const Kernels& kernels, const float* x, int m, float* y, int first, int last, int stride,
                    Activation activation, Scratch& scratch) const;
    int n_ = 0, k_ = 0;
    bool is_int8_ = false;
    Buffer<float> numbers_, scales_, bias_;
    Buffer<int8_t> bytes_;
    Buffer<int32_t> offsets_;
    bool has_bias_ = false;
};

}  // namespace anydepth
