/* The cuda target: picks the device, owns the arena, the compute stream and the workspaces. Bytes for the arena go through
 * a ring of pinned host buffers, so that a step that reads its inputs need not wait for the device. */
#include "../target.h"
#include "../agree.h"
#include "../check.h"
#include "clock.h"
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern "C" const char *const fl_target_name = "cuda";

static cudaStream_t compute, used;       /* used: the one that calls are queued on meanwhile, or NULL */
static struct workspace { void *p; size_t bytes; } *workspace;
static int nworkspace;
static int64_t held;
enum { RING = 8, LARGE = 64 << 20 };
static struct { char *p; size_t bytes; cudaEvent_t read; } ring[RING];
static int turn;

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
    return used ? used : compute;
}

void fl_stream_use(cudaStream_t stream)
{
    used = stream;
}

static struct { void *p; size_t bytes; } room;           /* for what kernels work in: workspace 0 */

extern "C" void fl_room_enter(void *p, int64_t bytes)
{
    room = {p, (size_t)bytes};
}

extern "C" void fl_room_leave(void)
{
    room = {};
}

/* One that is outgrown stays until the program ends: cudaFree waits for all streams, and a send under way on one of them
 * may wait for a peer that stands here as well. */
void *fl_workspace(int which, size_t bytes)
{
    if (which == 0 && bytes <= room.bytes)
        return room.p;
    if (which == 0 && getenv("FL_STRICT_ROOM"))          /* for tests */
        FL_FAIL(NULL, "a kernel asks for %lld bytes where the plan has %lld", (long long)bytes, (long long)room.bytes);
    if (which >= nworkspace) {
        workspace = (struct workspace *)realloc(workspace, (size_t)(which + 1) * sizeof *workspace);
        if (!workspace)
            FL_FAIL("the host is out of memory", "cannot list a workspace");
        for (; nworkspace <= which; nworkspace++)
            workspace[nworkspace] = {};
    }
    if (workspace[which].bytes < bytes) {
        if (workspace[which].p)
            bytes *= 2;          /* so that those outgrown are no more, all together, than the last one */
        FL_CUDA(cudaMalloc(&workspace[which].p, bytes));
        held += (int64_t)bytes;
        workspace[which].bytes = bytes;
    }
    return workspace[which].p;
}

extern "C" void *fl_see_room(int64_t bytes)
{
    return fl_workspace(2, (size_t)(bytes > 0 ? bytes : 1));
}

extern "C" void fl_target_start(int local_rank, int local_size)
{
    int devices = 0;
    char host[64] = "", *complaint = NULL;
    gethostname(host, sizeof host - 1);
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0)
        complaint = fl_printf("no CUDA device here (rank %d on %s: %s); run on a machine with a GPU, or compile with --target cpu",
                              fl_rank_number, host, status == cudaSuccess ? "none is visible" : cudaGetErrorString(status));
    else if (local_size > devices)
        complaint = fl_printf("%d ranks on %s but %d CUDA device%s; start one rank per device", local_size, host, devices,
                              devices == 1 ? "" : "s");
    fl_agree(complaint);                 /* hosts differ: whichever lacks a device speaks */
    FL_CUDA(cudaSetDevice(local_rank));
    FL_CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
}

extern "C" const bool fl_arena_zeros = false;

extern "C" char *fl_arena_new(int64_t bytes)
{
    void *p;
    FL_CUDA(cudaMalloc(&p, (size_t)(bytes > 0 ? bytes : 256)));
    FL_CUDA(cudaMemset(p, FL_ARENA_FILL, (size_t)(bytes > 0 ? bytes : 256)));
    held += bytes;
    return (char *)p;
}

extern "C" void fl_range(const char *text)
{
    static bool open;
    if (open)
        nvtxRangePop();
    open = text;
    if (text)
        nvtxRangePushA(text);
    fl_clock_range(text);
}

/* The host waits for the device; the watchdog may look. */
static void wait(void)
{
    fl_waiting("the device");
    FL_CUDA(cudaStreamSynchronize(compute));
    fl_waiting(NULL);
}

extern "C" void fl_to_arena(void *dst, const void *host, int64_t bytes)
{
    if (bytes <= 0)
        return;
    if (bytes > LARGE) {
        FL_CUDA(cudaMemcpyAsync(dst, host, (size_t)bytes, cudaMemcpyHostToDevice, compute));
        wait();
        return;
    }
    auto &slot = ring[turn];
    turn = (turn + 1) % RING;
    if (!slot.read)
        FL_CUDA(cudaEventCreateWithFlags(&slot.read, cudaEventDisableTiming));
    FL_CUDA(cudaEventSynchronize(slot.read));
    if (slot.bytes < (size_t)bytes) {
        if (slot.p)
            FL_CUDA(cudaFreeHost(slot.p));
        FL_CUDA(cudaMallocHost((void **)&slot.p, (size_t)bytes));
        slot.bytes = (size_t)bytes;
    }
    memcpy(slot.p, host, (size_t)bytes);
    FL_CUDA(cudaMemcpyAsync(dst, slot.p, (size_t)bytes, cudaMemcpyHostToDevice, compute));
    FL_CUDA(cudaEventRecord(slot.read, compute));
}

extern "C" void fl_from_arena(void *host, const void *src, int64_t bytes)
{
    if (bytes <= 0)
        return;
    FL_CUDA(cudaMemcpyAsync(host, src, (size_t)bytes, cudaMemcpyDeviceToHost, compute));
    wait();
}

extern "C" void fl_target_sync(void)
{
    fl_waiting("the device");
    FL_CUDA(cudaDeviceSynchronize());
    fl_clock_synced();
    fl_waiting(NULL);
}

extern "C" bool fl_target_resident(int64_t *, int64_t *) { return false; }

extern "C" int64_t fl_target_peak_bytes(void)
{
    return held;
}

extern "C" void fl_target_stop(void)
{
    FL_CUDA(cudaDeviceSynchronize());
    fl_offload_stop();
    fl_gathered_stop();
    fl_gemm_stop();
    for (int i = 0; i < nworkspace; i++)
        if (workspace[i].p)
            FL_CUDA(cudaFree(workspace[i].p));
    free(workspace);
    workspace = NULL;
    nworkspace = 0;
    for (auto &slot : ring) {
        if (slot.p)
            FL_CUDA(cudaFreeHost(slot.p));
        if (slot.read)
            FL_CUDA(cudaEventDestroy(slot.read));
    }
    FL_CUDA(cudaStreamDestroy(compute));
}
