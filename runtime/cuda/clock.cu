/* Times of a step on the device. Events with a time stand around each place where the compute stream waits for
 * communication, and at the step's ends; in a traced step around each value and each transfer as well. Nothing waits
 * for them: they are read after the step, when the host has waited for all of it anyway. A captured step has events
 * of its own, which every replay records again, so its list of places stays. Traced steps are queued call by call. */
#include "../check.h"
#include "../target.h"
#include "../times.h"
#include "../trace.h"
#include "clock.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct stand { int kind, from, to, microbatch; };    /* the compute stream stood between two events */
struct stretch { int track, from, to, microbatch; enum fl_trace_what kind; const char *where, *what; };
static struct clock {
    cudaEvent_t *event;
    int nevent, room;                    /* in use by the step; made */
    struct stand *stand;
    int nstand, stand_room;
} clocks[2];                             /* of steps that are queued, and of the one that is captured */
static struct clock *now;                /* of the step that is being queued; NULL: it is not measured */
static struct clock *last;               /* of the step that ran last */
static bool capturing;
static double ended;                     /* host time at which the step had ended */
static struct stretch *stretch;          /* of a traced step */
static int nstretch, stretch_room;
static struct { int from; const char *text; } range = { -1, NULL };

template <typename T> static T *one_more(T *&list, int &n, int &room)
{
    if (n == room) {
        room = room ? 2 * room : 64;
        list = (T *)realloc(list, (size_t)room * sizeof *list);
        if (!list)
            FL_FAIL("the host is out of memory", "cannot list an event");
    }
    return &list[n++];
}

int fl_clock_mark(cudaStream_t stream)
{
    if (!now)
        return -1;
    bool fresh = now->nevent == now->room;
    cudaEvent_t *e = one_more(now->event, now->nevent, now->room);
    if (fresh)
        for (cudaEvent_t *made = e; made < now->event + now->room; made++)
            FL_CUDA(cudaEventCreateWithFlags(made, cudaEventDefault));
    if (capturing)
        FL_CUDA(cudaEventRecordWithFlags(*e, stream, cudaEventRecordExternal));
    else
        FL_CUDA(cudaEventRecord(*e, stream));
    return now->nevent - 1;
}

void fl_clock_stood(int kind, int from)
{
    if (now)
        *one_more(now->stand, now->nstand, now->stand_room) = { kind, from, fl_clock_mark(fl_stream()),
                                                                fl_trace_microbatch() };
}

static void add(int track, int from, int to, enum fl_trace_what kind, const char *where, const char *what)
{
    *one_more(stretch, nstretch, stretch_room) = {track, from, to, fl_trace_microbatch(), kind, where, what};
}

void fl_clock_transfer(int track, int from, cudaStream_t stream)
{
    const char *where, *what, *waits;
    if (!now || !fl_tracing)
        return;
    fl_markers(&where, &what, &waits);
    add(track, from, fl_clock_mark(stream), FL_TRACE_COMM, where, what);
}

void fl_clock_range(const char *text)
{
    if (!now || !fl_tracing)
        return;
    int at = fl_clock_mark(fl_stream());
    if (range.text)
        add(FL_TRACK_COMPUTE, range.from, at, FL_TRACE_COMPUTE, NULL, range.text);
    range = {at, text};
}

void fl_clock_begin(bool measured, bool captured)
{
    now = measured ? &clocks[captured] : NULL;
    capturing = captured;
    if (!now)
        return;
    now->nevent = now->nstand = nstretch = 0;
    range = {-1, NULL};
    fl_clock_mark(fl_stream());
}

void fl_clock_end(void)
{
    if (!now)
        return;
    fl_clock_mark(fl_stream());
    now = NULL;
    capturing = false;
}

void fl_clock_ran(bool measured, bool captured) { last = measured ? &clocks[captured] : NULL; }

void fl_clock_synced(void) { ended = MPI_Wtime(); }

static double between(const struct clock *c, int from, int to)
{
    float ms = 0;
    FL_CUDA(cudaEventElapsedTime(&ms, c->event[from], c->event[to]));
    return ms * 1e-3;
}

extern "C" double fl_target_busy(void)
{
    if (!last || last->nevent < 2)
        return 0;
    for (int i = 0; i < last->nstand; i++)
        fl_comm_add(last->stand[i].kind, between(last, last->stand[i].from, last->stand[i].to));
    double all = between(last, 0, last->nevent - 1);
    for (int i = 0; i < last->nstand && fl_tracing; i++) {
        const struct stand *s = &last->stand[i];
        double start = ended - all + between(last, 0, s->from);
        fl_trace_add(FL_TRACK_COMPUTE, FL_TRACE_WAIT, "", "wait for communication", s->microbatch, start,
                     start + between(last, s->from, s->to));
    }
    for (int i = 0; i < nstretch; i++) {
        const struct stretch *s = &stretch[i];
        double start = ended - all + between(last, 0, s->from);
        fl_trace_add(s->track, s->kind, s->where, s->what, s->microbatch, start, ended - all + between(last, 0, s->to));
    }
    nstretch = 0;
    last = NULL;
    return all;
}

/* The host asks the driver: not in each of a thousand steps a second. */
extern "C" double fl_target_memory_share(void)
{
    static double share, at = -1;
    double time = MPI_Wtime();
    if (at < 0 || time - at > 1) {
        size_t left = 0, all = 0;
        FL_CUDA(cudaMemGetInfo(&left, &all));
        share = all ? 1 - (double)left / (double)all : 0;
        at = time;
    }
    return share;
}

void fl_clock_stop(void)
{
    for (struct clock &c : clocks) {
        for (int i = 0; i < c.room; i++)
            FL_CUDA(cudaEventDestroy(c.event[i]));
        free(c.event);
        free(c.stand);
        c = {};
    }
    free(stretch);
    stretch = NULL;
    nstretch = stretch_room = 0;
}
