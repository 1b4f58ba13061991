/* The interpreter: runs a program in float64 with the references of the ops, without a compiler or a launch. It runs
 *   - a logical graph, on one imagined rank, and so makes golden runs, and
 *   - the physical graph, all stages and ranks in lockstep, boxing nodes carried out between the ranks.
 * The two must agree; a difference names the pass that broke the program. */
#ifndef FLOWC_INTERPRET_H
#define FLOWC_INTERPRET_H
#include "module.h"
#include "op.h"
#include "physical.h"

/* ---- weights.c: parameters and states as logical tensors, all blocks, no padding ---- */

struct weights {
    struct { struct param *key; double *value; } *map;   /* stb_ds map; elements: weights_count */
};
int64_t weights_block(const struct param *p);             /* elements of one block */
int64_t weights_number(const struct param *p, int64_t b);       /* in the whole model, of block b of p */
int64_t weights_count(const struct param *p);             /* elements of all blocks, block index outermost */
struct weights *weights_new(const struct module *m, uint64_t seed);   /* initial values, the same as the runtime's */
double *weights_get(const struct weights *w, const struct param *p);
struct weights *weights_copy(const struct weights *w);

/* ---- run.c, regions.c ---- */

struct run;
struct run *run_logical(struct module *m, enum entry entry, const struct weights *w);
struct run *run_physical(struct module *m, enum entry entry, const struct weights *w);
/* From the next step on every result is rounded to its type, f32 ones too; without it numbers are reals. */
void run_round(struct run *r);
/* A model input of the next steps: the whole logical tensor of a step, row-major; the array is read at each step. */
void run_input(struct run *r, const char *name, const double *data);
void run_step(struct run *r, int64_t step);                       /* step from 0 */
/* A scalar result of the last step, the same on every rank that has it; NAN when it is not, or there is none. */
double run_output(const struct run *r, const char *name);
/* The whole logical tensor of an output, put together from all ranks that have it; NULL when there is none. */
double *run_output_tensor(const struct run *r, const char *name, int64_t *count);
void run_weights(const struct run *r, struct weights *to);        /* reads parameters and states back */
void run_weights_rank(const struct run *r, int rank, struct weights *to);   /* only what this rank holds */
const bool *run_weights_held(const struct run *r, int rank, const struct param *p);      /* by block; NULL: nothing of it */
void run_release(struct run *r);
/* For debugging a pass: every value as it is computed. */
void run_watch(struct run *r, void (*seen)(void *context, const struct value *v, int rank, int64_t block,
                                           const struct tensor *t), void *context);

/* ---- faults: a node whose `spoilt` is one of them is carried out wrongly, to see that a comparison notices it ---- */

enum fault {
    FAULT_NONE,
    FAULT_SCALE,                 /* its results are 1.5 times what they should be, on all ranks or on one */
    FAULT_DROP,                  /* a conversion gives every rank what it has itself; a received value is zero */
    FAULT_TWICE,                 /* a reduction takes every part twice */
    FAULT_GROUP,                 /* a collective works over the next axis instead of its own */
    FAULT_EARLY,                 /* an accumulation leaves out the last micro-batch; a post is made in the first one */
    FAULT_MICROBATCH,            /* an input is read one micro-batch late */
    FAULT_IDLE,                  /* a rank that has no entry of an operand leaves 1 where nothing is to be added up */
};

/* ---- train.c ---- */

struct train_report { int64_t step; double loss, grad_norm, lr; };
/* Steps of training over a token file already in memory, with the reader's rule of positions. */
void run_train(struct run *r, const struct module *m, const double *tokens, int64_t ntoken, int64_t steps,
               void (*report)(void *context, const struct train_report *t), void *context);
#endif
