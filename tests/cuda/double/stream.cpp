/* Streams and events. Work is queued and runs when somebody waits for it, or now and then before; which stream goes on is
 * drawn each time. Only the order within a stream and the events between streams are kept, so a missing event shows as
 * wrong numbers under some seed, and a wait that nothing can end as a report. */
#include "twin.h"
#include <deque>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

struct twin_work {
    const char *what;
    twin_step step;
};
struct twin_stream {
    int number;
    std::deque<twin_work> queue;
    unsigned long capture;               /* number of the capture it is in, or 0 */
    twin_frontier frontier;              /* there */
};
struct twin_event {
    unsigned long recorded, reached;     /* records queued, records that have run */
    unsigned long capture;               /* of the last record; 0: in none */
    twin_frontier frontier;
    bool timed;
    double at;                           /* when the last record ran, seconds */
};

static std::vector<twin_stream *> streams;
static twin_stream legacy;               /* stream 0 */
static int created;
static bool progress;
static unsigned long captures, capturing;            /* so far; the one that is open, or 0 */
static twin_stream *origin;              /* of the open capture */

static double limit(void)
{
    const char *text = getenv("FL_DOUBLE_TIMEOUT");
    return text ? atof(text) : 120;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool twin_eager(void)
{
    static const bool eager = getenv("FL_DOUBLE_EAGER") != NULL;
    return eager;
}

static void report_stuck(double stuck)
{
    std::string text;
    for (twin_stream *s : streams)
        if (!s->queue.empty())
            text += "; stream " + std::to_string(s->number) + " waits in " + s->queue.front().what;
    twin_fault("nothing went on for %g s%s", stuck, text.c_str());
}

/* Runs the head of one stream, if it can go on. */
static bool step(twin_stream *s)
{
    if (s->queue.empty() || !s->queue.front().step())
        return false;
    s->queue.pop_front();
    return true;
}

/* Runs work of all streams in random order until `done`. With no work that could go on it waits for other ranks. */
template <typename Done> static void run_until(Done done)
{
    double since = 0;
    twin_memory_open(true);
    while (!done()) {
        twin_order order(streams.size());
        bool moved = false;
        for (size_t i = 0; i < streams.size() && !moved; i++)
            moved = step(streams[order[i]]);
        if (moved || progress) {
            since = 0;
            progress = false;
            continue;
        }
        double at = seconds();
        since = since ? since : at;
        if (at - since > limit())
            report_stuck(at - since);
        usleep(20);
    }
    twin_memory_open(false);
}

static twin_stream *real(cudaStream_t s)
{
    if (streams.empty())
        streams.push_back(&legacy);
    if (!s)
        return &legacy;
    for (twin_stream *known : streams)
        if (known == s)
            return s;
    twin_fault("a stream that does not exist, or no longer");
}

void twin_progress(void)
{
    progress = true;
}

void twin_refuse_in_capture(const char *what)
{
    if (capturing)
        twin_fault("%s while stream %d is captured", what, origin->number);
}

static void into_graph(twin_stream *s, const char *what, twin_maker make)
{
    s->frontier = {twin_capture_add(what, std::move(make), s->frontier)};
}

void twin_enqueue_made(cudaStream_t stream, const char *what, twin_maker make)
{
    twin_stream *s = real(stream);
    if (s->capture)
        into_graph(s, what, std::move(make));
    else
        twin_enqueue(stream, what, make());
}

void twin_enqueue(cudaStream_t stream, const char *what, twin_step f)
{
    twin_stream *s = real(stream);
    if (s->capture) {
        into_graph(s, what, [f] { return f; });
        return;
    }
    if (s == &legacy)
        twin_refuse_in_capture("work on stream 0");
    s->queue.push_back({what, std::move(f)});
    if (twin_eager()) {
        twin_drain();
        return;
    }
    if (twin_random(16) == 0) {          /* now and then the device is quick */
        uint64_t n = twin_random(8);
        twin_memory_open(true);
        while (n-- && step(streams[twin_random(streams.size())]))
            ;
        twin_memory_open(false);
    }
}

void twin_drain(void)
{
    run_until([] {
        for (twin_stream *s : streams)
            if (!s->queue.empty())
                return false;
        return true;
    });
}

static int ranges;

int nvtxRangePushA(const char *text)
{
    if (!text || ranges)
        twin_fault("nvtxRangePushA: a range within another, or without a name");
    return ranges++;
}

int nvtxRangePop(void)
{
    if (!ranges)
        twin_fault("nvtxRangePop: no range is open");
    return --ranges;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaSuccess ? "no error" : status == cudaErrorMemoryAllocation ? "out of memory" : "an error of the double";
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *text = getenv("FL_DOUBLE_DEVICES");
    *count = text ? atoi(text) : 1024;
    return *count ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
    int count;
    return cudaGetDeviceCount(&count), device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceSynchronize(void)
{
    twin_refuse_in_capture("cudaDeviceSynchronize");
    twin_drain();
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    real(NULL);
    *stream = new twin_stream{++created, {}, 0, {}};
    streams.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    twin_stream *s = real(stream);
    twin_refuse_in_capture("cudaStreamSynchronize");
    run_until([s] { return s->queue.empty(); });
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaStreamSynchronize(real(stream));
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream)
            streams.erase(streams.begin() + (long)i);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new twin_event{};
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

static bool reach(twin_event *event, unsigned long record)
{
    event->reached = record;
    event->at = seconds();
    return true;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    twin_stream *s = real(stream);
    event->capture = s->capture;
    if (s->capture) {
        event->frontier = s->frontier;
        return cudaSuccess;
    }
    unsigned long record = ++event->recorded;
    twin_enqueue(stream, "cudaEventRecord", [=] { return reach(event, record); });
    return cudaSuccess;
}

/* An external record is work of the graph: each launch records the event again. */
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    twin_stream *s = real(stream);
    if (!(flags & cudaEventRecordExternal))
        return cudaEventRecord(event, stream);
    if (!s->capture)
        twin_fault("cudaEventRecordWithFlags: an external record on stream %d, which is not captured", s->number);
    into_graph(s, "cudaEventRecord", [=]() -> twin_step {
        unsigned long record = ++event->recorded;
        return [=] { return reach(event, record); };
    });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    if (!from->timed || !to->timed)
        twin_fault("cudaEventElapsedTime: an event was made without timing");
    if (!from->recorded || !to->recorded)
        twin_fault("cudaEventElapsedTime: an event was never recorded");
    if (cudaEventQuery(from) != cudaSuccess || cudaEventQuery(to) != cudaSuccess)
        return cudaErrorNotReady;
    *milliseconds = (float)(1e3 * (to->at - from->at));
    return cudaSuccess;
}

/* The wait is for the last record queued so far; with none there is nothing to wait for. A wait for a captured record takes
 * its stream into the capture. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    twin_stream *s = real(stream);
    if (event->capture) {
        if (event->capture != capturing)
            twin_fault("cudaStreamWaitEvent: the event was recorded in a capture that has ended");
        if (!s->capture)
            s->frontier.clear();
        s->capture = capturing;
        s->frontier.insert(s->frontier.end(), event->frontier.begin(), event->frontier.end());
        return cudaSuccess;
    }
    if (s->capture && event->recorded)
        twin_fault("cudaStreamWaitEvent: stream %d is captured, the event was recorded before", s->number);
    unsigned long record = event->recorded;
    if (record)
        twin_enqueue(stream, "cudaStreamWaitEvent", [=] { return event->reached >= record; });
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    twin_stream *s = real(stream);
    twin_refuse_in_capture("cudaStreamBeginCapture");
    if (s == &legacy)
        return cudaErrorStreamCaptureUnsupported;
    origin = s;
    s->capture = capturing = ++captures;
    s->frontier.clear();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    if (real(stream) != origin || !capturing)
        twin_fault("cudaStreamEndCapture: stream %d does not head a capture", stream->number);
    for (twin_stream *s : streams) {
        if (s->capture && s != origin && !twin_capture_reaches(origin->frontier, s->frontier))
            twin_fault("cudaStreamEndCapture: what stream %d does was not joined", s->number);
        s->capture = 0;
    }
    capturing = 0;
    *graph = twin_capture_end();
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    unsigned long record = event->recorded;
    twin_refuse_in_capture("cudaEventSynchronize");
    run_until([=] { return event->reached >= record; });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return event->reached >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event->capture)
        cudaEventSynchronize(event);
    delete event;
    return cudaSuccess;
}
