/* Device primitives of the cuda target: launches, shared memory, sums over a warp or a block. Nothing else in the runtime
 * or in emitted programs may use a launch's <<< >>>, __shared__ or a shuffle. The first part needs a GPU; a host twin of
 * these few names (chosen by FL_DEVICE_TWIN) lets every other line of device code compile and run on a host.
 *
 * Reductions have a fixed shape (a tree over lanes, then over warps), so results do not depend on timing. */
#ifndef FLOW_DEV_H
#define FLOW_DEV_H
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include "../fl_types.h"

constexpr int FL_WARP = 32, FL_BLOCK = 256;

/* ---- what only a GPU has ---- */
#ifdef FL_DEVICE_TWIN
#include "device_twin.h"
#else
/* A kernel on the compute stream: FL_LAUNCH_GRID(name, blocks, threads, arguments...). */
#define FL_LAUNCH_GRID(kernel, blocks, threads, ...)                                                                        \
    do {                                                                                                               \
        kernel<<<(unsigned)(blocks), (unsigned)(threads), 0, fl_stream()>>>(__VA_ARGS__);                              \
        FL_CUDA(cudaGetLastError());                                                                                   \
    } while (0)
#define FL_SHARED(T, name, n) __shared__ __align__(16) T name[n]
#define FL_BARRIER() __syncthreads()
#define FL_WARP_BARRIER() __syncwarp()
#define FL_UNROLL _Pragma("unroll")
enum { FL_ARENA_FILL = 0 };                          /* byte that a fresh arena is filled with */

/* v of the lane whose number differs in the bits of `mask`; all lanes of the warp take part. */
template <typename T> static __device__ __forceinline__ T fl_shuffle_xor(T v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

/* Four matrices of 8 x 8 elements of 16 bits from shared memory: lane l gives the address of row l % 8 of matrix l / 8 (16
 * bytes, aligned) and gets of each matrix elements (l / 4, l % 4 * 2) and the next. across: of each matrix transposed. */
static __device__ __forceinline__ void fl_matrix_load(uint32_t (&to)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row)));
}

static __device__ __forceinline__ void fl_matrix_load_across(uint32_t (&to)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row)));
}

/* c[16, 8] += a[16, 16] b[16, 8] on tensor cores, sums in f32. Of c lane l has (l / 4, l % 4 * 2), the next, and the same 8 rows
 * below; a: four matrices as loaded above, 8 rows below each other first; b: two, transposed, below each other. */
template <typename T>
static __device__ __forceinline__ void fl_matrix_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void fl_matrix_add<fl_bf16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void fl_matrix_add<fl_f16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

/* ---- from here on the same text runs on both ---- */

/* Every call into CUDA: on failure one line with file, line and what CUDA says, and the job ends. */
#define FL_CUDA(call) fl_cuda_check((call), __FILE__, __LINE__, #call)
void fl_cuda_check(cudaError_t status, const char *file, int line, const char *call);
cudaStream_t fl_stream(void);                        /* the stream that calls are queued on: the compute stream, or .. */
void fl_stream_use(cudaStream_t stream);             /* .. this one, until it is NULL */

/* Streams beside it, and events between streams (streams.cu). A wait is for what was recorded in this step. */
struct fl_event { cudaEvent_t event; unsigned step; };           /* zeroed: nothing recorded */
cudaStream_t fl_stream_new(void);
void fl_stream_free(cudaStream_t stream);
void fl_record(struct fl_event *e, cudaStream_t stream);
void fl_wait(cudaStream_t stream, const struct fl_event *e);
void fl_event_free(struct fl_event *e);
void fl_streams_fork(void);                          /* a step begins: all work before it is done */
void fl_streams_join(void);

/* The scalars of the step as kernels read them: what differs between steps is never an argument (step.cu). */
const struct fl_step *fl_step_on_device(const struct fl_step *s);
bool fl_in_step(void);                               /* queued or captured as a part of one, by fl_target_run */
void fl_gathered_stop(void);                         /* frees the tables of updates (optimizer.cu) */
void fl_gemm_stop(void);                             /* frees the tables of batches (gemm.cu) */
void fl_step_stop(void);                             /* drops graphs; before communicators end */
void fl_offload_stop(void);                          /* frees host memory and what copies it (offload.cu) */
void *fl_workspace(int which, size_t bytes);         /* scratch space of this number on the device; grows, kept for the run */

/* An element of any float type as f32, and back. */
static __device__ __forceinline__ float fl_load(float x) { return x; }
static __device__ __forceinline__ float fl_load(fl_bf16 x) { return fl_from_bf16(x); }
static __device__ __forceinline__ float fl_load(fl_f16 x) { return fl_from_f16(x); }
template <typename T> static __device__ __forceinline__ T fl_store(float x);
template <> __device__ __forceinline__ float fl_store<float>(float x) { return x; }
template <> __device__ __forceinline__ fl_bf16 fl_store<fl_bf16>(float x) { return fl_to_bf16(x); }
template <> __device__ __forceinline__ fl_f16 fl_store<fl_f16>(float x) { return fl_to_f16(x); }
static __device__ __forceinline__ float fl_load(uint8_t x) { return x; }
template <> __device__ __forceinline__ uint8_t fl_store<uint8_t>(float x) { return x != 0; }

/* Two elements of 16 bits, the first in the lower half. */
template <typename T> static __device__ __forceinline__ uint32_t fl_pack(float a, float b)
{
    return fl_store<T>(a).bits | (uint32_t)fl_store<T>(b).bits << 16;
}

struct alignas(16) fl_16_bytes { uint32_t part[4]; };            /* one access */

/* W elements that one thread takes, in accesses of 16 bytes (or of all there are) where they begin at multiples of that; the first
 * and the last ones of [0, n), and those that begin elsewhere, one by one. What lies outside is 0. */
template <typename T, int W> struct alignas(W * sizeof(T) < 16 ? W * sizeof(T) : 16) fl_vector { T at[W]; };

template <int W, typename T> static __device__ __forceinline__ fl_vector<T, W> fl_vector_load(const T *x, int64_t i, int64_t n)
{
    if (i >= 0 && i + W <= n && (uintptr_t)(x + i) % alignof(fl_vector<T, W>) == 0)
        return *(const fl_vector<T, W> *)(x + i);
    fl_vector<T, W> v = {};
    FL_UNROLL
    for (int e = 0; e < W; e++)
        if ((uint64_t)(i + e) < (uint64_t)n)
            v.at[e] = x[i + e];
    return v;
}

template <int W, typename T>
static __device__ __forceinline__ void fl_vector_store(T *y, int64_t i, int64_t n, const fl_vector<T, W> &v)
{
    if (i >= 0 && i + W <= n && (uintptr_t)(y + i) % alignof(fl_vector<T, W>) == 0) {
        *(fl_vector<T, W> *)(y + i) = v;
        return;
    }
    FL_UNROLL
    for (int e = 0; e < W; e++)
        if ((uint64_t)(i + e) < (uint64_t)n)
            y[i + e] = v.at[e];
}

/* How many neighbours one thread takes at a time: 16 bytes of T; along a row that is summed up 8 of any type, which are two
 * accesses of f32, so that the same numbers have the same sum in every type. */
template <typename T> static constexpr int fl_wide = (int)(16 / sizeof(T));
constexpr int FL_SUMMED = 8;

/* W elements as f32. */
template <int W, typename T> static __device__ __forceinline__ void fl_wide_load(float (&to)[W], const T *x, int64_t i, int64_t n)
{
    fl_vector<T, W> v = fl_vector_load<W>(x, i, n);
    FL_UNROLL
    for (int e = 0; e < W; e++)
        to[e] = fl_load(v.at[e]);
}

template <int W, typename T> static __device__ __forceinline__ void fl_wide_store(T *y, int64_t i, int64_t n, const float (&from)[W])
{
    fl_vector<T, W> v;
    FL_UNROLL
    for (int e = 0; e < W; e++)
        v.at[e] = fl_store<T>(from[e]);
    fl_vector_store(y, i, n, v);
}

/* call, with T the type of elements that an enum fl_type says. */
#define FL_BY_TYPE(t, T, call)                                                                                            \
    switch (t) {                                                                                                       \
    case FL_BF16: { using T = fl_bf16; call; break; }                                                                  \
    case FL_F16: { using T = fl_f16; call; break; }                                                                    \
    default: { using T = float; call; break; }                                                                         \
    }

static __device__ __forceinline__ float fl_warp_sum(float v)
{
    for (int lane = FL_WARP / 2; lane > 0; lane /= 2)
        v += fl_shuffle_xor(v, lane);
    return v;
}

static __device__ __forceinline__ double fl_warp_sum_double(double v)
{
    for (int lane = FL_WARP / 2; lane > 0; lane /= 2)
        v += fl_shuffle_xor(v, lane);
    return v;
}

static __device__ __forceinline__ float fl_warp_max(float v)
{
    for (int lane = FL_WARP / 2; lane > 0; lane /= 2)
        v = fmaxf(v, fl_shuffle_xor(v, lane));
    return v;
}

/* Over all FL_BLOCK threads of a block; every thread gets the result. scratch: FL_BLOCK / FL_WARP shared floats. */
static __device__ __forceinline__ float fl_block_sum(float v, float *scratch)
{
    v = fl_warp_sum(v);
    FL_BARRIER();
    if (threadIdx.x % FL_WARP == 0)
        scratch[threadIdx.x / FL_WARP] = v;
    FL_BARRIER();
    float sum = 0;
    for (int w = 0; w < FL_BLOCK / FL_WARP; w++)
        sum += scratch[w];
    return sum;
}

static __device__ __forceinline__ float fl_block_max(float v, float *scratch)
{
    v = fl_warp_max(v);
    FL_BARRIER();
    if (threadIdx.x % FL_WARP == 0)
        scratch[threadIdx.x / FL_WARP] = v;
    FL_BARRIER();
    float best = scratch[0];
    for (int w = 1; w < FL_BLOCK / FL_WARP; w++)
        best = fmaxf(best, scratch[w]);
    return best;
}

/* for (int64_t i = ..): every warp of the grid takes its share of n, all its lanes the same i. */
#define FL_WARP_FOR(i, n)                                                                                              \
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / FL_WARP; i < (n);                              \
         i += (int64_t)gridDim.x * (blockDim.x / FL_WARP))
#define FL_LANE ((int)(threadIdx.x % FL_WARP))

static inline int64_t fl_blocks_for(int64_t n, int64_t per_block)
{
    int64_t blocks = (n + per_block - 1) / per_block, most = 1 << 20;
    return blocks < 1 ? 1 : blocks > most ? most : blocks;
}

/* ---- emitted kernels, one text for both targets (cpu: flow_rt.h) ---- */
#define FL_KERNEL static __global__ void
#define FL_PARAMS
#define FL_LAUNCH(kernel, elements, ...)                                                                               \
    do {                                                                                                               \
        if ((elements) > 0)                                                                                            \
            FL_LAUNCH_GRID(kernel, fl_blocks_for(elements, FL_BLOCK), FL_BLOCK, __VA_ARGS__);                          \
    } while (0)
#define FL_FOR1(i, n) FL_GRID_FOR(i, n)
#define FL_FOR2(i, n, j, m)                                                                                            \
    FL_GRID_FOR(i##_##j, (n) * (m))                                                                                    \
        for (int64_t i = i##_##j / (m), j = i##_##j % (m), once = 1; once; once = 0)

/* The same by vectors of W elements, which begin at i; of FL_VECTORS2 m is a multiple of W. FL_LANES: over those in [0, n). */
#define FL_VECTORS_OF(W, n) (((n) + (W) - 1) / (W))
#define FL_VECTORS1(W, i, n)                                                                                           \
    FL_GRID_FOR(i##_w, FL_VECTORS_OF(W, (int64_t)(n)))                                                                 \
        for (int64_t i = i##_w * (W), once = 1; once; once = 0)
#define FL_VECTORS2(W, i, n, j, m)                                                                                     \
    FL_GRID_FOR(i##_##j, (int64_t)(n) * ((m) / (W)))                                                                   \
        for (int64_t i = i##_##j / ((m) / (W)), j = i##_##j % ((m) / (W)) * (W), once = 1; once; once = 0)
#define FL_LANES(e, W, i, n)                                                                                           \
    FL_UNROLL                                                                                                          \
    for (int e = 0; e < (W); e++)                                                                                      \
        if ((uint64_t)((i) + e) < (uint64_t)(n))

/* for (int64_t i = ..): pieces of W elements of a row of n that begins at element `at` of a tensor, by `threads` of which this is the
 * t-th. They begin at the tensor's multiples of W, so that they are whole accesses in rows of any length; the first and the last
 * ones may reach beyond the row. What falls to which thread follows from numbers alone, not from addresses. */
#define FL_PIECES(W, i, at, n, t, threads)                                                                             \
    for (int64_t i = (int64_t)(t) * (W) - (int64_t)(at) % (W); i < (n); i += (int64_t)(threads) * (W))

/* for (int64_t i = ..): every thread of the grid takes its share of n. */
#define FL_GRID_FOR(i, n)                                                                                              \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)
#include "flow_rows.h"
#endif
