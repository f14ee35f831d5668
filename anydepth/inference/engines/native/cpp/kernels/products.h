// Products of rows with a matrix of float32, whose panels are read from beginning to end.
#pragma once

namespace anydepth {
namespace ANYDEPTH_SET {

// Writes the sums of one row with one panel to y, with the bias, the columns beyond n left out.
template <int V>
static inline void finish(const vf (&sums)[V], int row, const float* bias, float* y, int n, int first, int stride,
                          bool is_rectified) {
    float* out = y + (int64_t)row * stride + first;
    const int left = n - first;
    for (int v = 0; v < V; ++v) {
        vf sum = sums[v];
        const int from = v * W;
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

// M rows with the first V vectors of one panel, whose first output is `first`; of the last panel no
// more vectors than have outputs.
template <int M, int V = NV>
static inline void tile(const float* x, int row, int k, const float* w, const float* bias, float* y, int n, int first,
                        int stride, bool is_rectified) {
    if constexpr (V > 1)
        if (n - first <= (V - 1) * W)
            return tile<M, V - 1>(x, row, k, w, bias, y, n, first, stride, is_rectified);
    vf sums[M][V] = {};
    const float* rows = x + (int64_t)row * k;
    for (int i = 0; i < k; ++i, w += PANEL) {
        vf weights[V];
        UNROLLED for (int v = 0; v < V; ++v) weights[v] = load(w + v * W);
        UNROLLED for (int r = 0; r < M; ++r) {
            const vf value = all(rows[(int64_t)r * k + i]);
            UNROLLED for (int v = 0; v < V; ++v) sums[r][v] += value * weights[v];
        }
    }
    // Copied, so that the sums themselves need no address and stay in registers.
    UNROLLED for (int r = 0; r < M; ++r) {
        vf numbers[V];
        UNROLLED for (int v = 0; v < V; ++v) numbers[v] = sums[r][v];
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

static void linear(const float* x, int m, int k, const float* w, const float* bias, float* y, int n, int stride,
                   bool is_rectified) {
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

}  // namespace ANYDEPTH_SET
}  // namespace anydepth
