/* The memory in which ranks of one host meet, and what is under way in it. Every rank owns slots in one shared mapping. A
 * collective is cut into pieces, and a piece goes through three stages on every rank (pieces.c): feed, as soon as all have
 * taken what was in the slot; reduce, when all have fed it; take, when all have reduced it, or at once where others reduce
 * nothing for this rank. Nothing blocks: progress does what can be done and returns, so that a rank may compute meanwhile and
 * come by between two kernels. Ranks queue the same collectives in one order.
 *
 * A rank takes its part of the mapping at the start, FL_MEETING_BYTES, which the plan lists: nothing is taken in a step.
 * The mapping is anonymous memory of the first rank, which the others open by its process: no file, no size limit but
 * memory. Where that is not allowed, or the ranks are on several hosts, there is none, on all ranks. */
#define _GNU_SOURCE
#include "shared.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = FL_MEETING_SLOTS, SLOT_BYTES = FL_MEETING_SLOT_BYTES, LANE_BYTES = 4096 };
enum { MOST_RANKS = 1024 };              /* each has a slice of a slot */

struct lane {                            /* of a rank, in shared memory: pieces that are past each stage */
    _Atomic uint64_t fed, reduced, taken;
};
struct job { struct fl_collective x; uint64_t first, end; };             /* its pieces */
struct fl_shared {
    char *memory;
    int64_t bytes;
    int rank, size;
    char **slot;                         /* of each rank, of the piece at hand */
    struct job *jobs;
    int first, end, room;                /* jobs[first .. end) are under way */
    uint64_t queued, fed, reduced, taken;    /* pieces */
    int at_fed, at_reduced;              /* the job that the next piece of the stage is of */
};

static struct lane *lane(const struct fl_shared *s, int rank)
{
    return (struct lane *)(s->memory + rank * LANE_BYTES);
}

static char *slot(const struct fl_shared *s, int rank, uint64_t piece)
{
    return s->memory + s->size * LANE_BYTES + ((int64_t)rank * SLOTS + (int64_t)(piece % SLOTS)) * SLOT_BYTES;
}

static bool all_agree(MPI_Comm mpi, bool ok)
{
    int mine = ok, all;
    FL_MPI(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, mpi));
    return all;
}

static bool one_host(MPI_Comm mpi, int size)
{
    MPI_Comm local;
    int n;
    FL_MPI(MPI_Comm_split_type(mpi, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
    FL_MPI(MPI_Comm_size(local, &n));
    FL_MPI(MPI_Comm_free(&local));
    const char *wish = getenv("FL_SHARED");
    return all_agree(mpi, n == size && !(wish && !strcmp(wish, "0")));
}

struct fl_shared *fl_shared_new(MPI_Comm mpi, int rank, int size)
{
    if (size == 1 || size > MOST_RANKS || !one_host(mpi, size))
        return NULL;
    struct { long process, file, stamp; } owner = {0};
    int64_t bytes = size * FL_MEETING_BYTES + (int64_t)sizeof owner;
    int file = -1;
    if (rank == 0) {
        file = memfd_create("flow", MFD_CLOEXEC);
        owner.process = getpid();
        owner.file = file;
        owner.stamp = (long)(MPI_Wtime() * 1e6) ^ owner.process << 20;
        if (file >= 0 && ftruncate(file, bytes)) {
            close(file);
            file = -1;
        }
    }
    FL_MPI(MPI_Bcast(&owner, sizeof owner, MPI_BYTE, 0, mpi));
    if (rank) {
        char *path = fl_printf("/proc/%ld/fd/%ld", owner.process, owner.file);
        file = open(path, O_RDWR | O_CLOEXEC);
        free(path);
        struct stat found;               /* of another machine's process it may be any file */
        if (file >= 0 && (fstat(file, &found) || found.st_size != bytes)) {
            close(file);
            file = -1;
        }
    }
    char *memory = file < 0 ? MAP_FAILED : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    bool ok = memory != MAP_FAILED;
    if (rank == 0 && ok)
        memcpy(memory + bytes - sizeof owner, &owner, sizeof owner);
    ok = all_agree(mpi, ok);
    ok = all_agree(mpi, ok && !memcmp(memory + bytes - sizeof owner, &owner, sizeof owner));   /* the same memory */
    if (file >= 0)
        close(file);
    if (ok)
        memset(memory + size * (int64_t)LANE_BYTES + rank * (int64_t)SLOTS * SLOT_BYTES, 0, (size_t)SLOTS * SLOT_BYTES);
    if (!ok) {
        if (memory != MAP_FAILED)
            munmap(memory, (size_t)bytes);
        return NULL;
    }
    struct fl_shared *s = fl_alloc(sizeof *s);
    *s = (struct fl_shared){ .memory = memory, .bytes = bytes, .rank = rank, .size = size,
                             .slot = fl_alloc(size * (int64_t)sizeof *s->slot) };
    return s;
}

void fl_shared_free(struct fl_shared *s)
{
    if (!s)
        return;
    munmap(s->memory, (size_t)s->bytes);
    free(s->slot);
    free(s->jobs);
    free(s);
}

/* ---- the queue ---- */

uint64_t fl_shared_queue(struct fl_shared *s, const struct fl_collective *x)
{
    int64_t pieces = fl_pieces_of(x, s->size);
    if (pieces <= 0)
        return s->queued;
    if (s->end == s->room) {
        if (s->first) {
            memmove(s->jobs, s->jobs + s->first, (size_t)(s->end - s->first) * sizeof *s->jobs);
            s->at_fed -= s->first;
            s->at_reduced -= s->first;
            s->end -= s->first;
            s->first = 0;
        } else {
            s->room = s->room ? 2 * s->room : 64;
            s->jobs = realloc(s->jobs, (size_t)s->room * sizeof *s->jobs);
            if (!s->jobs)
                FL_FAIL(NULL, "out of memory");
        }
    }
    s->jobs[s->end++] = (struct job){ *x, s->queued, s->queued + (uint64_t)pieces };
    s->queued += (uint64_t)pieces;
    return s->queued;
}

bool fl_shared_done(const struct fl_shared *s, uint64_t ticket)
{
    return s->taken >= ticket;
}

bool fl_shared_idle(const struct fl_shared *s) { return s->taken == s->queued; }

/* The job of a piece, from the one that the stage is at. */
static const struct fl_collective *job_at(const struct fl_shared *s, int *at, uint64_t piece)
{
    while (piece >= s->jobs[*at].end)
        ++*at;
    return &s->jobs[*at].x;
}

static struct fl_piece piece_of(const struct fl_shared *s, int at, uint64_t piece)
{
    for (int r = 0; r < s->size; r++)
        s->slot[r] = slot(s, r, piece);
    return (struct fl_piece){ s->rank, s->size, (int64_t)(piece - s->jobs[at].first), s->slot };
}

static uint64_t least(const struct fl_shared *s, size_t member)
{
    uint64_t low = UINT64_MAX;
    for (int r = 0; r < s->size; r++) {
        uint64_t x = atomic_load_explicit((_Atomic uint64_t *)((char *)lane(s, r) + member), memory_order_acquire);
        low = x < low ? x : low;
    }
    return low;
}

bool fl_shared_progress(struct fl_shared *s, int budget)
{
    struct lane *mine = lane(s, s->rank);
    bool any = false;
    for (bool moved = true; moved && budget > 0;) {
        moved = false;
        if (s->taken < s->reduced) {
            const struct fl_collective *x = job_at(s, &s->first, s->taken);
            if (x->kind != FL_REDUCE_ALL || least(s, offsetof(struct lane, reduced)) > s->taken) {
                struct fl_piece p = piece_of(s, s->first, s->taken);
                fl_piece_take(x, &p);
                atomic_store_explicit(&mine->taken, ++s->taken, memory_order_release);
                moved = true;
            }
        }
        if (s->reduced < s->fed && least(s, offsetof(struct lane, fed)) > s->reduced) {
            const struct fl_collective *x = job_at(s, &s->at_reduced, s->reduced);
            struct fl_piece p = piece_of(s, s->at_reduced, s->reduced);
            fl_piece_reduce(x, &p);
            atomic_store_explicit(&mine->reduced, ++s->reduced, memory_order_release);
            moved = true;
        }
        if (s->fed < s->queued && s->fed < least(s, offsetof(struct lane, taken)) + SLOTS) {
            const struct fl_collective *x = job_at(s, &s->at_fed, s->fed);
            struct fl_piece p = piece_of(s, s->at_fed, s->fed);
            fl_piece_feed(x, &p);
            atomic_store_explicit(&mine->fed, ++s->fed, memory_order_release);
            moved = true;
        }
        budget--;
        any |= moved;
    }
    if (s->taken == s->queued)
        s->first = s->end = s->at_fed = s->at_reduced = 0;
    return any;
}
