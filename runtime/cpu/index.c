/* Ops on indices along one dim, and running sums. Every line of the dim is the work of one thread, in order. */
#include "cpu.h"

struct lines { int64_t outer, n, valid, inner; };

static struct lines lines_of(const struct fl_dims *d)
{
    struct lines l = { 1, 1, 1, 1 };
    bool behind = false;
    for (int i = 0; i < d->ndim; i++) {
        if (d->reduced >> i & 1) {
            l.n = d->n[i];
            l.valid = d->valid[i];
            behind = true;
        } else {
            *(behind ? &l.inner : &l.outer) *= d->n[i];
        }
    }
    return l;
}

/* t is a constant in each of these, so that nothing is decided in a loop. */
#define BY_TYPE(t, kernel, ...)                                                                                        \
    do {                                                                                                               \
        if ((t) == FL_BF16)                                                                                            \
            kernel(FL_BF16, __VA_ARGS__);                                                                              \
        else if ((t) == FL_F16)                                                                                        \
            kernel(FL_F16, __VA_ARGS__);                                                                               \
        else                                                                                                           \
            kernel(FL_F32, __VA_ARGS__);                                                                               \
    } while (0)

static inline __attribute__((always_inline)) void cumsum(enum fl_type t, void *y, const void *x, const struct fl_dims *d, bool reverse)
{
    struct lines l = lines_of(d);
#pragma omp parallel for if (l.outer * l.n * l.inner > FL_GRAIN)
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t first = r / l.inner * l.n * l.inner + r % l.inner;
        double sum = 0;
        for (int64_t j = 0; j < l.valid; j++) {
            int64_t at = first + (reverse ? l.valid - 1 - j : j) * l.inner;
            sum += fl_get(x, t, at);
            fl_set(y, t, at, (float)sum);
        }
        for (int64_t j = l.valid; j < l.n; j++)
            fl_set(y, t, first + j * l.inner, 0);
    }
}

void fl_cumsum_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d, bool reverse) { BY_TYPE(t, cumsum, y, x, d, reverse); }
void fl_cumsum(float *y, const float *x, const struct fl_dims *d, bool reverse) { cumsum(FL_F32, y, x, d, reverse); }

/* The k best so far stand in order; a new one is put in its place. Of equal ones the earlier stays ahead. */
static inline __attribute__((always_inline)) void top_k(enum fl_type t, void *values, int32_t *indices, const void *x,
                                                        const struct fl_dims *d, int64_t k)
{
    struct lines l = lines_of(d);
#pragma omp parallel for if (l.outer * l.n * l.inner > FL_GRAIN)
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        const void *from = fl_element(x, t, r / l.inner * l.n * l.inner + r % l.inner);
        int64_t to = r / l.inner * k * l.inner + r % l.inner, have = 0;
        int32_t *best = fl_thread_scratch((k + 1) * (int64_t)sizeof(int32_t));
        for (int64_t j = 0; j < l.valid; j++) {
            int64_t p = have;
            float v = fl_get(from, t, j * l.inner);
            if (have == k && !(v > fl_get(from, t, best[k - 1] * l.inner)))
                continue;
            for (p = have < k ? have++ : k - 1; p > 0 && v > fl_get(from, t, best[p - 1] * l.inner); p--)
                best[p] = best[p - 1];
            best[p] = (int32_t)j;
        }
        for (int64_t j = 0; j < have; j++) {
            if (values)
                fl_set(values, t, to + j * l.inner, fl_get(from, t, best[j] * l.inner));
            if (indices)
                indices[to + j * l.inner] = best[j];
        }
    }
}

void fl_top_k_as(void *values, int32_t *indices, const void *x, enum fl_type t, const struct fl_dims *d, int64_t k)
{
    BY_TYPE(t, top_k, values, indices, x, d, k);
}

void fl_top_k(float *values, int32_t *indices, const float *x, const struct fl_dims *d, int64_t k)
{
    top_k(FL_F32, values, indices, x, d, k);
}

/* Elements are moved as they are, by their size. */
static inline __attribute__((always_inline)) void gather(int64_t bytes, void *y, const void *x, const int32_t *indices,
                                                         const struct fl_dims *d, int64_t count, int64_t base)
{
    struct lines l = lines_of(d);
#pragma omp parallel for if (l.outer * count * l.inner > FL_GRAIN)
    for (int64_t r = 0; r < l.outer * count; r++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t to = r * l.inner + i, at = indices[to] - base, from = (r / count * l.n + at) * l.inner + i;
            bool inside = at >= 0 && at < l.n;
            if (bytes == 2)
                ((uint16_t *)y)[to] = inside ? ((const uint16_t *)x)[from] : 0;
            else
                ((float *)y)[to] = inside ? ((const float *)x)[from] : 0;
        }
}

void fl_gather_as(void *y, const void *x, enum fl_type t, const int32_t *indices, const struct fl_dims *d, int64_t count,
                  int64_t base)
{
    if (fl_type_bytes(t) == 2)
        gather(2, y, x, indices, d, count, base);
    else
        gather(4, y, x, indices, d, count, base);
}

void fl_gather(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base)
{
    fl_gather_as(y, x, FL_F32, indices, d, count, base);
}

static inline __attribute__((always_inline)) void scatter(enum fl_type t, float *y, const void *x, const int32_t *indices,
                                                          const struct fl_dims *d, int64_t count, int64_t base)
{
    struct lines l = lines_of(d);
    fl_fill(y, 0, l.outer * count * l.inner);
#pragma omp parallel for if (l.outer * l.n * l.inner > FL_GRAIN)
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t j = 0; j < l.n; j++)
            for (int64_t i = 0; i < l.inner; i++) {
                int64_t from = (o * l.n + j) * l.inner + i, at = indices[from] - base;
                if (at >= 0 && at < count)
                    y[(o * count + at) * l.inner + i] += fl_get(x, t, from);
            }
}

void fl_scatter_as(float *y, const void *x, enum fl_type t, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base)
{
    BY_TYPE(t, scatter, y, x, indices, d, count, base);
}

void fl_scatter(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base)
{
    scatter(FL_F32, y, x, indices, d, count, base);
}
