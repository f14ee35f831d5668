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

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
