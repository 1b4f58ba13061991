/* One step of an entry: first as it is, so that every buffer has its size and every library has chosen its ways, then
 * captured as a graph, then replayed. What differs from one step to the next is not in the graph: the scalars of the step
 * lie in device memory, inputs in pinned buffers that the host fills before each launch. A step of which the host wants
 * other outputs than before, or at which somebody looks (see.h) or that is traced, is run as it is. */
#include "../check.h"
#include "../reader.h"
#include "../target.h"
#include "../times.h"
#include "clock.h"
#include <stdlib.h>
#include <string.h>

static struct fl_step *on_device, *pinned;
static bool in_step;
static struct { int runs; cudaGraphExec_t exec; } captured[FL_ENTRIES];
static struct staged { int input, microbatch; void *p; } *staged;
static int nstaged;
static void **staging;
static int nstaging;

static void upload(const struct fl_step *s)
{
    if (!on_device) {
        FL_CUDA(cudaMalloc((void **)&on_device, sizeof *on_device));
        FL_CUDA(cudaMallocHost((void **)&pinned, sizeof *pinned));
    }
    *pinned = *s;
    FL_CUDA(cudaMemcpyAsync(on_device, pinned, sizeof *pinned, cudaMemcpyHostToDevice, fl_stream()));
}

bool fl_in_step(void) { return in_step; }

/* Outside a step a caller's scalars may be others at each call. */
const struct fl_step *fl_step_on_device(const struct fl_step *s)
{
    if (!in_step) {
        FL_CUDA(cudaStreamSynchronize(fl_stream()));
        upload(s);
    }
    return on_device;
}

static void *pinned_new(int64_t bytes)
{
    staging = (void **)realloc(staging, (size_t)(nstaging + 1) * sizeof *staging);
    if (!staging)
        FL_FAIL("the host is out of memory", "cannot list a buffer");
    FL_CUDA(cudaMallocHost(&staging[nstaging], (size_t)(bytes > 0 ? bytes : 1)));
    return staging[nstaging++];
}

extern "C" void *fl_staging_new(int64_t bytes) { return pinned_new(bytes); }

/* A micro-batch of an input has one buffer for the whole run. */
extern "C" void *fl_staging_of(int input, int microbatch, void *, int64_t bytes)
{
    for (int i = 0; i < nstaged; i++)
        if (staged[i].input == input && staged[i].microbatch == microbatch)
            return staged[i].p;
    staged = (struct staged *)realloc(staged, (size_t)(nstaged + 1) * sizeof *staged);
    if (!staged)
        FL_FAIL("the host is out of memory", "cannot list a buffer");
    staged[nstaged] = {input, microbatch, pinned_new(bytes)};
    return staged[nstaged++].p;
}

extern "C" void fl_copy_in(void *dst, const void *host, int64_t bytes)
{
    if (bytes > 0)
        FL_CUDA(cudaMemcpyAsync(dst, host, (size_t)bytes, cudaMemcpyHostToDevice, fl_stream()));
}

extern "C" void fl_copy_out(void *host, const void *src, int64_t bytes)
{
    if (bytes > 0)
        FL_CUDA(cudaMemcpyAsync(host, src, (size_t)bytes, cudaMemcpyDeviceToHost, fl_stream()));
}

static void queue(struct fl_run *run, enum fl_entry entry, bool in_graph)
{
    fl_streams_fork();
    fl_clock_begin(fl_measuring && entry == FL_TRAIN, in_graph);
    run->rank->class_->entry[entry](run);
    fl_streams_join();
    fl_clock_end();
}

static void capture(struct fl_run *run, enum fl_entry entry)
{
    cudaGraph_t graph;
    FL_CUDA(cudaStreamBeginCapture(fl_stream(), cudaStreamCaptureModeThreadLocal));
    queue(run, entry, true);
    FL_CUDA(cudaStreamEndCapture(fl_stream(), &graph));
    FL_CUDA(cudaGraphInstantiate(&captured[entry].exec, graph, 0));
    FL_CUDA(cudaGraphDestroy(graph));
}

extern "C" void fl_target_run(struct fl_run *run, enum fl_entry entry, bool same)
{
    auto &c = captured[entry];
    FL_CUDA(cudaDeviceSynchronize());
    upload(&run->step);
    in_step = true;
    bool by_call = run->no_graph || fl_seeing || !same || fl_tracing || c.runs++ == 0;
    if (by_call) {
        queue(run, entry, false);
    } else {
        if (!c.exec)
            capture(run, entry);         /* it fills the inputs as well */
        else
            for (int i = 0; i < nstaged; i++)
                if (fl_program.input[staged[i].input].entry == entry)
                    fl_fill_input(run, staged[i].input, staged[i].microbatch, staged[i].p);
        fl_at("the whole step", "a graph of it");
        FL_CUDA(cudaGraphLaunch(c.exec, fl_stream()));
    }
    fl_clock_ran(fl_measuring && entry == FL_TRAIN, !by_call);
    in_step = false;
}

void fl_step_stop(void)
{
    for (auto &c : captured)
        if (c.exec)
            FL_CUDA(cudaGraphExecDestroy(c.exec));
    for (int i = 0; i < nstaging; i++)
        FL_CUDA(cudaFreeHost(staging[i]));
    free(staging);
    free(staged);
    fl_clock_stop();
    if (on_device) {
        FL_CUDA(cudaFree(on_device));
        FL_CUDA(cudaFreeHost(pinned));
    }
}
