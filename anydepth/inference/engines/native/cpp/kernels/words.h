// Scores of some words: products of rows with chosen rows of a matrix, which stay where they are.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

static void score_words(const float* x, int m, const float* rows, int dim, const int* words, int count, float* out,
                        int stride) {
    int i = 0;
#if ANYDEPTH_WIDTH == 16
    for (; dim % 16 == 0 && i < count; i += 16) {  // 16 words at a time, for all rows while they are in the cache
        const float* at[16];
        UNROLLED16 for (int c = 0; c < 16; ++c) at[c] = rows + (int64_t)words[i + c < count ? i + c : count - 1] * dim;
        for (int c = 0; c < 16 && i + 16 + c < count; ++c) __builtin_prefetch(rows + (int64_t)words[i + 16 + c] * dim);
        for (int r = 0; r < m; ++r) {
            const float* own = x + (int64_t)r * dim;
            __m512 sums[16];
            UNROLLED16 for (int c = 0; c < 16; ++c) sums[c] = _mm512_setzero_ps();
            for (int k = 0; k < dim; k += 16) {
                const __m512 values = _mm512_loadu_ps(own + k);
                UNROLLED16 for (int c = 0; c < 16; ++c)
                    sums[c] = _mm512_fmadd_ps(values, _mm512_loadu_ps(at[c] + k), sums[c]);
            }
            _mm512_storeu_ps(out + (int64_t)r * stride + i, sums_of(sums));
        }
    }
#endif
    for (; i < count; ++i) {
        const float* row = rows + (int64_t)words[i] * dim;
        for (int r = 0; r < m; ++r) out[(int64_t)r * stride + i] = dot(x + (int64_t)r * dim, row, dim);
    }
}

#if ANYDEPTH_WIDTH != 16
// The sum of the products of `padded` bytes, exact.
static inline int32_t dot_bytes(const uint8_t* q, const int8_t* row, int padded) {
    int32_t total = 0;
    int k = 0;
#if ANYDEPTH_WIDTH == 8
    __m256i sums = _mm256_setzero_si256();
    for (; k + 16 <= padded; k += 16) {
        const __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)(q + k)));
        const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(row + k)));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
    }
    int32_t parts[8];
    _mm256_storeu_si256((__m256i*)parts, sums);
    for (const int32_t part : parts) total += part;
#endif
    for (; k < padded; ++k) total += q[k] * row[k];
    return total;
}
#endif

static void score_words_int8(const uint8_t* q, const float* scales, int m, int padded, const int8_t* rows,
                             const float* w_scales, const int32_t* offsets, const int* words, int count, float* out,
                             int stride) {
#if ANYDEPTH_WIDTH == 16
    const int whole = padded / 64 * 64;
    const __mmask64 rest = padded > whole ? ~0ull >> (64 - (padded - whole)) : 0;
    for (int i = 0; i < count; i += 16) {
        const int8_t* at[16];
        UNROLLED16 for (int c = 0; c < 16; ++c)
            at[c] = rows + (int64_t)words[i + c < count ? i + c : count - 1] * padded;
        const __mmask16 are_there = count - i < 16 ? (__mmask16)((1 << (count - i)) - 1) : (__mmask16)0xFFFF;
        const __m512i numbers = _mm512_maskz_loadu_epi32(are_there, words + i);
        const __m512 rates = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), are_there, numbers, w_scales, 4);
        const __m512i offset = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), are_there, numbers, offsets, 4);
        for (int r = 0; r < m; ++r) {
            const uint8_t* own = q + (int64_t)r * padded;
            __m512i sums[16];
            UNROLLED16 for (int c = 0; c < 16; ++c) sums[c] = _mm512_setzero_si512();
            for (int k = 0; k < whole; k += 64) {
                const __m512i values = _mm512_loadu_si512(own + k);
                UNROLLED16 for (int c = 0; c < 16; ++c)
                    sums[c] = _mm512_dpbusd_epi32(sums[c], values, _mm512_loadu_si512(at[c] + k));
            }
            if (rest) {
                const __m512i values = _mm512_maskz_loadu_epi8(rest, own + whole);
                UNROLLED16 for (int c = 0; c < 16; ++c)
                    sums[c] = _mm512_dpbusd_epi32(sums[c], values, _mm512_maskz_loadu_epi8(rest, at[c] + whole));
            }
            const __m512 exact = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums_of(sums), offset));
            _mm512_storeu_ps(out + (int64_t)r * stride + i,
                             _mm512_mul_ps(exact, _mm512_mul_ps(_mm512_set1_ps(scales[r]), rates)));
        }
    }
#else
    for (int i = 0; i < count; ++i) {
        const int word = words[i];
        for (int r = 0; r < m; ++r) {
            const int32_t sum = dot_bytes(q + (int64_t)r * padded, rows + (int64_t)word * padded, padded);
            out[(int64_t)r * stride + i] = (float)(sum - offsets[word]) * (scales[r] * w_scales[word]);
        }
    }
#endif
}

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
