/* Faults in what a graph captures: a replay sees what lies in device memory, and nothing that the host changed since. */
#include "faults.h"

enum { N = 512, REPLAYS = 3 };

__global__ void scaled_by_argument(float *y, float by)
{
    FL_GRID_FOR(i, N)
        y[i] = by * (float)i;
}

__global__ void scaled_by_memory(float *y, const float *by)
{
    FL_GRID_FOR(i, N)
        y[i] = *by * (float)i;
}

__global__ void add_one(float *y, const float *x)
{
    FL_GRID_FOR(i, N)
        y[i] = x[i] + 1;
}

static cudaGraphExec_t end_capture(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    FL_CUDA(cudaStreamEndCapture(fl_stream(), &graph));
    FL_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    FL_CUDA(cudaGraphDestroy(graph));
    return exec;
}

static void begin_capture(void)
{
    FL_CUDA(cudaStreamBeginCapture(fl_stream(), cudaStreamCaptureModeThreadLocal));
}

static bool scales(const float *y, float by)
{
    bool right = true;
    for (int i = 0; i < N; i++)
        right &= y[i] == by * (float)i;
    return right;
}

/* ---- a scalar of the step that is an argument at capture stays what it was then ---- */
static bool baked_scalar(bool bad)
{
    float *y = device_memory<float>(N), *by = device_memory<float>(1), rate = 1, host[N];
    cudaGraphExec_t exec;
    bool right = true;
    begin_capture();
    if (bad)
        FL_LAUNCH_GRID(scaled_by_argument, 2, FL_BLOCK, y, rate);
    else
        FL_LAUNCH_GRID(scaled_by_memory, 2, FL_BLOCK, y, by);
    exec = end_capture();
    for (int i = 0; i < REPLAYS; i++, rate += 1) {
        FL_CUDA(cudaMemcpyAsync(by, &rate, sizeof rate, cudaMemcpyHostToDevice, fl_stream()));
        FL_CUDA(cudaGraphLaunch(exec, fl_stream()));
        get(host, y, N);
        right &= scales(host, rate);
    }
    FL_CUDA(cudaGraphExecDestroy(exec));
    return right;
}

/* ---- an input must be where the captured copy reads it ---- */
static bool moved_input(bool bad)
{
    float *y = device_memory<float>(N), *by = device_memory<float>(1), host[N];
    static float pinned[REPLAYS + 1];
    cudaGraphExec_t exec;
    bool right = true;
    begin_capture();
    FL_CUDA(cudaMemcpyAsync(by, &pinned[0], sizeof *by, cudaMemcpyHostToDevice, fl_stream()));
    FL_LAUNCH_GRID(scaled_by_memory, 2, FL_BLOCK, y, by);
    exec = end_capture();
    for (int i = 0; i < REPLAYS; i++) {
        pinned[bad ? i : 0] = (float)(i + 1);
        FL_CUDA(cudaGraphLaunch(exec, fl_stream()));
        get(host, y, N);
        right &= scales(host, (float)(i + 1));
    }
    FL_CUDA(cudaGraphExecDestroy(exec));
    return right;
}

/* ---- work on another stream is ordered in a graph by the events of the capture alone ---- */
static bool missing_edge(bool bad)
{
    float *x = device_memory<float>(N), *y = device_memory<float>(N), *z = device_memory<float>(N), host[N], one = 1;
    cudaEvent_t forked, written, joined;
    cudaStream_t side;
    cudaGraphExec_t exec;
    FL_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    for (cudaEvent_t *e : {&forked, &written, &joined})
        FL_CUDA(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    begin_capture();
    FL_CUDA(cudaEventRecord(forked, fl_stream()));
    FL_CUDA(cudaStreamWaitEvent(side, forked, 0));
    FL_LAUNCH_GRID(scaled_by_argument, 2, FL_BLOCK, x, one);
    FL_LAUNCH_GRID(add_one, 2, FL_BLOCK, y, x);
    FL_CUDA(cudaEventRecord(written, fl_stream()));
    if (!bad)
        FL_CUDA(cudaStreamWaitEvent(side, written, 0));
    FL_CUDA(cudaMemcpyAsync(z, y, sizeof host, cudaMemcpyDeviceToDevice, side));
    FL_CUDA(cudaEventRecord(joined, side));
    FL_CUDA(cudaStreamWaitEvent(fl_stream(), joined, 0));
    exec = end_capture();
    FL_CUDA(cudaGraphLaunch(exec, fl_stream()));
    get(host, z, N);
    bool right = true;
    for (int i = 0; i < N; i++)
        right &= host[i] == (float)i + 1;
    FL_CUDA(cudaGraphExecDestroy(exec));
    return right;
}

/* ---- a capture ends with all its streams joined ---- */
static bool unjoined_stream(bool bad)
{
    float *x = device_memory<float>(N), *y = device_memory<float>(N), host[N], one = 1;
    cudaEvent_t forked, joined;
    cudaStream_t side;
    FL_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    FL_CUDA(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    FL_CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    begin_capture();
    FL_LAUNCH_GRID(scaled_by_argument, 2, FL_BLOCK, x, one);
    FL_CUDA(cudaEventRecord(forked, fl_stream()));
    FL_CUDA(cudaStreamWaitEvent(side, forked, 0));
    FL_CUDA(cudaMemcpyAsync(y, x, sizeof host, cudaMemcpyDeviceToDevice, side));
    FL_CUDA(cudaEventRecord(joined, side));
    if (!bad)
        FL_CUDA(cudaStreamWaitEvent(fl_stream(), joined, 0));
    cudaGraphExec_t exec = end_capture();
    FL_CUDA(cudaGraphLaunch(exec, fl_stream()));
    get(host, y, N);
    FL_CUDA(cudaGraphExecDestroy(exec));
    return scales(host, 1);
}

/* ---- within a capture nothing may wait for the device ---- */
static bool synchronised_capture(bool bad)
{
    float *y = device_memory<float>(N), host[N], one = 1;
    begin_capture();
    FL_LAUNCH_GRID(scaled_by_argument, 2, FL_BLOCK, y, one);
    if (bad)
        FL_CUDA(cudaStreamSynchronize(fl_stream()));
    cudaGraphExec_t exec = end_capture();
    FL_CUDA(cudaGraphLaunch(exec, fl_stream()));
    get(host, y, N);
    FL_CUDA(cudaGraphExecDestroy(exec));
    return scales(host, 1);
}

/* ---- nor does it wait for what was queued before it ---- */
static bool event_before_capture(bool bad)
{
    float *x = device_memory<float>(N), *y = device_memory<float>(N), host[N], one = 1;
    cudaEvent_t before;
    FL_CUDA(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
    FL_LAUNCH_GRID(scaled_by_argument, 2, FL_BLOCK, x, one);
    FL_CUDA(cudaEventRecord(before, fl_stream()));
    begin_capture();
    if (bad)
        FL_CUDA(cudaStreamWaitEvent(fl_stream(), before, 0));
    FL_LAUNCH_GRID(add_one, 2, FL_BLOCK, y, x);
    cudaGraphExec_t exec = end_capture();
    FL_CUDA(cudaGraphLaunch(exec, fl_stream()));
    get(host, y, N);
    FL_CUDA(cudaGraphExecDestroy(exec));
    return host[1] == 2;
}

const struct fault graph_faults[] = {
    {"baked_scalar", 1, baked_scalar},
    {"moved_input", 1, moved_input},
    {"missing_edge", 1, missing_edge},
    {"unjoined_stream", 1, unjoined_stream},
    {"synchronised_capture", 1, synchronised_capture},
    {"event_before_capture", 1, event_before_capture},
    {NULL, 0, NULL},
};
