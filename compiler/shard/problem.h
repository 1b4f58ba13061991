/* Private to shard: the choice of layouts over a set of mesh axes as a problem for the solver, the other axes held.
 *
 * Variables, for each axis: the signature of each actor, and for each value and each phase that reads it a pair (a, c):
 * it is stored as `a` and, where a reader cannot have that for free, converted once to `c` for all its readers of that
 * phase. What a later phase finds is `a`, or `c` where `a` is Partial: a gather for the forward is not kept for the
 * backward but done again, a reduction is kept. Box inserts conversions by the same rule.
 *
 * Axes meet in the seconds of a conversion (its bytes, its path, merged collectives), in the work of an op (what both
 * split is shared by both) and in what is divisible: with one axis these are costs of its own variables, with two they
 * are tables between the two axes' variables, with more they are variables of their own. */
#ifndef FLOWC_SHARD_PROBLEM_H
#define FLOWC_SHARD_PROBLEM_H
#include "shard.h"

struct copy {                    /* a value as one phase finds it, along one axis */
    int var, n;
    uint8_t *a, *c;              /* the pairs */
};
struct part {                    /* one axis of the problem */
    int axis;
    struct actor *actors;        /* the same order for every axis */
    struct copy (*copies)[PHASES];       /* by value id */
    uint32_t (*wanted)[PHASES];          /* by value id: codes that some reader of the phase can take */
    uint32_t *made;                      /* by value id: codes that the definition can give */
    uint32_t *asked;                     /* by value id: conversions a line asks for (strict) */
};
struct problem {
    struct sharding *s;
    struct part part[MAX_AXIS];
    int nparts;
    bool soft;                   /* broken lines cost instead of being forbidden */
    bool optimistic;             /* one axis: the least it can cost, whatever the others do */
    int64_t entries;             /* of tables between axes */
    bool counting;               /* them, only */
    ptrdiff_t planned;           /* conversions known before */
    bool large;                  /* not built: the axes' tables would be too big */
    struct solver *solver;
};

#define BROKEN_PRICE 1e6         /* a pin or strict line not kept: only to find out which */

void problem_actors(struct problem *p, unsigned axes);           /* parts, with every choice; sets s->joint */
void problem_build(struct problem *p);                           /* variables and costs, from the choices there are */
/* Drops the choices of each axis that cannot be part of anything cheaper than `least`; the lower bound it found. */
double problem_rule_out(struct problem *p, double least);
void problem_write_back(struct problem *p, const struct solution *answer, bool *changed);

/* for blame.c */
bool conversion_is_free(const struct problem *p, const struct value *v, int from, int to);
bool cut_in_time(const struct problem *p, const struct value *v, int code);
double read_cost(const struct problem *p, const struct part *t, const struct actor *act, int operand, int need, int a, int c,
                 int data);
double conversion_price(const struct problem *p, const struct part *t, const struct value *v, enum phase phase, int a, int c);

void blame(struct sharding *s, int axis);            /* says which line makes the axis impossible */
#endif
