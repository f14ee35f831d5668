// Rows laid out across: what a product reads together lies together.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

#if ANYDEPTH_WIDTH == 16
// Sixteen rows of sixteen numbers become columns.
static inline void transpose_square(__m512 (&a)[16]) {
    __m512 b[16];
    UNROLLED16 for (int r = 0; r < 16; r += 2) {
        b[r] = _mm512_unpacklo_ps(a[r], a[r + 1]);
        b[r + 1] = _mm512_unpackhi_ps(a[r], a[r + 1]);
    }
    UNROLLED16 for (int r = 0; r < 16; ++r) {  // a[r], lane l: column 4 l + r % 4 of the rows from r / 4 * 4 on
        const int from = r / 4 * 4 + r % 4 / 2;
        const __m512d x = _mm512_castps_pd(b[from]), y = _mm512_castps_pd(b[from + 2]);
        a[r] = _mm512_castpd_ps(r % 2 ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
    }
    UNROLLED16 for (int j = 0; j < 4; ++j) {
        const __m512 low = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x44);
        const __m512 high = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xEE);
        const __m512 next_low = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x44);
        const __m512 next_high = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xEE);
        a[j] = _mm512_shuffle_f32x4(low, next_low, 0x88);
        a[4 + j] = _mm512_shuffle_f32x4(low, next_low, 0xDD);
        a[8 + j] = _mm512_shuffle_f32x4(high, next_high, 0x88);
        a[12 + j] = _mm512_shuffle_f32x4(high, next_high, 0xDD);
    }
}
#endif

static void transpose(const void* const* rows, int count, int k, void* out, int columns) {
    for (int c = 0; c < columns; c += 16) {
        const char* at[16];
        for (int r = 0; r < 16; ++r) at[r] = (const char*)rows[c + r < count ? c + r : count - 1];
        int i = 0;
#if ANYDEPTH_WIDTH == 16
        for (; i < k; i += 16) {
            const int height = k - i < 16 ? k - i : 16;
            const __mmask16 are_there = (__mmask16)(0xFFFF >> (16 - height));
            __m512 a[16];
            UNROLLED16 for (int r = 0; r < 16; ++r) a[r] = _mm512_maskz_loadu_ps(are_there, at[r] + 4 * (int64_t)i);
            transpose_square(a);
            char* to = (char*)out + 4 * ((int64_t)i * columns + c);
            UNROLLED16 for (int r = 0; r < 16; ++r)
                if (r < height) _mm512_storeu_ps(to + 4 * (int64_t)r * columns, a[r]);
        }
#endif
        for (; i < k; ++i) {
            char* to = (char*)out + 4 * ((int64_t)i * columns + c);
            for (int r = 0; r < 16; ++r) __builtin_memcpy(to + 4 * r, at[r] + 4 * (int64_t)i, 4);
        }
    }
}

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
