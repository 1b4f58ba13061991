/* softmax and log_softmax over a set of dims: one block per line; padding entries of results are 0. Lines along the last dim are read
 * and written 16 bytes a thread. */
#include "walk.h"

/* Is entry i of all the entries of a line a valid one? */
static __device__ __forceinline__ bool valid_entry(const walk &all, const walk &gone, int64_t i)
{
    for (int d = all.ndim - 1; d >= 0; d--) {
        if (i % all.n[d] >= gone.n[d])
            return false;
        i /= all.n[d];
    }
    return true;
}

template <typename T> __global__ void softmax_kernel(T *y, const T *x, walk kept, walk gone, walk all, bool logarithm)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t line = blockIdx.x; line < kept.count; line += gridDim.x) {
        int64_t at = walk_offset(kept, line);
        float m = -INFINITY, sum = 0;
        for (int64_t i = threadIdx.x; i < gone.count; i += FL_BLOCK)
            m = fmaxf(m, fl_load(x[at + walk_offset(gone, i)]));
        m = fl_block_max(m, scratch);
        for (int64_t i = threadIdx.x; i < gone.count; i += FL_BLOCK)
            sum += expf(fl_load(x[at + walk_offset(gone, i)]) - m);
        sum = fl_block_sum(sum, scratch);
        float shift = m + logf(sum), factor = 1.0f / sum;
        for (int64_t i = threadIdx.x; i < all.count; i += FL_BLOCK) {
            int64_t k = at + walk_offset(all, i);
            float v = fl_load(x[k]);
            y[k] = fl_store<T>(!valid_entry(all, gone, i) ? 0.0f : logarithm ? v - shift : expf(v - m) * factor);
        }
    }
}

/* softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - exp(y) sum(dy). */
template <typename T>
__global__ void softmax_grad_kernel(T *dx, const T *dy, const T *y, walk kept, walk gone, walk all, bool logarithm)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t line = blockIdx.x; line < kept.count; line += gridDim.x) {
        int64_t at = walk_offset(kept, line);
        float sum = 0;
        for (int64_t i = threadIdx.x; i < gone.count; i += FL_BLOCK) {
            int64_t k = at + walk_offset(gone, i);
            sum += logarithm ? fl_load(dy[k]) : fl_load(dy[k]) * fl_load(y[k]);
        }
        sum = fl_block_sum(sum, scratch);
        for (int64_t i = threadIdx.x; i < all.count; i += FL_BLOCK) {
            int64_t k = at + walk_offset(all, i);
            float g = fl_load(dy[k]), v = fl_load(y[k]), d = logarithm ? g - expf(v) * sum : v * (g - sum);
            dx[k] = fl_store<T>(valid_entry(all, gone, i) ? d : 0.0f);
        }
    }
}

/* The same of line l of the last dim, `all` entries of which `valid` are no padding. */
template <typename T>
__global__ void softmax_row_kernel(T *y, const T *x, int64_t lines, int64_t valid, int64_t all, bool logarithm)
{
    constexpr int W = FL_SUMMED;
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t l = blockIdx.x; l < lines; l += gridDim.x) {
        int64_t at = l * all;
        float m = -INFINITY, sum = 0, v[W];
        FL_PIECES(W, i, at, valid, threadIdx.x, FL_BLOCK) {
            fl_wide_load(v, x + at, i, valid);
            FL_LANES(e, W, i, valid)
                m = fmaxf(m, v[e]);
        }
        m = fl_block_max(m, scratch);
        FL_PIECES(W, i, at, valid, threadIdx.x, FL_BLOCK) {
            fl_wide_load(v, x + at, i, valid);
            FL_LANES(e, W, i, valid)
                sum += expf(v[e] - m);
        }
        sum = fl_block_sum(sum, scratch);
        float shift = m + logf(sum), factor = 1.0f / sum;
        FL_PIECES(W, i, at, all, threadIdx.x, FL_BLOCK) {
            fl_wide_load(v, x + at, i, all);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                v[e] = i + e >= valid ? 0.0f : logarithm ? v[e] - shift : expf(v[e] - m) * factor;
            fl_wide_store(y + at, i, all, v);
        }
    }
}

template <typename T>
__global__ void softmax_row_grad_kernel(T *dx, const T *dy, const T *y, int64_t lines, int64_t valid, int64_t all, bool logarithm)
{
    constexpr int W = FL_SUMMED;
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t l = blockIdx.x; l < lines; l += gridDim.x) {
        int64_t at = l * all;
        float sum = 0, g[W], v[W];
        FL_PIECES(W, i, at, valid, threadIdx.x, FL_BLOCK) {
            fl_wide_load(g, dy + at, i, valid);
            fl_wide_load(v, y + at, i, valid);
            FL_UNROLL
            for (int e = 0; e < W; e++)              /* outside the line g is 0 */
                sum += logarithm ? g[e] : g[e] * v[e];
        }
        sum = fl_block_sum(sum, scratch);
        FL_PIECES(W, i, at, all, threadIdx.x, FL_BLOCK) {
            fl_wide_load(g, dy + at, i, all);
            fl_wide_load(v, y + at, i, all);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                v[e] = i + e >= valid ? 0.0f : logarithm ? g[e] - expf(v[e]) * sum : v[e] * (g[e] - sum);
            fl_wide_store(dx + at, i, all, v);
        }
    }
}

/* Do lines go along the last dim? Then they lie one behind the other. */
static bool along_last(const walk &gone, const walk &all) { return all.ndim == 1 && all.stride[0] == 1 && gone.ndim == 1; }

static void forward(void *y, const void *x, enum fl_type t, const struct fl_dims *d, bool logarithm)
{
    walk kept, gone, all;
    walk_split(d, &kept, &gone, &all);
    if (kept.count > 0 && along_last(gone, all))
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(softmax_row_kernel<T>, fl_blocks_for(kept.count, 1), FL_BLOCK, (T *)y, (const T *)x, kept.count,
                                        gone.count, all.count, logarithm))
    else if (kept.count > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(softmax_kernel<T>, fl_blocks_for(kept.count, 1), FL_BLOCK, (T *)y, (const T *)x, kept, gone, all,
                                        logarithm))
}

static void backward(void *dx, const void *dy, const void *y, enum fl_type t, const struct fl_dims *d, bool logarithm)
{
    walk kept, gone, all;
    walk_split(d, &kept, &gone, &all);
    if (kept.count > 0 && along_last(gone, all))
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(softmax_row_grad_kernel<T>, fl_blocks_for(kept.count, 1), FL_BLOCK, (T *)dx, (const T *)dy,
                                        (const T *)y, kept.count, gone.count, all.count, logarithm))
    else if (kept.count > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(softmax_grad_kernel<T>, fl_blocks_for(kept.count, 1), FL_BLOCK, (T *)dx, (const T *)dy,
                                        (const T *)y, kept, gone, all, logarithm))
}

#define BOTH_TYPES(name, logarithm)                                                                                     \
    extern "C" void fl_##name(float *y, const float *x, const struct fl_dims *d) { forward(y, x, FL_F32, d, logarithm); } \
    extern "C" void fl_##name##_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d)                      \
    {                                                                                                                    \
        forward(y, x, t, d, logarithm);                                                                                  \
    }                                                                                                                    \
    extern "C" void fl_##name##_grad(float *dx, const float *y, const float *dy, const struct fl_dims *d)                \
    {                                                                                                                    \
        backward(dx, dy, y, FL_F32, d, logarithm);                                                                       \
    }                                                                                                                    \
    extern "C" void fl_##name##_grad_as(void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d) \
    {                                                                                                                    \
        backward(dx, dy, y, t, d, logarithm);                                                                            \
    }
BOTH_TYPES(softmax, false)
BOTH_TYPES(log_softmax, true)
