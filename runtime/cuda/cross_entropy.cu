/* Cross entropy, whole and in the pieces a split vocabulary needs: one block per row of logits, 16 bytes a thread. Columns
 * [base, base + n) of the classes; classes from `valid` on are padding, count as -inf and get gradient 0. */
#include "../flow_rt.h"
#include <cfloat>

static int64_t valid_columns(int64_t n, int64_t base, int64_t valid)
{
    int64_t k = valid - base;
    return k < 0 ? 0 : k < n ? k : n;
}

template <typename T>
__global__ void ce_max_kernel(float *m, const T *logits, int64_t rows, int64_t n, int64_t columns)
{
    constexpr int W = FL_SUMMED;
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float v = -INFINITY, x[W];
        FL_PIECES(W, i, r * n, columns, threadIdx.x, FL_BLOCK) {
            fl_wide_load(x, logits + r * n, i, columns);
            FL_LANES(e, W, i, columns)
                v = fmaxf(v, x[e]);
        }
        v = fl_block_max(v, scratch);
        if (threadIdx.x == 0)
            m[r] = v;
    }
}

template <typename T>
__global__ void ce_sum_exp_kernel(float *s, const T *logits, const float *m, int64_t rows, int64_t n, int64_t columns)
{
    constexpr int W = FL_SUMMED;
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float v = 0, top = m[r], x[W];
        FL_PIECES(W, i, r * n, columns, threadIdx.x, FL_BLOCK) {
            fl_wide_load(x, logits + r * n, i, columns);
            FL_LANES(e, W, i, columns)
                v += expf(x[e] - top);
        }
        v = fl_block_sum(v, scratch);
        if (threadIdx.x == 0)
            s[r] = v;
    }
}

template <typename T>
__global__ void ce_below_kernel(float *p, const T *logits, const float *m, const int32_t *target, int64_t rows, int64_t n,
                                int64_t base, int64_t columns, int64_t valid, int32_t ignore, float smoothing)
{
    constexpr int W = FL_SUMMED;
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float mean = 0;
        if (smoothing != 0) {
            float top = m[r], x[W];
            FL_PIECES(W, i, r * n, columns, threadIdx.x, FL_BLOCK) {
                fl_wide_load(x, logits + r * n, i, columns);
                FL_LANES(e, W, i, columns)
                    mean += top - x[e];
            }
            mean = fl_block_sum(mean, scratch) / (float)valid;
        }
        if (threadIdx.x == 0) {
            int64_t t = (int64_t)target[r] - base;
            float x = t >= 0 && t < columns ? m[r] - fl_load(logits[r * n + t]) : 0.0f;
            p[r] = target[r] == ignore ? 0.0f : (1 - smoothing) * x + smoothing * mean;
        }
    }
}

/* d loss / d x[i] = softmax[i] - (1 - smoothing) [i = target] - smoothing / valid. */
template <typename T>
__global__ void ce_grad_kernel(T *dlogits, const float *dloss, const T *logits, const float *m, const float *s,
                               const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t columns, int64_t valid,
                               int32_t ignore, float smoothing)
{
    constexpr int W = FL_SUMMED;
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float g = target[r] == ignore ? 0.0f : dloss[r], factor = 1.0f / s[r], top = m[r], x[W];
        int64_t t = (int64_t)target[r] - base;
        FL_PIECES(W, i, r * n, n, threadIdx.x, FL_BLOCK) {
            fl_wide_load(x, logits + r * n, i, n);
            FL_UNROLL
            for (int e = 0; e < W; e++) {
                float d = expf(x[e] - top) * factor - (i + e == t ? 1 - smoothing : 0.0f) - smoothing / (float)valid;
                x[e] = i + e < columns && g != 0 ? g * d : 0.0f;
            }
            fl_wide_store(dlogits + r * n, i, n, x);
        }
    }
}

/* Maximum, sum of exp(l - m) and, where asked, sum of m - l of a row of logits. Each thread keeps a maximum and a sum of its own,
 * so that the row is read once. */
struct row_of_logits { float m, sum, under; };

static __device__ struct row_of_logits read_row(const float *x, int64_t columns, bool smooth, float *scratch)
{
    float own = threadIdx.x < columns ? fmaxf(x[threadIdx.x], -FLT_MAX) : -FLT_MAX, sum = 0, under = 0, seen = 0;
    for (int64_t i = threadIdx.x; i < columns; i += FL_BLOCK, seen++) {
        float v = x[i];
        if (v > own) {
            sum *= expf(own - v);
            under += seen * (v - own);
            own = v;
        }
        sum += expf(v - own);
        under += own - v;
    }
    struct row_of_logits row = {fl_block_max(own, scratch), 0, 0};
    row.sum = fl_block_sum(sum * expf(own - row.m), scratch);
    if (smooth)
        row.under = fl_block_sum(seen > 0 ? under + seen * (row.m - own) : 0.0f, scratch);
    return row;
}

/* The gradient of a row of logits in their place. A short one is written where entries before its own lay: FL_BLOCK of them at a
 * time, once these have been read. */
template <typename T>
static __device__ void write_grad(float *x, float dy, float m, float factor, int64_t t, int64_t n, int64_t columns, int64_t valid,
                                  float smoothing)
{
    T *g = (T *)x;
    for (int64_t from = 0; from < n; from += FL_BLOCK) {
        int64_t i = from + threadIdx.x;
        float d = 0;
        if (i < columns && dy != 0)
            d = dy * (expf(x[i] - m) * factor - (i == t ? 1 - smoothing : 0.0f) - smoothing / (float)valid);
        if (sizeof(T) < sizeof(float))
            FL_BARRIER();
        if (i < n)
            g[i] = fl_store<T>(d);
    }
}

/* What lies between the products of fl_linear_cross_entropy: loss and, where asked, gradient of f32 logits in their place, which
 * are read twice in all. */
template <typename T>
__global__ void ce_rows_kernel(float *loss, float *logits, const float *dloss, const int32_t *target, int64_t rows, int64_t n,
                               int64_t columns, int64_t valid, int32_t ignore, float smoothing)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float *x = logits + r * n;
        struct row_of_logits row = read_row(x, columns, smoothing != 0, scratch);
        bool skipped = target[r] == ignore;
        int64_t t = target[r];
        if (threadIdx.x == 0) {
            float below = t >= 0 && t < columns ? row.m - x[t] : 0.0f;
            loss[r] = skipped ? 0.0f
                    : logf(row.sum) + (1 - smoothing) * below + (smoothing != 0 ? smoothing * (row.under / (float)valid) : 0.0f);
        }
        if (!dloss)
            continue;
        FL_BARRIER();                                /* x[t] is read before it goes */
        write_grad<T>(x, skipped ? 0.0f : dloss[r], row.m, 1.0f / row.sum, t, n, columns, valid, smoothing);
    }
}

/* What fl_linear_ce_parts makes of f32 logits. */
__global__ void ce_parts_kernel(float *most, float *sum, float *below, float *weight, const float *logits, int64_t apart,
                                const int32_t *target, int64_t rows, int64_t base, int64_t columns, int64_t valid, int32_t ignore,
                                float smoothing)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const float *x = logits + r * apart;
        struct row_of_logits row = read_row(x, columns, smoothing != 0, scratch);
        if (threadIdx.x == 0) {
            int64_t t = (int64_t)target[r] - base;
            bool skipped = target[r] == ignore, hit = t >= 0 && t < columns;
            most[r] = row.m;
            sum[r] = row.sum;
            below[r] = skipped ? 0.0f : (hit ? (1 - smoothing) * (row.m - x[t]) : 0.0f) + smoothing * (row.under / (float)valid);
            weight[r] = skipped ? 0.0f : (hit ? 1 - smoothing : 0.0f) + smoothing * (float)columns / (float)valid;
        }
    }
}

template <typename T>
__global__ void ce_parts_grad_kernel(float *logits, const float *dloss, const float *m, const float *s, const int32_t *target,
                                     int64_t rows, int64_t n, int64_t base, int64_t columns, int64_t valid, int32_t ignore,
                                     float smoothing)
{
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x)
        write_grad<T>(logits + r * n, target[r] == ignore ? 0.0f : dloss[r], m[r], 1.0f / s[r], (int64_t)target[r] - base, n, columns,
                      valid, smoothing);
}

extern "C" void fl_ce_parts(float *most, float *sum, float *below, float *weight, const float *logits, int64_t apart,
                            const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                            float smoothing)
{
    if (rows > 0)
        FL_LAUNCH_GRID(ce_parts_kernel, fl_blocks_for(rows, 1), FL_BLOCK, most, sum, below, weight, logits, apart, target, rows, base,
                       valid_columns(n, base, valid), valid, ignore, smoothing);
}

extern "C" void fl_ce_parts_grad(float *logits, enum fl_type t, const float *dloss, const float *m, const float *s,
                                 const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                                 float smoothing)
{
    if (rows > 0 && n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(ce_parts_grad_kernel<T>, fl_blocks_for(rows, 1), FL_BLOCK, logits, dloss, m, s, target, rows,
                                        n, base, valid_columns(n, base, valid), valid, ignore, smoothing))
}

extern "C" void fl_ce_rows(float *loss, float *logits, enum fl_type t, const float *dloss, const int32_t *target, int64_t rows,
                           int64_t n, int64_t valid, int32_t ignore, float smoothing)
{
    if (rows > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(ce_rows_kernel<T>, fl_blocks_for(rows, 1), FL_BLOCK, loss, logits, dloss, target, rows, n,
                                        valid_columns(n, 0, valid), valid, ignore, smoothing))
}

extern "C" void fl_ce_max_as(float *m, const void *logits, enum fl_type t, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
    if (rows > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(ce_max_kernel<T>, fl_blocks_for(rows, 1), FL_BLOCK, m, (const T *)logits, rows, n,
                                        valid_columns(n, base, valid)))
}

extern "C" void fl_ce_sum_exp_as(float *s, const void *logits, enum fl_type t, const float *m, int64_t rows, int64_t n, int64_t base,
                                 int64_t valid)
{
    if (rows > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(ce_sum_exp_kernel<T>, fl_blocks_for(rows, 1), FL_BLOCK, s, (const T *)logits, m, rows, n,
                                        valid_columns(n, base, valid)))
}

extern "C" void fl_ce_below_as(float *p, const void *logits, enum fl_type t, const float *m, const int32_t *target,
                               int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore, float smoothing)
{
    if (rows > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(ce_below_kernel<T>, fl_blocks_for(rows, 1), FL_BLOCK, p, (const T *)logits, m, target, rows, n,
                                        base, valid_columns(n, base, valid), valid, ignore, smoothing))
}

extern "C" void fl_ce_grad_as(void *dlogits, const float *dloss, const void *logits, enum fl_type t, const float *m, const float *s,
                              const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                              float smoothing)
{
    if (rows > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(ce_grad_kernel<T>, fl_blocks_for(rows, 1), FL_BLOCK, (T *)dlogits, dloss, (const T *)logits,
                                        m, s, target, rows, n, base, valid_columns(n, base, valid), valid, ignore, smoothing))
}

extern "C" void fl_ce_max(float *m, const float *logits, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
    fl_ce_max_as(m, logits, FL_F32, rows, n, base, valid);
}

extern "C" void fl_ce_sum_exp(float *s, const float *logits, const float *m, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
    fl_ce_sum_exp_as(s, logits, FL_F32, m, rows, n, base, valid);
}

extern "C" void fl_ce_below(float *p, const float *logits, const float *m, const int32_t *target, int64_t rows, int64_t n,
                            int64_t base, int64_t valid, int32_t ignore, float smoothing)
{
    fl_ce_below_as(p, logits, FL_F32, m, target, rows, n, base, valid, ignore, smoothing);
}

extern "C" void fl_ce_grad(float *dlogits, const float *dloss, const float *logits, const float *m, const float *s,
                           const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                           float smoothing)
{
    fl_ce_grad_as(dlogits, dloss, logits, FL_F32, m, s, target, rows, n, base, valid, ignore, smoothing);
}
