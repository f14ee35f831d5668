// The kernels themselves, included once for each instruction set with these defined:
//   ANYDEPTH_SET     name of the instruction set, and of the namespace
//   ANYDEPTH_WIDTH   floats in a vector register
//   ANYDEPTH_VECTORS registers across a panel: its columns are WIDTH * VECTORS
//   ANYDEPTH_ROWS    rows of a tile; ROWS * VECTORS sums stay in registers

namespace anydepth {
namespace ANYDEPTH_SET {

constexpr int W = ANYDEPTH_WIDTH, NV = ANYDEPTH_VECTORS, ROWS = ANYDEPTH_ROWS, PANEL = W * NV;
constexpr int CHUNK = 20 * ROWS;  // rows that go through all panels together, so that they stay in the cache

#define UNROLLED _Pragma("GCC unroll 8")
#define UNROLLED16 _Pragma("GCC unroll 16")

typedef float vf __attribute__((vector_size(W * 4)));
typedef int32_t vi __attribute__((vector_size(W * 4)));

static inline vf load(const float* p) { vf v; __builtin_memcpy(&v, p, sizeof v); return v; }
static inline void store(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
static inline vf all(float x) { return x - vf{}; }  // one broadcast, where a loop over the places becomes as many inserts
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

static inline float greatest_of(vf v) {
    float s = v[0];
    for (int i = 1; i < W; ++i) s = v[i] > s ? v[i] : s;
    return s;
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

// ---- products -------------------------------------------------------------------------------------------------------------------

static inline void finish(vf* sums, int row, const float* bias, float* y, int n, int first, int stride, bool is_rectified) {
    float* out = y + (int64_t)row * stride + first;
    const int left = n - first;
    for (int v = 0; v < NV; ++v) {
        vf sum = sums[v];
        const int from = v * W;
        if (from >= left) return;
        if (left - from >= W) {
            if (bias) sum += load(bias + first + from);
            if (is_rectified) sum = sum < all(0.0f) ? all(0.0f) : sum;  // what is not a number stays so
            store(out + from, sum);
        } else {
            for (int i = 0; i < left - from; ++i) {
                const float s = sum[i] + (bias ? bias[first + from + i] : 0.0f);
                out[from + i] = is_rectified && s < 0 ? 0.0f : s;
            }
        }
    }
}

template <int M>
static inline void tile(const float* x, int row, int k, const float* w, const float* bias, float* y, int n, int first, int stride,
                        bool is_rectified) {
    vf sums[M][NV] = {};
    const float* rows = x + (int64_t)row * k;
    for (int i = 0; i < k; ++i, w += PANEL) {
        vf weights[NV];
        UNROLLED for (int v = 0; v < NV; ++v) weights[v] = load(w + v * W);
        UNROLLED for (int r = 0; r < M; ++r) {
            const vf value = all(rows[(int64_t)r * k + i]);
            UNROLLED for (int v = 0; v < NV; ++v) sums[r][v] += value * weights[v];
        }
    }
    // Copied, so that the sums themselves need no address and stay in registers.
    UNROLLED for (int r = 0; r < M; ++r) {
        vf numbers[NV];
        UNROLLED for (int v = 0; v < NV; ++v) numbers[v] = sums[r][v];
        finish(numbers, row + r, bias, y, n, first, stride, is_rectified);
    }
}

// Rows in tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2.
template <class Tile>
static inline void in_tiles(int m, Tile call) {
    int tiles = (m + ROWS - 1) / ROWS, row = 0;
    for (; tiles > 0; --tiles) {
        const int height = (m - row + tiles - 1) / tiles;
        call(row, height);
        row += height;
    }
}

static void linear(const float* x, int m, int k, const float* w, const float* bias, float* y, int n, int stride, bool is_rectified) {
    for (int start = 0; start < m; start += CHUNK) {
        const int rows = m - start < CHUNK ? m - start : CHUNK;
        const float* xs = x + (int64_t)start * k;
        float* ys = y + (int64_t)start * stride;
        for (int first = 0; first < n; first += PANEL) {
            const float* panel = w + (int64_t)first * k;
            in_tiles(rows, [&](int row, int height) {
                switch (height) {
                    case 1: tile<1>(xs, row, k, panel, bias, ys, n, first, stride, is_rectified); break;
                    case 2: tile<2>(xs, row, k, panel, bias, ys, n, first, stride, is_rectified); break;
                    case 3: tile<3>(xs, row, k, panel, bias, ys, n, first, stride, is_rectified); break;
                    case 4: tile<4>(xs, row, k, panel, bias, ys, n, first, stride, is_rectified); break;
                    case 5: tile<5>(xs, row, k, panel, bias, ys, n, first, stride, is_rectified); break;
                    default: tile<6>(xs, row, k, panel, bias, ys, n, first, stride, is_rectified); break;
                }
            });
        }
    }
}

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

// The sums of M rows with the panel's columns: vector v holds the columns v * W to v * W + W - 1.
template <int M>
static inline void dot_int8(const uint8_t* q, int padded, const int8_t* w, vi (&sums)[M][NV]) {
    for (int r = 0; r < M; ++r)
        for (int v = 0; v < NV; ++v) sums[r][v] = vi{};
#if ANYDEPTH_WIDTH == 16
    for (int i = 0; i < padded; i += 4, w += 4 * PANEL) {
        __m512i weights[NV];
        for (int v = 0; v < NV; ++v) weights[v] = _mm512_loadu_si512(w + v * 4 * W);
        for (int r = 0; r < M; ++r) {
            int32_t four;
            __builtin_memcpy(&four, q + (int64_t)r * padded + i, 4);
            const __m512i values = _mm512_set1_epi32(four);
            for (int v = 0; v < NV; ++v) sums[r][v] = (vi)_mm512_dpbusd_epi32((__m512i)sums[r][v], values, weights[v]);
        }
    }
#elif ANYDEPTH_WIDTH == 8
    // In 16 bits, as the 8-bit product of AVX2 overflows: each register of 4 columns has two sums a column, joined at the end.
    for (int v = 0; v < NV; ++v) {
        for (int r = 0; r < M; ++r) {
            __m256i low = _mm256_setzero_si256(), high = low;
            const int8_t* at = w + v * 4 * W;
            for (int i = 0; i < padded; i += 4, at += 4 * PANEL) {
                int32_t four;
                __builtin_memcpy(&four, q + (int64_t)r * padded + i, 4);
                const __m256i values = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
                low = _mm256_add_epi32(low, _mm256_madd_epi16(values, _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)at))));
                high = _mm256_add_epi32(high, _mm256_madd_epi16(values, _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(at + 16)))));
            }
            sums[r][v] = (vi)_mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xD8);
        }
    }
#else
    for (int i = 0; i < padded; i += 4, w += 4 * PANEL)
        for (int r = 0; r < M; ++r) {
            const uint8_t* four = q + (int64_t)r * padded + i;
            for (int v = 0; v < NV; ++v)
                for (int c = 0; c < W; ++c) {
                    const int8_t* weights = w + (v * W + c) * 4;
                    sums[r][v][c] += four[0] * weights[0] + four[1] * weights[1] + four[2] * weights[2] + four[3] * weights[3];
                }
        }
#endif
}

template <int M>
static inline void tile_int8(const uint8_t* q, const float* scales, int row, int k, const int8_t* w, const float* w_scales,
                             const int32_t* offsets, const float* bias, float* y, int n, int first, int stride, bool is_rectified) {
    const int padded = (k + 3) / 4 * 4;
    vi sums[M][NV];
    dot_int8<M>(q + (int64_t)row * padded, padded, w, sums);
    for (int r = 0; r < M; ++r) {
        vf numbers[NV];
        for (int v = 0; v < NV; ++v) {
            vi offset;
            __builtin_memcpy(&offset, offsets + first + v * W, sizeof offset);
            numbers[v] = __builtin_convertvector(sums[r][v] - offset, vf) * (scales[row + r] * load(w_scales + first + v * W));
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
                    case 1: tile_int8<1>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified); break;
                    case 2: tile_int8<2>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified); break;
                    case 3: tile_int8<3>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified); break;
                    case 4: tile_int8<4>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified); break;
                    case 5: tile_int8<5>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified); break;
                    default: tile_int8<6>(qs, ss, row, k, p, w_scales, offsets, bias, ys, n, first, stride, is_rectified); break;
                }
            });
        }
    }
}

// ---- rows -----------------------------------------------------------------------------------------------------------------------

static float dot(const float* a, const float* b, int n) {
    vf total = all(0.0f);
    int i = 0;
    for (; i + W <= n; i += W) total += load(a + i) * load(b + i);
    float s = sum(total);
    for (; i < n; ++i) s += a[i] * b[i];
    return s;
}

static void add_norm(const float* x, const float* delta, const float* gain, const float* bias, float* out, int m, int dim) {
    for (int r = 0; r < m; ++r, x += dim, delta += dim, out += dim) {
        vf total = all(0.0f);
        float rest = 0;
        int i = 0;
        for (; i + W <= dim; i += W) {
            const vf v = load(x + i) + load(delta + i);
            store(out + i, v);
            total += v;
        }
        for (; i < dim; ++i) rest += out[i] = x[i] + delta[i];
        const float mean = (sum(total) + rest) / dim;
        total = all(0.0f);
        rest = 0;
        for (i = 0; i + W <= dim; i += W) {
            const vf v = load(out + i) - mean;
            total += v * v;
        }
        for (; i < dim; ++i) rest += (out[i] - mean) * (out[i] - mean);
        const float rate = 1.0f / __builtin_sqrtf((sum(total) + rest) / dim + 1e-5f);
        for (i = 0; i + W <= dim; i += W) store(out + i, (load(out + i) - mean) * rate * load(gain + i) + load(bias + i));
        for (; i < dim; ++i) out[i] = (out[i] - mean) * rate * gain[i] + bias[i];
    }
}

static void max_and_sum(const float* x, int n, float* greatest, float* total) {
    vf most = all(-__builtin_huge_valf());
    int i = 0;
    for (; i + W <= n; i += W) most = larger(most, load(x + i));
    float m = greatest_of(most);
    for (int j = i; j < n; ++j) m = x[j] > m ? x[j] : m;
    vf sums = all(0.0f);
    for (i = 0; i + W <= n; i += W) sums += exponential(load(x + i) - m);
    float s = sum(sums);
    if (i < n) {
        vf last = all(-__builtin_huge_valf());
        for (int j = i; j < n; ++j) last[j - i] = x[j];
        s += sum(exponential(last - m));
    }
    *greatest = m;
    *total = s;
}

// softmax(scores * rate) of `count` numbers in place; there is room up to a whole vector.
static inline void soften(float* scores, int count, float rate) {
    for (int i = count; i % W; ++i) scores[i] = -__builtin_huge_valf();
    vf most = load(scores);
    for (int i = W; i < count; i += W) most = larger(most, load(scores + i));
    const float greatest = greatest_of(most);
    vf total = all(0.0f);
    for (int i = 0; i < count; i += W) {
        const vf e = exponential((load(scores + i) - greatest) * rate);
        store(scores + i, e);
        total += e;
    }
    const float inverse = 1.0f / sum(total);
    for (int i = 0; i < count; i += W) store(scores + i, load(scores + i) * inverse);
}

// out = sum of scores[s] * values[s] over the `width` numbers from `from` on.
static inline void weigh(const float* scores, const float* const* values, int count, int from, int width, float* out) {
    int i = from;
    for (; i + 2 * W <= from + width; i += 2 * W) {  // two sums, so that one need not wait for the other
        vf low = all(0.0f), high = low;
        for (int s = 0; s < count; ++s) {
            low += scores[s] * load(values[s] + i);
            high += scores[s] * load(values[s] + i + W);
        }
        store(out + i, low);
        store(out + i + W, high);
    }
    for (; i + W <= from + width; i += W) {
        vf total = all(0.0f);
        for (int s = 0; s < count; ++s) total += scores[s] * load(values[s] + i);
        store(out + i, total);
    }
    for (; i < from + width; ++i) {
        float total = 0;
        for (int s = 0; s < count; ++s) total += scores[s] * values[s][i];
        out[i] = total;
    }
}

// The dot-products of a query with `count` keys.
static inline void compare(const float* query, const float* const* keys, int count, int from, int width, float* scores) {
    int s = 0;
#if ANYDEPTH_WIDTH == 16
    // 16 keys at a time: their sums are added up across the registers together, which takes a third of the steps of one by one.
    for (; width % 16 == 0 && s < count; s += 16) {
        __m512 a[16];
        UNROLLED16 for (int r = 0; r < 16; ++r) a[r] = _mm512_setzero_ps();
        for (int i = from; i < from + width; i += 16) {
            const __m512 q = _mm512_loadu_ps(query + i);
            UNROLLED16 for (int r = 0; r < 16; ++r)
                a[r] = _mm512_fmadd_ps(q, _mm512_loadu_ps(keys[s + r < count ? s + r : count - 1] + i), a[r]);
        }
        UNROLLED16 for (int r = 0; r < 16; r += 2) a[r] = _mm512_add_ps(_mm512_unpacklo_ps(a[r], a[r + 1]), _mm512_unpackhi_ps(a[r], a[r + 1]));
        UNROLLED16 for (int r = 0; r < 16; r += 4) {
            const __m512d x = _mm512_castps_pd(a[r]), y = _mm512_castps_pd(a[r + 2]);
            a[r] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
        }
        UNROLLED16 for (int r = 0; r < 16; r += 8)
            a[r] = _mm512_add_ps(_mm512_shuffle_f32x4(a[r], a[r + 4], 0x44), _mm512_shuffle_f32x4(a[r], a[r + 4], 0xEE));
        _mm512_storeu_ps(scores + s, _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[8], 0x88), _mm512_shuffle_f32x4(a[0], a[8], 0xDD)));
    }
#endif
    for (; s < count; ++s) scores[s] = dot(query + from, keys[s] + from, width);
}

static void attend_scattered(const float* query, const float* const* keys, const float* const* values, int count, int heads, int dim,
                             float* scores, float* out) {
    const int width = dim / heads;
    const float rate = 1.0f / __builtin_sqrtf((float)width);
    for (int head = 0; head < heads; ++head) {
        const int from = head * width;
        compare(query, keys, count, from, width, scores);
        soften(scores, count, rate);
        weigh(scores, values, count, from, width, out);
    }
}

// One head for M queries, which share every key and value that is loaded.
template <int M>
static inline void attend_head(const float* queries, int stride, const float* keys, const float* values, int count, int padded, int width,
                               int dim, float* scores, float* out) {
    const float rate = 1.0f / __builtin_sqrtf((float)width);
    for (int s = 0; s < padded; s += W) {
        vf sums[M] = {};
        for (int i = 0; i < width; ++i) {
            const vf key = load(keys + (int64_t)i * padded + s);
            UNROLLED for (int r = 0; r < M; ++r) sums[r] += queries[(int64_t)r * stride + i] * key;
        }
        UNROLLED for (int r = 0; r < M; ++r) store(scores + (int64_t)r * padded + s, sums[r]);
    }
    for (int r = 0; r < M; ++r) soften(scores + (int64_t)r * padded, count, rate);
    int i = 0;
    for (; i + W <= width; i += W) {
        vf sums[M] = {};
        for (int s = 0; s < count; ++s) {
            const vf value = load(values + (int64_t)s * dim + i);
            UNROLLED for (int r = 0; r < M; ++r) sums[r] += scores[(int64_t)r * padded + s] * value;
        }
        UNROLLED for (int r = 0; r < M; ++r) store(out + (int64_t)r * dim + i, sums[r]);
    }
    for (; i < width; ++i)
        for (int r = 0; r < M; ++r) {
            float total = 0;
            for (int s = 0; s < count; ++s) total += scores[(int64_t)r * padded + s] * values[(int64_t)s * dim + i];
            out[(int64_t)r * dim + i] = total;
        }
}

static void attend_dense(const float* queries, int m, int stride, const float* keys, const float* values, int count, int padded, int heads,
                         int dim, float* scores, float* out) {
    const int width = dim / heads;
    for (int head = 0; head < heads; ++head) {
        const float *k = keys + (int64_t)head * width * padded, *v = values + head * width, *q = queries + head * width;
        float* to = out + head * width;
        int r = 0;
        for (; r + 4 <= m; r += 4)
            attend_head<4>(q + (int64_t)r * stride, stride, k, v, count, padded, width, dim, scores, to + (int64_t)r * dim);
        for (; r < m; ++r) attend_head<1>(q + (int64_t)r * stride, stride, k, v, count, padded, width, dim, scores, to + (int64_t)r * dim);
    }
}

static void top(const float* x, int n, int count, float* values, int* places) {
    int found = 0;
    const auto offer = [&](int place) {
        const float value = x[place];
        if (found == count && !(value > values[count - 1])) return;
        int at = found < count ? found++ : count - 1;
        for (; at > 0 && value > values[at - 1]; --at) {
            values[at] = values[at - 1];
            places[at] = places[at - 1];
        }
        values[at] = value;
        places[at] = place;
    };
    int i = 0;
    for (; i < n && found < count; ++i) offer(i);
    for (; i + W <= n; i += W) {
#if ANYDEPTH_WIDTH == 16
        unsigned hits = _mm512_cmp_ps_mask((__m512)load(x + i), _mm512_set1_ps(values[count - 1]), _CMP_GT_OQ);
        for (; hits; hits &= hits - 1) offer(i + __builtin_ctz(hits));
#elif ANYDEPTH_WIDTH == 8
        unsigned hits = _mm256_movemask_ps(_mm256_cmp_ps((__m256)load(x + i), _mm256_set1_ps(values[count - 1]), _CMP_GT_OQ));
        for (; hits; hits &= hits - 1) offer(i + __builtin_ctz(hits));
#else
        for (int j = 0; j < W; ++j) offer(i + j);
#endif
    }
    for (; i < n; ++i) offer(i);
}

#define ANYDEPTH_TEXT(x) ANYDEPTH_TEXT_OF(x)
#define ANYDEPTH_TEXT_OF(x) #x
}  // namespace ANYDEPTH_SET

#define ANYDEPTH_JOIN(a, b) ANYDEPTH_JOIN_OF(a, b)
#define ANYDEPTH_JOIN_OF(a, b) a##b
extern const Kernels ANYDEPTH_JOIN(kernels_, ANYDEPTH_SET) = {
    ANYDEPTH_TEXT(ANYDEPTH_SET), ANYDEPTH_SET::PANEL,    ANYDEPTH_SET::linear,           ANYDEPTH_SET::quantize,
    ANYDEPTH_SET::linear_int8,   ANYDEPTH_SET::add_norm, ANYDEPTH_SET::attend_scattered, ANYDEPTH_SET::attend_dense,
    ANYDEPTH_SET::dot,           ANYDEPTH_SET::max_and_sum, ANYDEPTH_SET::top,
};

}  // namespace anydepth
