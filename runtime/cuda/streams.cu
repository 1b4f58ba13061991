/* Streams beside the compute stream, and events between streams, all of one step. A step starts when all work before it
 * is done, so what an event of an earlier step said need not be waited for: such a wait is left out. That makes a step a
 * closed piece of work, which a graph can capture: every side stream starts behind the compute stream and joins it at
 * the end. */
#include "../check.h"
#include "../flow_rt.h"
#include <stdlib.h>

static struct side { cudaStream_t stream; struct fl_event joined; } *sides;
static int nside;
static struct fl_event begun;
static unsigned step;                    /* running number of the step; 0: before the first */

cudaStream_t fl_stream_new(void)
{
    sides = (struct side *)realloc(sides, (size_t)(nside + 1) * sizeof *sides);
    if (!sides)
        FL_FAIL("the host is out of memory", "cannot list a stream");
    sides[nside] = {};
    FL_CUDA(cudaStreamCreateWithFlags(&sides[nside].stream, cudaStreamNonBlocking));
    return sides[nside++].stream;
}

void fl_stream_free(cudaStream_t stream)
{
    int at = 0;
    while (sides[at].stream != stream)
        at++;
    FL_CUDA(cudaStreamDestroy(stream));
    fl_event_free(&sides[at].joined);
    sides[at] = sides[--nside];
    if (nside)
        return;
    free(sides);
    sides = NULL;
    fl_event_free(&begun);
}

void fl_record(struct fl_event *e, cudaStream_t stream)
{
    if (!e->event)
        FL_CUDA(cudaEventCreateWithFlags(&e->event, cudaEventDisableTiming));
    FL_CUDA(cudaEventRecord(e->event, stream));
    e->step = step;
}

void fl_wait(cudaStream_t stream, const struct fl_event *e)
{
    if (e->event && e->step == step)
        FL_CUDA(cudaStreamWaitEvent(stream, e->event, 0));
}

void fl_event_free(struct fl_event *e)
{
    if (e->event)
        FL_CUDA(cudaEventDestroy(e->event));
    *e = {};
}

void fl_streams_fork(void)
{
    step++;
    if (!nside)
        return;
    fl_record(&begun, fl_stream());
    for (int i = 0; i < nside; i++)
        fl_wait(sides[i].stream, &begun);
}

void fl_streams_join(void)
{
    for (int i = 0; i < nside; i++) {
        fl_record(&sides[i].joined, sides[i].stream);
        fl_wait(fl_stream(), &sides[i].joined);
    }
}
