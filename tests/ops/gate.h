/* One sample node under the gate. */
#ifndef FLOWC_TEST_GATE_H
#define FLOWC_TEST_GATE_H
#include "checks.h"
#include "deal.h"

enum { MAX_OPERAND = 8, SETS = 3, TRIALS = 9 };

struct choices { struct lay *lay; };             /* stb_ds array */
struct verdict { struct lay *in, *out; bool bare, implied; };    /* a combination that holds; bare: without coordinates */

struct gate {
    const struct instance *instance;
    struct operand operand[MAX_OPERAND];
    int nin, nout;
    struct grid grid;
    struct node *whole;          /* the node of one rank */
    bool effect;                 /* writes operands in place: those are its results */
    int written[MAX_OPERAND];    /* effect: which operand result k is */
    struct tensor *in, *out;     /* the data set in use */
    struct tensor in_set[SETS][MAX_OPERAND], out_set[SETS][MAX_OPERAND];
    struct choices in_choice[MAX_OPERAND], out_choice[MAX_OPERAND];
    uint32_t random;
    struct sig *declared[MAX_AXES];              /* by axis: 1-D signatures for its size */
    bool padded;
    struct verdict *holds;       /* stb_ds array: everything that holds; filled by gate_try */
    long tried;
    int failures;
    bool no_idle;                /* no rank's share is the identity alone */
    bool trusting;               /* the claim under test is the table's own: see claimed_node */
    bool quiet;                  /* count failures, print none: mutants */
};

/* False when the sample has no results to compare or its own shape rule refuses it (a failure). */
bool gate_open(struct gate *g, const struct instance *instance, struct grid grid);
double gate_combinations(const struct gate *g);  /* how many gate_try tries */
void gate_try(struct gate *g);                   /* brute force: every combination of layouts */
int gate_compare(struct gate *g);                /* does what holds equal what is declared? */
/* Declared signatures, and all their pairs over two axes, one by one: sound where parts are uneven, of size 1 or empty? */
int gate_claims(struct gate *g);
/* Does another declared signature say the same, reading a whole operand as P(max) or P(min)? */
bool gate_covered(const struct gate *g, const struct lay *in, const struct lay *out, int axis);
/* Is this one claim (of one signature per axis) true? */
bool gate_claim(struct gate *g, const struct lay *in, const struct lay *out, bool coords);
#endif
