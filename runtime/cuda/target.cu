/* The cuda target: picks the device, owns the arena, the compute stream and the workspaces. */
#include "../target.h"
#include "../check.h"
#include <stdio.h>
#include <stdlib.h>

extern "C" const char *const fl_target_name = "cuda";

static cudaStream_t compute;
static struct { void *p; size_t bytes; } workspace[4];
static int64_t held;

void fl_cuda_check(cudaError_t status, const char *file, int line, const char *call)
{
    if (status == cudaSuccess)
        return;
    const char *hint = NULL;
    if (status == cudaErrorMemoryAllocation)
        hint = "the device has less free memory than the plan needs: see flowc --emit=memory, or close other programs";
    else if (status == cudaErrorIllegalAddress || status == cudaErrorLaunchFailure)
        hint = "run with compute-sanitizer to find the kernel";
    fl_fail(file, line, hint, "%s failed: %s", call, cudaGetErrorString(status));
}

cudaStream_t fl_stream(void)
{
    return compute;
}

void *fl_workspace(int which, size_t bytes)
{
    if (workspace[which].bytes < bytes) {
        bytes += bytes / 2;
        if (workspace[which].p) {
            FL_CUDA(cudaStreamSynchronize(compute));
            FL_CUDA(cudaFree(workspace[which].p));
        }
        FL_CUDA(cudaMalloc(&workspace[which].p, bytes));
        held += (int64_t)(bytes - workspace[which].bytes);
        workspace[which].bytes = bytes;
    }
    return workspace[which].p;
}

extern "C" void fl_target_start(int local_rank, int local_size)
{
    int devices = 0;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0)
        fl_refuse("no CUDA device here (%s); run on a machine with a GPU, or compile with --target cpu",
                  status == cudaSuccess ? "none is visible" : cudaGetErrorString(status));
    if (local_size > devices)
        fl_refuse("%d ranks on this host but %d CUDA devices; start one rank per device", local_size, devices);
    FL_CUDA(cudaSetDevice(local_rank));
    FL_CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
}

extern "C" char *fl_arena_new(int64_t bytes)
{
    void *p;
    FL_CUDA(cudaMalloc(&p, (size_t)(bytes > 0 ? bytes : 256)));
    FL_CUDA(cudaMemset(p, FL_ARENA_FILL, (size_t)(bytes > 0 ? bytes : 256)));
    held += bytes;
    return (char *)p;
}

extern "C" void fl_to_arena(void *dst, const void *host, int64_t bytes)
{
    FL_CUDA(cudaMemcpyAsync(dst, host, (size_t)bytes, cudaMemcpyHostToDevice, compute));
    FL_CUDA(cudaStreamSynchronize(compute));
}

extern "C" void fl_from_arena(void *host, const void *src, int64_t bytes)
{
    FL_CUDA(cudaMemcpyAsync(host, src, (size_t)bytes, cudaMemcpyDeviceToHost, compute));
    FL_CUDA(cudaStreamSynchronize(compute));
}

extern "C" void fl_target_sync(void)
{
    FL_CUDA(cudaDeviceSynchronize());
}

extern "C" int64_t fl_target_peak_bytes(void)
{
    return held;
}

extern "C" void fl_target_stop(void)
{
    FL_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++)
        if (workspace[i].p)
            FL_CUDA(cudaFree(workspace[i].p));
    FL_CUDA(cudaStreamDestroy(compute));
}
