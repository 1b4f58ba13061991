/* The collectives that programs call, for any type: each is described as data and goes through the memory that the ranks
 * share, where all of them are on one host, else over MPI. */
#include "collective.h"
#include "shared.h"

static void alone(const struct fl_collective *x)
{
    int64_t n = x->kind == FL_REDUCE_ALL || x->kind == FL_PASS ? x->n : x->cut.outer * x->cut.n * x->cut.inner;
    fl_copy(x->dst, x->src, n, x->bytes);
}

static void carry_out(fl_comm *c, struct fl_collective x)
{
    if (c->size == 1)
        alone(&x);
    else if (c->shared)
        fl_comm_queued(c, fl_shared_queue(c->shared, &x));
    else
        fl_over_mpi(c, &x);
}

/* ---- reductions ---- */

static void all_reduce(fl_comm *c, void *x, int64_t n, enum fl_reduce kind, enum fl_type type)
{
    carry_out(c, (struct fl_collective){ .kind = FL_REDUCE_ALL, .type = type, .reduce = kind, .bytes = (int)fl_type_bytes(type),
                                         .dst = x, .src = x, .n = n });
}

static void reduce_cut(fl_comm *c, void *dst, const void *src, struct fl_cut cut, enum fl_reduce kind, enum fl_type type)
{
    carry_out(c, (struct fl_collective){ .kind = FL_REDUCE_CUT, .type = type, .reduce = kind, .bytes = (int)fl_type_bytes(type),
                                         .dst = dst, .src = src, .cut = cut });
}

#define REDUCTIONS(suffix, T, type)                                                                                    \
    void fl_all_reduce##suffix(fl_comm *c, T *x, int64_t n, enum fl_reduce kind) { all_reduce(c, x, n, kind, type); }   \
    void fl_reduce_scatter##suffix(fl_comm *c, T *dst, const T *src, int64_t outer, int64_t n, int64_t inner,          \
                                   enum fl_reduce kind)                                                                \
    {                                                                                                                  \
        reduce_cut(c, dst, src, (struct fl_cut){ outer, n, inner, 0 }, kind, type);                                    \
    }                                                                                                                  \
    void fl_scatter_shares##suffix(fl_comm *c, T *mine, const T *whole, int64_t n, int64_t share, enum fl_reduce kind) \
    {                                                                                                                  \
        reduce_cut(c, mine, whole, (struct fl_cut){ 1, n, 1, share }, kind, type);                                     \
    }
REDUCTIONS(, float, FL_F32)
REDUCTIONS(_bf16, fl_bf16, FL_BF16)
REDUCTIONS(_f16, fl_f16, FL_F16)
void fl_all_reduce_i32(fl_comm *c, int32_t *x, int64_t n, enum fl_reduce kind) { all_reduce(c, x, n, kind, FL_I32); }

/* ---- what only moves ---- */

static struct fl_collective joined(const fl_comm *c, void *whole, const void *mine, int64_t share, int bytes)
{
    return (struct fl_collective){ .kind = FL_JOIN, .bytes = bytes, .dst = whole, .src = mine,
                                   .cut = { 1, c->size * share, 1, share } };
}

void fl_gather_shares(fl_comm *c, float *whole, const float *mine, int64_t share)
{
    carry_out(c, joined(c, whole, mine, share, 4));
}
void fl_gather_shares_bf16(fl_comm *c, fl_bf16 *whole, const fl_bf16 *mine, int64_t share)
{
    carry_out(c, joined(c, whole, mine, share, 2));
}
void fl_gather_shares_f16(fl_comm *c, fl_f16 *whole, const fl_f16 *mine, int64_t share)
{
    carry_out(c, joined(c, whole, mine, share, 2));
}

void fl_gather_start(fl_comm *c, void *whole, const void *mine, int64_t share, int element_bytes)
{
    struct fl_collective x = joined(c, whole, mine, share, element_bytes);
    if (c->size == 1)
        alone(&x);
    else if (c->shared)
        fl_gather_started(whole, MPI_REQUEST_NULL, fl_shared_queue(c->shared, &x));
    else {
        MPI_Request request;
        fl_gather_over_mpi(c, &x, &request);
        fl_gather_started(whole, request, 0);
    }
}

void fl_all_gather(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t n, int64_t inner, int element_bytes)
{
    carry_out(c, (struct fl_collective){ .kind = FL_JOIN, .bytes = element_bytes, .dst = dst, .src = src,
                                         .cut = { outer, n, inner, 0 } });
}

void fl_all_to_all(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t a, int64_t middle, int64_t b,
                   int64_t inner, bool split_a, int element_bytes)
{
    int64_t mine_a = fl_part_size(a, c->size, c->rank), mine_b = fl_part_size(b, c->size, c->rank);
    int64_t longest = outer * fl_part_size(a, c->size, 0) * middle * fl_part_size(b, c->size, 0) * inner;
    struct fl_cut of_a = { outer, a, middle * mine_b * inner, 0 }, of_b = { outer * mine_a * middle, b, inner, 0 };
    carry_out(c, (struct fl_collective){ .kind = FL_EXCHANGE, .bytes = element_bytes, .dst = dst, .src = src, .n = longest,
                                         .cut = split_a ? of_a : of_b, .join = split_a ? of_b : of_a });
}

void fl_permute_parts(fl_comm *c, void *dst, const void *src, int64_t n, int element_bytes, int to, int from)
{
    carry_out(c, (struct fl_collective){ .kind = FL_PASS, .bytes = element_bytes, .dst = dst, .src = src, .n = n, .to = to,
                                         .from = from });
}
