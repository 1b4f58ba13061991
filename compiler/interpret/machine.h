/* Inside the interpreter: a run is one machine per stage, a machine has the ranks of its stage in lockstep, a rank has a
 * cell for every value and block. A logical graph is one machine with one rank and no mesh. */
#ifndef FLOWC_MACHINE_H
#define FLOWC_MACHINE_H
#include "../../runtime/fl_scale.h"
#include "interpret.h"

struct cell {                    /* one value of one block on one rank */
    struct tensor t;
    double *own;                 /* memory that is this cell's; t.data may point into another cell's (carried values) */
    bool filled;                 /* in this step */
    double *posted;              /* as it was when a post started its collective, */
    int64_t posted_step;         /* in this step, counted from 1 */
};
struct storage {                 /* one parameter on one rank: all blocks, local extents */
    struct param *param;
    struct tensor block;         /* shape and place of one block; data: block 0 */
    int64_t count;               /* elements of one block */
    bool *used;                  /* blocks this rank's program has read */
};
struct rank {
    int number, coord[MAX_AXIS];
    struct cell **cells;         /* by value id; NULL until used; one cell per block */
    struct { struct param *key; struct storage *value; } *params;
};
struct machine {
    struct run *run;
    int stage;
    struct graph *graph;
    struct rank *ranks;
    int nrank;
    struct { struct region *key; int64_t value; } *current;   /* iteration of each origin body that is running */
    struct { char *key; struct value *value; } *outputs;
    struct region *running;      /* a phase under way and where it stands */
    int at;
};
struct meeting {                 /* a stage reduce under way */
    int comm, number;
    int phase_count;             /* which run of a phase it belongs to */
    int arrived;
    struct { int stage; int rank; struct tensor t; } *parts;   /* stb_ds array, in order of arrival */
    struct { int operand; int rank; const struct tensor *t; } *sums;       /* made by the stage that came last */
};
struct run {
    struct module *module;
    enum entry entry;
    const struct mesh *mesh;     /* NULL: logical */
    struct physical *physical;
    const struct weights *initial;
    struct machine *machines;
    int nmachine;
    int64_t step, microbatch, phase_count;
    int64_t skipped;             /* steps so far whose norm was not finite, where such steps are skipped */
    struct { char *key; const double *value; } *inputs;
    struct { struct tensor t; bool full; } *mail;      /* stb_ds array: one slot per link and rank */
    struct meeting *meetings;
    void (*seen)(void *context, const struct value *v, int rank, int64_t block, const struct tensor *t);
    void *seen_context;
    bool rounding;
    struct fl_scale scale;       /* of the loss; now 0: none */
};

int64_t tensor_elements(const struct tensor *t);
int64_t region_block(struct machine *m, struct region *r);              /* the flat block that is running */
struct tensor place_tensor(const struct run *r, const struct value *v, const struct rank *k);   /* no data */
struct cell *cell_of(struct machine *m, struct rank *k, const struct value *v, int64_t block);
struct tensor *cell_write(struct machine *m, struct rank *k, const struct value *v, int64_t block);   /* zeroed */
const struct tensor *cell_read(struct machine *m, struct rank *k, const struct value *v, int64_t block);
void cell_seen(struct machine *m, struct rank *k, const struct value *v, int64_t block);
/* Copies (or reduces) the entries that both tensors hold, by their place in the logical tensor. */
void tensor_meet(struct tensor *to, const struct tensor *from, const enum reduce *reduce);
static inline bool has_fault(const struct node *n, int operand, enum fault kind)
{
    return n->spoilt == (int)kind && (n->spoilt_operand == operand || n->spoilt_operand < 0 || operand < 0);
}
/* Carries out a boxing node; false when it waits for another stage. */
bool box_run(struct machine *m, struct node *n);
bool machine_go(struct machine *m);        /* goes on with the phase under way; false: it waits for another stage */
#endif
