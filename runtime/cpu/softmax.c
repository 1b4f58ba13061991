/* Softmax and log-softmax with their gradients. The common case, the last dim reduced and dense, runs over rows with
 * vector loops; any other set of dims walks its slices by offsets. */
#include "cpu.h"

struct slices {                          /* a slice: the entries that are normalised together */
    bool rows;                           /* contiguous rows of n, of which the first valid take part */
    int64_t count, n, valid;
    int64_t *offset;                     /* otherwise: offsets of the valid entries of a slice, in scratch */
    const struct fl_dims *d;
};

static struct slices slices(const struct fl_dims *d)
{
    struct slices s = { .rows = d->reduced == 1u << (d->ndim - 1), .count = 1, .n = 1, .valid = 1, .d = d };
    for (int i = 0; i < d->ndim; i++)
        if (d->reduced >> i & 1) {
            s.n *= d->n[i];
            s.valid *= d->valid[i];
        } else {
            s.count *= d->n[i];
        }
    if (s.rows)
        return s;
    s.offset = fl_scratch(FL_SCRATCH_INDEX, s.valid * (int64_t)sizeof(int64_t));
    for (int64_t k = 0; k < s.valid; k++) {
        int64_t rest = k, stride = 1, at = 0;
        for (int i = d->ndim - 1; i >= 0; i--) {
            if (d->reduced >> i & 1) {
                at += rest % d->valid[i] * stride;
                rest /= d->valid[i];
            }
            stride *= d->n[i];
        }
        s.offset[k] = at;
    }
    return s;
}

static int64_t start(const struct slices *s, int64_t slice)
{
    if (s->rows)
        return slice * s->n;
    int64_t stride = 1, at = 0;
    for (int i = s->d->ndim - 1; i >= 0; i--) {
        if (!(s->d->reduced >> i & 1)) {
            at += slice % s->d->n[i] * stride;
            slice /= s->d->n[i];
        }
        stride *= s->d->n[i];
    }
    return at;
}

/* A slice as f32: a row where it lies, or n entries brought together. */
static const float *load(float *room, const void *x, enum fl_type t, const struct slices *s)
{
    if (s->rows)
        return fl_row_in(room, x, t, s->valid);
    for (int64_t k = 0; k < s->valid; k++)
        room[k] = fl_get(x, t, s->offset[k]);
    return room;
}

static void store(void *y, enum fl_type t, const float *row, const struct slices *s)
{
    if (s->rows)
        fl_row_put(y, t, row, s->valid);
    for (int64_t k = 0; !s->rows && k < s->valid; k++)
        fl_set(y, t, s->offset[k], row[k]);
}

typedef void row_function(float *y, const float *a, const float *b, int64_t n);

/* y = f(a, b) slice by slice; padding of y is 0. */
static void each(void *y, const void *a, const void *b, enum fl_type t, const struct fl_dims *d, row_function *f)
{
    struct slices s = slices(d);
    int64_t bytes = fl_type_bytes(t), copies = s.rows && t == FL_F32 ? 0 : 3;
    if (!s.rows && s.valid != s.n)
        memset(y, 0, (size_t)(s.count * s.n * bytes));
#pragma omp parallel for if (s.count * s.n > FL_GRAIN / 8)
    for (int64_t i = 0; i < s.count; i++) {
        int64_t at = start(&s, i);
        float *room = fl_thread_scratch(copies * s.valid * (int64_t)sizeof(float));
        void *to = fl_place_of(y, t, at);
        float *row = s.rows ? fl_row_out(room, to, t) : room, *room_a = room + s.valid, *room_b = room_a + s.valid;
        const float *ra = load(room_a, fl_element(a, t, at), t, &s);
        const float *rb = b == a ? ra : load(room_b, fl_element(b, t, at), t, &s);
        f(row, ra, rb, s.valid);
        store(to, t, row, &s);
        if (s.rows)
            memset((char *)to + s.valid * bytes, 0, (size_t)((s.n - s.valid) * bytes));
    }
}

static float highest(const float *x, int64_t n)
{
    float top = -INFINITY;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

static void softmax_row(float *y, const float *x, const float *unused, int64_t n)
{
    (void)unused;
    float top = highest(x, n), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += y[i] = fl_exp(x[i] - top);
    float by = 1 / sum;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] *= by;
}

static void log_softmax_row(float *y, const float *x, const float *unused, int64_t n)
{
    (void)unused;
    float top = highest(x, n), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += fl_exp(x[i] - top);
    float lse = top + logf(sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - lse;
}

static void softmax_grad_row(float *dx, const float *y, const float *dy, int64_t n)
{
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < n; i++)
        dot += y[i] * dy[i];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (dy[i] - dot);
}

static void log_softmax_grad_row(float *dx, const float *y, const float *dy, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += dy[i];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] - fl_exp(y[i]) * sum;
}

void fl_softmax_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d)
{
    each(y, x, x, t, d, softmax_row);
}

void fl_softmax(float *y, const float *x, const struct fl_dims *d) { fl_softmax_as(y, x, FL_F32, d); }

void fl_log_softmax_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d)
{
    each(y, x, x, t, d, log_softmax_row);
}

void fl_log_softmax(float *y, const float *x, const struct fl_dims *d) { fl_log_softmax_as(y, x, FL_F32, d); }

void fl_softmax_grad_as(void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d)
{
    each(dx, y, dy, t, d, softmax_grad_row);
}

void fl_softmax_grad(float *dx, const float *y, const float *dy, const struct fl_dims *d)
{
    fl_softmax_grad_as(dx, y, dy, FL_F32, d);
}

void fl_log_softmax_grad_as(void *dx, const void *y, const void *dy, enum fl_type t, const struct fl_dims *d)
{
    each(dx, y, dy, t, d, log_softmax_grad_row);
}

void fl_log_softmax_grad(float *dx, const float *y, const float *dy, const struct fl_dims *d)
{
    fl_log_softmax_grad_as(dx, y, dy, FL_F32, d);
}
