/* Private to shard: how layouts are chosen.
 *
 *     resolve.c     one layout as written, against one tensor
 *     lines.c       plan lines and to(..) become fixed layouts of parameters and values
 *     actors.c      nodes as the solver sees them: operands, results and 1-D signatures along one axis
 *     microbatch.c  the time axis: what is open over micro-batches, and the final phases
 *     axis.c        the axes in turn, then together
 *     problem.c     some axes, the others held, as variables and costs for the solver
 *     blame.c       which line makes an axis impossible
 *     settle.c      padded sizes and the order of axes that split one dim
 *     shares.c      shares of optimizer states, gradients and parameters: the plan's shard line
 *     explain.c     why no choice is legal
 *     dump.c        --emit=sbp
 *     reason.c      --explain
 *     solve.c prune.c bound.c  the minimiser; knows no layouts
 *
 * Along one axis a layout is a code: 0 is B, 1 + d is S(d), 16 + reduce is P. LATE, on the time axis only, is B once
 * all micro-batches are accumulated. */
#ifndef FLOWC_SHARD_H
#define FLOWC_SHARD_H
#include "../base/diag.h"
#include "../cost/convert.h"
#include "../module.h"
#include "../op.h"
#include "../passes.h"
#include "solve.h"
#include <math.h>

enum { CODE_B = 0, CODE_S = 1, CODE_P = 16, CODE_LATE = 30, CODE_NONE = 31 };
static inline bool code_is_split(int c) { return c >= CODE_S && c < CODE_P; }
static inline bool code_is_partial(int c) { return c >= CODE_P && c < CODE_LATE; }
static inline int sbp_code(struct sbp x)
{
    return x.kind == SBP_B ? CODE_B : x.kind == SBP_S ? CODE_S + x.dim : CODE_P + x.dim;
}
static inline struct sbp code_sbp(int c)
{
    return code_is_split(c) ? (struct sbp){ SBP_S, (uint8_t)(c - CODE_S), 0 }
         : code_is_partial(c) ? (struct sbp){ SBP_P, (uint8_t)(c - CODE_P), 0 } : (struct sbp){ 0 };
}

struct fixed {                   /* what the user said about a value */
    unsigned axes;               /* axes on which it is fixed */
    bool pin;                    /* readers take it as it is */
    struct layout lay;
    const struct plan_line *line;    /* NULL: to(..) in the model */
    struct span span;
};

struct shape { uint64_t type, ndim; int64_t size[MAX_DIM], phys[MAX_DIM]; };
struct travel {                  /* a conversion: layouts, packed, and the number of a shape; */
    uint64_t from, to;
    int shape;
    double copies, starts, sent; /* its seconds: local steps, starts of collectives, bytes on the way */
};

struct sharding {
    struct module *m;
    struct mesh *mesh;
    struct { struct dim *dim; int axis; } *uneven;   /* stb_ds arrays: splits the user wrote `uneven` */
    struct { struct dim *dim; int axis; } *data;     /* splits of model inputs: whatever has the dim stays so */
    struct { struct span key; int value; } *refused;     /* parts of lines that got a diagnostic: one is enough */
    struct { struct shape key; int value; } *shapes;         /* stb_ds maps: what conversions cost */
    struct { uint64_t key; struct travel value; } *travels;
    /* of the entry being solved */
    struct graph *g;
    struct fixed *fixed;                             /* by value id */
    const struct plan_line *blamed;                  /* its fault has been told */
    struct { const struct node *key; struct sig *value; } *sigs[MAX_AXIS];   /* signatures by node and axis */
    unsigned joint;                                  /* axes being solved: they do not constrain each other's choices */
    const struct value *freed;                       /* reason.c: no line is about it for now */
    bool stored;                                     /* an entry before settled how parameters are stored */
    struct reason *reasons;                          /* stb_ds array, for --explain */
    struct { double gap; } choice;                   /* seconds above a lower bound of the cost; 0: the optimum */
};

/* ---- resolve.c ---- */
struct target {                  /* the tensor a line is about */
    const char *name;
    int ndim;
    struct dim *const *dim;
    struct span span;
};
/* Fills lay and *axes (the axes it names); false after a diagnostic. */
bool layout_resolve(struct sharding *s, const struct layout_part *parts, const struct target *t, struct layout *lay,
                    unsigned *axes);

/* ---- lines.c ---- */
void lines_on_params(struct sharding *s);            /* param->lay; uneven; needs no graph */
void lines_on_inputs(struct sharding *s);            /* data: from the inputs of every entry */
void lines_on_values(struct sharding *s);            /* fixed[] of g; inserts op_to behind values with a line */
void lines_drop_idle(struct sharding *s);            /* takes out each inserted op_to that converts nothing */
/* The node's parameter; NULL when it is not a param node. Optimizer states (path "w#m") name that of their weight. */
struct param *node_param(const struct node *n);

/* ---- actors.c ---- */
struct choice { uint8_t *in, *out; bool late, even; };
struct actor {                   /* a node, or one carried value of a repeat: in = {start, result}, out = {argument, end} */
    struct node *node;
    int carry;                   /* -1: the node itself */
    struct value **in, **out;    /* stb_ds arrays; in[k] may be NULL */
    enum phase phase;
    struct choice *choices;      /* stb_ds array */
    int var;
};
enum phase node_phase(const struct node *n);         /* that of the root node around it */
enum phase value_phase(const struct value *v);
struct actor *actors_of(struct sharding *s, int axis);
bool code_legal(struct sharding *s, const struct value *v, const struct layout *others, int axis, int code);
const struct plan_line *param_line(const struct sharding *s, const struct value *v);    /* of a param node's output, or NULL */
int value_fixed(const struct sharding *s, const struct value *v, int axis);        /* code, or CODE_NONE */
bool layout_divides(const struct sharding *s, const struct value *v, const struct layout *l);    /* over all axes together */
/* P(max) over one axis and P(min) over another: a rank that has nothing to add along both would hold -inf + inf, which is no
 * number. No value is so laid out. *max, *min: such axes, or -1. */
bool layout_clashes(const struct layout *l, const struct mesh *m, int *max, int *min);
bool layout_even(const struct sharding *s, const struct value *v, const struct layout *l);
bool writes_in_place(const struct node *n, int operand);

/* ---- microbatch.c, axis.c, settle.c, explain.c ---- */
void microbatch_solve(struct sharding *s);
bool axes_in_turn(struct sharding *s, const int *order, int n);   /* false when there is no choice (reported) */
bool axes_solve(struct sharding *s, const int *order, int n);     /* the same, then all together */
double layouts_cost(struct sharding *s, unsigned axes);           /* of the layouts as they are, preferences included */

/* ---- reason.c ---- */
struct reason {                  /* a tensor that --explain asks about */
    struct graph *g;
    struct value *value;
    const char *word;            /* before its name: "gradient " */
    const char *axes;            /* why it lies so: lines */
};
/* With g settled: the tensors of this name and why they lie so; false when there is none. */
bool reasons_find(struct sharding *s, const char *name);
void reasons_put(struct sharding *s, FILE *to);      /* once shares are cut */

/* ---- shard.c, in parts for the test against exhaustive search ---- */
bool shard_begin(struct sharding *s, struct module *m);           /* lines; false after diagnostics */
int shard_entry(struct sharding *s, struct graph *g, int *order); /* the axes to solve for, or -1 after diagnostics */
void settle(struct sharding *s);
void settle_dims(struct sharding *s);
void shares_apply(struct sharding *s);               /* once all entries are settled */
void warn_idle_axes(const struct module *m);             /* idle.c */
void explain_pin(struct sharding *s, int axis, const struct actor *a, int operand, int wanted);
void explain_strict(struct sharding *s, int axis, const struct actor *a, int operand, int wanted);
void explain_cut(struct sharding *s, int axis, const struct actor *a, int operand, int stored, int wanted);
void explain_divide(struct sharding *s, struct span at, const char *tensor, const struct dim *d, unsigned axes, int64_t parts,
                    bool uneven_said);
const char *axis_names(const struct mesh *m, unsigned axes);
#endif
