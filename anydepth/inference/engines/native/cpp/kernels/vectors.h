// Vectors of floats in one register: load and store, sums, the greatest, the exponential function.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

constexpr int W = ANYDEPTH_WIDTH, NV = ANYDEPTH_VECTORS, ROWS = ANYDEPTH_ROWS, PANEL = W * NV;
constexpr int CHUNK = 20 * ROWS;  // rows that pass all panels together, so that they stay in the cache

#define UNROLLED _Pragma("GCC unroll 8")
#define UNROLLED16 _Pragma("GCC unroll 16")

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));

static inline vf load(const float* p) {
    vf v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
static inline void store(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
// One broadcast; a loop over the places would be compiled to as many inserts.
static inline vf all(float x) { return x - vf{}; }
static inline vf larger(vf a, vf b) { return a > b ? a : b; }

static inline float sum(vf v) {
#if ANYDEPTH_WIDTH == 16
    return _mm512_reduce_add_ps((__m512)v);
#elif ANYDEPTH_WIDTH == 8
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
#else
    float s = 0;
    for (int i = 0; i < W; ++i) s += v[i];
    return s;
#endif
}

#if ANYDEPTH_WIDTH == 16
// The sums of sixteen vectors, each at its own place: added up across the registers together, which
// takes a third of the steps of one by one.
static inline __m512 sums_of(__m512 (&a)[16]) {
    UNROLLED16 for (int r = 0; r < 16; r += 2)
        a[r] = _mm512_add_ps(_mm512_unpacklo_ps(a[r], a[r + 1]), _mm512_unpackhi_ps(a[r], a[r + 1]));
    UNROLLED16 for (int r = 0; r < 16; r += 4) {
        const __m512d x = _mm512_castps_pd(a[r]), y = _mm512_castps_pd(a[r + 2]);
        const __m512 low = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
        const __m512 high = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        a[r] = _mm512_add_ps(low, high);
    }
    UNROLLED16 for (int r = 0; r < 16; r += 8)
        a[r] = _mm512_add_ps(_mm512_shuffle_f32x4(a[r], a[r + 4], 0x44), _mm512_shuffle_f32x4(a[r], a[r + 4], 0xEE));
    const __m512 low = _mm512_shuffle_f32x4(a[0], a[8], 0x88), high = _mm512_shuffle_f32x4(a[0], a[8], 0xDD);
    return _mm512_add_ps(low, high);
}

// The same of integers.
static inline __m512i sums_of(__m512i (&a)[16]) {
    UNROLLED16 for (int r = 0; r < 16; r += 2)
        a[r] = _mm512_add_epi32(_mm512_unpacklo_epi32(a[r], a[r + 1]), _mm512_unpackhi_epi32(a[r], a[r + 1]));
    UNROLLED16 for (int r = 0; r < 16; r += 4)
        a[r] = _mm512_add_epi32(_mm512_unpacklo_epi64(a[r], a[r + 2]), _mm512_unpackhi_epi64(a[r], a[r + 2]));
    UNROLLED16 for (int r = 0; r < 16; r += 8)
        a[r] = _mm512_add_epi32(_mm512_shuffle_i32x4(a[r], a[r + 4], 0x44),
                                _mm512_shuffle_i32x4(a[r], a[r + 4], 0xEE));
    const __m512i low = _mm512_shuffle_i32x4(a[0], a[8], 0x88), high = _mm512_shuffle_i32x4(a[0], a[8], 0xDD);
    return _mm512_add_epi32(low, high);
}
#endif

static inline float greatest_of(vf v) {
#if ANYDEPTH_WIDTH == 16
    return _mm512_reduce_max_ps((__m512)v);
#else
    float s = v[0];
    for (int i = 1; i < W; ++i) s = v[i] > s ? v[i] : s;
    return s;
#endif
}

// exp for x <= 0, as 2^n times a polynomial, to about 2 units in the last place; 0 below -87.
static inline vf exponential(vf x) {
    const vf small = all(-87.0f);
    const vi is_small = x < small;
    x = larger(x, small);
    const vf magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
    vf shifted = x * 1.44269504088896341f + magic;
    const vf n = shifted - magic;
    const vf r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    vf p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    vi bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000 + 127) << 23;
    vf scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return is_small ? all(0.0f) : p * scale;
}

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
