/* The host twin of the first part of flow_dev.h: a launch queues its grid; threads of a block are fibers that lose the
 * processor at barriers and shuffles only; shared memory is fresh and full of NaN for each block. */
#ifndef DOUBLE_DEVICE_TWIN_H
#define DOUBLE_DEVICE_TWIN_H
#include <cuda_runtime.h>
#include <functional>
#include <string.h>
#include <tuple>

void twin_launch(const char *name, unsigned blocks, unsigned threads, cudaStream_t stream, std::function<void()> thread);
void twin_barrier(void);
struct twin_slot { void *memory; size_t bytes; unsigned long block; };
void *twin_shared(twin_slot *slot, size_t bytes);
uint64_t twin_shuffle(uint64_t bits, unsigned bytes, int mask);

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
#define FL_WARP_BARRIER() (void)twin_shuffle(0, 0, 0)
enum { FL_ARENA_FILL = 0xff };                       /* NaN: nothing may lean on a zeroed arena */

template <typename T> static inline T fl_shuffle_xor(T v, int mask)
{
    uint64_t bits = 0;
    T other;
    static_assert(sizeof v <= sizeof bits);
    memcpy(&bits, &v, sizeof v);
    bits = twin_shuffle(bits, sizeof v, mask);
    memcpy(&other, &bits, sizeof v);
    return other;
}
#endif
