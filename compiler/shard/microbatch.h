/* Private to compiler/shard: the problem of the time axis, for those who solve it and those who explain why it has no
 * solution. */
#ifndef FLOWC_MICROBATCH_H
#define FLOWC_MICROBATCH_H
#include "shard.h"

#define TIMING_BROKEN 1e6        /* from this price on a read breaks the order of micro-batches */

struct time_value { int var, n; uint8_t *codes; };
struct timing {
    struct sharding *s;
    int axis;
    bool soft;                   /* a broken read has a price, not none */
    bool forward;                /* the forward alone */
    struct solver *solver;
    struct actor *actors;
    struct time_value *values;   /* by value id */
    bool *of_inputs;             /* by value id: batch.h */
};

static inline bool timing_skips(const struct timing *t, const struct actor *a)
{
    return t->forward && a->phase != PHASE_FORWARD;
}

struct solution timing_attempt(struct timing *t);
double timing_price(struct timing *t, const struct value *v, int at, int need);
void timing_blame(struct timing *t);                 /* one diagnostic; there is no solution */
/* .. the only solutions count what needs `first`, a count of its own, whole. */
void timing_blame_count(const struct timing *t, const struct value *count, const struct value *first);
#endif
