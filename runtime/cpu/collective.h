/* A collective as data: what every rank has and what it gets. collectives.c makes them, pieces.c carries them out through
 * shared memory, comm_mpi.c over MPI. */
#ifndef FL_COLLECTIVE_H
#define FL_COLLECTIVE_H
#include "comm.h"

/* outer x n x inner, cut along n into a part for each rank: runs of `share`, the last ones shorter, or, where that is 0, as
 * even as can be. A part is packed where its elements follow each other. */
struct fl_cut { int64_t outer, n, inner, share; };

enum fl_collective_kind {
    FL_REDUCE_ALL,                       /* dst, n elements, in place */
    FL_REDUCE_CUT,                       /* src is cut as `cut`: dst is the reduction of this rank's part, packed */
    FL_JOIN,                             /* dst is cut as `cut`: src is this rank's part, packed; it may lie in its place */
    FL_EXCHANGE,                         /* src is cut as `cut` and its parts go to their ranks, of dst, cut as `join`, they come */
    FL_PASS                              /* n elements: src goes to rank `to`, dst comes from rank `from` */
};
struct fl_collective {
    enum fl_collective_kind kind;
    enum fl_type type;                   /* of reductions: f32, i32, bf16, f16 */
    enum fl_reduce reduce;
    int bytes;                           /* of an element */
    char *dst;
    const char *src;                     /* FL_REDUCE_ALL: dst */
    int64_t n;                           /* FL_EXCHANGE: elements of the longest part of any rank */
    struct fl_cut cut, join;
    int to, from;
};

static inline int64_t fl_cut_base(const struct fl_cut *c, int size, int i)
{
    return c->share ? fl_least(i * c->share, c->n) : fl_part_base(c->n, size, i);
}
static inline int64_t fl_cut_size(const struct fl_cut *c, int size, int i)
{
    return c->share ? fl_least(c->share, c->n - fl_cut_base(c, size, i)) : fl_part_size(c->n, size, i);
}
static inline int64_t fl_cut_count(const struct fl_cut *c, int size, int i)      /* elements of part i */
{
    return c->outer * fl_cut_size(c, size, i) * c->inner;
}
/* Is a rank's part of dst at its place before it is gathered? */
static inline bool fl_in_place(const struct fl_collective *c, int size, int rank)
{
    return c->cut.outer == 1 && c->src == c->dst + fl_cut_base(&c->cut, size, rank) * c->cut.inner * c->bytes;
}

/* comm_mpi.c: carries it out, or starts it where the communicator is posting, the collective needs no packing and MPI has
 * such a call. */
void fl_over_mpi(fl_comm *c, const struct fl_collective *x);
void fl_gather_over_mpi(fl_comm *c, const struct fl_collective *x, MPI_Request *request);      /* starts it */
void fl_short_ops_free(void);            /* what MPI was told of bf16 and f16 */
#endif
