// What is done row by row: dot-products, layer norms, the sum of a softmax, the greatest numbers.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

static float dot(const float* a, const float* b, int n) {
    vf total = all(0.0f);
    int i = 0;
    for (; i + W <= n; i += W) total += load(a + i) * load(b + i);
    float s = sum(total);
    for (; i < n; ++i) s += a[i] * b[i];
    return s;
}

static void add_norm(const float* x, const float* delta, const float* gain, const float* bias, float* out, int m,
                     int dim) {
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
        for (i = 0; i + W <= dim; i += W)
            store(out + i, (load(out + i) - mean) * rate * load(gain + i) + load(bias + i));
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
        const __m256 is_hit = _mm256_cmp_ps((__m256)load(x + i), _mm256_set1_ps(values[count - 1]), _CMP_GT_OQ);
        unsigned hits = _mm256_movemask_ps(is_hit);
        for (; hits; hits &= hits - 1) offer(i + __builtin_ctz(hits));
#else
        for (int j = 0; j < W; ++j) offer(i + j);
#endif
    }
    for (; i < n; ++i) offer(i);
}

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
