// The arithmetic of the engine. The same source is compiled for several instruction sets; the best
// that the processor has is taken.
#pragma once

#include <cstdint>

namespace anydepth {

// What a layer makes of its sums.
enum class Activation { none, relu, gelu, swish };

// The numbers of a matrix (n outputs, k inputs) lie in memory in panels of `columns` outputs, and
// inside a panel input by input, so that a product reads it from its beginning to its end. For int8
// four inputs of an output lie together.
struct Kernels {
    const char* name;
    int columns;  // outputs in a panel

    // y = x w^T + bias for m rows of x, optionally rectified. Each number of y is summed up in the
    // order of the inputs, whatever m is, so that a row's result does not depend on the other rows.
    void (*linear)(const float* x, int m, int k, const float* w, const float* bias, float* y, int n, int stride,
                   bool is_rectified);
    // The rows of x as x / scale + 128, rounded; k is padded with zeros to a multiple of 4.
    void (*quantize)(const float* x, int m, int k, uint8_t* q, float* scales);
    // The same product from quantized rows. `offsets` are 128 times the sums of the columns of w.
    void (*linear_int8)(const uint8_t* q, const float* scales, int m, int k, const int8_t* w, const float* w_scales,
                        const int32_t* offsets, const float* bias, float* y, int n, int stride, bool is_rectified);
    // out = norm(x + delta) * gain + bias, row by row.
    void (*add_norm)(const float* x, const float* delta, const float* gain, const float* bias, float* out, int m,
                     int dim);
    // One query against `count` keys and values that lie anywhere; `scores` has room for the next
    // multiple of 16 numbers.
    void (*attend_scattered)(const float* query, const float* const* keys, const float* const* values, int count,
                             int heads, int dim, float* scores, float* out);
    // m queries, `stride` apart, against keys (head, width of a head, padded count) and values
    // (count, dim); out is (m, dim), and `scores` has room for 4 * padded numbers.
    void (*attend_dense)(const float* queries, int m, int stride, const float* keys, const float* values, int count,
                         int padded, int heads, int dim, float* scores, float* out);
    float (*dot)(const float* a, const float* b, int n);
    // The greatest of n numbers, and the sum of exp(x - greatest).
    void (*max_and_sum)(const float* x, int n, float* greatest, float* sum);
    // The `count` greatest of n numbers, greatest first, the first of equals first.
    void (*top)(const float* x, int n, int count, float* values, int* places);
    // out[i] = x . rows[words[i]] for m rows of x and `count` words; each row of out has room for the
    // next multiple of 16 numbers, and `stride` is from one to the next.
    void (*score_words)(const float* x, int m, const float* rows, int dim, const int* words, int count, float* out,
                        int stride);
    // `count` rows of k numbers of 4 bytes, or of 4 numbers of one, laid out across: out is (k, columns),
    // where `columns` is a multiple of 16, and what is beyond the last row repeats it.
    void (*transpose)(const void* const* rows, int count, int k, void* out, int columns);
    // gelu(x) = x (1 + erf(x / sqrt(2))) / 2 and swish(x) = x / (1 + exp(-x)) of n numbers, in place; each
    // number's result does not depend on its place.
    void (*gelu)(float* x, int n);
    void (*swish)(float* x, int n);
};

extern const Kernels kernels_plain;
#if defined(__x86_64__) && defined(__GNUC__)
#define ANYDEPTH_X86 1
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

}  // namespace anydepth
