/* Where a value lives, exactly. Extents may differ between the ranks of a stage (uneven splits), so that strides and
 * offsets are not always numbers: a `struct sym` is a number times entries of the rank's constant table. The plain
 * numbers in value->stride and value->offset are those of the largest extents, for dumps.
 *
 * Everything in memory is dense: a buffer holds one value without gaps in some order of its dims, and every other value
 * in the buffer is a view of it. Two syms are equal as numbers on every rank exactly when they are equal here. */
#ifndef FLOWC_LAYOUT_PLACE_H
#define FLOWC_LAYOUT_PLACE_H
#include "physical.h"

enum { SYM_FACTORS = 10, SYM_MB = -1 };   /* SYM_MB stands for the running micro-batch */
struct sym {
    int64_t c;
    int n;
    short k[SYM_FACTORS];        /* indices into physical->constants, ascending */
};
struct place {
    struct sym extent[MAX_DIM], stride[MAX_DIM];
    struct sym *offset;          /* stb_ds array: terms of the sum, elements from the block's start */
};

struct sym sym_int(int64_t c);
struct sym sym_mul(struct sym a, struct sym b);
bool sym_same(struct sym a, struct sym b);
bool sym_is(struct sym a, int64_t c);
int64_t sym_max(const struct physical *p, struct sym a);   /* with the largest extents, and bases 0 */
int64_t sym_on_rank(const struct physical *p, struct sym a, const int *coord);
const char *sym_text(struct sym a);                        /* as in emitted C: "4096 * k[3]" */

struct rank_row {                /* what a rank file holds */
    int coord[MAX_AXIS], stage;
    int64_t *constants;          /* stb_ds array, as physical->constants */
};
struct rank_row rank_row(const struct physical *p, int rank);   /* rank.c */

struct sym sym_extent(struct physical *p, const struct value *v, int dim);   /* local extent */
struct sym sym_base(struct physical *p, const struct value *v, int dim);     /* first index in the stored logical dim */
struct sym sym_range(const struct place *l, int low, int high);     /* product of the extents of dims [low, high) */

/* Dense in the order of dims given by perm, outermost first. A flat value has one dim, the first: the elements in use of its
 * share. */
void place_dense(struct physical *p, struct value *v, const int *perm);
void place_numbers(struct physical *p, struct value *v);   /* sets value->stride and offset from its place */
bool place_whole(const struct value *v);                   /* dense in some order of its dims */
bool place_contiguous(const struct value *v);              /* dense in logical order (extents of 1 have any stride) */

/* view.c: the place of output `out` of a view op as a view of operand 0; false when no strides say it. */
bool view_place(struct physical *p, const struct node *n, int out);

/* offload.c: for a plan that keeps tensors in host memory, the copies between that and the device. */
void offload(struct physical *p, struct stage *s);

/* overlap.c: for `prefetch 1`, what a root region's repeats start a block ahead or end a block late. */
void blocks_overlap(struct region *r);

/* order.c: the stride order of a value that owns its buffer. readers: per value id, stb_ds arrays of nodes. plain: it
 * must be contiguous in logical order. */
void order_choose(const struct value *v, struct node ***readers, bool plain, int *perm);

/* The result k of a body is (a view of) another value it carries: its buffer is written over while values are handed to
 * the next block, so the result waits in out[k] of the repeat. */
bool carry_through_out(const struct region *body, int k);

/* wide.c: kernels that compute in f32 alone read and write f32 copies of tensors in a short type. */
bool goes_wide(const struct node *n, const struct value *v);       /* v, an operand or result of n, has such a copy */
int64_t wide_elements(const struct physical *p, const struct value *v);    /* of one copy, aligned */
#endif
