/* Collectives of ranks on one host. Every rank owns slots in one shared mapping. A collective is cut into pieces, and a piece
 * goes through three stages on every rank, each as soon as the others are far enough: feed (what others need of it is
 * copied into a slot), reduce (this rank's slice of the piece is reduced over all ranks, in rank order, whatever the piece
 * sizes), take (the slices of the others are copied out). Nothing blocks: progress does what can be done and returns, so
 * that a rank may compute meanwhile and come by between two kernels. Ranks queue the same collectives in one order; a
 * slot is filled again when all ranks have taken what was in it.
 *
 * A rank takes its part of the mapping at the start, FL_MEETING_BYTES, which the plan lists: nothing is taken in a step.
 * The mapping is anonymous memory of the first rank, which the others open by its process: no file, no size limit but
 * memory. Where that is not allowed, or the ranks are on several hosts, there is none, on all ranks. */
#define _GNU_SOURCE
#include "shared.h"
#include "../fl_defaults.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = FL_MEETING_SLOTS, SLOT_BYTES = FL_MEETING_SLOT_BYTES, LANE_BYTES = 4096, BLOCK = 1024 };

struct lane {                            /* of a rank, in shared memory: pieces that are past each stage */
    _Atomic uint64_t fed, reduced, taken;
};
struct fl_shared {
    char *memory;
    int64_t bytes;
    int rank, size;
    struct fl_shared_job *jobs;
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
    if (size == 1 || !one_host(mpi, size))
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
    *s = (struct fl_shared){ .memory = memory, .bytes = bytes, .rank = rank, .size = size };
    return s;
}

void fl_shared_free(struct fl_shared *s)
{
    if (!s)
        return;
    munmap(s->memory, (size_t)s->bytes);
    free(s->jobs);
    free(s);
}

/* ---- pieces ---- */

/* Elements of a slice: of a piece, each rank reduces one. Gathers have one slice, as large as a slot. */
static int64_t slice(const struct fl_shared *s, const struct fl_shared_job *j)
{
    int64_t all = SLOT_BYTES / j->bytes;
    return j->kind == FL_SHARED_GATHER ? all : all / s->size / 16 * 16;
}

/* Where slice `of` of a piece lies in the tensor, and how many elements it has. */
static int64_t slice_of(const struct fl_shared *s, const struct fl_shared_job *j, uint64_t piece, int of, int64_t *count)
{
    int64_t most = slice(s, j), at = (int64_t)(piece - j->first) * most, left;
    if (j->kind == FL_SHARED_REDUCE) {
        at *= s->size;
        left = j->n - at;
        int64_t len = left >= most * s->size ? most : ((left + s->size - 1) / s->size + 15) / 16 * 16;
        at += of * len;
        *count = fl_least(len, j->n - at);
    } else if (j->kind == FL_SHARED_SCATTER) {
        *count = fl_least(most, j->share - at);
        at += of * j->share;
        *count = fl_least(*count, j->n - at);
    } else {
        *count = fl_least(most, j->share - at);
        at += of * j->share;
    }
    *count = *count > 0 ? *count : 0;
    return at;
}

static char *slice_slot(const struct fl_shared *s, const struct fl_shared_job *j, uint64_t piece, int owner, int of)
{
    return slot(s, owner, piece) + (j->kind == FL_SHARED_GATHER ? 0 : of * slice(s, j) * j->bytes);
}

static void feed(const struct fl_shared *s, const struct fl_shared_job *j, uint64_t piece)
{
    int64_t count;
    if (j->kind == FL_SHARED_GATHER) {
        int64_t at = slice_of(s, j, piece, 0, &count);
        memcpy(slot(s, s->rank, piece), j->src + at * j->bytes, (size_t)(count * j->bytes));
        return;
    }
    for (int of = 0; of < s->size; of++) {
        int64_t at = slice_of(s, j, piece, of, &count);
        if (of != s->rank && count)
            memcpy(slice_slot(s, j, piece, s->rank, of), j->src + at * j->bytes, (size_t)(count * j->bytes));
    }
}

/* In f32, in the order of ranks, rounded once. */
static void load(float *to, const void *from, enum fl_type type, int64_t n)
{
    if (type == FL_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = type == FL_BF16 ? fl_from_bf16(((const fl_bf16 *)from)[i]) : fl_from_f16(((const fl_f16 *)from)[i]);
}

static void store(void *to, const float *from, enum fl_type type, int64_t n)
{
    if (type == FL_F32)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
        for (int64_t i = 0; i < n; i++) {
            if (type == FL_BF16)
                ((fl_bf16 *)to)[i] = fl_to_bf16(from[i]);
            else
                ((fl_f16 *)to)[i] = fl_to_f16(from[i]);
        }
}

static void meet(float *restrict to, const float *restrict x, enum fl_reduce reduce, int64_t n)
{
    if (reduce == FL_SUM)
        for (int64_t i = 0; i < n; i++)
            to[i] += x[i];
    else if (reduce == FL_MAX)
        for (int64_t i = 0; i < n; i++)
            to[i] = x[i] > to[i] ? x[i] : to[i];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = x[i] < to[i] ? x[i] : to[i];
}

static void reduce(const struct fl_shared *s, const struct fl_shared_job *j, uint64_t piece)
{
    if (j->kind == FL_SHARED_GATHER)
        return;
    int64_t count, at = slice_of(s, j, piece, s->rank, &count);
    bool all = j->kind == FL_SHARED_REDUCE;
    char *own = slice_slot(s, j, piece, s->rank, s->rank);
    char *dst = j->dst + (all ? at : at - s->rank * j->share) * j->bytes;
    for (int64_t i = 0; i < count; i += BLOCK) {
        float sum[BLOCK], x[BLOCK];
        int64_t n = fl_least(BLOCK, count - i), o = i * j->bytes;
        for (int r = 0; r < s->size; r++) {
            const char *from = r == s->rank ? j->src + (at + i) * j->bytes : slice_slot(s, j, piece, r, s->rank) + o;
            if (r == 0)
                load(sum, from, j->type, n);
            else if (j->type == FL_F32)
                meet(sum, (const float *)(const void *)from, j->reduce, n);
            else {
                load(x, from, j->type, n);
                meet(sum, x, j->reduce, n);
            }
        }
        store(dst + o, sum, j->type, n);
        if (all)
            store(own + o, sum, j->type, n);
    }
}

static void take(const struct fl_shared *s, const struct fl_shared_job *j, uint64_t piece)
{
    for (int of = 0; of < s->size && j->kind != FL_SHARED_SCATTER; of++) {
        int64_t count, at = slice_of(s, j, piece, of, &count);
        char *dst = j->dst + at * j->bytes;
        const char *mine = j->src + (at - of * j->share) * j->bytes;
        if (of != s->rank)
            memcpy(dst, slice_slot(s, j, piece, of, of), (size_t)(count * j->bytes));
        else if (j->kind == FL_SHARED_GATHER && mine != dst)
            memcpy(dst, mine, (size_t)(count * j->bytes));
    }
}

/* ---- the queue ---- */

uint64_t fl_shared_queue(struct fl_shared *s, struct fl_shared_job job)
{
    int64_t one = slice(s, &job) * (job.kind == FL_SHARED_REDUCE ? s->size : 1);
    int64_t all = job.kind == FL_SHARED_REDUCE ? job.n : job.share;
    job.pieces = (all + one - 1) / one;
    job.first = s->queued;
    if (job.pieces <= 0)
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
    s->jobs[s->end++] = job;
    s->queued += (uint64_t)job.pieces;
    return s->queued;
}

bool fl_shared_done(const struct fl_shared *s, uint64_t ticket)
{
    return s->taken >= ticket;
}

/* The job of a piece, from the one that the stage is at. */
static const struct fl_shared_job *job_at(const struct fl_shared *s, int *at, uint64_t piece)
{
    while (piece >= s->jobs[*at].first + (uint64_t)s->jobs[*at].pieces)
        ++*at;
    return &s->jobs[*at];
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
        if (s->taken < s->reduced && least(s, offsetof(struct lane, reduced)) > s->taken) {
            take(s, job_at(s, &s->first, s->taken), s->taken);
            atomic_store_explicit(&mine->taken, ++s->taken, memory_order_release);
            moved = true;
        }
        if (s->reduced < s->fed && least(s, offsetof(struct lane, fed)) > s->reduced) {
            reduce(s, job_at(s, &s->at_reduced, s->reduced), s->reduced);
            atomic_store_explicit(&mine->reduced, ++s->reduced, memory_order_release);
            moved = true;
        }
        if (s->fed < s->queued && s->fed < least(s, offsetof(struct lane, taken)) + SLOTS) {
            feed(s, job_at(s, &s->at_fed, s->fed), s->fed);
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
