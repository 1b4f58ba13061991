/* Faults inside kernels and their launches. */
#include "faults.h"
#include <string.h>

enum { N = 1000 };

__global__ void number(float *y, int64_t n)
{
    FL_GRID_FOR(i, n)
        y[i] = (float)i;
}

/* ---- barrier: reverses a block's numbers through shared memory ---- */
__global__ void reverse(float *y, const float *x, bool barrier)
{
    FL_SHARED(float, tile, FL_BLOCK);
    tile[threadIdx.x] = x[blockIdx.x * FL_BLOCK + threadIdx.x];
    if (barrier)
        FL_BARRIER();
    y[blockIdx.x * FL_BLOCK + threadIdx.x] = tile[FL_BLOCK - 1 - threadIdx.x];
}

static bool missing_barrier(bool bad)
{
    enum { BLOCKS = 4, COUNT = BLOCKS * FL_BLOCK };
    float *x = device_memory<float>(COUNT), *y = device_memory<float>(COUNT), host[COUNT];
    FL_LAUNCH_GRID(number, 2, FL_BLOCK, x, COUNT);
    FL_LAUNCH_GRID(reverse, BLOCKS, FL_BLOCK, y, x, !bad);
    get(host, y, COUNT);
    bool right = true;
    for (int i = 0; i < COUNT; i++)
        right &= host[i] == (float)(i / FL_BLOCK * FL_BLOCK + FL_BLOCK - 1 - i % FL_BLOCK);
    return right;
}

/* ---- the second use of one piece of shared memory needs a barrier too ---- */
__global__ void two_rounds(float *y, bool barrier)
{
    FL_SHARED(float, tile, FL_BLOCK);
    for (int round = 0; round < 2; round++) {
        if (round && barrier)
            FL_BARRIER();
        tile[threadIdx.x] = (float)(1000 * round + (int)threadIdx.x);
        FL_BARRIER();
        y[round * FL_BLOCK + (int)threadIdx.x] = tile[(threadIdx.x + 100) % FL_BLOCK];
    }
}

static bool reused_shared(bool bad)
{
    float *y = device_memory<float>(2 * FL_BLOCK), host[2 * FL_BLOCK];
    FL_LAUNCH_GRID(two_rounds, 1, FL_BLOCK, y, !bad);
    get(host, y, 2 * FL_BLOCK);
    bool right = true;
    for (int i = 0; i < 2 * FL_BLOCK; i++)
        right &= host[i] == (float)(1000 * (i / FL_BLOCK) + (i % FL_BLOCK + 100) % FL_BLOCK);
    return right;
}

/* ---- a barrier, or a shuffle, that half of the threads do not reach ---- */
__global__ void some_wait(float *y, unsigned barrier_below, unsigned shuffle_below)
{
    float v = (float)threadIdx.x;
    if (threadIdx.x < barrier_below)
        FL_BARRIER();
    if (threadIdx.x < shuffle_below)
        v = fl_warp_sum(v);
    y[threadIdx.x] = v;
}

static bool divergent_barrier(bool bad)
{
    float *y = device_memory<float>(FL_BLOCK), first;
    FL_LAUNCH_GRID(some_wait, 1, FL_BLOCK, y, bad ? 128u : 256u, 256u);
    get(&first, y, 1);
    return first == 496;
}

static bool divergent_shuffle(bool bad)
{
    float *y = device_memory<float>(FL_BLOCK), first;
    FL_LAUNCH_GRID(some_wait, 1, FL_BLOCK, y, 256u, bad ? 16u : 256u);
    get(&first, y, 1);
    return first == 496;
}

/* ---- out of bounds: one element behind an allocation, and behind shared memory ---- */
static bool out_of_bounds(bool bad)
{
    float *y = device_memory<float>(N), host[N];
    FL_LAUNCH_GRID(number, 4, FL_BLOCK, y, bad ? N + 1 : N);
    get(host, y, N);
    return host[N - 1] == N - 1;
}

__global__ void shift(float *y, int by)
{
    FL_SHARED(float, tile, FL_BLOCK);
    tile[(int)threadIdx.x + by] = 1;
    FL_BARRIER();
    y[threadIdx.x] = tile[threadIdx.x];
}

static bool shared_out_of_bounds(bool bad)
{
    float *y = device_memory<float>(FL_BLOCK), host[FL_BLOCK];
    FL_LAUNCH_GRID(shift, 1, FL_BLOCK, y, bad ? 1 : 0);
    get(host, y, FL_BLOCK);
    return host[FL_BLOCK - 1] == 1;
}

/* ---- reading what nobody wrote; a grid that covers part of the work ---- */
__global__ void add_up(float *y, const float *x, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    *y = sum;
}

static bool uninitialised(bool bad)
{
    float *x = device_memory<float>(N), *y = device_memory<float>(1), sum;
    FL_LAUNCH_GRID(number, 4, FL_BLOCK, x, bad ? N - 1 : N);
    FL_LAUNCH_GRID(add_up, 1, 1, y, x, (int64_t)N);
    get(&sum, y, 1);
    return sum == (float)N * (N - 1) / 2;
}

__global__ void one_each(float *y, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * FL_BLOCK + threadIdx.x;
    if (i < n)
        y[i] = 1;
}

static bool wrong_grid(bool bad)
{
    float *y = device_memory<float>(N), host[N];
    FL_LAUNCH_GRID(one_each, (bad ? N : N + FL_BLOCK - 1) / FL_BLOCK, FL_BLOCK, y, (int64_t)N);
    get(host, y, N);
    bool right = true;
    for (float v : host)
        right &= v == 1;
    return right;
}

static bool empty_grid(bool bad)
{
    float *y = device_memory<float>(1), host = 0;
    FL_LAUNCH_GRID(one_each, bad ? 0 : 1, FL_BLOCK, y, (int64_t)1);
    get(&host, y, 1);
    return host == 1;
}

const struct fault kernel_faults[] = {
    {"missing_barrier", 1, missing_barrier},
    {"reused_shared", 1, reused_shared},
    {"divergent_barrier", 1, divergent_barrier},
    {"divergent_shuffle", 1, divergent_shuffle},
    {"out_of_bounds", 1, out_of_bounds},
    {"shared_out_of_bounds", 1, shared_out_of_bounds},
    {"uninitialised", 1, uninitialised},
    {"wrong_grid", 1, wrong_grid},
    {"empty_grid", 1, empty_grid},
    {NULL, 0, NULL},
};
