/* Communicators: groups of ranks, made at the start. Each has an MPI communicator and, where all its ranks are on one host,
 * memory that they share. */
#include "collective.h"
#include "shared.h"
#include "../times.h"
#include "../trace.h"
#include <sched.h>
#include <stdlib.h>

enum { AT_ONCE = 4 };                    /* pieces of a collective in one look */

static struct fl_comm **all;
static int nall;

double fl_comm_begin(const char *peers)
{
    fl_waiting(peers);
    return MPI_Wtime();
}

void fl_comm_end(double start, int kind)
{
    double end = MPI_Wtime();
    fl_comm_add(kind, end - start);
    fl_waiting(NULL);
    if (fl_tracing)
        fl_trace_call(start, end);
}

void fl_comm_kind(struct fl_comm *c, int kind) { c->kind = kind; }

/* Blocking calls follow each other: all communicators pack in the same. */
void fl_comm_room(struct fl_comm *c, const struct fl_room *room)
{
    (void)c;
    if (room->first)
        fl_scratch(FL_SCRATCH_SEND, room->first);
    if (room->second)
        fl_scratch(FL_SCRATCH_RECV, room->second);
}

void fl_comms_start(int streams) { (void)streams; }

struct fl_comm *fl_comm_new(const char *name, int colour, int key, int size)
{
    MPI_Comm mpi;
    FL_MPI(MPI_Comm_split(MPI_COMM_WORLD, colour < 0 ? MPI_UNDEFINED : colour, key, &mpi));
    if (colour < 0)
        return NULL;
    struct fl_comm *c = fl_alloc(sizeof *c);
    c->mpi = mpi;
    c->name = name;
    FL_MPI(MPI_Comm_rank(mpi, &c->rank));
    FL_MPI(MPI_Comm_size(mpi, &c->size));
    if (c->size != size)
        FL_FAIL("the program's tables are damaged: compile it again", "communicator %s has %d ranks, not %d", name,
                c->size, size);
    char *text = fl_alloc(16 + 8 * c->size);
    int *world = fl_alloc(c->size * (int64_t)sizeof(int)), at = fl_rank_number;
    FL_MPI(MPI_Allgather(&at, 1, MPI_INT, world, 1, MPI_INT, mpi));
    int length = sprintf(text, "ranks");
    for (int i = 0; i < c->size && i < 32; i++)
        length += sprintf(text + length, " %d", world[i]);
    free(world);
    c->peers = text;
    c->shared = fl_shared_new(mpi, c->rank, c->size);
    all = realloc(all, (size_t)(nall + 1) * sizeof *all);
    if (!all)
        FL_FAIL(NULL, "out of memory");
    all[nall++] = c;
    return c;
}

void fl_comm_stop(void)
{
    fl_links_stop();
    fl_posts_stop();
    for (int i = 0; i < nall; i++) {
        fl_shared_free(all[i]->shared);
        FL_MPI(MPI_Comm_free(&all[i]->mpi));
        free(all[i]->peers);
        free(all[i]->counts[0]);
        free(all[i]->counts[1]);
        free(all[i]);
    }
    free(all);
    all = NULL;
    nall = 0;
    fl_short_ops_free();
}

int fl_comm_rank(const fl_comm *c) { return c->rank; }
int fl_comm_size(const fl_comm *c) { return c->size; }

void fl_comms_poll(void)
{
    for (int i = 0; i < nall; i++)
        if (all[i]->shared)
            fl_shared_progress(all[i]->shared, AT_ONCE);
    fl_posts_poll();
}

/* A peer may need this rank in shared memory before it comes to what is waited for here. */
void fl_comm_wait(MPI_Request *request, MPI_Status *status)
{
    for (bool busy = true; busy;) {
        int done = 0;
        bool moved = busy = false;
        for (int i = 0; i < nall; i++)
            if (all[i]->shared && !fl_shared_idle(all[i]->shared)) {
                moved |= fl_shared_progress(all[i]->shared, AT_ONCE);
                busy = true;
            }
        if (busy) {
            FL_MPI(MPI_Test(request, &done, status));
            if (done)
                return;
            if (!moved)
                sched_yield();
        }
    }
    FL_MPI(MPI_Wait(request, status));
}
