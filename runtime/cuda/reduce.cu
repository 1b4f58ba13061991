/* Reductions over any set of dims: a thread, a warp or a block per result, by the number of terms; threads of a warp or a
 * block stride over the terms, a fixed tree joins them. Where terms or results are neighbours a thread reads 16 bytes of them. */
#include "../check.h"
#include "walk.h"

/* What is reduced: floats by sum, max or min, true bytes, or ids that differ from a value. `wide` neighbours are 16 bytes or 32. */
template <typename T> struct read_as {
    static constexpr int wide = FL_SUMMED;
    const T *x;
    __device__ float operator()(T v) const { return fl_load(v); }
};
struct read_true {
    static constexpr int wide = 16;
    const uint8_t *x;
    __device__ float operator()(uint8_t v) const { return v != 0; }
};
struct read_not {
    static constexpr int wide = 4;
    const int32_t *x;
    int32_t ignore;
    __device__ float operator()(int32_t v) const { return v != ignore; }
};

static __device__ __forceinline__ float start_of(int kind)
{
    return kind == FL_SUM ? 0.0f : kind == FL_MAX ? -INFINITY : INFINITY;
}

static __device__ __forceinline__ float joined(int kind, float v, float x)
{
    return kind == FL_SUM ? v + x : kind == FL_MAX ? fmaxf(v, x) : fminf(v, x);
}

/* One more term; lost: what rounding has taken from a sum so far. An infinite one has lost nothing that could be told. */
static __device__ __forceinline__ void join(int kind, float &v, float &lost, float term)
{
    float x = term - lost, next = joined(kind, v, x);
    lost = kind == FL_SUM && isfinite(next) ? next - v - x : 0.0f;
    v = next;
}

template <typename Y, typename Read>
__global__ void reduce_by_thread(Y *y, Read read, walk kept, walk gone, int kind, float factor)
{
    FL_GRID_FOR(r, kept.count) {
        int64_t first = walk_offset(kept, r);
        float v = start_of(kind);
        for (int64_t i = 0; i < gone.count; i++)
            v = joined(kind, v, read(read.x[first + walk_offset(gone, i)]));
        y[r] = fl_store<Y>(v * factor);
    }
}

template <typename Y, typename Read>
__global__ void reduce_by_warp(Y *y, Read read, walk kept, walk gone, int kind, float factor)
{
    FL_WARP_FOR(r, kept.count) {
        int64_t first = walk_offset(kept, r);
        float v = start_of(kind);
        for (int64_t i = FL_LANE; i < gone.count; i += FL_WARP)
            v = joined(kind, v, read(read.x[first + walk_offset(gone, i)]));
        v = kind == FL_SUM ? fl_warp_sum(v) : kind == FL_MAX ? fl_warp_max(v) : -fl_warp_max(-v);
        if (FL_LANE == 0)
            y[r] = fl_store<Y>(v * factor);
    }
}

template <typename Y, typename Read>
__global__ void reduce_by_block(Y *y, Read read, walk kept, walk gone, int kind, float factor)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    for (int64_t r = blockIdx.x; r < kept.count; r += gridDim.x) {
        int64_t first = walk_offset(kept, r);
        float v = start_of(kind), lost = 0;
        for (int64_t i = threadIdx.x; i < gone.count; i += FL_BLOCK)
            join(kind, v, lost, read(read.x[first + walk_offset(gone, i)]));
        v = kind == FL_SUM ? fl_block_sum(v, scratch) : kind == FL_MAX ? fl_block_max(v, scratch) : -fl_block_max(-v, scratch);
        if (threadIdx.x == 0)
            y[r] = fl_store<Y>(v * factor);
    }
}

/* Terms that lie one behind the other: by SHARING threads a result, a warp or a block. */
template <int SHARING, typename Y, typename Read>
__global__ void reduce_runs(Y *y, Read read, walk kept, int64_t n, int kind, float factor)
{
    constexpr int W = Read::wide;
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    int64_t own = ((int64_t)blockIdx.x * FL_BLOCK + threadIdx.x) / SHARING;
    for (int64_t r = own; r < kept.count; r += (int64_t)gridDim.x * (FL_BLOCK / SHARING)) {
        int64_t first = walk_offset(kept, r);
        float v = start_of(kind), lost = 0;
        FL_PIECES(W, i, first, n, threadIdx.x % SHARING, SHARING) {
            const auto x = fl_vector_load<W>(read.x + first, i, n);
            FL_LANES(e, W, i, n)
                join(kind, v, lost, read(x.at[e]));
        }
        if constexpr (SHARING == FL_WARP)
            v = kind == FL_SUM ? fl_warp_sum(v) : kind == FL_MAX ? fl_warp_max(v) : -fl_warp_max(-v);
        else
            v = kind == FL_SUM ? fl_block_sum(v, scratch) : kind == FL_MAX ? fl_block_max(v, scratch) : -fl_block_max(-v, scratch);
        if (threadIdx.x % SHARING == 0)
            y[r] = fl_store<Y>(v * factor);
    }
}

/* Results that lie one behind the other, `columns` for each of kept: two threads beside each other take a piece each of every
 * so-manyth term, and what they have is joined in order. */
template <typename Y, typename Read>
__global__ void reduce_columns(Y *y, Read read, walk kept, int64_t columns, walk gone, int kind, float factor)
{
    constexpr int W = Read::wide, ACROSS = 2, COLUMNS = ACROSS * W, SHARES = FL_BLOCK / ACROSS;
    FL_SHARED(float, room, SHARES * COLUMNS);
    int64_t blocks = (columns + COLUMNS - 1) / COLUMNS, share = threadIdx.x / ACROSS, own = threadIdx.x % ACROSS * W;
    for (int64_t b = blockIdx.x; b < kept.count * blocks; b += gridDim.x) {
        int64_t to = b / blocks, first = b % blocks * COLUMNS, at = walk_offset(kept, to);
        float v[W], lost[W] = {};
        FL_UNROLL
        for (int e = 0; e < W; e++)
            v[e] = start_of(kind);
        for (int64_t i = share; i < gone.count; i += SHARES) {
            const auto x = fl_vector_load<W>(read.x + at + walk_offset(gone, i), first + own, columns);
            FL_UNROLL
            for (int e = 0; e < W; e++)
                join(kind, v[e], lost[e], read(x.at[e]));
        }
        FL_BARRIER();
        fl_wide_store(room + share * COLUMNS, own, COLUMNS, v);
        FL_BARRIER();
        if (threadIdx.x < COLUMNS && first + threadIdx.x < columns) {
            float all = start_of(kind), gone_by = 0;
            for (int s = 0; s < SHARES && s < gone.count; s++)
                join(kind, all, gone_by, room[s * COLUMNS + threadIdx.x]);
            y[to * columns + first + threadIdx.x] = fl_store<Y>(all * factor);
        }
    }
}

/* Dims that are dense in memory, as one. */
static walk merged(const walk &w)
{
    walk m = {0, {0}, {0}, w.count};
    for (int d = 0; d < w.ndim; d++) {
        bool dense = m.ndim && m.stride[m.ndim - 1] == w.n[d] * w.stride[d];
        int to = dense ? m.ndim - 1 : m.ndim++;
        m.n[to] = dense ? m.n[to] * w.n[d] : w.n[d];
        m.stride[to] = w.stride[d];
    }
    return m;
}

template <typename Y, typename Read> static void launch_reduce(Y *y, Read read, const struct fl_dims *d, int kind, float factor)
{
    walk kept, gone, all;
    walk_split(d, &kept, &gone, &all);
    if (kept.count <= 0)
        return;
    kept = merged(kept);
    gone = merged(gone);
    constexpr int WARPS = FL_BLOCK / FL_WARP;
    bool few = gone.count <= 1024;
    int64_t columns = kept.ndim && kept.stride[kept.ndim - 1] == 1 ? kept.n[kept.ndim - 1] : 0;
    if (gone.count <= 16) {
        FL_LAUNCH_GRID((reduce_by_thread<Y, Read>), fl_blocks_for(kept.count, FL_BLOCK), FL_BLOCK, y, read, kept, gone,
                       kind, factor);
    } else if (gone.ndim == 1 && gone.stride[0] == 1) {
        if (few)
            FL_LAUNCH_GRID((reduce_runs<FL_WARP, Y, Read>), fl_blocks_for(kept.count, WARPS), FL_BLOCK, y, read, kept,
                           gone.count, kind, factor);
        else
            FL_LAUNCH_GRID((reduce_runs<FL_BLOCK, Y, Read>), fl_blocks_for(kept.count, 1), FL_BLOCK, y, read, kept,
                           gone.count, kind, factor);
    } else if (columns >= 2 * Read::wide) {
        kept.count /= columns;
        kept.ndim--;
        int64_t vectors = FL_VECTORS_OF(2 * Read::wide, columns);
        FL_LAUNCH_GRID((reduce_columns<Y, Read>), fl_blocks_for(kept.count * vectors, 1), FL_BLOCK, y, read, kept, columns,
                       gone, kind, factor);
    } else if (few) {
        FL_LAUNCH_GRID((reduce_by_warp<Y, Read>), fl_blocks_for(kept.count, WARPS), FL_BLOCK, y, read, kept, gone, kind,
                       factor);
    } else {
        FL_LAUNCH_GRID((reduce_by_block<Y, Read>), fl_blocks_for(kept.count, 1), FL_BLOCK, y, read, kept, gone, kind,
                       factor);
    }
}

/* Results are f32, or of the type of what is read. */
static void reduce_as(void *y, const void *x, enum fl_type ty, enum fl_type tx, const struct fl_dims *d, int kind, float factor)
{
    if (ty != FL_F32 && ty != tx)
        FL_FAIL(NULL, "a reduction from type %d to type %d", (int)tx, (int)ty);
    if (ty == FL_F32)
        FL_BY_TYPE(tx, T, launch_reduce((float *)y, read_as<T>{(const T *)x}, d, kind, factor))
    else
        FL_BY_TYPE(tx, T, launch_reduce((T *)y, read_as<T>{(const T *)x}, d, kind, factor))
}

#define REDUCTION(name, kind, factor)                                                                                  \
    extern "C" void fl_##name##_as(void *y, const void *x, enum fl_type ty, enum fl_type tx, const struct fl_dims *d)   \
    {                                                                                                                  \
        reduce_as(y, x, ty, tx, d, kind, factor);                                                                      \
    }                                                                                                                  \
    extern "C" void fl_##name(float *y, const float *x, const struct fl_dims *d) { reduce_as(y, x, FL_F32, FL_F32, d, kind, factor); }
REDUCTION(sum, FL_SUM, 1.0f)
REDUCTION(max, FL_MAX, 1.0f)
REDUCTION(min, FL_MIN, 1.0f)
REDUCTION(mean, FL_SUM, (float)(1.0 / d->divisor))

extern "C" void fl_count(float *y, const void *x, const struct fl_dims *d, bool has_ignore, int32_t ignore)
{
    if (has_ignore)
        launch_reduce(y, read_not{(const int32_t *)x, ignore}, d, FL_SUM, 1.0f);
    else
        launch_reduce(y, read_true{(const uint8_t *)x}, d, FL_SUM, 1.0f);
}

template <typename T> __global__ void argmax_kernel(int32_t *y, const T *x, walk kept, walk gone)
{
    FL_GRID_FOR(i, kept.count) {
        const T *line = x + walk_offset(kept, i);
        int64_t best = 0;
        for (int64_t k = 1; k < gone.count; k++)
            if (fl_load(line[walk_offset(gone, k)]) > fl_load(line[walk_offset(gone, best)]))
                best = k;
        y[i] = (int32_t)best;
    }
}

extern "C" void fl_argmax_as(int32_t *y, const void *x, enum fl_type t, const struct fl_dims *d)
{
    walk kept, gone, all;
    walk_split(d, &kept, &gone, &all);
    if (kept.count > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(argmax_kernel<T>, fl_blocks_for(kept.count, FL_BLOCK), FL_BLOCK, y, (const T *)x, kept, gone))
}

extern "C" void fl_argmax(int32_t *y, const float *x, const struct fl_dims *d) { fl_argmax_as(y, x, FL_F32, d); }

__global__ void global_norm_kernel(float *y, const float *squares, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)squares[i];
    *y = (float)sqrt(sum);
}

extern "C" void fl_global_norm(float *y, const float *squares, int64_t n)
{
    FL_LAUNCH_GRID(global_norm_kernel, 1, 1, y, squares, n);
}

__global__ void clip_scale_kernel(float *y, const float *norm, float clip)
{
    *y = isfinite(*norm) ? fminf(1.0f, clip / (*norm + 1e-6f)) : NAN;
}

extern "C" void fl_clip_scale(float *y, const float *norm, float clip)
{
    FL_LAUNCH_GRID(clip_scale_kernel, 1, 1, y, norm, clip);
}
