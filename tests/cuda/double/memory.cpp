/* Device memory: host memory filled with NaN. Under ASan each allocation has red zones, and all of it is closed to the
 * program while its host code runs; without ASan copies and fills are still checked against the list of allocations. */
#include "twin.h"
#include <map>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static std::map<const char *, size_t> allocations;
static bool is_open;

static const char *rank_text(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : "0";
}

void twin_fault(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "double: rank %s: ", rank_text());
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    fflush(stderr);
    int up = 0, down = 0;
    MPI_Initialized(&up);
    MPI_Finalized(&down);
    if (up && !down)
        MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}

uint64_t twin_random(uint64_t n)
{
    static uint64_t state;
    if (!state) {
        const char *seed = getenv("FL_DOUBLE_SEED");
        state = (seed ? strtoull(seed, NULL, 10) : 1) * 0x9e3779b97f4a7c15u + strtoull(rank_text(), NULL, 10) * 0xbf58476d1ce4e5b9u + 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (state >> 16) % n : 0;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

twin_order::twin_order(uint64_t count) : n(count), first(twin_random(count)), step(1)
{
    if (n > 2)
        do
            step = 1 + twin_random(n - 1);
        while (common_divisor(step, n) != 1);
}

void twin_memory_open(bool open)
{
    is_open = open;
#if TWIN_ASAN
    for (auto &[p, bytes] : allocations)
        if (open)
            __asan_unpoison_memory_region(p, bytes);
        else
            __asan_poison_memory_region(p, bytes);
#endif
}

void twin_check_device(const void *p, size_t bytes, const char *what)
{
    auto next = allocations.upper_bound((const char *)p);
    if (next != allocations.begin()) {
        auto [start, size] = *std::prev(next);
        if ((const char *)p >= start && (const char *)p + bytes <= start + size)
            return;
    }
    if (!twin_eager())
        twin_fault("%s: %zu bytes at %p are not inside one allocation of device memory", what, bytes, p);
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    size_t whole = bytes ? bytes : 1;
    twin_refuse_in_capture("cudaMalloc");
    if (posix_memalign(p, 256, whole))
        return cudaErrorMemoryAllocation;
    memset(*p, 0xff, whole);
    allocations[(char *)*p] = whole;
    twin_memory_open(is_open);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    const char *text = getenv("FL_DOUBLE_MEMORY");
    *free = *total = text ? strtoull(text, NULL, 10) : (size_t)1 << 34;
    for (auto &[p, bytes] : allocations)
        *free -= bytes < *free ? bytes : *free;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    if (!p)
        return cudaSuccess;
    twin_refuse_in_capture("cudaFree");
    twin_drain();
    auto at = allocations.find((char *)p);
    if (at == allocations.end())
        twin_fault("cudaFree(%p): not an allocation of device memory, or freed already", p);
#if TWIN_ASAN
    __asan_unpoison_memory_region(p, at->second);
#endif
    memset(p, 0xff, at->second);
    allocations.erase(at);
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    twin_refuse_in_capture("cudaMallocHost");
    *p = malloc(bytes ? bytes : 1);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *p)
{
    twin_drain();
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int byte, size_t bytes)
{
    twin_check_device(p, bytes, "cudaMemset");
    twin_refuse_in_capture("cudaMemset");
    twin_drain();
    twin_memory_open(true);
    memset(p, byte, bytes);
    twin_memory_open(false);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t stream)
{
    twin_check_device(p, bytes, "cudaMemsetAsync");
    twin_enqueue(stream, "cudaMemsetAsync", [=] {
        memset(p, byte, bytes);
        return true;
    });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice)
        twin_check_device(to, bytes, "target of cudaMemcpyAsync");
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)
        twin_check_device(from, bytes, "source of cudaMemcpyAsync");
    const char *a = (const char *)to, *b = (const char *)from;
    if (bytes && a != b && a < b + bytes && b < a + bytes)
        twin_fault("cudaMemcpyAsync: source and target overlap");
    twin_enqueue(stream, "cudaMemcpyAsync", [=] {
        if (to != from)
            memcpy(to, from, bytes);
        return true;
    });
    return cudaSuccess;
}
