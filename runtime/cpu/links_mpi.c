/* Point-to-point links over MPI. Every link has slots of its own: a send copies into a free slot and returns, receives
 * are posted into all slots at the start and again as soon as a message has been taken. So a program's buffers are free
 * after each call, and a send waits only for the receiver to post a place for the message `slots` before it: it has
 * as many posted as it has slots. Messages of a link have the link's tag and arrive in order. The compiler's proof that
 * no order hangs assumes exactly this. */
#include "comm.h"
#include <stdlib.h>

struct fl_link {
    const char *name;
    int peer, tag, slots, next;          /* next: slot of the next message */
    int kind;
    bool sends;
    int64_t bytes;
    char *buffer;                        /* slots x bytes */
    MPI_Request *request;                /* one per slot */
    char *peers;
};

static struct fl_link **all;
static int nall;
static MPI_Comm world = MPI_COMM_NULL;   /* links must not meet messages of anyone else */

static void post(struct fl_link *l, int slot)
{
    FL_MPI(MPI_Irecv(l->buffer + slot * l->bytes, (int)l->bytes, MPI_BYTE, l->peer, l->tag, world, &l->request[slot]));
}

struct fl_link *fl_link_new(const struct fl_link_spec *spec, int peer, int tag, bool sends)
{
    if (world == MPI_COMM_NULL)
        FL_FAIL("call fl_links_start on every rank first", "link %s made too early", spec->name);
    if (spec->bytes > INT32_MAX)
        FL_FAIL("use more micro-batches", "link %s carries messages of %lld bytes, more than MPI takes", spec->name,
                (long long)spec->bytes);
    struct fl_link *l = fl_alloc(sizeof *l);
    *l = (struct fl_link){ .name = spec->name, .peer = peer, .tag = tag,
                           .slots = sends ? spec->slots_sent : spec->slots_received, .sends = sends,
                           .bytes = spec->bytes };
    l->buffer = fl_alloc(l->slots * l->bytes);
    l->request = fl_alloc(l->slots * (int64_t)sizeof(MPI_Request));
    l->peers = fl_printf("rank %d", peer);
    for (int i = 0; i < l->slots; i++) {
        l->request[i] = MPI_REQUEST_NULL;
        if (!sends)
            post(l, i);
    }
    all = realloc(all, (size_t)(nall + 1) * sizeof *all);
    if (!all)
        FL_FAIL(NULL, "out of memory");
    all[nall++] = l;
    return l;
}

void fl_link_kind(struct fl_link *l, int kind) { l->kind = kind; }

int64_t fl_links_bytes(void)
{
    int64_t sum = 0;
    for (int i = 0; i < nall; i++)
        sum += all[i]->slots * all[i]->bytes;
    return sum;
}

void fl_links_start(void) { FL_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &world)); }

void fl_links_stop(void)
{
    for (int i = 0; i < nall; i++) {
        struct fl_link *l = all[i];
        for (int s = 0; s < l->slots; s++)
            if (l->request[s] != MPI_REQUEST_NULL) {
                if (!l->sends)
                    FL_MPI(MPI_Cancel(&l->request[s]));
                FL_MPI(MPI_Wait(&l->request[s], MPI_STATUS_IGNORE));
            }
        free(l->buffer);
        free(l->request);
        free(l->peers);
        free(l);
    }
    free(all);
    all = NULL;
    nall = 0;
    if (world != MPI_COMM_NULL)
        FL_MPI(MPI_Comm_free(&world));
}

static void check_size(const struct fl_link *l, int64_t bytes)
{
    if (bytes > l->bytes)
        FL_FAIL("the program's tables are damaged: compile it again",
                "link %s: a message of %lld bytes in slots of %lld", l->name, (long long)bytes, (long long)l->bytes);
}

void fl_send(fl_link *l, const void *src, int64_t bytes)
{
    check_size(l, bytes);
    double start = fl_comm_begin(l->peers);
    int slot = l->next;
    l->next = (slot + 1) % l->slots;
    fl_comm_wait(&l->request[slot], MPI_STATUS_IGNORE);
    memcpy(l->buffer + slot * l->bytes, src, (size_t)bytes);
    FL_MPI(MPI_Isend(l->buffer + slot * l->bytes, (int)bytes, MPI_BYTE, l->peer, l->tag, world, &l->request[slot]));
    fl_comm_end(start, l->kind);
}

void fl_recv(fl_link *l, void *dst, int64_t bytes)
{
    check_size(l, bytes);
    double start = fl_comm_begin(l->peers);
    int slot = l->next, got = 0;
    l->next = (slot + 1) % l->slots;
    MPI_Status status;
    fl_comm_wait(&l->request[slot], &status);
    FL_MPI(MPI_Get_count(&status, MPI_BYTE, &got));
    if (got != bytes)
        FL_FAIL("the two stages disagree: compile the program again",
                "link %s: got %d bytes from rank %d, expected %lld", l->name, got, l->peer, (long long)bytes);
    memcpy(dst, l->buffer + slot * l->bytes, (size_t)bytes);
    post(l, slot);
    fl_comm_end(start, l->kind);
}

void fl_poll(void)
{
    fl_comms_poll();
    for (int i = 0; i < nall; i++)
        for (int s = 0; all[i]->sends && s < all[i]->slots; s++)
            if (all[i]->request[s] != MPI_REQUEST_NULL) {
                int done;
                FL_MPI(MPI_Test(&all[i]->request[s], &done, MPI_STATUS_IGNORE));
            }
}
