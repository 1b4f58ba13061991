/* Embedding and rope. The gradient of an embedding gathers: each row of the table looks for its ids in order, so that no
 * two threads add to one number and the order of the sum is fixed. */
#include "../flow_rt.h"

template <typename T>
__global__ void embedding_kernel(T *y, const int32_t *ids, const T *w, int64_t count, int64_t base, int64_t rows, int64_t n)
{
    FL_GRID_FOR(i, count * n) {
        int64_t r = (int64_t)ids[i / n] - base;
        y[i] = r >= 0 && r < rows ? w[r * n + i % n] : fl_store<T>(0);
    }
}

/* One block per row: a tile of ids is read into shared memory, the threads own the columns. */
template <typename T>
__global__ void embedding_grad_kernel(float *dw, const T *dy, const int32_t *ids, int64_t count, int64_t base, int64_t rows,
                                      int64_t n)
{
    FL_SHARED(int32_t, tile, FL_BLOCK);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        for (int64_t d = threadIdx.x; d < n; d += FL_BLOCK)
            dw[r * n + d] = 0;
        for (int64_t at = 0; at < count; at += FL_BLOCK) {
            FL_BARRIER();
            tile[threadIdx.x] = at + threadIdx.x < count ? ids[at + threadIdx.x] : -1;
            FL_BARRIER();
            int64_t here = count - at < FL_BLOCK ? count - at : FL_BLOCK;
            for (int64_t j = 0; j < here; j++)
                if (tile[j] == base + r)
                    for (int64_t d = threadIdx.x; d < n; d += FL_BLOCK)
                        dw[r * n + d] += fl_load(dy[(at + j) * n + d]);
        }
    }
}

template <typename T>
__global__ void rope_kernel(T *y, const T *x, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first, float base,
                            bool half, bool inverse)
{
    int64_t pairs = n / 2;
    FL_GRID_FOR(i, outer * t * inner * pairs) {
        int64_t pair = i % pairs, row = i / pairs, position = first + row / inner % t;
        int64_t a = row * n + (half ? pair : 2 * pair), b = half ? a + pairs : a + 1;
        float angle = (float)position * powf(base, -2.0f * (float)pair / (float)n), c = cosf(angle), s = sinf(angle);
        if (inverse)
            s = -s;
        float u = fl_load(x[a]), v = fl_load(x[b]);
        y[a] = fl_store<T>(u * c - v * s);
        y[b] = fl_store<T>(u * s + v * c);
    }
}

extern "C" void fl_embedding_as(void *y, const int32_t *ids, const void *w, enum fl_type t, int64_t count, int64_t base, int64_t rows,
                                int64_t n)
{
    if (count * n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(embedding_kernel<T>, fl_blocks_for(count * n, FL_BLOCK), FL_BLOCK, (T *)y, ids, (const T *)w,
                                        count, base, rows, n))
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
    int64_t work = outer * t * inner * (n / 2);
    if (work > 0)
        FL_BY_TYPE(type, T, FL_LAUNCH_GRID(rope_kernel<T>, fl_blocks_for(work, FL_BLOCK), FL_BLOCK, (T *)y, (const T *)x, outer, t, inner,
                                           n, first, base, half, inverse))
}

extern "C" void fl_rope(float *y, const float *x, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first, float base,
                        bool half, bool inverse)
{
    fl_rope_as(y, x, FL_F32, outer, t, inner, n, first, base, half, inverse);
}
