/* Collectives in two points. Between fl_post and fl_posted they are queued in shared memory, or started with MPI; fl_await
 * helps until they have ended. In between they go on when fl_poll looks at them. fl_gather_start and fl_gather_wait are the
 * same for one gather. */
#include "comm.h"
#include "shared.h"
#include <sched.h>
#include <stdlib.h>

struct pending { const fl_comm *comm; MPI_Request request; int *counts; uint64_t number; };

static struct gather { const void *whole; MPI_Request request; uint64_t ticket; } *gathers;       /* under way */
static int ngathers, gathers_room;
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
            fl_comm_wait(&pending[i].request, MPI_STATUS_IGNORE);
            drop(i);
        } else {
            i++;
        }
    fl_comm_end(start, c->kind);
}

void fl_gather_started(const void *whole, MPI_Request request, uint64_t ticket)
{
    if (ngathers == gathers_room) {
        gathers_room = gathers_room ? 2 * gathers_room : 16;
        gathers = realloc(gathers, (size_t)gathers_room * sizeof *gathers);
        if (!gathers)
            FL_FAIL(NULL, "out of memory");
    }
    gathers[ngathers++] = (struct gather){ whole, request, ticket };
}

void fl_gather_wait(fl_comm *c, const void *whole)
{
    if (c->size == 1)
        return;
    int i = 0;
    while (i < ngathers && gathers[i].whole != whole)
        i++;
    if (i == ngathers)
        FL_FAIL("compile the program again", "a gather is waited for that was not started");
    if (c->shared)
        help(c, gathers[i].ticket);
    else {
        double start = fl_comm_begin(c->peers);
        fl_comm_wait(&gathers[i].request, MPI_STATUS_IGNORE);
        fl_comm_end(start, c->kind);
    }
    gathers[i] = gathers[--ngathers];
}

static void test(MPI_Request *request)
{
    int done;
    if (*request != MPI_REQUEST_NULL)
        FL_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
}

void fl_posts_poll(void)
{
    for (int i = 0; i < npending; i++)
        test(&pending[i].request);
    for (int i = 0; i < ngathers; i++)
        test(&gathers[i].request);
}

void fl_posts_stop(void)
{
    for (int i = 0; i < npending; i++)
        free(pending[i].counts);
    free(pending);
    free(tickets);
    free(gathers);
    pending = NULL;
    tickets = NULL;
    gathers = NULL;
    npending = room = ntickets = ngathers = gathers_room = 0;
}
