/* layer_norm and rms_norm over the last dim: one warp per row, 16 bytes a thread; gains' gradients by columns, each summed over
 * chunks of rows in order, then over the chunks in order (the rows' mean and deviation are left in workspace first). */
#include "../fl_rooms.h"
#include "../flow_rt.h"

constexpr int ROWS = FL_BLOCK / FL_WARP;         /* in a block */

/* mean and 1/deviation of row r, the warp's; with `centred` false the mean is taken as 0 (rms). */
template <int W, typename X>
static __device__ void row_moments(const X *x, int64_t r, int64_t n, float eps, bool centred, float *mean, float *inv)
{
    float m = 0, v[W];
    x += r * n;
    if (centred) {
        FL_PIECES(W, i, r * n, n, FL_LANE, FL_WARP) {
            fl_wide_load(v, x, i, n);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                m += v[e];
        }
        m = fl_warp_sum(m) / (float)n;
    }
    float s = 0;
    FL_PIECES(W, i, r * n, n, FL_LANE, FL_WARP) {
        fl_wide_load(v, x, i, n);
        FL_LANES(e, W, i, n)
            s += (v[e] - m) * (v[e] - m);
    }
    *mean = m;
    *inv = 1.0f / sqrtf(fl_warp_sum(s) / (float)n + eps);
}

/* A gain or bias of any type, or NULL. */
struct gain { const void *p; enum fl_type type; };

template <int W> static __device__ __forceinline__ void gain_load(float (&to)[W], gain g, int64_t i, int64_t n, float none)
{
    if (!g.p) {
        FL_UNROLL
        for (int e = 0; e < W; e++)
            to[e] = none;
    } else if (g.type == FL_F32) {
        fl_wide_load(to, (const float *)g.p, i, n);
    } else if (g.type == FL_BF16) {
        fl_wide_load(to, (const fl_bf16 *)g.p, i, n);
    } else {
        fl_wide_load(to, (const fl_f16 *)g.p, i, n);
    }
}

template <int W> static __device__ __forceinline__ void gain_store(gain g, int64_t i, int64_t n, const float (&v)[W])
{
    if (!g.p)
        return;
    if (g.type == FL_F32)
        fl_wide_store((float *)g.p, i, n, v);
    else if (g.type == FL_BF16)
        fl_wide_store((fl_bf16 *)g.p, i, n, v);
    else
        fl_wide_store((fl_f16 *)g.p, i, n, v);
}

template <typename Y, typename X>
__global__ void norm_kernel(Y *y, const X *x, gain weight, gain bias, int64_t rows, int64_t n, float eps, bool centred)
{
    constexpr int W = FL_SUMMED;
    FL_WARP_FOR(r, rows) {
        float mean, inv, v[W], w[W], b[W];
        row_moments<W>(x, r, n, eps, centred, &mean, &inv);
        FL_PIECES(W, i, r * n, n, FL_LANE, FL_WARP) {
            fl_wide_load(v, x + r * n, i, n);
            gain_load(w, weight, i, n, 1.0f);
            gain_load(b, bias, i, n, 0.0f);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                v[e] = (v[e] - mean) * inv * w[e] + b[e];
            fl_wide_store(y + r * n, i, n, v);
        }
    }
}

/* dx = inv (g - mean(g) - xhat mean(g xhat)) with g = dy weight; rms has no mean(g). Also leaves mean and inv per row. */
template <typename D, typename G, typename X>
__global__ void norm_grad_kernel(D *dx, float *means, float *invs, const G *dy, const X *x, gain weight, int64_t rows, int64_t n,
                                 float eps, bool centred)
{
    constexpr int W = FL_SUMMED;
    FL_WARP_FOR(r, rows) {
        const X *xr = x + r * n;
        const G *gr = dy + r * n;
        float mean, inv, a = 0, b = 0, v[W], g[W], w[W];
        row_moments<W>(x, r, n, eps, centred, &mean, &inv);
        FL_PIECES(W, i, r * n, n, FL_LANE, FL_WARP) {
            fl_wide_load(v, xr, i, n);
            fl_wide_load(g, gr, i, n);
            gain_load(w, weight, i, n, 1.0f);
            FL_UNROLL
            for (int e = 0; e < W; e++) {            /* outside the row g is 0 */
                a += g[e] * w[e];
                b += g[e] * w[e] * (v[e] - mean) * inv;
            }
        }
        a = centred ? fl_warp_sum(a) / (float)n : 0.0f;
        b = fl_warp_sum(b) / (float)n;
        if (dx)
            FL_PIECES(W, i, r * n, n, FL_LANE, FL_WARP) {
                fl_wide_load(v, xr, i, n);
                fl_wide_load(g, gr, i, n);
                gain_load(w, weight, i, n, 1.0f);
                FL_UNROLL
                for (int e = 0; e < W; e++)
                    v[e] = inv * (g[e] * w[e] - a - (v[e] - mean) * inv * b);
                fl_wide_store(dx + r * n, i, n, v);
            }
        if (FL_LANE == 0) {
            means[r] = mean;
            invs[r] = inv;
        }
    }
}

/* Rows [chunk * c, chunk * (c + 1)) of some columns: many columns alone would leave most of a GPU idle. */
template <typename G, typename X>
__global__ void norm_grad_columns(float *parts, const G *dy, const X *x, const float *means, const float *invs, int64_t rows, int64_t n,
                                  int64_t chunk)
{
    constexpr int W = FL_SUMMED;
    int64_t chunks = (rows + chunk - 1) / chunk, pieces = FL_VECTORS_OF(W, n);
    FL_GRID_FOR(k, pieces * chunks) {
        int64_t i = k % pieces * W, c = k / pieces, last = (c + 1) * chunk < rows ? (c + 1) * chunk : rows;
        float w[W] = {}, b[W] = {}, v[W], g[W];
        for (int64_t r = c * chunk; r < last; r++) {
            float mean = means[r], inv = invs[r];
            fl_wide_load(v, x + r * n, i, n);
            fl_wide_load(g, dy + r * n, i, n);
            FL_UNROLL
            for (int e = 0; e < W; e++) {
                w[e] += g[e] * (v[e] - mean) * inv;
                b[e] += g[e];
            }
        }
        fl_wide_store(parts + 2 * c * n, i, n, w);
        fl_wide_store(parts + (2 * c + 1) * n, i, n, b);
    }
}

__global__ void norm_grad_sum(gain dweight, gain dbias, const float *parts, int64_t n, int64_t chunks)
{
    constexpr int W = 4;
    FL_VECTORS1(W, i, n) {
        float w[W] = {}, b[W] = {}, v[W], u[W];
        for (int64_t c = 0; c < chunks; c++) {
            fl_wide_load(v, parts + 2 * c * n, i, n);
            fl_wide_load(u, parts + (2 * c + 1) * n, i, n);
            FL_UNROLL
            for (int e = 0; e < W; e++) {
                w[e] += v[e];
                b[e] += u[e];
            }
        }
        gain_store(dweight, i, n, w);
        gain_store(dbias, i, n, b);
    }
}

static void norm(void *y, enum fl_type ty, const void *x, enum fl_type tx, gain weight, gain bias, int64_t rows, int64_t n, float eps,
                 bool centred)
{
    if (rows > 0)
        FL_BY_TYPE(ty, Y, FL_BY_TYPE(tx, X, FL_LAUNCH_GRID((norm_kernel<Y, X>), fl_blocks_for(rows, ROWS), FL_BLOCK, (Y *)y,
                                                           (const X *)x, weight, bias, rows, n, eps, centred)))
}

static void norm_grad(void *dx, enum fl_type tdx, gain dweight, gain dbias, const void *dy, enum fl_type tdy, const void *x,
                      enum fl_type tx, gain weight, int64_t rows, int64_t n, float eps, bool centred)
{
    int64_t chunks = fl_pieces(rows, FL_NORM_CHUNK);
    float *means = (float *)fl_workspace(0, (size_t)(fl_room_of_norm(rows, n) + 4 * (2 * rows + 1))), *invs = means + rows;
    float *parts = invs + rows;
    if (rows > 0)
        FL_BY_TYPE(tdx, D, FL_BY_TYPE(tdy, G, FL_BY_TYPE(tx, X,
            FL_LAUNCH_GRID((norm_grad_kernel<D, G, X>), fl_blocks_for(rows, ROWS), FL_BLOCK, (D *)dx, means, invs, (const G *)dy,
                           (const X *)x, weight, rows, n, eps, centred))))
    if (!dweight.p && !dbias.p)
        return;
    if (rows > 0)
        FL_BY_TYPE(tdy, G, FL_BY_TYPE(tx, X,
            FL_LAUNCH_GRID((norm_grad_columns<G, X>), fl_blocks_for(FL_VECTORS_OF(FL_SUMMED, n) * chunks, FL_BLOCK),
                           FL_BLOCK, parts, (const G *)dy, (const X *)x, means, invs, rows, n, FL_NORM_CHUNK)))
    FL_LAUNCH_GRID(norm_grad_sum, fl_blocks_for(n, 4 * FL_BLOCK), FL_BLOCK, dweight, dbias, parts, n, chunks);
}

extern "C" void fl_layer_norm_as(void *y, const void *x, const void *weight, const void *bias, int64_t rows, int64_t n, float eps,
                                 enum fl_type ty, enum fl_type tx, enum fl_type tw, enum fl_type tb)
{
    norm(y, ty, x, tx, {weight, tw}, {bias, tb}, rows, n, eps, true);
}

extern "C" void fl_rms_norm_as(void *y, const void *x, const void *weight, int64_t rows, int64_t n, float eps, enum fl_type ty,
                               enum fl_type tx, enum fl_type tw)
{
    norm(y, ty, x, tx, {weight, tw}, {NULL, FL_F32}, rows, n, eps, false);
}

extern "C" void fl_layer_norm_grad_as(void *dx, void *dweight, void *dbias, const void *dy, const void *x, const void *weight,
                                      int64_t rows, int64_t n, float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdb,
                                      enum fl_type tdy, enum fl_type tx, enum fl_type tw)
{
    norm_grad(dx, tdx, {dweight, tdw}, {dbias, tdb}, dy, tdy, x, tx, {weight, tw}, rows, n, eps, true);
}

extern "C" void fl_rms_norm_grad_as(void *dx, void *dweight, const void *dy, const void *x, const void *weight, int64_t rows, int64_t n,
                                    float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdy, enum fl_type tx, enum fl_type tw)
{
    norm_grad(dx, tdx, {dweight, tdw}, {NULL, FL_F32}, dy, tdy, x, tx, {weight, tw}, rows, n, eps, false);
}

extern "C" void fl_layer_norm(float *y, const float *x, const float *weight, const float *bias, int64_t rows, int64_t n, float eps)
{
    norm(y, FL_F32, x, FL_F32, {weight, FL_F32}, {bias, FL_F32}, rows, n, eps, true);
}

extern "C" void fl_rms_norm(float *y, const float *x, const float *weight, int64_t rows, int64_t n, float eps)
{
    norm(y, FL_F32, x, FL_F32, {weight, FL_F32}, {NULL, FL_F32}, rows, n, eps, false);
}

extern "C" void fl_layer_norm_grad(float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                                   int64_t rows, int64_t n, float eps)
{
    norm_grad(dx, FL_F32, {dweight, FL_F32}, {dbias, FL_F32}, dy, FL_F32, x, FL_F32, {weight, FL_F32}, rows, n, eps, true);
}

extern "C" void fl_rms_norm_grad(float *dx, float *dweight, const float *dy, const float *x, const float *weight, int64_t rows,
                                 int64_t n, float eps)
{
    norm_grad(dx, FL_F32, {dweight, FL_F32}, {NULL, FL_F32}, dy, FL_F32, x, FL_F32, {weight, FL_F32}, rows, n, eps, false);
}
