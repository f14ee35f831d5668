// The weights of a model in the layout of the kernels, and the encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.h"
#include "team.h"

namespace anydepth {

// Numbers that begin at a cache line, uninitialised; growing forgets what was there.
template <class T>
class Buffer {
  public:
    T* at_least(size_t count) {
        if (count > size_) {
            data_.reset(static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{64})));
            size_ = count;
        }
        return data_.get();
    }
    T* get() const { return data_.get(); }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
    };
    std::unique_ptr<T, Free> data_;
    size_t size_ = 0;
};

// What one thread works with; every product uses the same room for its quantized rows.
struct Scratch {
    Buffer<uint8_t> quantized;
    Buffer<float> scales;
    Team* team = nullptr;  // those who share its products, if anybody does
    int64_t flops = 0;  // of the products and attention so far, each multiplication and addition one
};

// A matrix with a bias, or none.
class Matrix {
  public:
    // From rows of `weights`, one for each output, stacked from several matrices of `k` inputs.
    Matrix() = default;
    Matrix(const Kernels& kernels, const std::vector<const float*>& weights, const std::vector<const float*>& biases, int n_each, int k,
           bool is_int8);

    // y = x w^T + bias for the first `n` outputs, all of them unless told otherwise.
    void apply(const Kernels& kernels, const float* x, int m, float* y, Scratch& scratch, bool is_rectified = false, int n = 0) const;
    int outputs() const { return n_; }

  private:
    void apply_part(const Kernels& kernels, const float* x, int m, float* y, int first, int last, int stride, bool is_rectified,
                    Scratch& scratch) const;
    int n_ = 0, k_ = 0;
    bool is_int8_ = false;
    Buffer<float> numbers_, scales_, bias_;
    Buffer<int8_t> bytes_;
    Buffer<int32_t> offsets_;
    bool has_bias_ = false;
};

struct Norm {
    const float *gain, *bias;
};

struct EncoderWeights {
    Matrix kvq, output, inner, outer;
    Norm attention_norm, feed_forward_norm;
};

struct DecoderWeights {
    Matrix kvq, self_output, source_query, source_kv, source_output, inner, outer;
    Norm self_norm, source_norm, feed_forward_norm;
};

struct Shape {
    int heads, encoder_dim, encoder_ffn, decoder_dim, decoder_ffn, encoder_blocks, blocks, target_vocab;
};

enum class Halting { none, sequence, multinomial, geometric };

// Gives the numbers of a tensor by its name in the checkpoint; they stay where they are as long as the model lives.
using Lookup = std::function<const float*(const std::string&)>;

struct Model {
    const Kernels& kernels;
    Shape shape;
    const float *source_embedding, *target_embedding, *encoder_positions, *decoder_positions;
    std::vector<EncoderWeights> encoder;
    std::vector<DecoderWeights> decoder;
    std::vector<Matrix> classifiers;          // one, or one for each block
    std::vector<const float*> classifier_rows;  // the same, as they are in the checkpoint
    Matrix units;       // of the geometric module, if it has any
    bool has_units;
    Matrix scores;      // of the sequence and the multinomial module
    const float* stop_weight = nullptr;  // w_h and b_h of the geometric module
    float stop_bias = 0;

    Model(const Kernels& kernels, const Shape& shape, bool is_int8, Halting halting, int halting_units,
          const std::vector<std::string>& classifier_names, const Lookup& tensor);

    // The encoder's output for sentences that lie one after the other in `tokens`, `starts` telling where; all rows, no padding.
    void encode(const int* tokens, const std::vector<int>& starts, float* memory, Scratch& scratch) const;
    const Matrix& classifier(int n) const { return classifiers[classifiers.size() == 1 ? 0 : n - 1]; }
};

// Keys (position, 2 dim: key then value) as attend_dense wants them: keys (head, width, padded), values (position, dim).
void lay_out_keys(const float* pairs, int stride, int count, int padded, int heads, int dim, float* keys, float* values);

}  // namespace anydepth
