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

void fl_cumsum(float *y, const float *x, const struct fl_dims *d, bool reverse)
{
    struct lines l = lines_of(d);
#pragma omp parallel for if (l.outer * l.n * l.inner > FL_GRAIN)
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t first = r / l.inner * l.n * l.inner + r % l.inner;
        double sum = 0;
        for (int64_t j = 0; j < l.valid; j++) {
            int64_t at = first + (reverse ? l.valid - 1 - j : j) * l.inner;
            sum += x[at];
            y[at] = (float)sum;
        }
        for (int64_t j = l.valid; j < l.n; j++)
            y[first + j * l.inner] = 0;
    }
}

/* The k best so far stand in order; a new one is put in its place. Of equal ones the earlier stays ahead. */
void fl_top_k(float *values, int32_t *indices, const float *x, const struct fl_dims *d, int64_t k)
{
    struct lines l = lines_of(d);
#pragma omp parallel for if (l.outer * l.n * l.inner > FL_GRAIN)
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        const float *from = x + r / l.inner * l.n * l.inner + r % l.inner;
        int64_t to = r / l.inner * k * l.inner + r % l.inner, have = 0;
        int32_t *best = fl_thread_scratch((k + 1) * (int64_t)sizeof(int32_t));
        for (int64_t j = 0; j < l.valid; j++) {
            int64_t p = have;
            if (have == k && !(from[j * l.inner] > from[best[k - 1] * l.inner]))
                continue;
            for (p = have < k ? have++ : k - 1; p > 0 && from[j * l.inner] > from[best[p - 1] * l.inner]; p--)
                best[p] = best[p - 1];
            best[p] = (int32_t)j;
        }
        for (int64_t j = 0; j < have; j++) {
            if (values)
                values[to + j * l.inner] = from[best[j] * l.inner];
            if (indices)
                indices[to + j * l.inner] = best[j];
        }
    }
}

void fl_gather(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base)
{
    struct lines l = lines_of(d);
#pragma omp parallel for if (l.outer * count * l.inner > FL_GRAIN)
    for (int64_t r = 0; r < l.outer * count; r++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t at = indices[r * l.inner + i] - base;
            y[r * l.inner + i] = at >= 0 && at < l.n ? x[(r / count * l.n + at) * l.inner + i] : 0;
        }
}

void fl_scatter(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base)
{
    struct lines l = lines_of(d);
    fl_fill(y, 0, l.outer * count * l.inner);
#pragma omp parallel for if (l.outer * l.n * l.inner > FL_GRAIN)
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t j = 0; j < l.n; j++)
            for (int64_t i = 0; i < l.inner; i++) {
                int64_t from = (o * l.n + j) * l.inner + i, at = indices[from] - base;
                if (at >= 0 && at < count)
                    y[(o * count + at) * l.inner + i] += x[from];
            }
}
