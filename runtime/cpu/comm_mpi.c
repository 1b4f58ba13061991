/* Collectives over MPI, where a communicator's ranks share no memory. A tensor that is cut along an inner dim is packed into
 * rank order first, or unpacked after, in scratch memory. Reductions run in pieces of fixed size, which MPI does faster than
 * one large message; piece sizes depend on extents only, so equal runs add in equal order. */
#include "collective.h"
#include <limits.h>

enum { PIECE = 1 << 18 };                /* elements in one reduction */

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

static MPI_Op op_of(const struct fl_collective *x)
{
    if (x->type == FL_BF16 || x->type == FL_F16)
        return short_op(x->type, x->reduce);
    return x->reduce == FL_SUM ? MPI_SUM : x->reduce == FL_MAX ? MPI_MAX : MPI_MIN;
}

/* Counts and displacements of the parts of a cut, in elements, for the v-collectives. */
struct parts { int *count, *at; };

static struct parts parts_of(fl_comm *c, int which, const struct fl_cut *cut)
{
    if (!c->counts[which])
        c->counts[which] = fl_alloc(2 * c->size * (int64_t)sizeof(int));
    struct parts p = { c->counts[which], c->counts[which] + c->size };
    for (int i = 0; i < c->size; i++) {
        int64_t count = fl_cut_count(cut, c->size, i), at = cut->outer * fl_cut_base(cut, c->size, i) * cut->inner;
        if (count > INT_MAX || at > INT_MAX)
            FL_FAIL("split the tensor over more ranks", "a collective of %lld elements is too large for MPI",
                    (long long)(count + at));
        p.count[i] = (int)count;
        p.at[i] = (int)at;
    }
    return p;
}

/* Between a tensor and the same cut into parts, packed part after part. */
static void cut(char *packed, const char *whole, const fl_comm *c, const struct fl_cut *k, int bytes)
{
    for (int i = 0; i < c->size; i++)
        fl_take(packed + k->outer * fl_cut_base(k, c->size, i) * k->inner * bytes, whole, k->outer, k->n,
                fl_cut_base(k, c->size, i), fl_cut_size(k, c->size, i), k->inner, bytes);
}

static void join(char *whole, const char *packed, const fl_comm *c, const struct fl_cut *k, int bytes)
{
    for (int i = 0; i < c->size; i++)
        fl_put(whole, packed + k->outer * fl_cut_base(k, c->size, i) * k->inner * bytes, k->outer, k->n,
               fl_cut_base(k, c->size, i), fl_cut_size(k, c->size, i), k->inner, bytes);
}

/* ---- each kind ---- */

static MPI_Datatype type_of(int bytes)
{
    return bytes == 1 ? MPI_UINT8_T : bytes == 2 ? MPI_UINT16_T : bytes == 4 ? MPI_UINT32_T : MPI_UINT64_T;
}

static MPI_Datatype type_reduced(const struct fl_collective *x)
{
    return x->type == FL_F32 ? MPI_FLOAT : x->type == FL_I32 ? MPI_INT32_T : MPI_UINT16_T;
}

static void reduce_all(fl_comm *c, const struct fl_collective *x)
{
    for (int64_t at = 0; at < x->n; at += PIECE) {
        int count = (int)fl_least(PIECE, x->n - at);
        char *dst = x->dst + at * x->bytes;
        MPI_Request request;
        if (c->posting) {
            FL_MPI(MPI_Iallreduce(MPI_IN_PLACE, dst, count, type_reduced(x), op_of(x), c->mpi, &request));
            fl_comm_started(c, request, NULL);
        } else {
            FL_MPI(MPI_Allreduce(MPI_IN_PLACE, dst, count, type_reduced(x), op_of(x), c->mpi));
        }
    }
}

static void reduce_cut(fl_comm *c, const struct fl_collective *x)
{
    struct parts p = parts_of(c, 0, &x->cut);
    if (c->posting && x->cut.outer == 1) {
        int *counts = fl_alloc(c->size * (int64_t)sizeof *counts);       /* kept by MPI until the end */
        MPI_Request request;
        memcpy(counts, p.count, (size_t)c->size * sizeof *counts);
        FL_MPI(MPI_Ireduce_scatter(x->src, x->dst, counts, type_reduced(x), op_of(x), c->mpi, &request));
        fl_comm_started(c, request, counts);
        return;
    }
    const void *packed = x->src;
    if (x->cut.outer > 1) {
        void *room = fl_scratch(FL_SCRATCH_SEND, x->cut.outer * x->cut.n * x->cut.inner * x->bytes);
        cut(room, x->src, c, &x->cut, x->bytes);
        packed = room;
    }
    FL_MPI(MPI_Reduce_scatter(packed, x->dst, p.count, type_reduced(x), op_of(x), c->mpi));
}

static void gather(fl_comm *c, const struct fl_collective *x)
{
    struct parts p = parts_of(c, 0, &x->cut);
    MPI_Datatype type = type_of(x->bytes);
    bool here = x->cut.share && fl_in_place(x, c->size, c->rank);    /* shares lie so on every rank or on none, as MPI wants it */
    const void *mine = here ? MPI_IN_PLACE : x->src;
    if (c->posting && x->cut.share) {
        MPI_Request request;
        FL_MPI(MPI_Iallgather(mine, p.count[0], type, x->dst, p.count[0], type, c->mpi, &request));
        fl_comm_started(c, request, NULL);
        return;
    }
    if (x->cut.share) {
        FL_MPI(MPI_Allgather(mine, p.count[0], type, x->dst, p.count[0], type, c->mpi));
        return;
    }
    void *packed = x->cut.outer == 1 ? x->dst : fl_scratch(FL_SCRATCH_RECV, x->cut.outer * x->cut.n * x->cut.inner * x->bytes);
    FL_MPI(MPI_Allgatherv(mine, p.count[c->rank], type, packed, p.count, p.at, type, c->mpi));
    if (packed != x->dst)
        join(x->dst, packed, c, &x->cut, x->bytes);
}

static void exchange(fl_comm *c, const struct fl_collective *x)
{
    struct parts send = parts_of(c, 0, &x->cut), recv = parts_of(c, 1, &x->join);
    MPI_Datatype type = type_of(x->bytes);
    char *out = fl_scratch(FL_SCRATCH_SEND, x->cut.outer * x->cut.n * x->cut.inner * x->bytes);
    char *in = fl_scratch(FL_SCRATCH_RECV, x->join.outer * x->join.n * x->join.inner * x->bytes);
    cut(out, x->src, c, &x->cut, x->bytes);
    FL_MPI(MPI_Alltoallv(out, send.count, send.at, type, in, recv.count, recv.at, type, c->mpi));
    join(x->dst, in, c, &x->join, x->bytes);
}

static void pass(fl_comm *c, const struct fl_collective *x)
{
    MPI_Datatype type = type_of(x->bytes);
    if (x->to == c->rank) {              /* a permutation: then from is this rank too */
        fl_copy(x->dst, x->src, x->n, x->bytes);
        return;
    }
    for (int64_t at = 0; at < x->n; at += INT_MAX) {
        int count = (int)fl_least(INT_MAX, x->n - at);
        FL_MPI(MPI_Sendrecv(x->src + at * x->bytes, count, type, x->to, 0, x->dst + at * x->bytes, count, type, x->from, 0, c->mpi,
                            MPI_STATUS_IGNORE));
    }
}

void fl_over_mpi(fl_comm *c, const struct fl_collective *x)
{
    static void (*const way[])(fl_comm *, const struct fl_collective *) = {
        [FL_REDUCE_ALL] = reduce_all, [FL_REDUCE_CUT] = reduce_cut, [FL_JOIN] = gather, [FL_EXCHANGE] = exchange, [FL_PASS] = pass,
    };
    double start = fl_comm_begin(c->peers);
    way[x->kind](c, x);
    fl_comm_end(start, c->kind);
}

void fl_gather_over_mpi(fl_comm *c, const struct fl_collective *x, MPI_Request *request)
{
    struct parts p = parts_of(c, 0, &x->cut);
    FL_MPI(MPI_Iallgather(x->src, p.count[0], type_of(x->bytes), x->dst, p.count[0], type_of(x->bytes), c->mpi, request));
}
