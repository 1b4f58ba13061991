/* Collectives in two points. Between fl_post and fl_posted they are queued in shared memory, or started with MPI; fl_await
 * helps until they have ended. In between they go on when fl_poll looks at them. */
#include "comm.h"
#include "shared.h"
#include <sched.h>
#include <stdlib.h>

struct pending { const fl_comm *comm; MPI_Request request; int *counts; uint64_t number; };

static struct pending *pending;          /* started with MPI, in that order */
static int npending, room;
static uint64_t *tickets;                /* by number: what has been posted with it last */
static int ntickets;
static uint64_t started;                 /* with MPI so far */
static uint64_t last_ticket;             /* of what is being posted */

void fl_comm_started(fl_comm *c, MPI_Request request, int *counts)
{
    if (npending == room) {
        room = room ? 2 * room : 64;
        pending = realloc(pending, (size_t)room * sizeof *pending);
        if (!pending)
            FL_FAIL(NULL, "out of memory");
    }
    last_ticket = ++started;
    pending[npending++] = (struct pending){ c, request, counts, last_ticket };
}

static void drop(int i)
{
    free(pending[i].counts);
    memmove(&pending[i], &pending[i + 1], (size_t)(--npending - i) * sizeof *pending);
}

static void help(fl_comm *c, uint64_t ticket)
{
    if (fl_shared_done(c->shared, ticket))
        return;
    double start = fl_comm_begin(c->peers);
    while (!fl_shared_done(c->shared, ticket))
        if (!fl_shared_progress(c->shared, INT32_MAX)) {
            fl_poll();                   /* a peer may wait for this rank elsewhere */
            sched_yield();
        }
    fl_comm_end(start, c->kind);
}

void fl_comm_queued(fl_comm *c, uint64_t ticket)
{
    if (c->posting)
        last_ticket = ticket;
    else
        help(c, ticket);
}

void fl_post(fl_comm *c, int number)
{
    (void)number;
    c->posting = true;
    last_ticket = 0;
}

void fl_posted(fl_comm *c, int number)
{
    c->posting = false;
    if (number >= ntickets) {
        tickets = realloc(tickets, (size_t)(number + 1) * sizeof *tickets);
        if (!tickets)
            FL_FAIL(NULL, "out of memory");
        for (; ntickets <= number; ntickets++)
            tickets[ntickets] = 0;
    }
    tickets[number] = last_ticket;
    if (c->shared)
        fl_shared_progress(c->shared, 4);
}

void fl_await(fl_comm *c, int number)
{
    uint64_t ticket = number < ntickets ? tickets[number] : 0;
    if (c->shared) {
        help(c, ticket);
        return;
    }
    double start = fl_comm_begin(c->peers);
    for (int i = 0; i < npending;)
        if (pending[i].comm == c && pending[i].number <= ticket) {
            FL_MPI(MPI_Wait(&pending[i].request, MPI_STATUS_IGNORE));
            drop(i);
        } else {
            i++;
        }
    fl_comm_end(start, c->kind);
}

void fl_posts_poll(void)
{
    int done;
    for (int i = 0; i < npending; i++)
        if (pending[i].request != MPI_REQUEST_NULL)
            FL_MPI(MPI_Test(&pending[i].request, &done, MPI_STATUS_IGNORE));
}

void fl_posts_stop(void)
{
    for (int i = 0; i < npending; i++)
        free(pending[i].counts);
    free(pending);
    free(tickets);
    pending = NULL;
    tickets = NULL;
    npending = room = ntickets = 0;
}
