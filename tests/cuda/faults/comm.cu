/* Faults between ranks: two ranks that do not do the same, or not in the same order. */
#include "faults.h"
#include <mpi.h>
#include <nccl.h>

enum { N = 64 };

__global__ void fill_with(float *y, float v, int64_t n)
{
    FL_GRID_FOR(i, n)
        y[i] = v;
}

static int rank_here(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static ncclComm_t join(void)
{
    ncclUniqueId id;
    ncclComm_t c;
    if (rank_here() == 0)
        ncclGetUniqueId(&id);
    MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    ncclCommInitRank(&c, 2, id, rank_here());
    return c;
}

struct buffers { float *x, *all; };

static buffers start(void)
{
    buffers b = {device_memory<float>(N), device_memory<float>(2 * N)};
    FL_LAUNCH_GRID(fill_with, 1, FL_BLOCK, b.x, (float)(rank_here() + 1), (int64_t)N);
    return b;
}

/* ---- a sum and a gather in different orders ---- */
static bool collective_order(bool bad)
{
    ncclComm_t c = join();
    buffers b = start();
    bool swap = bad && rank_here() == 1;
    for (int i = 0; i < 2; i++)
        if ((i == 0) != swap)
            ncclAllReduce(b.x, b.x, N, ncclFloat, ncclSum, c, fl_stream());
        else
            ncclAllGather(b.x, b.all, N, ncclFloat, c, fl_stream());
    float host[2 * N];
    get(host, b.all, 2 * N);
    return host[0] == 3 && host[2 * N - 1] == 3;
}

static bool collective_count(bool bad)
{
    ncclComm_t c = join();
    buffers b = start();
    ncclAllReduce(b.x, b.x, bad && rank_here() ? N - 1 : N, ncclFloat, ncclSum, c, fl_stream());
    float host[N];
    get(host, b.x, N);
    return host[N - 1] == 3;
}

static bool collective_reduction(bool bad)
{
    ncclComm_t c = join();
    buffers b = start();
    ncclAllReduce(b.x, b.x, N, ncclFloat, bad && rank_here() ? ncclMax : ncclSum, c, fl_stream());
    float host[N];
    get(host, b.x, N);
    return host[0] == 3;
}

/* ---- two communicators on one stream, in different orders: each rank waits for the other ---- */
static bool collective_cycle(bool bad)
{
    ncclComm_t c[2] = {join(), join()};
    buffers b = start();
    int first = bad && rank_here();
    ncclAllReduce(b.x, b.x, N, ncclFloat, ncclSum, c[first], fl_stream());
    ncclAllReduce(b.x, b.x, N, ncclFloat, ncclSum, c[!first], fl_stream());
    float host[N];
    get(host, b.x, N);
    return host[0] == 6;
}

/* ---- a message of another size; a send that meets no receive but another send ---- */
static bool message_size(bool bad)
{
    ncclComm_t c = join();
    buffers b = start();
    if (rank_here() == 0)
        ncclSend(b.x, bad ? N - 1 : N, ncclFloat, 1, c, fl_stream());
    else
        ncclRecv(b.x, N, ncclFloat, 0, c, fl_stream());
    float host[N];
    get(host, b.x, N);
    return host[N - 1] == 1;
}

static bool two_sends(bool bad)
{
    ncclComm_t c = join();
    buffers b = start();
    int peer = 1 - rank_here();
    if (!bad)
        ncclGroupStart();
    ncclSend(b.x, N, ncclFloat, peer, c, fl_stream());
    ncclRecv(b.all, N, ncclFloat, peer, c, fl_stream());
    if (!bad)
        ncclGroupEnd();
    float host[N];
    get(host, b.all, N);
    return host[0] == (float)(peer + 1);
}

const struct fault comm_faults[] = {
    {"collective_order", 2, collective_order},
    {"collective_count", 2, collective_count},
    {"collective_reduction", 2, collective_reduction},
    {"collective_cycle", 2, collective_cycle},
    {"message_size", 2, message_size},
    {"two_sends", 2, two_sends},
    {NULL, 0, NULL},
};
