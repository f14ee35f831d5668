// Products of rows with a matrix of 8-bit integers: rows are quantized one by one, sums are exact.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

static void quantize(const float* x, int m, int k, uint8_t* q, float* scales) {
    const int padded = (k + 3) / 4 * 4;
    for (int r = 0; r < m; ++r) {
        const float* row = x + (int64_t)r * k;
        uint8_t* out = q + (int64_t)r * padded;
        vf most = all(0.0f);
        int i = 0;
        for (; i + W <= k; i += W) {
            const vf v = load(row + i);
            most = larger(most, larger(v, -v));
        }
        float greatest = greatest_of(most);
        for (; i < k; ++i) greatest = __builtin_fabsf(row[i]) > greatest ? __builtin_fabsf(row[i]) : greatest;
        const float scale = greatest > 0 ? greatest / 127.0f : 1.0f, inverse = 1.0f / scale;
        scales[r] = scale;
        i = 0;
#if ANYDEPTH_WIDTH == 16
        for (; i + 16 <= k; i += 16) {
            const __m512i numbers = _mm512_cvtps_epi32(_mm512_mul_ps((__m512)load(row + i), _mm512_set1_ps(inverse)));
            const __m128i bytes = _mm512_cvtsepi32_epi8(numbers);
            _mm_storeu_si128((__m128i*)(out + i), _mm_xor_si128(bytes, _mm_set1_epi8((char)0x80)));
        }
#endif
        for (; i < k; ++i) out[i] = (uint8_t)((int)__builtin_nearbyintf(row[i] * inverse) + 128);
        for (; i < padded; ++i) out[i] = 128;
    }
}

// The sums of M rows with the columns of a panel's first V vectors: vector v holds the columns v * W to v * W + W - 1.
template <int M, int V>
static inline void dot_int8(const uint8_t* q, int padded, const int8_t* w, vi (&sums)[M][V]) {
    for (int r = 0; r < M; ++r)
        for (int v = 0; v < V; ++v) sums[r][v] = vi{};
#if ANYDEPTH_WIDTH == 16
    for (int i = 0; i < padded; i += 4, w += 4 * PANEL) {
        __m512i weights[V];
        for (int v = 0; v < V; ++v) weights[v] = _mm512_loadu_si512(w + v * 4 * W);
        for (int r = 0; r < M; ++r) {
            int32_t four;
            __builtin_memcpy(&four, q + (int64_t)r * padded + i, 4);
            const __m512i values = _mm512_set1_epi32(four);
            for (int v = 0; v < V; ++v)
                sums[r][v] = (vi)_mm512_dpbusd_epi32((__m512i)sums[r][v], values, weights[v]);
        }
    }
#elif ANYDEPTH_WIDTH == 8
    // In 16 bits, as the 8-bit product of AVX2 overflows: each register of 4 columns has two sums
    // per column, which are added at the end.
    for (int v = 0; v < V; ++v) {
        for (int r = 0; r < M; ++r) {
            __m256i low = _mm256_setzero_si256(), high = low;
            const int8_t* at = w + v * 4 * W;
            for (int i = 0; i < padded; i += 4, at += 4 * PANEL) {
                int32_t four;
                __builtin_memcpy(&four, q + (int64_t)r * padded + i, 4);
                const __m256i values = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
                const __m256i first = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)at));
                const __m256i second = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(at + 16)));
                low = _mm256_add_epi32(low, _mm256_madd_epi16(values, first));
                high = _mm256_add_epi32(high, _mm256_madd_epi16(values, second));
            }
            sums[r][v] = (vi)_mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xD8);
        }
    }
#else
    for (int i = 0; i < padded; i += 4, w += 4 * PANEL)
        for (int r = 0; r < M; ++r) {
            const uint8_t* four = q + (int64_t)r * padded + i;
            for (int v = 0; v < V; ++v)
                for (int c = 0; c < W; ++c) {
                    const int8_t* weights = w + (v * W + c) * 4;
                    sums[r][v][c] +=
                        four[0] * weights[0] + four[1] * weights[1] + four[2] * weights[2] + four[3] * weights[3];
                }
        }
#endif
}

template <int M, int V = NV>
static inline void tile_int8(const uint8_t* q, const float* scales, int row, int k, const int8_t* w,
                             const float* w_scales, const int32_t* offsets, const float* bias, float* y, int n,
                             int first, int stride, bool is_rectified) {
    if constexpr (V > 1)
        if (n - first <= (V - 1) * W)
            return tile_int8<M, V - 1>(q, scales, row, k, w, w_scales, offsets, bias, y, n, first, stride,
                                       is_rectified);
    const int padded = (k + 3) / 4 * 4;
    vi sums[M][V];
    dot_int8<M, V>(q + (int64_t)row * padded, padded, w, sums);
    for (int r = 0; r < M; ++r) {
        vf numbers[V];
        for (int v = 0; v < V; ++v) {
            vi offset;
            __builtin_memcpy(&offset, offsets + first + v * W, sizeof offset);
            numbers[v] =
                __builtin_convertvector(sums[r][v] - offset, vf) * (scales[row + r] * load(w_scales + first + v * W));
        }
        finish(numbers, row + r, bias, y, n, first, stride, is_rectified);
    }
}

static void linear_int8(const uint8_t* q, const float* scales, int m, int k, const int8_t* w, const float* w_scales,
                        const int32_t* offsets, const float* bias, float* y, int n, int stride, bool is_rectified) {
    const int padded = (k + 3) / 4 * 4;
    for (int start = 0; start < m; start += CHUNK) {
        const int rows = m - start < CHUNK ? m - start : CHUNK;
        const uint8_t* qs = q + (int64_t)start * padded;
        const float* ss = scales + start;
        float* ys = y + (int64_t)start * stride;
        for (int first = 0; first < n; first += PANEL) {
            const int8_t* p = w + (int64_t)first * padded;
            in_tiles(rows, [&](int row, int height) {
                switch (height) {
                    case 1:
                        tile_int8<1>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified);
                        break;
                    case 2:
                        tile_int8<2>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified);
                        break;
                    case 3:
                        tile_int8<3>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified);
                        break;
                    case 4:
                        tile_int8<4>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified);
                        break;
                    case 5:
                        tile_int8<5>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified);
                        break;
                    default:
                        tile_int8<6>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified);
                        break;
                }
            });
        }
    }
}

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
