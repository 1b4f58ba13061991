/* Row work of emitted kernels (compiler/emit/rows.c) on a GPU: a warp takes a row of up to 768 elements, a block a longer one. Its
 * threads keep their elements in registers from pass to pass: `each` of them, in pieces of `wide` neighbours, so that rows are read
 * and written 16 bytes at a time. All of it follows from the row's length alone: a sum along a row has the same shape, so the same
 * bits, whatever is fused around it. A sum of all rows is made over chunks of rows, then over chunks in order. */
#ifndef FLOW_ROWS_H
#define FLOW_ROWS_H
#include "../fl_defaults.h"
#include "../fl_random.h"

template <int N> struct fl_row {
    static constexpr int lanes = FL_ROW_SHARED_BY(N), wide = FL_ROW_PIECE(N), each = FL_ROW_EACH(N);
    static_assert(FL_ROW_THREADS == FL_BLOCK && FL_ROW_LANES == FL_WARP, "a block, a warp");
    static __device__ __forceinline__ int lane() { return (int)(threadIdx.x % lanes); }
    /* The place in the row of the first element of this thread's piece. */
    static __device__ __forceinline__ int at(int piece) { return (piece * lanes + lane()) * wide; }
};

struct alignas(8) fl_8_bytes { uint32_t part[2]; };

/* `wide` elements at p, which is aligned where vectors are asked for. */
template <int W, bool VECTORS, typename T> static __device__ __forceinline__ void fl_piece_load(float *x, const T *p)
{
    T e[W];
    if constexpr (VECTORS && W * sizeof(T) % 16 == 0) {
        FL_UNROLL
        for (unsigned k = 0; k < W * sizeof(T) / 16; k++) {
            fl_16_bytes b = ((const fl_16_bytes *)p)[k];
            memcpy((char *)e + 16 * k, &b, 16);
        }
    } else if constexpr (VECTORS && W * sizeof(T) == 8) {
        fl_8_bytes b = *(const fl_8_bytes *)p;
        memcpy(e, &b, 8);
    } else {
        FL_UNROLL
        for (int k = 0; k < W; k++)
            e[k] = p[k];
    }
    FL_UNROLL
    for (int k = 0; k < W; k++)
        x[k] = fl_load(e[k]);
}

template <int W, bool VECTORS, typename T> static __device__ __forceinline__ void fl_piece_store(T *p, const float *y)
{
    T e[W];
    FL_UNROLL
    for (int k = 0; k < W; k++)
        e[k] = fl_store<T>(y[k]);
    if constexpr (VECTORS && W * sizeof(T) % 16 == 0) {
        FL_UNROLL
        for (unsigned k = 0; k < W * sizeof(T) / 16; k++) {
            fl_16_bytes b;
            memcpy(&b, (const char *)e + 16 * k, 16);
            ((fl_16_bytes *)p)[k] = b;
        }
    } else if constexpr (VECTORS && W * sizeof(T) == 8) {
        fl_8_bytes b;
        memcpy(&b, e, 8);
        *(fl_8_bytes *)p = b;
    } else {
        FL_UNROLL
        for (int k = 0; k < W; k++)
            p[k] = e[k];
    }
}

/* Elements of a piece beyond the row are 0; nothing adds them up or stores them. */
template <int N, bool VECTORS, typename T> static __device__ __forceinline__ void fl_row_load(float (&x)[fl_row<N>::each], const T *from)
{
    constexpr int W = fl_row<N>::wide;
    FL_UNROLL
    for (int k = 0; k < fl_row<N>::each / W; k++) {
        int at = fl_row<N>::at(k);
        if (at < N) {
            fl_piece_load<W, VECTORS>(&x[k * W], from + at);
        } else {
            FL_UNROLL
            for (int e = 0; e < W; e++)
                x[k * W + e] = 0;
        }
    }
}

template <int N, bool VECTORS, typename T> static __device__ __forceinline__ void fl_row_store(T *to, const float (&y)[fl_row<N>::each])
{
    constexpr int W = fl_row<N>::wide;
    FL_UNROLL
    for (int k = 0; k < fl_row<N>::each / W; k++) {
        int at = fl_row<N>::at(k);
        if (at < N)
            fl_piece_store<W, VECTORS>(to + at, &y[k * W]);
    }
}

static __device__ __forceinline__ float fl_join_sum(float a, float b) { return a + b; }
static __device__ __forceinline__ float fl_join_max(float a, float b) { return fmaxf(a, b); }
static __device__ __forceinline__ float fl_join_min(float a, float b) { return fminf(a, b); }

/* Over the row; all its threads get the result. */
template <int N, float JOIN(float, float)>
static __device__ __forceinline__ float fl_row_along(const float (&v)[fl_row<N>::each], float start)
{
    constexpr int W = fl_row<N>::wide;
    float s = start;
    FL_UNROLL
    for (int k = 0; k < fl_row<N>::each / W; k++)
        if (fl_row<N>::at(k) < N) {
            FL_UNROLL
            for (int e = 0; e < W; e++)
                s = JOIN(s, v[k * W + e]);
        }
    for (int lane = FL_WARP / 2; lane > 0; lane /= 2)
        s = JOIN(s, fl_shuffle_xor(s, lane));
    if constexpr (fl_row<N>::lanes > FL_WARP) {
        FL_SHARED(float, room, FL_BLOCK / FL_WARP);
        FL_BARRIER();
        if (threadIdx.x % FL_WARP == 0)
            room[threadIdx.x / FL_WARP] = s;
        FL_BARRIER();
        s = room[0];
        for (int w = 1; w < FL_BLOCK / FL_WARP; w++)
            s = JOIN(s, room[w]);
    }
    return s;
}

/* Which elements of a row dropout keeps: bit i for this thread's i-th. first: the row's first element in the logical tensor, in
 * which rows lie one behind the other, so that four neighbours share a counter wherever rows are of a multiple of four. */
template <int N>
static __device__ __forceinline__ uint32_t fl_row_kept(uint64_t key, int64_t step, int64_t block, int64_t first, uint64_t least)
{
    constexpr int W = fl_row<N>::wide, DRAWN = W % 4 == 0 ? 4 : 1;
    static_assert(fl_row<N>::each <= 32, "a bit for each");
    uint32_t kept = 0;
    for (int i = 0; i < fl_row<N>::each; i += DRAWN) {
        int at = fl_row<N>::at(i / W) + i % W;
        if (at >= N)
            continue;
        if constexpr (DRAWN == 4) {
            uint32_t word[4];
            fl_random_4(key, step, (uint32_t)block, (uint64_t)(first + at) >> 2, word);
            FL_UNROLL
            for (int e = 0; e < 4; e++)
                kept |= (uint32_t)(word[e] >= least) << (i + e);
        } else {
            kept |= (uint32_t)(fl_random(key, step, (uint32_t)block, (uint64_t)(first + at)) >= least) << i;
        }
    }
    return kept;
}

enum { FL_CHUNK_ROWS = FL_CHUNK_ROWS_CUDA };
static inline __host__ __device__ int64_t fl_chunks(int64_t rows, int64_t n)
{
    (void)n;
    return (rows + FL_CHUNK_ROWS - 1) / FL_CHUNK_ROWS;
}

/* Whoever has a row (lanes threads) takes each so-many-th of n. */
#define FL_ROW_GROUPS(r, count, n)                                                                                      \
    for (int64_t r = ((int64_t)blockIdx.x * FL_BLOCK + threadIdx.x) / fl_row<n>::lanes; r < (count);                    \
         r += (int64_t)gridDim.x * (FL_BLOCK / fl_row<n>::lanes))
#define FL_LAUNCH_GROUPS(kernel, count, n, ...)                                                                         \
    do {                                                                                                                \
        if ((count) > 0)                                                                                                \
            FL_LAUNCH_GRID(kernel, fl_blocks_for(count, FL_BLOCK / fl_row<n>::lanes), FL_BLOCK, __VA_ARGS__);           \
    } while (0)
#define FL_LAUNCH_ROWS(kernel, rows, n, ...) FL_LAUNCH_GROUPS(kernel, rows, n, __VA_ARGS__)
#define FL_LAUNCH_CHUNKS(kernel, rows, n, ...) FL_LAUNCH_GROUPS(kernel, fl_chunks(rows, n), n, __VA_ARGS__)
#define FL_ROWS(r, rows, n) FL_ROW_GROUPS(r, rows, n)
#define FL_CHUNKS(c, rows, n) FL_ROW_GROUPS(c, fl_chunks(rows, n), n)
#define FL_CHUNK(r, c, rows)                                                                                            \
    for (int64_t r = (c) * FL_CHUNK_ROWS; r < (rows) && r < ((c) + 1) * FL_CHUNK_ROWS; r++)
#define FL_PASS(i, n) FL_UNROLL for (int i = 0; i < fl_row<n>::each; i++)
#define FL_ROW_IN(x, T, from, n, vectors)                                                                               \
    float x[fl_row<n>::each];                                                                                           \
    fl_row_load<n, vectors>(x, from)
#define FL_ROW_OUT(y, T, to, n) float y[fl_row<n>::each]
#define FL_ROW_PUT(y, T, to, n, vectors) fl_row_store<n, vectors, T>(to, y)
#define FL_ROW_OWN(v, n) float v[fl_row<n>::each]
#define FL_GET_f32(x, i) (x)[i]
#define FL_GET_bf16(x, i) (x)[i]
#define FL_GET_f16(x, i) (x)[i]
#define FL_GET_bool(x, i) (x)[i]
#define FL_SET_f32(y, i, v) (y)[i] = (v)
#define FL_SET_bf16(y, i, v) (y)[i] = (v)
#define FL_SET_f16(y, i, v) (y)[i] = (v)
#define FL_SET_bool(y, i, v) (y)[i] = (v)
#define FL_ROW_SUM(x, n) fl_row_along<n, fl_join_sum>(x, 0.0f)
#define FL_ROW_MAX(x, n) fl_row_along<n, fl_join_max>(x, -INFINITY)
#define FL_ROW_MIN(x, n) fl_row_along<n, fl_join_min>(x, INFINITY)
#define FL_STEP(s) fl_step_on_device(s)
#define FL_ROW_KEPT(kept, s, hash, block, first, least, n)                                                              \
    const uint32_t kept = fl_row_kept<n>(fl_key((s)->seed, hash), (s)->step, block, first, least)
#define FL_KEPT(kept, i) ((kept) >> (i) & 1)
#define FL_ONCE(n) if (fl_row<n>::lane() == 0)
#define FL_COLUMN(p, parts, c, k, count, n) float p[fl_row<n>::each] = {0}
#define FL_COLUMN_PUT(p, parts, c, k, count, n)                                                                         \
    fl_row_store<n, fl_row<n>::wide >= 4, float>((parts) + ((c) * (count) + (k)) * (n), p)
#endif
