/* Embedding and rope. The gradient of an embedding gathers: each row of the table looks for its ids in order, so that no
 * two threads add to one number and the order of the sum is fixed. */
#include "../flow_rt.h"

/* Pieces of W elements of all rows of n: piece k is at *i of row *r. */
template <int W> static __device__ __forceinline__ void piece_of(int64_t k, int64_t n, int64_t *r, int64_t *i)
{
    int64_t pieces = FL_VECTORS_OF(W, n);
    *r = k / pieces;
    *i = k % pieces * W;
}

template <typename T>
__global__ void embedding_kernel(T *y, const int32_t *ids, const T *w, int64_t count, int64_t base, int64_t rows, int64_t n)
{
    constexpr int W = fl_wide<T>;
    FL_GRID_FOR(k, count * FL_VECTORS_OF(W, n)) {
        int64_t at, i;
        piece_of<W>(k, n, &at, &i);
        int64_t r = (int64_t)ids[at] - base;
        fl_vector<T, W> v = {};
        if (r >= 0 && r < rows)
            v = fl_vector_load<W>(w + r * n, i, n);
        fl_vector_store(y + at * n, i, n, v);
    }
}

/* One block per row: a tile of ids is read into shared memory, the threads own the columns. */
template <typename T>
__global__ void embedding_grad_kernel(float *dw, const T *dy, const int32_t *ids, int64_t count, int64_t base, int64_t rows,
                                      int64_t n)
{
    constexpr int W = fl_wide<T>;
    FL_SHARED(int32_t, tile, FL_BLOCK);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float sum[W] = {}, g[W];
        float *const to = dw + r * n;
        for (int64_t i = W * (int64_t)threadIdx.x; i < n; i += W * FL_BLOCK)
            fl_wide_store(to, i, n, sum);
        for (int64_t at = 0; at < count; at += FL_BLOCK) {
            FL_BARRIER();
            tile[threadIdx.x] = at + threadIdx.x < count ? ids[at + threadIdx.x] : -1;
            FL_BARRIER();
            int64_t here = count - at < FL_BLOCK ? count - at : FL_BLOCK;
            for (int64_t j = 0; j < here; j++)
                if (tile[j] == base + r)
                    for (int64_t i = W * (int64_t)threadIdx.x; i < n; i += W * FL_BLOCK) {
                        fl_wide_load(sum, (const float *)to, i, n);
                        fl_wide_load(g, dy + (at + j) * n, i, n);
                        FL_UNROLL
                        for (int e = 0; e < W; e++)
                            sum[e] += g[e];
                        fl_wide_store(to, i, n, sum);
                    }
        }
    }
}

/* Turns W pairs: (u[e], v[e]) of pair first + e. */
template <int W>
static __device__ __forceinline__ void turn(float (&u)[W], float (&v)[W], int64_t position, int64_t first, int64_t n,
                                            float base, bool inverse)
{
    FL_UNROLL
    for (int e = 0; e < W; e++) {
        float angle = (float)position * powf(base, -2.0f * (float)(first + e) / (float)n);
        float c = cosf(angle), s = sinf(angle), x = u[e];
        if (inverse)
            s = -s;
        u[e] = x * c - v[e] * s;
        v[e] = x * s + v[e] * c;
    }
}

/* A thread takes 16 bytes of first elements and as many of second ones; where these are neighbours (half: false), 16 bytes of both. */
template <typename T>
__global__ void rope_kernel(T *y, const T *x, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first, float base,
                            bool half, bool inverse)
{
    constexpr int W = fl_wide<T>;
    int64_t pairs = n / 2, length = half ? pairs : n;
    FL_GRID_FOR(k, outer * t * inner * FL_VECTORS_OF(W, length)) {
        int64_t row, i;
        piece_of<W>(k, length, &row, &i);
        int64_t position = first + row / inner % t;
        const T *from = x + row * n;
        T *to = y + row * n;
        if (half) {
            float u[W], v[W];
            fl_wide_load(u, from, i, pairs);
            fl_wide_load(v, from + pairs, i, pairs);
            turn(u, v, position, i, n, base, inverse);
            fl_wide_store(to, i, pairs, u);
            fl_wide_store(to + pairs, i, pairs, v);
        } else {
            float all[W], u[W / 2], v[W / 2];
            fl_wide_load(all, from, i, n);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                if (e % 2)
                    v[e / 2] = all[e];
                else
                    u[e / 2] = all[e];
            turn(u, v, position, i / 2, n, base, inverse);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                all[e] = e % 2 ? v[e / 2] : u[e / 2];
            fl_wide_store(to, i, n, all);
        }
    }
}

extern "C" void fl_embedding_as(void *y, const int32_t *ids, const void *w, enum fl_type t, int64_t count, int64_t base, int64_t rows,
                                int64_t n)
{
    if (count * n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(embedding_kernel<T>, fl_blocks_for(count * FL_VECTORS_OF(fl_wide<T>, n), FL_BLOCK),
                                        FL_BLOCK, (T *)y, ids, (const T *)w, count, base, rows, n))
}

extern "C" void fl_embedding_grad_as(float *dw, const void *dy, enum fl_type t, const int32_t *ids, int64_t count, int64_t base,
                                     int64_t rows, int64_t n)
{
    if (rows * n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(embedding_grad_kernel<T>, fl_blocks_for(rows, 1), FL_BLOCK, dw, (const T *)dy, ids, count, base,
                                        rows, n))
}

extern "C" void fl_embedding(float *y, const int32_t *ids, const float *w, int64_t count, int64_t base, int64_t rows, int64_t n)
{
    fl_embedding_as(y, ids, w, FL_F32, count, base, rows, n);
}

extern "C" void fl_embedding_grad(float *dw, const float *dy, const int32_t *ids, int64_t count, int64_t base, int64_t rows, int64_t n)
{
    fl_embedding_grad_as(dw, dy, FL_F32, ids, count, base, rows, n);
}

extern "C" void fl_rope_as(void *y, const void *x, enum fl_type type, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first,
                           float base, bool half, bool inverse)
{
    int64_t rows = outer * t * inner, length = half ? n / 2 : n;
    if (rows * n > 0)
        FL_BY_TYPE(type, T, FL_LAUNCH_GRID(rope_kernel<T>, fl_blocks_for(rows * FL_VECTORS_OF(fl_wide<T>, length), FL_BLOCK),
                                           FL_BLOCK, (T *)y, (const T *)x, outer, t, inner, n, first, base, half, inverse))
}

extern "C" void fl_rope(float *y, const float *x, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first, float base,
                        bool half, bool inverse)
{
    fl_rope_as(y, x, FL_F32, outer, t, inner, n, first, base, half, inverse);
}
