/* The host twin of the first part of flow_dev.h: a launch queues its grid; threads of a block are fibers that lose the
 * processor at barriers and shuffles only; shared memory is fresh and full of NaN for each block. */
#ifndef DOUBLE_DEVICE_TWIN_H
#define DOUBLE_DEVICE_TWIN_H
#include <cuda_runtime.h>
#include <fl_types.h>
#include <functional>
#include <string.h>
#include <tuple>

void twin_launch(const char *name, unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> thread);
void twin_barrier(void);
__attribute__((noreturn)) void twin_misaligned(const char *what);
struct twin_slot { void *memory; size_t bytes; unsigned long block; };
void *twin_shared(twin_slot *slot, size_t bytes);
/* Shows up to TWIN_SHOWN bytes to the other lanes of the warp; gives what lane l shows at l * TWIN_SHOWN, until the next one. */
enum { TWIN_SHOWN = 32 };
const char *twin_show(const void *mine, unsigned bytes);
unsigned twin_lane(void);

/* Arguments are copied at the launch, as a GPU's are. */
template <typename... P, typename... A>
void twin_launch_with(const char *name, unsigned blocks, unsigned threads, cudaStream_t stream, void (*kernel)(P...), A... args)
{
    std::tuple<P...> kept(args...);
    twin_launch(name, blocks, threads, stream, [kernel, kept] { std::apply(kernel, kept); });
}

#define FL_LAUNCH_GRID(kernel, blocks, threads, ...)                                                                   \
    do {                                                                                                               \
        twin_launch_with(#kernel, (unsigned)(blocks), (unsigned)(threads), fl_stream(), kernel, __VA_ARGS__);          \
        FL_CUDA(cudaGetLastError());                                                                                   \
    } while (0)
#define FL_SHARED(T, name, n)                                                                                          \
    static twin_slot name##_slot;                                                                                      \
    T *const name = (T *)twin_shared(&name##_slot, sizeof(T) * (n))
#define FL_BARRIER() twin_barrier()
#define FL_UNROLL
#define FL_WARP_BARRIER() (void)twin_show(NULL, 0)
enum { FL_ARENA_FILL = 0xff };                       /* NaN: nothing may lean on a zeroed arena */

template <typename T> static inline T fl_shuffle_xor(T v, int mask)
{
    T other;
    static_assert(sizeof v <= TWIN_SHOWN);
    memcpy(&other, twin_show(&v, sizeof v) + (twin_lane() ^ (unsigned)mask) * TWIN_SHOWN, sizeof v);
    return other;
}

/* Matrices of a warp, element by element where the instruction has them. */
static inline void twin_matrix_load(uint32_t (&to)[4], const void *row, bool across)
{
    const char *rows = twin_show(&row, sizeof row);
    unsigned l = twin_lane(), pair = l % 4 * 2, other = l / 4;
    for (unsigned m = 0; m < 4; m++) {
        uint16_t element[2];
        for (unsigned e = 0; e < 2; e++) {
            const uint16_t *from;
            memcpy(&from, rows + (m * 8 + (across ? pair + e : other)) * TWIN_SHOWN, sizeof from);
            if ((uintptr_t)from % 16)
                twin_misaligned("a row of a matrix");
            element[e] = from[across ? other : pair + e];
        }
        to[m] = element[0] | (uint32_t)element[1] << 16;
    }
}

static inline void fl_matrix_load(uint32_t (&to)[4], const void *row) { twin_matrix_load(to, row, false); }
static inline void fl_matrix_load_across(uint32_t (&to)[4], const void *row) { twin_matrix_load(to, row, true); }

static inline float twin_wide(fl_bf16 x) { return fl_from_bf16(x); }
static inline float twin_wide(fl_f16 x) { return fl_from_f16(x); }

template <typename T> static inline float twin_element(const char *shown, unsigned lane, unsigned part, unsigned half)
{
    T x;
    memcpy(&x, shown + lane * TWIN_SHOWN + part * 4 + half * 2, sizeof x);
    return twin_wide(x);
}

template <typename T> static inline void fl_matrix_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    const char *shown = twin_show(mine, sizeof mine);
    for (unsigned e = 0; e < 4; e++) {
        unsigned row = twin_lane() / 4 + e / 2 * 8, column = twin_lane() % 4 * 2 + e % 2;
        for (unsigned k = 0; k < 16; k++)
            c[e] += twin_element<T>(shown, row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2) *
                    twin_element<T>(shown, column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
    }
}
#endif
