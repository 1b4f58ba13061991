/* Faults between streams, and between host and device. */
#include "faults.h"

enum { N = 512 };

__global__ void count_up(int32_t *y, int32_t from)
{
    FL_GRID_FOR(i, N)
        y[i] = from + (int32_t)i;
}

static bool counts(const int32_t *y, int32_t from)
{
    bool right = true;
    for (int i = 0; i < N; i++)
        right &= y[i] == from + i;
    return right;
}

/* ---- a copy on another stream must wait for the kernel that writes its source ---- */
static bool missing_event(bool bad)
{
    int32_t *x = device_memory<int32_t>(N), *y = device_memory<int32_t>(N), host[N];
    cudaStream_t side;
    cudaEvent_t written, copied;
    FL_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    FL_CUDA(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    FL_CUDA(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    FL_LAUNCH_GRID(count_up, 2, FL_BLOCK, x, 7);
    FL_CUDA(cudaEventRecord(written, fl_stream()));
    if (!bad)
        FL_CUDA(cudaStreamWaitEvent(side, written, 0));
    FL_CUDA(cudaMemcpyAsync(y, x, sizeof host, cudaMemcpyDeviceToDevice, side));
    FL_CUDA(cudaEventRecord(copied, side));
    FL_CUDA(cudaStreamWaitEvent(fl_stream(), copied, 0));
    get(host, y, N);
    return counts(host, 7);
}

/* ---- nor may the kernel's next round overwrite what the copy still reads ---- */
static bool missing_reuse_event(bool bad)
{
    int32_t *x = device_memory<int32_t>(N), *y = device_memory<int32_t>(N), host[N];
    cudaStream_t side;
    cudaEvent_t written, read;
    FL_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    FL_CUDA(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    FL_CUDA(cudaEventCreateWithFlags(&read, cudaEventDisableTiming));
    FL_LAUNCH_GRID(count_up, 2, FL_BLOCK, x, 7);
    FL_CUDA(cudaEventRecord(written, fl_stream()));
    FL_CUDA(cudaStreamWaitEvent(side, written, 0));
    FL_CUDA(cudaMemcpyAsync(y, x, sizeof host, cudaMemcpyDeviceToDevice, side));
    FL_CUDA(cudaEventRecord(read, side));
    if (!bad)
        FL_CUDA(cudaStreamWaitEvent(fl_stream(), read, 0));
    FL_LAUNCH_GRID(count_up, 2, FL_BLOCK, x, 1000);
    FL_CUDA(cudaDeviceSynchronize());
    get(host, y, N);
    return counts(host, 7);
}

/* ---- the host may read a result only after a synchronisation ---- */
static bool missing_synchronisation(bool bad)
{
    int32_t *x = device_memory<int32_t>(N), host[N] = {0};
    FL_LAUNCH_GRID(count_up, 2, FL_BLOCK, x, 7);
    FL_CUDA(cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, fl_stream()));
    if (!bad)
        FL_CUDA(cudaStreamSynchronize(fl_stream()));
    bool right = counts(host, 7);
    FL_CUDA(cudaDeviceSynchronize());
    return right;
}

/* ---- host code that reads device memory (found under ASan) ---- */
static bool host_reads_device(bool bad)
{
    int32_t *x = device_memory<int32_t>(N), host[N];
    FL_LAUNCH_GRID(count_up, 2, FL_BLOCK, x, 7);
    get(host, x, N);
    return counts(bad ? x : host, 7);
}

static bool double_free(bool bad)
{
    int32_t *x = device_memory<int32_t>(N);
    FL_CUDA(cudaFree(x));
    if (bad)
        FL_CUDA(cudaFree(x));
    return true;
}

static bool copy_outside(bool bad)
{
    int32_t *x = device_memory<int32_t>(N), *y = device_memory<int32_t>(N - 1), host[N];
    FL_LAUNCH_GRID(count_up, 2, FL_BLOCK, x, 7);
    FL_CUDA(cudaMemcpyAsync(y, x, sizeof(int32_t) * (bad ? N : N - 1), cudaMemcpyDeviceToDevice, fl_stream()));
    get(host, x, N);
    return counts(host, 7);
}

const struct fault stream_faults[] = {
    {"missing_event", 1, missing_event},
    {"missing_reuse_event", 1, missing_reuse_event},
    {"missing_synchronisation", 1, missing_synchronisation},
    {"host_reads_device", 1, host_reads_device},
    {"double_free", 1, double_free},
    {"copy_outside", 1, copy_outside},
    {NULL, 0, NULL},
};
