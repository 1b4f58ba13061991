/* layer_norm and rms_norm over the last dim: one warp per row; gains' gradients by columns, each summed over
 * chunks of rows in order, then over the chunks in order (the rows' mean and deviation are left in workspace first). */
#include "../fl_rooms.h"
#include "../flow_rt.h"

constexpr int ROWS = FL_BLOCK / FL_WARP;         /* in a block */

/* mean and 1/deviation of the warp's row; with `centred` false the mean is taken as 0 (rms). */
template <typename X> static __device__ void row_moments(const X *x, int64_t n, float eps, bool centred, float *mean, float *inv)
{
    float m = 0;
    if (centred) {
        for (int64_t i = FL_LANE; i < n; i += FL_WARP)
            m += fl_load(x[i]);
        m = fl_warp_sum(m) / (float)n;
    }
    float v = 0;
    for (int64_t i = FL_LANE; i < n; i += FL_WARP)
        v += (fl_load(x[i]) - m) * (fl_load(x[i]) - m);
    *mean = m;
    *inv = 1.0f / sqrtf(fl_warp_sum(v) / (float)n + eps);
}

/* A gain or bias of any type, or NULL. */
struct gain { const void *p; enum fl_type type; };

static __device__ __forceinline__ float gain_at(gain g, int64_t i, float none)
{
    if (!g.p)
        return none;
    return g.type == FL_F32    ? ((const float *)g.p)[i]
           : g.type == FL_BF16 ? fl_load(((const fl_bf16 *)g.p)[i])
                               : fl_load(((const fl_f16 *)g.p)[i]);
}

static __device__ __forceinline__ void gain_put(gain g, int64_t i, float v)
{
    if (!g.p)
        return;
    if (g.type == FL_F32)
        ((float *)g.p)[i] = v;
    else if (g.type == FL_BF16)
        ((fl_bf16 *)g.p)[i] = fl_store<fl_bf16>(v);
    else
        ((fl_f16 *)g.p)[i] = fl_store<fl_f16>(v);
}

template <typename Y, typename X>
__global__ void norm_kernel(Y *y, const X *x, gain weight, gain bias, int64_t rows, int64_t n, float eps, bool centred)
{
    FL_WARP_FOR(r, rows) {
        float mean, inv;
        row_moments(x + r * n, n, eps, centred, &mean, &inv);
        for (int64_t i = FL_LANE; i < n; i += FL_WARP)
            y[r * n + i] = fl_store<Y>((fl_load(x[r * n + i]) - mean) * inv * gain_at(weight, i, 1.0f) + gain_at(bias, i, 0.0f));
    }
}

/* dx = inv (g - mean(g) - xhat mean(g xhat)) with g = dy weight; rms has no mean(g). Also leaves mean and inv per row. */
template <typename D, typename G, typename X>
__global__ void norm_grad_kernel(D *dx, float *means, float *invs, const G *dy, const X *x, gain weight, int64_t rows, int64_t n,
                                 float eps, bool centred)
{
    FL_WARP_FOR(r, rows) {
        const X *xr = x + r * n;
        const G *gr = dy + r * n;
        float mean, inv, a = 0, b = 0;
        row_moments(xr, n, eps, centred, &mean, &inv);
        for (int64_t i = FL_LANE; i < n; i += FL_WARP) {
            float g = fl_load(gr[i]) * gain_at(weight, i, 1.0f);
            a += g;
            b += g * (fl_load(xr[i]) - mean) * inv;
        }
        a = centred ? fl_warp_sum(a) / (float)n : 0.0f;
        b = fl_warp_sum(b) / (float)n;
        if (dx)
            for (int64_t i = FL_LANE; i < n; i += FL_WARP) {
                float g = fl_load(gr[i]) * gain_at(weight, i, 1.0f);
                dx[r * n + i] = fl_store<D>(inv * (g - a - (fl_load(xr[i]) - mean) * inv * b));
            }
        if (FL_LANE == 0) {
            means[r] = mean;
            invs[r] = inv;
        }
    }
}

/* Rows [chunk * c, chunk * (c + 1)) of a column: many columns alone would leave most of a GPU idle. */
template <typename G, typename X>
__global__ void norm_grad_columns(float *parts, const G *dy, const X *x, const float *means, const float *invs, int64_t rows, int64_t n,
                                  int64_t chunk)
{
    int64_t chunks = (rows + chunk - 1) / chunk;
    FL_GRID_FOR(i, n * chunks) {
        int64_t column = i % n, c = i / n, last = (c + 1) * chunk < rows ? (c + 1) * chunk : rows;
        float w = 0, b = 0;
        for (int64_t r = c * chunk; r < last; r++) {
            float g = fl_load(dy[r * n + column]);
            w += g * (fl_load(x[r * n + column]) - means[r]) * invs[r];
            b += g;
        }
        parts[2 * c * n + column] = w;
        parts[(2 * c + 1) * n + column] = b;
    }
}

__global__ void norm_grad_sum(gain dweight, gain dbias, const float *parts, int64_t n, int64_t chunks)
{
    FL_GRID_FOR(i, n) {
        float w = 0, b = 0;
        for (int64_t c = 0; c < chunks; c++) {
            w += parts[2 * c * n + i];
            b += parts[(2 * c + 1) * n + i];
        }
        gain_put(dweight, i, w);
        gain_put(dbias, i, b);
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
        FL_BY_TYPE(tdy, G, FL_BY_TYPE(tx, X, FL_LAUNCH_GRID((norm_grad_columns<G, X>), fl_blocks_for(n * chunks, FL_BLOCK), FL_BLOCK, parts,
                                                            (const G *)dy, (const X *)x, means, invs, rows, n, FL_NORM_CHUNK)))
    FL_LAUNCH_GRID(norm_grad_sum, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, dweight, dbias, parts, n, chunks);
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
