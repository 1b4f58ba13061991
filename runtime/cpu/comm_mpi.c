/* Collectives on host memory: where all ranks of a communicator share some, through it (shared.c), else over MPI. A tensor
 * that is cut along an inner dim is packed into rank order first, or unpacked after, in scratch memory. Reductions run in
 * pieces of fixed size, which MPI does faster than one large message; piece sizes depend on extents only, so equal runs
 * add in equal order. */
#include "comm.h"
#include "shared.h"
#include <limits.h>
#include <stdlib.h>

enum { PIECE = 1 << 18 };                /* floats in one reduction */

static struct started { const void *whole; MPI_Request request; uint64_t ticket; } *started;      /* gathers under way */
static int nstarted, started_room;

/* MPI knows no short float: they travel as 16 bits with operations of our own, f32 inside. */
#define TYPE(T)                                                                                                        \
    static void sum_##T(void *in, void *out, int *n, MPI_Datatype *type)                                               \
    {                                                                                                                  \
        const fl_##T *x = in;                                                                                          \
        fl_##T *y = out;                                                                                               \
        (void)type;                                                                                                    \
        for (int i = 0; i < *n; i++)                                                                                   \
            y[i] = fl_to_##T(fl_from_##T(x[i]) + fl_from_##T(y[i]));                                                   \
    }                                                                                                                  \
    static void max_##T(void *in, void *out, int *n, MPI_Datatype *type)                                               \
    {                                                                                                                  \
        const fl_##T *x = in;                                                                                          \
        fl_##T *y = out;                                                                                               \
        (void)type;                                                                                                    \
        for (int i = 0; i < *n; i++)                                                                                   \
            y[i] = fl_from_##T(x[i]) > fl_from_##T(y[i]) ? x[i] : y[i];                                                \
    }                                                                                                                  \
    static void min_##T(void *in, void *out, int *n, MPI_Datatype *type)                                               \
    {                                                                                                                  \
        const fl_##T *x = in;                                                                                          \
        fl_##T *y = out;                                                                                               \
        (void)type;                                                                                                    \
        for (int i = 0; i < *n; i++)                                                                                   \
            y[i] = fl_from_##T(x[i]) < fl_from_##T(y[i]) ? x[i] : y[i];                                                \
    }
TYPE(bf16)
TYPE(f16)
#undef TYPE

static MPI_Op short_ops[2][3];           /* bf16, f16; by enum fl_reduce; made at first use */

static MPI_Op short_op(enum fl_type t, enum fl_reduce kind)
{
    static MPI_User_function *const f[2][3] = { { sum_bf16, max_bf16, min_bf16 }, { sum_f16, max_f16, min_f16 } };
    MPI_Op *op = &short_ops[t == FL_F16][kind];
    if (!*op)
        FL_MPI(MPI_Op_create(f[t == FL_F16][kind], 1, op));
    return *op;
}

void fl_short_ops_free(void)
{
    for (int i = 0; i < 6; i++)
        if (short_ops[i / 3][i % 3])
            FL_MPI(MPI_Op_free(&short_ops[i / 3][i % 3]));
}

static MPI_Op op_of(enum fl_reduce kind) { return kind == FL_SUM ? MPI_SUM : kind == FL_MAX ? MPI_MAX : MPI_MIN; }

static void reduce_all(fl_comm *c, void *x, int64_t n, MPI_Datatype type, int bytes, MPI_Op op)
{
    if (c->size == 1)
        return;
    double start = fl_comm_begin(c->peers);
    for (int64_t at = 0; at < n; at += PIECE) {
        int count = (int)fl_least(PIECE, n - at);
        MPI_Request request;
        if (c->posting && !c->shared) {  /* else fl_await looks at shared memory only */
            FL_MPI(MPI_Iallreduce(MPI_IN_PLACE, (char *)x + at * bytes, count, type, op, c->mpi, &request));
            fl_comm_started(c, request, NULL);
        } else {
            FL_MPI(MPI_Allreduce(MPI_IN_PLACE, (char *)x + at * bytes, count, type, op, c->mpi));
        }
    }
    fl_comm_end(start, c->kind);
}

static bool reduced_shared(fl_comm *c, void *x, int64_t n, enum fl_type type, enum fl_reduce kind)
{
    if (!c->shared)
        return false;
    fl_comm_queued(c, fl_shared_queue(c->shared, (struct fl_shared_job){ .kind = FL_SHARED_REDUCE, .type = type, .reduce = kind,
                                                                          .bytes = type == FL_F32 ? 4 : 2, .dst = x, .src = x,
                                                                          .n = n }));
    return true;
}

void fl_all_reduce(fl_comm *c, float *x, int64_t n, enum fl_reduce kind)
{
    if (!reduced_shared(c, x, n, FL_F32, kind))
        reduce_all(c, x, n, MPI_FLOAT, 4, op_of(kind));
}
void fl_all_reduce_i32(fl_comm *c, int32_t *x, int64_t n, enum fl_reduce kind)
{
    reduce_all(c, x, n, MPI_INT32_T, 4, op_of(kind));
}
void fl_all_reduce_bf16(fl_comm *c, fl_bf16 *x, int64_t n, enum fl_reduce kind)
{
    if (!reduced_shared(c, x, n, FL_BF16, kind))
        reduce_all(c, x, n, MPI_UINT16_T, 2, short_op(FL_BF16, kind));
}
void fl_all_reduce_f16(fl_comm *c, fl_f16 *x, int64_t n, enum fl_reduce kind)
{
    if (!reduced_shared(c, x, n, FL_F16, kind))
        reduce_all(c, x, n, MPI_UINT16_T, 2, short_op(FL_F16, kind));
}

/* Counts and displacements of the parts of outer x n x inner, in elements, for the v-collectives. */
struct parts { int *count, *at; };

static void part_set(struct parts *p, int i, int64_t count, int64_t at)
{
    if (count > INT_MAX || at > INT_MAX)
        FL_FAIL("split the tensor over more ranks", "a collective of %lld elements is too large for MPI",
                (long long)(count + at));
    p->count[i] = (int)count;
    p->at[i] = (int)at;
}

static struct parts parts_of(const fl_comm *c, int which, int64_t outer, int64_t n, int64_t inner)
{
    int *memory = c->counts[which] ? c->counts[which] : fl_alloc(2 * c->size * (int64_t)sizeof(int));
    ((fl_comm *)c)->counts[which] = memory;
    struct parts p = { memory, memory + c->size };
    for (int i = 0; i < c->size; i++)
        part_set(&p, i, outer * fl_part_size(n, c->size, i) * inner, outer * fl_part_base(n, c->size, i) * inner);
    return p;
}

/* Between outer x n x inner and the same cut into parts along n, part after part. */
static void cut(char *packed, const char *whole, const fl_comm *c, int64_t outer, int64_t n, int64_t inner, int bytes)
{
    for (int i = 0; i < c->size; i++)
        fl_take(packed + outer * fl_part_base(n, c->size, i) * inner * bytes, whole, outer, n,
                fl_part_base(n, c->size, i), fl_part_size(n, c->size, i), inner, bytes);
}

static void join(char *whole, const char *packed, const fl_comm *c, int64_t outer, int64_t n, int64_t inner, int bytes)
{
    for (int i = 0; i < c->size; i++)
        fl_put(whole, packed + outer * fl_part_base(n, c->size, i) * inner * bytes, outer, n,
               fl_part_base(n, c->size, i), fl_part_size(n, c->size, i), inner, bytes);
}

static MPI_Datatype type_of(int bytes)
{
    return bytes == 1 ? MPI_UINT8_T : bytes == 2 ? MPI_UINT16_T : bytes == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

void fl_all_gather(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t n, int64_t inner, int element_bytes)
{
    if (c->size == 1) {
        fl_copy(dst, src, outer * n * inner, element_bytes);
        return;
    }
    double start = fl_comm_begin(c->peers);
    struct parts p = parts_of(c, 0, outer, n, inner);
    void *packed = outer == 1 ? dst : fl_scratch(FL_SCRATCH_RECV, outer * n * inner * element_bytes);
    FL_MPI(MPI_Allgatherv(src, p.count[c->rank], type_of(element_bytes), packed, p.count, p.at, type_of(element_bytes),
                          c->mpi));
    if (packed != dst)
        join(dst, packed, c, outer, n, inner, element_bytes);
    fl_comm_end(start, c->kind);
}

static void scatter(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t n, int64_t inner, MPI_Datatype type,
                    int bytes, MPI_Op op)
{
    if (c->size == 1) {
        fl_copy(dst, src, outer * n * inner, bytes);
        return;
    }
    double start = fl_comm_begin(c->peers);
    struct parts p = parts_of(c, 0, outer, n, inner);
    const void *packed = src;
    if (outer > 1) {
        void *room = fl_scratch(FL_SCRATCH_SEND, outer * n * inner * bytes);
        cut(room, src, c, outer, n, inner, bytes);
        packed = room;
    }
    FL_MPI(MPI_Reduce_scatter(packed, dst, p.count, type, op, c->mpi));
    fl_comm_end(start, c->kind);
}

void fl_reduce_scatter(fl_comm *c, float *dst, const float *src, int64_t outer, int64_t n, int64_t inner,
                       enum fl_reduce kind)
{
    scatter(c, dst, src, outer, n, inner, MPI_FLOAT, 4, op_of(kind));
}

void fl_reduce_scatter_bf16(fl_comm *c, fl_bf16 *dst, const fl_bf16 *src, int64_t outer, int64_t n, int64_t inner,
                            enum fl_reduce kind)
{
    scatter(c, dst, src, outer, n, inner, MPI_UINT16_T, 2, short_op(FL_BF16, kind));
}

void fl_reduce_scatter_f16(fl_comm *c, fl_f16 *dst, const fl_f16 *src, int64_t outer, int64_t n, int64_t inner,
                           enum fl_reduce kind)
{
    scatter(c, dst, src, outer, n, inner, MPI_UINT16_T, 2, short_op(FL_F16, kind));
}

static void gather_shares(fl_comm *c, void *whole, const void *mine, int64_t share, MPI_Datatype type, int bytes)
{
    char *place = (char *)whole + c->rank * share * bytes;
    if (c->size == 1 && place != mine)
        fl_copy(place, mine, share, bytes);
    if (c->size == 1)
        return;
    if (c->shared) {
        fl_comm_queued(c, fl_shared_queue(c->shared, (struct fl_shared_job){ .kind = FL_SHARED_GATHER, .bytes = bytes, .dst = whole,
                                                                              .src = mine, .share = share }));
        return;
    }
    double start = fl_comm_begin(c->peers);
    struct parts p = parts_of(c, 0, 1, share * c->size, 1);
    FL_MPI(MPI_Allgather(place == mine ? MPI_IN_PLACE : mine, p.count[0], type, whole, p.count[0], type, c->mpi));
    fl_comm_end(start, c->kind);
}

static void scatter_shares(fl_comm *c, void *mine, const void *whole, int64_t n, int64_t share, enum fl_type t,
                           enum fl_reduce kind)
{
    int bytes = t == FL_F32 ? 4 : 2;
    MPI_Datatype type = t == FL_F32 ? MPI_FLOAT : MPI_UINT16_T;
    MPI_Op op = t == FL_F32 ? op_of(kind) : short_op(t, kind);
    if (c->size == 1) {
        fl_copy(mine, whole, n, bytes);
        return;
    }
    if (c->shared) {
        fl_comm_queued(c, fl_shared_queue(c->shared, (struct fl_shared_job){ .kind = FL_SHARED_SCATTER, .type = t, .reduce = kind,
                                                                              .bytes = bytes, .dst = mine, .src = whole, .n = n,
                                                                              .share = share }));
        return;
    }
    double start = fl_comm_begin(c->peers);
    struct parts p = parts_of(c, 0, 1, share * c->size, 1);
    for (int i = 0; i < c->size; i++)
        part_set(&p, i, fl_least(share, n > i * share ? n - i * share : 0), 0);
    if (c->posting) {
        int *counts = fl_alloc(c->size * (int64_t)sizeof *counts);       /* kept by MPI until the end */
        MPI_Request request;
        memcpy(counts, p.count, (size_t)c->size * sizeof *counts);
        FL_MPI(MPI_Ireduce_scatter(whole, mine, counts, type, op, c->mpi, &request));
        fl_comm_started(c, request, counts);
    } else {
        FL_MPI(MPI_Reduce_scatter(whole, mine, p.count, type, op, c->mpi));
    }
    fl_comm_end(start, c->kind);
}

void fl_gather_shares(fl_comm *c, float *whole, const float *mine, int64_t share)
{
    gather_shares(c, whole, mine, share, MPI_FLOAT, 4);
}
void fl_gather_shares_bf16(fl_comm *c, fl_bf16 *whole, const fl_bf16 *mine, int64_t share)
{
    gather_shares(c, whole, mine, share, MPI_UINT16_T, 2);
}
void fl_gather_shares_f16(fl_comm *c, fl_f16 *whole, const fl_f16 *mine, int64_t share)
{
    gather_shares(c, whole, mine, share, MPI_UINT16_T, 2);
}
void fl_scatter_shares(fl_comm *c, float *mine, const float *whole, int64_t n, int64_t share, enum fl_reduce kind)
{
    scatter_shares(c, mine, whole, n, share, FL_F32, kind);
}
void fl_scatter_shares_bf16(fl_comm *c, fl_bf16 *mine, const fl_bf16 *whole, int64_t n, int64_t share, enum fl_reduce kind)
{
    scatter_shares(c, mine, whole, n, share, FL_BF16, kind);
}
void fl_scatter_shares_f16(fl_comm *c, fl_f16 *mine, const fl_f16 *whole, int64_t n, int64_t share, enum fl_reduce kind)
{
    scatter_shares(c, mine, whole, n, share, FL_F16, kind);
}

void fl_gather_start(fl_comm *c, void *whole, const void *mine, int64_t share, int element_bytes)
{
    if (c->size == 1) {
        fl_copy(whole, mine, share, element_bytes);
        return;
    }
    if (nstarted == started_room) {
        started_room = started_room ? 2 * started_room : 16;
        started = realloc(started, (size_t)started_room * sizeof *started);
        if (!started)
            FL_FAIL(NULL, "out of memory");
    }
    struct started *s = &started[nstarted++];
    s->whole = whole;
    s->request = MPI_REQUEST_NULL;
    if (c->shared) {
        s->ticket = fl_shared_queue(c->shared, (struct fl_shared_job){ .kind = FL_SHARED_GATHER, .bytes = element_bytes,
                                                                       .dst = whole, .src = mine, .share = share });
        return;
    }
    struct parts p = parts_of(c, 0, 1, share * c->size, 1);
    FL_MPI(MPI_Iallgather(mine, p.count[0], type_of(element_bytes), whole, p.count[0], type_of(element_bytes), c->mpi,
                          &s->request));
}

void fl_gather_wait(fl_comm *c, const void *whole)
{
    if (c->size == 1)
        return;
    int i = 0;
    while (i < nstarted && started[i].whole != whole)
        i++;
    if (i == nstarted)
        FL_FAIL("compile the program again", "a gather is waited for that was not started");
    double start = fl_comm_begin(c->peers);
    FL_MPI(MPI_Wait(&started[i].request, MPI_STATUS_IGNORE));
    fl_comm_end(start, c->kind);
    if (c->shared)
        fl_comm_queued(c, started[i].ticket);
    started[i] = started[--nstarted];
}

void fl_gathers_poll(void)
{
    int done;
    for (int i = 0; i < nstarted; i++)
        if (started[i].request != MPI_REQUEST_NULL)
            FL_MPI(MPI_Test(&started[i].request, &done, MPI_STATUS_IGNORE));
}

void fl_gathers_stop(void)
{
    free(started);
    started = NULL;
    nstarted = started_room = 0;
}

void fl_all_to_all(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t a, int64_t middle, int64_t b,
                   int64_t inner, bool split_a, int element_bytes)
{
    int64_t mine_a = fl_part_size(a, c->size, c->rank), mine_b = fl_part_size(b, c->size, c->rank);
    /* seen from src: cut along one dim; seen from dst: joined along the other; as outer x n x inner each */
    int64_t cut_outer = split_a ? outer : outer * mine_a * middle, cut_n = split_a ? a : b;
    int64_t cut_inner = split_a ? middle * mine_b * inner : inner;
    int64_t join_outer = split_a ? outer * mine_a * middle : outer, join_n = split_a ? b : a;
    int64_t join_inner = split_a ? inner : middle * mine_b * inner;
    if (c->size == 1) {
        fl_copy(dst, src, outer * a * middle * b * inner, element_bytes);
        return;
    }
    double start = fl_comm_begin(c->peers);
    struct parts send = parts_of(c, 0, cut_outer, cut_n, cut_inner),
                 recv = parts_of(c, 1, join_outer, join_n, join_inner);
    char *out = fl_scratch(FL_SCRATCH_SEND, cut_outer * cut_n * cut_inner * element_bytes);
    char *in = fl_scratch(FL_SCRATCH_RECV, join_outer * join_n * join_inner * element_bytes);
    cut(out, src, c, cut_outer, cut_n, cut_inner, element_bytes);
    FL_MPI(MPI_Alltoallv(out, send.count, send.at, type_of(element_bytes), in, recv.count, recv.at,
                         type_of(element_bytes), c->mpi));
    join(dst, in, c, join_outer, join_n, join_inner, element_bytes);
    fl_comm_end(start, c->kind);
}

void fl_permute_parts(fl_comm *c, void *dst, const void *src, int64_t n, int element_bytes, int to, int from)
{
    if (to == c->rank) {                             /* a permutation: then from is this rank too */
        fl_copy(dst, src, n, element_bytes);
        return;
    }
    double start = fl_comm_begin(c->peers);
    for (int64_t at = 0; at < n; at += INT_MAX) {
        int count = (int)fl_least(INT_MAX, n - at);
        FL_MPI(MPI_Sendrecv((const char *)src + at * element_bytes, count, type_of(element_bytes), to, 0,
                            (char *)dst + at * element_bytes, count, type_of(element_bytes), from, 0, c->mpi,
                            MPI_STATUS_IGNORE));
    }
    fl_comm_end(start, c->kind);
}
