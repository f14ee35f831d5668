// Attention of queries to keys and values, scattered in memory or lying together.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

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
static inline void weigh(const float* scores, const float* const* values, int count, int from, int width,
                         float* out) {
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
static inline void compare(const float* query, const float* const* keys, int count, int from, int width,
                           float* scores) {
    int s = 0;
#if ANYDEPTH_WIDTH == 16
    for (; width % 16 == 0 && s < count; s += 16) {
        __m512 a[16];
        UNROLLED16 for (int r = 0; r < 16; ++r) a[r] = _mm512_setzero_ps();
        for (int i = from; i < from + width; i += 16) {
            const __m512 q = _mm512_loadu_ps(query + i);
            UNROLLED16 for (int r = 0; r < 16; ++r)
                a[r] = _mm512_fmadd_ps(q, _mm512_loadu_ps(keys[s + r < count ? s + r : count - 1] + i), a[r]);
        }
        _mm512_storeu_ps(scores + s, sums_of(a));
    }
#endif
    for (; s < count; ++s) scores[s] = dot(query + from, keys[s] + from, width);
}

static void attend_scattered(const float* query, const float* const* keys, const float* const* values, int count,
                             int heads, int dim, float* scores, float* out) {
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
static inline void attend_head(const float* queries, int stride, const float* keys, const float* values, int count,
                               int padded, int width, int dim, float* scores, float* out) {
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

static void attend_dense(const float* queries, int m, int stride, const float* keys, const float* values, int count,
                         int padded, int heads, int dim, float* scores, float* out) {
    const int width = dim / heads;
    for (int head = 0; head < heads; ++head) {
        const float *k = keys + (int64_t)head * width * padded, *v = values + head * width;
        const float* q = queries + head * width;
        float* to = out + head * width;
        int r = 0;
        for (; r + 4 <= m; r += 4)
            attend_head<4>(q + (int64_t)r * stride, stride, k, v, count, padded, width, dim, scores,
                           to + (int64_t)r * dim);
        for (; r < m; ++r)
            attend_head<1>(q + (int64_t)r * stride, stride, k, v, count, padded, width, dim, scores,
                           to + (int64_t)r * dim);
    }
}

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
