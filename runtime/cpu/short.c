/* Kernels on bf16 and f16 that on a processor are the f32 kernels between two conversions: operands are widened into scratch
 * of their own, results rounded once on the way back. What a vector loop can convert as it goes has its own kernel. */
#include "cpu.h"

/* Room for the f32 copies of one call, taken piece by piece. */
struct room { float *p; int64_t used; };

static struct room room_for(int64_t n) { return (struct room){ fl_scratch(FL_SCRATCH_WIDE, n * (int64_t)sizeof(float)), 0 }; }

static float *take(struct room *r, int64_t n)
{
    float *p = r->p + r->used;
    r->used += n;
    return p;
}

/* x as f32, n elements; NULL stays NULL. */
static float *widened(struct room *r, const void *x, enum fl_type t, int64_t n)
{
    if (!x)
        return NULL;
    float *y = take(r, n);
    fl_convert(y, FL_F32, x, t, n);
    return y;
}

static float *place_for(struct room *r, const void *y, int64_t n) { return y ? take(r, n) : NULL; }

static void put_back(void *y, enum fl_type t, const float *from, int64_t n)
{
    if (y)
        fl_convert(y, t, from, FL_F32, n);
}

void fl_layer_norm_as(void *y, const void *x, const void *weight, const void *bias, int64_t rows, int64_t n, float eps,
                      enum fl_type ty, enum fl_type tx, enum fl_type tw, enum fl_type tb)
{
    struct room r = room_for((rows + !!weight + !!bias) * n);
    float *wx = widened(&r, x, tx, rows * n), *w = widened(&r, weight, tw, n), *b = widened(&r, bias, tb, n);
    fl_layer_norm(wx, wx, w, b, rows, n, eps);
    put_back(y, ty, wx, rows * n);
}

void fl_rms_norm_as(void *y, const void *x, const void *weight, int64_t rows, int64_t n, float eps, enum fl_type ty,
                    enum fl_type tx, enum fl_type tw)
{
    struct room r = room_for((rows + !!weight) * n);
    float *wx = widened(&r, x, tx, rows * n), *w = widened(&r, weight, tw, n);
    fl_rms_norm(wx, wx, w, rows, n, eps);
    put_back(y, ty, wx, rows * n);
}

void fl_layer_norm_grad_as(void *dx, void *dweight, void *dbias, const void *dy, const void *x, const void *weight,
                           int64_t rows, int64_t n, float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdb,
                           enum fl_type tdy, enum fl_type tx, enum fl_type tw)
{
    struct room r = room_for(((2 + !!dx) * rows + !!weight + !!dweight + !!dbias) * n);
    float *wy = widened(&r, dy, tdy, rows * n), *wx = widened(&r, x, tx, rows * n), *w = widened(&r, weight, tw, n);
    float *gx = place_for(&r, dx, rows * n), *gw = place_for(&r, dweight, n), *gb = place_for(&r, dbias, n);
    fl_layer_norm_grad(gx, gw, gb, wy, wx, w, rows, n, eps);
    put_back(dx, tdx, gx, rows * n);
    put_back(dweight, tdw, gw, n);
    put_back(dbias, tdb, gb, n);
}

void fl_rms_norm_grad_as(void *dx, void *dweight, const void *dy, const void *x, const void *weight, int64_t rows, int64_t n,
                         float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdy, enum fl_type tx, enum fl_type tw)
{
    struct room r = room_for(((2 + !!dx) * rows + !!weight + !!dweight) * n);
    float *wy = widened(&r, dy, tdy, rows * n), *wx = widened(&r, x, tx, rows * n), *w = widened(&r, weight, tw, n);
    float *gx = place_for(&r, dx, rows * n), *gw = place_for(&r, dweight, n);
    fl_rms_norm_grad(gx, gw, wy, wx, w, rows, n, eps);
    put_back(dx, tdx, gx, rows * n);
    put_back(dweight, tdw, gw, n);
}

static int64_t count_of(const struct fl_dims *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++)
        n *= d->n[i];
    return n;
}

typedef void softmax_forward(float *y, const float *x, const struct fl_dims *d);
typedef void softmax_backward(float *dx, const float *y, const float *dy, const struct fl_dims *d);

static void forward(softmax_forward *f, void *y, const void *x, enum fl_type t, const struct fl_dims *d)
{
    int64_t n = count_of(d);
    struct room r = room_for(2 * n);
    float *wx = widened(&r, x, t, n), *wy = take(&r, n);
    f(wy, wx, d);
    put_back(y, t, wy, n);
}

static void backward(softmax_backward *f, void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d)
{
    int64_t n = count_of(d);
    struct room r = room_for(3 * n);
    float *wy = widened(&r, y, t, n), *g = widened(&r, dy, t, n), *gx = take(&r, n);
    f(gx, wy, g, d);
    put_back(dx, t, gx, n);
}

void fl_softmax_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d) { forward(fl_softmax, y, x, t, d); }
void fl_log_softmax_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d) { forward(fl_log_softmax, y, x, t, d); }

void fl_softmax_grad_as(void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d)
{
    backward(fl_softmax_grad, dx, y, dy, t, d);
}

void fl_log_softmax_grad_as(void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d)
{
    backward(fl_log_softmax_grad, dx, y, dy, t, d);
}

/* Heads and positions of a tensor of attention with strides, and a dense f32 copy of it. */
struct heads { int64_t batch, heads, t, n; };

static int64_t elements(struct heads h) { return h.batch * h.heads * h.t * h.n; }

static void dense_strides(struct heads h, int64_t stride[3])
{
    stride[2] = h.n;
    stride[1] = h.t * h.n;
    stride[0] = h.heads * stride[1];
}

static void copy(void *y, enum fl_type ty, const int64_t sy[3], const void *x, enum fl_type tx, const int64_t sx[3], struct heads h)
{
    struct fl_strided s = { 4, { h.batch, h.heads, h.t, h.n }, { sy[0], sy[1], sy[2], 1 }, { sx[0], sx[1], sx[2], 1 } };
    fl_convert_strided(y, ty, x, tx, &s);
}

/* stride: in, those of x; out, those of the copy. */
static float *dense(struct room *r, const void *x, enum fl_type t, int64_t stride[3], struct heads h)
{
    float *y = take(r, elements(h));
    int64_t from[3] = { stride[0], stride[1], stride[2] };
    dense_strides(h, stride);
    copy(y, FL_F32, stride, x, t, from, h);
    return y;
}

static void undo(void *y, enum fl_type t, const int64_t stride[3], const float *x, struct heads h)
{
    int64_t from[3];
    dense_strides(h, from);
    if (y)
        copy(y, t, stride, x, FL_F32, from, h);
}

void fl_attention_as(void *y, const void *q, const void *k, const void *v, const uint8_t *keep, enum fl_type t,
                     const struct fl_attention *a)
{
    struct heads hq = { a->batch, a->heads, a->tq, a->dk }, hk = { a->batch, a->kv_heads, a->tk, a->dk }, hv = hk, hy = hq;
    struct fl_attention w = *a;
    hv.n = hy.n = a->dv;
    struct room r = room_for(elements(hq) + elements(hk) + elements(hv) + elements(hy));
    float *wq = dense(&r, q, t, w.q, hq), *wk = dense(&r, k, t, w.k, hk), *wv = dense(&r, v, t, w.v, hv);
    float *wy = take(&r, elements(hy));
    dense_strides(hy, w.y);
    fl_attention(wy, wq, wk, wv, keep, &w);
    undo(y, t, a->y, wy, hy);
}

void fl_attention_grad_as(void *dq, void *dk, void *dv, const void *dy, const void *q, const void *k, const void *v,
                          const uint8_t *keep, enum fl_type t, const struct fl_attention *a)
{
    struct heads hq = { a->batch, a->heads, a->tq, a->dk }, hk = { a->batch, a->kv_heads, a->tk, a->dk }, hv = hk, hy = hq;
    struct fl_attention w = *a;
    hv.n = hy.n = a->dv;
    struct room r = room_for(2 * (elements(hq) + elements(hk) + elements(hv)) + elements(hy));
    float *wq = dense(&r, q, t, w.q, hq), *wk = dense(&r, k, t, w.k, hk), *wv = dense(&r, v, t, w.v, hv);
    float *wy = dense(&r, dy, t, w.gy, hy), *gq = take(&r, elements(hq)), *gk = take(&r, elements(hk)), *gv = take(&r, elements(hv));
    dense_strides(hq, w.gq);
    dense_strides(hk, w.gk);
    dense_strides(hv, w.gv);
    fl_attention_grad(gq, gk, gv, wy, wq, wk, wv, keep, &w);
    undo(dq, t, a->gq, gq, hq);
    undo(dk, t, a->gk, gk, hk);
    undo(dv, t, a->gv, gv, hv);
}

void fl_rope_as(void *y, const void *x, enum fl_type type, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first,
                float base, bool half, bool inverse)
{
    int64_t count = outer * t * inner * n;
    struct room r = room_for(count);
    float *w = widened(&r, x, type, count);
    fl_rope(w, w, outer, t, inner, n, first, base, half, inverse);
    put_back(y, type, w, count);
}

void fl_dropout_as(void *y, const void *x, enum fl_type t, const struct fl_step *s, uint64_t path_hash, int64_t block, float p,
                   const struct fl_place *at)
{
    int64_t n = 1;
    for (int d = 0; d < at->ndim; d++)
        n *= at->n[d];
    struct room r = room_for(n);
    float *w = widened(&r, x, t, n);
    fl_dropout(w, w, s, path_hash, block, p, at);
    put_back(y, t, w, n);
}

void fl_gather_as(void *y, const void *x, enum fl_type t, const int32_t *indices, const struct fl_dims *d, int64_t count,
                  int64_t base)
{
    int64_t n = count_of(d), length = 1;
    for (int i = 0; i < d->ndim; i++)
        if (d->reduced >> i & 1)
            length = d->n[i];
    int64_t results = length ? n / length * count : 0;
    struct room r = room_for(n + results);
    float *wx = widened(&r, x, t, n), *wy = take(&r, results);
    fl_gather(wy, wx, indices, d, count, base);
    put_back(y, t, wy, results);
}
