/* Copies and fills over grid-stride loops: 16 bytes a thread where tensors are dense, and where rows that are moved begin and end at
 * multiples of 16 bytes; else units of 8, 4, 2 or 1, whatever divides all of them. */
#include "../flow_rt.h"

/* Where element i of a walk in row-major order lies in the result and in the operand. */
static __device__ __forceinline__ void strided_at(const struct fl_strided &s, int64_t i, int64_t *to, int64_t *from)
{
    *to = *from = 0;
    for (int d = s.ndim - 1; d >= 0; d--) {
        int64_t k = i % s.n[d];
        i /= s.n[d];
        *to += k * s.sy[d];
        *from += k * s.sx[d];
    }
}

template <typename T> __global__ void copy_strided(T *y, const T *x, struct fl_strided s, int64_t count)
{
    FL_GRID_FOR(i, count) {
        int64_t to, from;
        strided_at(s, i, &to, &from);
        y[to] = x[from];
    }
}

/* y[o, at + i] = x[o, from + i] for i < n, with ny and nx entries per o. */
template <typename T>
__global__ void copy_rows(T *y, const T *x, int64_t outer, int64_t ny, int64_t at, int64_t nx, int64_t from, int64_t n)
{
    FL_GRID_FOR(i, outer * n) {
        int64_t o = i / n;
        y[o * ny + at + i % n] = x[o * nx + from + i % n];
    }
}

template <typename T> __global__ void fill(T *y, T v, int64_t n)
{
    constexpr int W = 16 / sizeof(T);
    FL_VECTORS1(W, i, n) {
        fl_vector<T, W> all;
        FL_LANES(e, W, i, n)
            all.at[e] = v;
        fl_vector_store(y, i, n, all);
    }
}

template <typename T> __global__ void accumulate(T *acc, const T *x, int64_t n, bool first, enum fl_reduce kind)
{
    constexpr int W = 16 / sizeof(T);
    FL_VECTORS1(W, i, n) {
        fl_vector<T, W> v = fl_vector_load<W>(x, i, n), a = first ? v : fl_vector_load<W>(acc, i, n);
        FL_LANES(e, W, i, n) {
            float b = fl_load(v.at[e]), c = fl_load(a.at[e]);
            a.at[e] = fl_store<T>(first ? b : kind == FL_SUM ? c + b : kind == FL_MAX ? fmaxf(c, b) : fminf(c, b));
        }
        fl_vector_store(acc, i, n, a);
    }
}

template <typename Y, typename X> __global__ void convert(Y *y, const X *x, struct fl_strided s, int64_t count)
{
    FL_GRID_FOR(i, count) {
        int64_t to, from;
        strided_at(s, i, &to, &from);
        y[to] = fl_store<Y>(fl_load(x[from]));
    }
}

template <typename Y, typename X> __global__ void convert_dense(Y *y, const X *x, int64_t n)
{
    constexpr int W = 16 / (sizeof(X) < sizeof(Y) ? sizeof(X) : sizeof(Y));
    FL_VECTORS1(W, i, n) {
        fl_vector<X, W> from = fl_vector_load<W>(x, i, n);
        fl_vector<Y, W> to;
        FL_LANES(e, W, i, n)
            to.at[e] = fl_store<Y>(fl_load(from.at[e]));
        fl_vector_store(y, i, n, to);
    }
}

__global__ void positions(int32_t *y, int64_t base, int64_t n)
{
    FL_VECTORS1(4, i, n) {
        fl_vector<int32_t, 4> v;
        FL_LANES(e, 4, i, n)
            v.at[e] = (int32_t)(base + i + e);
        fl_vector_store(y, i, n, v);
    }
}

/* The largest unit of bytes that divides all that was joined into `all` by |, sizes and addresses. */
static int unit_of(uint64_t all)
{
    int unit = 16;
    while (unit > 1 && all % (unsigned)unit)
        unit /= 2;
    return unit;
}

#define BY_SIZE(bytes, call)                                                                                           \
    switch (bytes) {                                                                                                   \
    case 16: { using T = fl_16_bytes; call; break; }                                                                   \
    case 1: { using T = uint8_t; call; break; }                                                                        \
    case 2: { using T = uint16_t; call; break; }                                                                       \
    case 4: { using T = uint32_t; call; break; }                                                                       \
    default: { using T = uint64_t; call; break; }                                                                      \
    }

static void launch_rows(void *y, const void *x, int64_t outer, int64_t ny, int64_t at, int64_t nx, int64_t from, int64_t n,
                        int64_t inner, int bytes)
{
    int64_t row = inner * bytes;
    int unit = unit_of((uint64_t)((ny | at | nx | from | n) * row) | (uintptr_t)y | (uintptr_t)x);
    int64_t count = outer * (n * row / unit);
    if (count > 0)
        BY_SIZE(unit, FL_LAUNCH_GRID(copy_rows<T>, fl_blocks_for(count, FL_BLOCK), FL_BLOCK, (T *)y, (const T *)x, outer, ny * row / unit,
                                     at * row / unit, nx * row / unit, from * row / unit, n * row / unit))
}

extern "C" void fl_fill(float *y, float v, int64_t n)
{
    if (n > 0)
        FL_LAUNCH_GRID(fill<float>, fl_blocks_for(n, 4 * FL_BLOCK), FL_BLOCK, y, v, n);
}

extern "C" void fl_fill_bytes(void *y, int byte, int64_t n)
{
    FL_CUDA(cudaMemsetAsync(y, byte, (size_t)n, fl_stream()));
}

extern "C" void fl_copy(void *y, const void *x, int64_t n, int bytes)
{
    FL_CUDA(cudaMemcpyAsync(y, x, (size_t)(n * bytes), cudaMemcpyDeviceToDevice, fl_stream()));
}

extern "C" void fl_copy_strided(void *y, const void *x, const struct fl_strided *s, int bytes)
{
    struct fl_strided by = *s;
    int64_t count = 1;
    int last = s->ndim - 1, unit = bytes;
    if (last >= 0 && s->sy[last] == 1 && s->sx[last] == 1) {         /* its rows in units of more bytes */
        uint64_t all = (uintptr_t)y | (uintptr_t)x | (uint64_t)(s->n[last] * bytes);
        for (int d = 0; d < last; d++)
            all |= (uint64_t)(s->sy[d] * bytes) | (uint64_t)(s->sx[d] * bytes);
        unit = unit_of(all) > bytes ? unit_of(all) : bytes;
        by.n[last] = s->n[last] * bytes / unit;
        for (int d = 0; d < last; d++) {
            by.sy[d] = s->sy[d] * bytes / unit;
            by.sx[d] = s->sx[d] * bytes / unit;
        }
    }
    for (int d = 0; d < s->ndim; d++)
        count *= by.n[d];
    if (count > 0)
        BY_SIZE(unit, FL_LAUNCH_GRID(copy_strided<T>, fl_blocks_for(count, FL_BLOCK), FL_BLOCK, (T *)y, (const T *)x, by, count))
}

extern "C" void fl_put(void *y, const void *x, int64_t outer, int64_t ny, int64_t at, int64_t n, int64_t inner, int bytes)
{
    launch_rows(y, x, outer, ny, at, n, 0, n, inner, bytes);
}

extern "C" void fl_take(void *y, const void *x, int64_t outer, int64_t nx, int64_t at, int64_t n, int64_t inner, int bytes)
{
    launch_rows(y, x, outer, n, 0, nx, at, n, inner, bytes);
}

extern "C" void fl_accumulate(float *acc, const float *x, int64_t n, bool first, enum fl_reduce kind)
{
    if (n > 0)
        FL_LAUNCH_GRID(accumulate<float>, fl_blocks_for(n, 4 * FL_BLOCK), FL_BLOCK, acc, x, n, first, kind);
}

extern "C" void fl_accumulate_bf16(fl_bf16 *acc, const fl_bf16 *x, int64_t n, bool first, enum fl_reduce kind)
{
    if (n > 0)
        FL_LAUNCH_GRID(accumulate<fl_bf16>, fl_blocks_for(n, 8 * FL_BLOCK), FL_BLOCK, acc, x, n, first, kind);
}

extern "C" void fl_accumulate_f16(fl_f16 *acc, const fl_f16 *x, int64_t n, bool first, enum fl_reduce kind)
{
    if (n > 0)
        FL_LAUNCH_GRID(accumulate<fl_f16>, fl_blocks_for(n, 8 * FL_BLOCK), FL_BLOCK, acc, x, n, first, kind);
}

extern "C" void fl_fill_bf16(fl_bf16 *y, float v, int64_t n)
{
    if (n > 0)
        FL_LAUNCH_GRID(fill<uint16_t>, fl_blocks_for(n, 8 * FL_BLOCK), FL_BLOCK, (uint16_t *)y, fl_to_bf16(v).bits, n);
}

extern "C" void fl_fill_f16(fl_f16 *y, float v, int64_t n)
{
    if (n > 0)
        FL_LAUNCH_GRID(fill<uint16_t>, fl_blocks_for(n, 8 * FL_BLOCK), FL_BLOCK, (uint16_t *)y, fl_to_f16(v).bits, n);
}

/* Conversions between the float types: one kernel for each pair. */
template <typename Y, typename X> static void launch_dense(void *y, const void *x, int64_t n)
{
    FL_LAUNCH_GRID((convert_dense<Y, X>), fl_blocks_for(n, (sizeof(X) + sizeof(Y) < 8 ? 8 : 4) * FL_BLOCK), FL_BLOCK, (Y *)y, (const X *)x, n);
}

template <typename Y, typename X> static void launch_strided(void *y, const void *x, const struct fl_strided *s, int64_t n)
{
    FL_LAUNCH_GRID((convert<Y, X>), fl_blocks_for(n, FL_BLOCK), FL_BLOCK, (Y *)y, (const X *)x, *s, n);
}

extern "C" void fl_convert(void *y, enum fl_type ty, const void *x, enum fl_type tx, int64_t n)
{
    if (n > 0)
        FL_BY_TYPE(ty, Y, FL_BY_TYPE(tx, X, (launch_dense<Y, X>(y, x, n))))
}

extern "C" void fl_convert_strided(void *y, enum fl_type ty, const void *x, enum fl_type tx, const struct fl_strided *s)
{
    int64_t count = 1;
    for (int d = 0; d < s->ndim; d++)
        count *= s->n[d];
    if (count > 0)
        FL_BY_TYPE(ty, Y, FL_BY_TYPE(tx, X, (launch_strided<Y, X>(y, x, s, count))))
}

extern "C" void fl_positions(int32_t *y, int64_t base, int64_t n)
{
    if (n > 0)
        FL_LAUNCH_GRID(positions, fl_blocks_for(n, 4 * FL_BLOCK), FL_BLOCK, y, base, n);
}
