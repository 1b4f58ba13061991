/* Tensors dealt out to ranks and put together again, under a layout over one or two mesh axes. Nothing here knows of
 * flowc's own boxing: it is the yardstick. */
#ifndef FLOWC_TEST_DEAL_H
#define FLOWC_TEST_DEAL_H
#include "op.h"

enum { MAX_AXES = 2, MAX_RANKS = 6 };

extern double deal_tolerance;    /* relative; for kernels in f32 it is set higher */

struct lay { struct sbp ax[MAX_AXES]; };
struct grid {                    /* ranks, row-major: the last axis is the fastest */
    int naxis, size[MAX_AXES], nranks;
    int major;                   /* of two axes that split one dim: which is outer */
};

int64_t tensor_entries(const struct tensor *t);
bool lay_same(const struct grid *g, struct lay a, struct lay b);
int lay_parts(const struct grid *g, struct lay l, int d);               /* parts that dim d is split into */
const char *lay_text(const struct grid *g, struct lay l);               /* "S0" or "(S0,P)" */
/* Place of a rank's part, without data. A split gives the first n mod k parts one more. */
struct tensor part_of(const struct grid *g, const struct tensor *whole, struct lay l, int rank);
/* Parts with data. P parts have mixed signs and unequal shares; idle: this one of each P holds the identity; -1: none. */
void deal(const struct grid *g, const struct tensor *whole, struct lay l, int idle, uint32_t *random, struct tensor *parts);
/* Do the parts, put together as the layout says, equal the whole in every entry that is no padding? */
bool together(const struct grid *g, const struct tensor *whole, struct lay l, const struct tensor *const *parts);
#endif
