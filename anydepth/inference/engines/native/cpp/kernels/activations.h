// Smooth activations of feed-forward networks, number by number.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

// Half of erfc(z) for z >= 0, to about 2e-6 of itself: the Chebyshev fit of Numerical Recipes (erfcc).
static inline vf half_erfc(vf z) {
    const vf t = 1.0f / (1.0f + 0.5f * z);
    vf p = all(0.17087277f);
    p = p * t - 0.82215223f;
    p = p * t + 1.48851587f;
    p = p * t - 1.13520398f;
    p = p * t + 0.27886807f;
    p = p * t - 0.18628806f;
    p = p * t + 0.09678418f;
    p = p * t + 0.37409196f;
    p = p * t + 1.00002368f;
    p = p * t - 1.26551223f;
    return 0.5f * t * exponential(p - z * z);
}

// Both are told from what exp can hold: that of a number below 0.
static inline vf gelu_of(vf x) {
    const vf tail = half_erfc(larger(x, -x) * 0.70710678118654752f);
    return x * (x < all(0.0f) ? tail : 1.0f - tail);
}

static inline vf swish_of(vf x) {
    const vf e = exponential(-larger(x, -x));
    return x * (x < all(0.0f) ? e : all(1.0f)) / (1.0f + e);
}

template <vf (*function)(vf)>
static inline void apply_to_all(float* x, int n) {
    int i = 0;
    for (; i + W <= n; i += W) store(x + i, function(load(x + i)));
    if (i == n) return;
    vf last = all(0.0f);
    for (int j = i; j < n; ++j) last[j - i] = x[j];
    last = function(last);
    for (int j = i; j < n; ++j) x[j] = last[j - i];
}

static void gelu(float* x, int n) { apply_to_all<gelu_of>(x, n); }
static void swish(float* x, int n) { apply_to_all<swish_of>(x, n); }

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
