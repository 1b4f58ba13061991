/* Host memory beside the arena, and the copies between the two: pinned memory, one stream for all copies, which events
 * tie to the compute stream. Copies run in the order in which they are started, so what one writes out a later one may
 * read in without more. */
#include "../target.h"
#include "../check.h"
#include <stdlib.h>
#include <string.h>

static char *memory;
static cudaStream_t stream;
static struct fl_event ready;           /* of the compute stream: what it had queued when a copy was started */
static struct fl_event *done;           /* by number */
static int ndone;

extern "C" char *fl_host_new(int64_t bytes)
{
    if (bytes <= 0)
        return NULL;
    FL_CUDA(cudaMallocHost((void **)&memory, (size_t)bytes));
    memset(memory, FL_ARENA_FILL, (size_t)bytes);
    stream = fl_stream_new();
    return memory;
}

static struct fl_event *event(int number)
{
    if (number >= ndone) {
        done = (struct fl_event *)realloc(done, (size_t)(number + 1) * sizeof *done);
        if (!done)
            FL_FAIL("the host is out of memory", "cannot list a copy");
        for (; ndone <= number; ndone++)
            done[ndone] = {};
    }
    return &done[number];
}

static void start(int number, void *dst, const void *src, int64_t bytes, enum cudaMemcpyKind kind)
{
    fl_record(&ready, fl_stream());
    fl_wait(stream, &ready);
    if (bytes > 0)
        FL_CUDA(cudaMemcpyAsync(dst, src, (size_t)bytes, kind, stream));
    fl_record(event(number), stream);
}

extern "C" void fl_to_host(struct fl_run *, int number, void *host, const void *src, int64_t bytes)
{
    start(number, host, src, bytes, cudaMemcpyDeviceToHost);
}

extern "C" void fl_to_device(struct fl_run *, int number, void *dst, const void *host, int64_t bytes)
{
    start(number, dst, host, bytes, cudaMemcpyHostToDevice);
}

extern "C" void fl_copied(struct fl_run *, int number)
{
    fl_wait(fl_stream(), event(number));
}

void fl_offload_stop(void)
{
    if (!memory)
        return;
    for (int i = 0; i < ndone; i++)
        fl_event_free(&done[i]);
    free(done);
    fl_event_free(&ready);
    fl_stream_free(stream);
    FL_CUDA(cudaFreeHost(memory));
}
