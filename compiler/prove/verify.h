/* Translation validation: does the physical graph of all ranks compute what the logical graph computes? Both are run in
 * float64 on the same data by the interpreter, at sizes so small that it takes milliseconds:
 *
 *     sizes.c      which dims may be how small, so that every layout keeps its facts
 *     shrink.c     the module's own graphs at those sizes, for a while; everything is put back
 *     data.c       weights and inputs
 *     equal.c      the two runs, and where they first differ
 *     rounding.c   how far rounding parts them
 *     work.c       how long that takes
 *     images.c     every rank of the full mesh does what a rank of the small one does
 *     spoil.c      faults put in on purpose
 *     verify.c     the order of all this, and the message
 *     dump.c       --emit=prove
 *
 * It is the graph that will be emitted that runs, node for node: no second one is built. */
#ifndef FLOWC_VERIFY_H
#define FLOWC_VERIFY_H
#include "../interpret/interpret.h"
#include "../layout/place.h"
#include "../module.h"
#include "../op.h"
#include "../physical.h"

/* ---- sizes.c ---- */

struct fact {                    /* what the plan does with a dim */
    struct dim *dim;
    unsigned *splits;            /* stb_ds array: sets of mesh axes that split it somewhere */
};
struct smallness {               /* how small: the axes, and how much of the dims' nature is kept */
    int axis[MAX_AXIS];          /* sizes of the mesh axes */
    int blocks;                  /* of a repeat on a stage, at most (one more where stages differ) */
    int evenness;                /* dims stay divisible by 2^evenness as far as they are; 0: parts may be single rows too */
    uint64_t seed;               /* of the data */
};
struct facts {
    const struct mesh *mesh;
    struct { struct dim *key; struct fact *value; } *of;
};
struct facts *facts_collect(const struct module *m);
struct smallness smallness_least(const struct facts *f);
/* Does a dim of `size` keep its facts on the small mesh? Stored size in *phys. */
bool fact_holds(const struct fact *f, const struct mesh *mesh, const struct smallness *s, int64_t size, int64_t *phys);
/* The smallest values for the program's own dims and consts: a list of --set. NULL: none found. */
typeof(((struct options *)0)->set) sizes_find(const struct module *m, const struct facts *f, const struct smallness *s);

/* ---- shrink.c ---- */

struct shrunk;
/* The module's graphs at small sizes until shrunk_restore; NULL with a reason when there are none such. */
struct shrunk *shrunk_make(struct module *m, const struct facts *f, const struct smallness *s, const char **why);
void shrunk_restore(struct shrunk *s);
const char *shrunk_text(const struct shrunk *s);     /* "N = 4, T = 2, D = 8" */

/* ---- data.c ---- */

struct data {                    /* an entry on one rank and on all, from the same weights */
    struct weights *start;
    struct run *one, *all;
    uint64_t state;              /* of the inputs' random numbers */
    int64_t indices;             /* the smallest table that an index may meet */
};
struct data data_new(struct module *m, enum entry e, uint64_t seed);
void data_step(struct data *d, const struct graph *g);       /* fresh inputs for both */
void data_release(struct data *d);

/* ---- equal.c ---- */

struct difference {
    bool found;
    enum entry entry;
    const struct value *value;   /* of the logical graph; NULL: only the final weights differ */
    const struct value *physical;
    const struct param *param;   /* when value is NULL */
    const char *output;          /* when both are NULL: "loss" .. */
    int rank;
    enum phase phase;
    int64_t step, microbatch, block;
    int ndim;
    int64_t index[MAX_DIM];
    double is, should;           /* on all ranks, on one */
};
/* Runs an entry on one rank and on all; stops at the first difference. `where`: find the value where they part. */
bool entry_equal(struct module *m, enum entry e, uint64_t seed, bool where, struct difference *d);
/* All numbers that the ranks compute but what node `but` makes, as one number: a fault in it that leaves that as it is touches
 * nothing, such as a scaled zero, or a value that one rank makes and nobody takes from it. */
uint64_t entry_trace(struct module *m, enum entry e, uint64_t seed, const struct node *but);

/* ---- rounding.c ---- */

/* Relative differences, the largest of the steps that are run, where every result is rounded to its type. */
struct parted { double loss, grad_norm, by_rounding; };
/* All ranks against one, both rounded; by_rounding: the loss of one rank against the same in float64. */
struct parted training_rounded(struct module *m, uint64_t seed);

/* ---- work.c ---- */

int entry_steps(enum entry e);                       /* that are run */
double entry_work(const struct module *m, enum entry e);     /* seconds they take, roughly */

/* ---- spoil.c ---- */

void spoil(struct module *m);                        /* --spoil: marks nodes; a diagnostic when it fits none */

/* ---- images.c ---- */

/* Every rank's coordinates, groups, peers and extents follow from the rules that the small mesh was run with. */
bool rank_holds(const struct physical *p, const struct rank_row *r, int rank, const char **fact);
bool images_hold(const struct module *m, const char **fact, int *rank);

/* ---- verify.c ---- */

struct verdict {
    bool looked, equal, costly;
    const char *why_not;         /* when it was not looked at */
    double work;                 /* seconds, roughly */
    const char *sizes, *mesh, *rank;
    struct difference first;
    struct parted parted;        /* with --verify, when they are equal */
};
/* All entries, at small sizes. With `all` false nothing is run that would take long. */
struct verdict verify_module(struct module *m, bool all, bool where);
/* The graphs at the sizes that verify_module would run, for tests; NULL with a reason. */
struct shrunk *verify_small(struct module *m, const char **why);
void verify(struct module *m);
#endif
