/* layer_norm and rms_norm over the last dim: one warp per row; gains' gradients by columns, each column summed over the
 * rows in order by one thread (the rows' mean and deviation are left in workspace first). */
#include "../flow_rt.h"

constexpr int ROWS = FL_BLOCK / FL_WARP;         /* in a block */

/* mean and 1/deviation of the warp's row; with `centred` false the mean is taken as 0 (rms). */
static __device__ void row_moments(const float *x, int64_t n, float eps, bool centred, float *mean, float *inv)
{
    float m = 0;
    if (centred) {
        for (int64_t i = FL_LANE; i < n; i += FL_WARP)
            m += x[i];
        m = fl_warp_sum(m) / (float)n;
    }
    float v = 0;
    for (int64_t i = FL_LANE; i < n; i += FL_WARP)
        v += (x[i] - m) * (x[i] - m);
    *mean = m;
    *inv = 1.0f / sqrtf(fl_warp_sum(v) / (float)n + eps);
}

__global__ void norm_kernel(float *y, const float *x, const float *weight, const float *bias, int64_t rows, int64_t n, float eps,
                            bool centred)
{
    FL_WARP_FOR(r, rows) {
        float mean, inv;
        row_moments(x + r * n, n, eps, centred, &mean, &inv);
        for (int64_t i = FL_LANE; i < n; i += FL_WARP)
            y[r * n + i] = (x[r * n + i] - mean) * inv * (weight ? weight[i] : 1.0f) + (bias ? bias[i] : 0.0f);
    }
}

/* dx = inv (g - mean(g) - xhat mean(g xhat)) with g = dy weight; rms has no mean(g). Also leaves mean and inv per row. */
__global__ void norm_grad_kernel(float *dx, float *means, float *invs, const float *dy, const float *x, const float *weight,
                                 int64_t rows, int64_t n, float eps, bool centred)
{
    FL_WARP_FOR(r, rows) {
        const float *xr = x + r * n, *gr = dy + r * n;
        float mean, inv, a = 0, b = 0;
        row_moments(xr, n, eps, centred, &mean, &inv);
        for (int64_t i = FL_LANE; i < n; i += FL_WARP) {
            float g = gr[i] * (weight ? weight[i] : 1.0f);
            a += g;
            b += g * (xr[i] - mean) * inv;
        }
        a = centred ? fl_warp_sum(a) / (float)n : 0.0f;
        b = fl_warp_sum(b) / (float)n;
        if (dx)
            for (int64_t i = FL_LANE; i < n; i += FL_WARP)
                dx[r * n + i] = inv * (gr[i] * (weight ? weight[i] : 1.0f) - a - (xr[i] - mean) * inv * b);
        if (FL_LANE == 0) {
            means[r] = mean;
            invs[r] = inv;
        }
    }
}

__global__ void norm_grad_columns(float *dweight, float *dbias, const float *dy, const float *x, const float *means, const float *invs,
                                  int64_t rows, int64_t n)
{
    FL_GRID_FOR(i, n) {
        float w = 0, b = 0;
        for (int64_t r = 0; r < rows; r++) {
            float g = dy[r * n + i];
            w += g * (x[r * n + i] - means[r]) * invs[r];
            b += g;
        }
        if (dweight)
            dweight[i] = w;
        if (dbias)
            dbias[i] = b;
    }
}

static void norm_grad(float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight, int64_t rows,
                      int64_t n, float eps, bool centred)
{
    float *means = (float *)fl_workspace(0, sizeof(float) * 2 * (size_t)(rows > 0 ? rows : 1)), *invs = means + rows;
    if (rows > 0)
        FL_LAUNCH_GRID(norm_grad_kernel, fl_blocks_for(rows, ROWS), FL_BLOCK, dx, means, invs, dy, x, weight, rows, n, eps, centred);
    if (dweight || dbias)
        FL_LAUNCH_GRID(norm_grad_columns, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, dweight, dbias, dy, x, means, invs, rows, n);
}

extern "C" void fl_layer_norm(float *y, const float *x, const float *weight, const float *bias, int64_t rows, int64_t n, float eps)
{
    if (rows > 0)
        FL_LAUNCH_GRID(norm_kernel, fl_blocks_for(rows, ROWS), FL_BLOCK, y, x, weight, bias, rows, n, eps, true);
}

extern "C" void fl_rms_norm(float *y, const float *x, const float *weight, int64_t rows, int64_t n, float eps)
{
    if (rows > 0)
        FL_LAUNCH_GRID(norm_kernel, fl_blocks_for(rows, ROWS), FL_BLOCK, y, x, weight, (const float *)0, rows, n, eps, false);
}

extern "C" void fl_layer_norm_grad(float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                                   int64_t rows, int64_t n, float eps)
{
    norm_grad(dx, dweight, dbias, dy, x, weight, rows, n, eps, true);
}

extern "C" void fl_rms_norm_grad(float *dx, float *dweight, const float *dy, const float *x, const float *weight, int64_t rows,
                                 int64_t n, float eps)
{
    norm_grad(dx, dweight, (float *)0, dy, x, weight, rows, n, eps, false);
}
