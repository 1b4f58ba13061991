/* Ops on indices along one dim, and running sums. A line of the dim is the work of one thread, in order, so that no two
 * threads add to one number; lines are many where these ops are used. */
#include "../flow_rt.h"

struct lines { int64_t outer, n, valid, inner; };

static lines lines_of(const struct fl_dims *d)
{
    lines l = {1, 1, 1, 1};
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

template <typename T> __global__ void cumsum_kernel(T *y, const T *x, lines l, bool reverse)
{
    FL_GRID_FOR(r, l.outer * l.inner) {
        int64_t first = r / l.inner * l.n * l.inner + r % l.inner;
        double sum = 0;
        for (int64_t j = 0; j < l.valid; j++) {
            int64_t at = first + (reverse ? l.valid - 1 - j : j) * l.inner;
            sum += (double)fl_load(x[at]);
            y[at] = fl_store<T>((float)sum);
        }
        for (int64_t j = l.valid; j < l.n; j++)
            y[first + j * l.inner] = fl_store<T>(0);
    }
}

/* Picks the largest that comes behind the last one picked: of equal ones the first. */
template <typename T> __global__ void top_k_kernel(T *values, int32_t *indices, const T *x, lines l, int64_t k)
{
    FL_GRID_FOR(r, l.outer * l.inner) {
        const T *from = x + r / l.inner * l.n * l.inner + r % l.inner;
        int64_t to = r / l.inner * k * l.inner + r % l.inner, last = -1;
        for (int64_t p = 0; p < k && p < l.valid; p++) {
            int64_t best = -1;
            for (int64_t j = 0; j < l.valid; j++) {
                float v = fl_load(from[j * l.inner]), before = last < 0 ? 0 : fl_load(from[last * l.inner]);
                bool picked = last >= 0 && (v > before || (v == before && j <= last));
                if (!picked && (best < 0 || v > fl_load(from[best * l.inner])))
                    best = j;
            }
            if (best < 0)
                break;
            last = best;
            if (values)
                values[to + p * l.inner] = from[best * l.inner];
            if (indices)
                indices[to + p * l.inner] = (int32_t)best;
        }
    }
}

template <typename T>
__global__ void gather_kernel(T *y, const T *x, const int32_t *indices, lines l, int64_t count, int64_t base)
{
    constexpr int W = 16 / sizeof(T);
    int64_t n = l.outer * count * l.inner;
    FL_VECTORS1(W, i, n) {
        const fl_vector<int32_t, W> from = fl_vector_load<W>(indices, i, n);
        fl_vector<T, W> v;
        FL_LANES(e, W, i, n) {
            int64_t at = from.at[e] - base, o = (i + e) / l.inner / count;
            v.at[e] = at >= 0 && at < l.n ? x[(o * l.n + at) * l.inner + (i + e) % l.inner] : fl_store<T>(0);
        }
        fl_vector_store(y, i, n, v);
    }
}

/* y is zero before. */
template <typename T>
__global__ void scatter_kernel(float *y, const T *x, const int32_t *indices, lines l, int64_t count, int64_t base)
{
    FL_GRID_FOR(r, l.outer * l.inner) {
        int64_t o = r / l.inner, i = r % l.inner;
        for (int64_t j = 0; j < l.n; j++) {
            int64_t from = (o * l.n + j) * l.inner + i, at = indices[from] - base;
            if (at >= 0 && at < count)
                y[(o * count + at) * l.inner + i] += fl_load(x[from]);
        }
    }
}

extern "C" void fl_cumsum_as(void *y, const void *x, enum fl_type t, const struct fl_dims *d, bool reverse)
{
    lines l = lines_of(d);
    int64_t n = l.outer * l.inner;
    if (n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(cumsum_kernel<T>, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, (T *)y, (const T *)x, l, reverse))
}

extern "C" void fl_cumsum(float *y, const float *x, const struct fl_dims *d, bool reverse) { fl_cumsum_as(y, x, FL_F32, d, reverse); }

extern "C" void fl_top_k_as(void *values, int32_t *indices, const void *x, enum fl_type t, const struct fl_dims *d, int64_t k)
{
    lines l = lines_of(d);
    int64_t n = l.outer * l.inner;
    if (n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(top_k_kernel<T>, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, (T *)values, indices, (const T *)x, l, k))
}

extern "C" void fl_top_k(float *values, int32_t *indices, const float *x, const struct fl_dims *d, int64_t k)
{
    fl_top_k_as(values, indices, x, FL_F32, d, k);
}

extern "C" void fl_gather_as(void *y, const void *x, enum fl_type t, const int32_t *indices, const struct fl_dims *d, int64_t count,
                             int64_t base)
{
    lines l = lines_of(d);
    int64_t n = l.outer * count * l.inner;
    if (n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(gather_kernel<T>, fl_blocks_for(n, 4 * FL_BLOCK), FL_BLOCK, (T *)y, (const T *)x, indices, l,
                                        count, base))
}

extern "C" void fl_gather(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base)
{
    fl_gather_as(y, x, FL_F32, indices, d, count, base);
}

extern "C" void fl_scatter_as(float *y, const void *x, enum fl_type t, const int32_t *indices, const struct fl_dims *d, int64_t count,
                              int64_t base)
{
    lines l = lines_of(d);
    int64_t n = l.outer * l.inner;
    fl_fill(y, 0, n * count);
    if (n > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(scatter_kernel<T>, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, y, (const T *)x, indices, l, count, base))
}

extern "C" void fl_scatter(float *y, const float *x, const int32_t *indices, const struct fl_dims *d, int64_t count, int64_t base)
{
    fl_scatter_as(y, x, FL_F32, indices, d, count, base);
}
