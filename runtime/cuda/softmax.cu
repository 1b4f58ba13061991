/* softmax and log_softmax over a set of dims: one block per line; padding entries of results are 0. */
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

__global__ void softmax_kernel(float *y, const float *x, walk kept, walk gone, walk all, bool logarithm)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t line = blockIdx.x; line < kept.count; line += gridDim.x) {
        int64_t at = walk_offset(kept, line);
        float m = -INFINITY, sum = 0;
        for (int64_t i = threadIdx.x; i < gone.count; i += FL_BLOCK)
            m = fmaxf(m, x[at + walk_offset(gone, i)]);
        m = fl_block_max(m, scratch);
        for (int64_t i = threadIdx.x; i < gone.count; i += FL_BLOCK)
            sum += expf(x[at + walk_offset(gone, i)] - m);
        sum = fl_block_sum(sum, scratch);
        float shift = m + logf(sum), factor = 1.0f / sum;
        for (int64_t i = threadIdx.x; i < all.count; i += FL_BLOCK) {
            int64_t k = at + walk_offset(all, i);
            y[k] = !valid_entry(all, gone, i) ? 0.0f : logarithm ? x[k] - shift : expf(x[k] - m) * factor;
        }
    }
}

/* softmax: dx = y (dy - sum(dy y)); log_softmax: dx = dy - exp(y) sum(dy). */
__global__ void softmax_grad_kernel(float *dx, const float *dy, const float *y, walk kept, walk gone, walk all, bool logarithm)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t line = blockIdx.x; line < kept.count; line += gridDim.x) {
        int64_t at = walk_offset(kept, line);
        float sum = 0;
        for (int64_t i = threadIdx.x; i < gone.count; i += FL_BLOCK) {
            int64_t k = at + walk_offset(gone, i);
            sum += logarithm ? dy[k] : dy[k] * y[k];
        }
        sum = fl_block_sum(sum, scratch);
        for (int64_t i = threadIdx.x; i < all.count; i += FL_BLOCK) {
            int64_t k = at + walk_offset(all, i);
            float d = logarithm ? dy[k] - expf(y[k]) * sum : y[k] * (dy[k] - sum);
            dx[k] = valid_entry(all, gone, i) ? d : 0.0f;
        }
    }
}

static void forward(float *y, const float *x, const struct fl_dims *d, bool logarithm)
{
    walk kept, gone, all;
    walk_split(d, &kept, &gone, &all);
    if (kept.count > 0)
        FL_LAUNCH_GRID(softmax_kernel, fl_blocks_for(kept.count, 1), FL_BLOCK, y, x, kept, gone, all, logarithm);
}

static void backward(float *dx, const float *dy, const float *y, const struct fl_dims *d, bool logarithm)
{
    walk kept, gone, all;
    walk_split(d, &kept, &gone, &all);
    if (kept.count > 0)
        FL_LAUNCH_GRID(softmax_grad_kernel, fl_blocks_for(kept.count, 1), FL_BLOCK, dx, dy, y, kept, gone, all, logarithm);
}

extern "C" void fl_softmax(float *y, const float *x, const struct fl_dims *d) { forward(y, x, d, false); }
extern "C" void fl_log_softmax(float *y, const float *x, const struct fl_dims *d) { forward(y, x, d, true); }

extern "C" void fl_softmax_grad(float *dx, const float *y, const float *dy, const struct fl_dims *d)
{
    backward(dx, dy, y, d, false);
}

extern "C" void fl_log_softmax_grad(float *dx, const float *y, const float *dy, const struct fl_dims *d)
{
    backward(dx, dy, y, d, true);
}
