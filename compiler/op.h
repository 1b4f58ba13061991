/* An op: everything about it lives in one room, compiler/ops/<op>.c; ops.def is the only list. No pass switches over
 * ops: it asks the op (a field below) or its flags.
 *
 * Rules are written as the mathematics, once, as factors, and the 1-D SBP signatures follow from them:
 *     "m k+, k+ n -> m n"     a plain factor may be split everywhere it occurs; a factor marked + is contracted:
 *                             splitting it makes the outputs that lack it P(sum); a factor marked ^ must stay whole;
 *                             marked > it is reduced by max, < by min (P(max), P(min))
 *     "b.. t^, .. -> .."      b.. stands for the dims left over, as many as the operand has
 *     "-" for an operand       a scalar, or an operand that is always B; "_" for a dim that no signature splits
 * Linear sets say where P(sum) passes: "{a} {b}" (mul: either operand P, the other B -> P) and "{a, b}" (add: both P ->
 * P). Operands are named a, b, c .. in order; {*} means all operands at once. Monotone ops may pass P(max), P(min):
 * "max{a}"; "max{a}:min" (neg) makes P(min) of P(max). N-D signatures are formed axis by axis from the 1-D ones. What
 * factors cannot say goes into extra(). */
#ifndef FLOWC_OP_H
#define FLOWC_OP_H
#include "graph.h"

enum { MAX_STATE = 3, MAX_SETTING = 4 };      /* of an optimizer */

enum op_flag {
    OP_ELEMENTWISE = 1 << 0,     /* one output, trailing broadcast; has expr; may be fused */
    OP_VIEW        = 1 << 1,     /* output may alias input 0 (slice, transpose, reshape, unstack, detach) */
    OP_SOURCE      = 1 << 2,     /* no tensor operands: param, input, positions, constant */
    OP_EFFECT      = 1 << 3,     /* no outputs; writes storage or hands a result to the host: never dead */
    OP_BOXING      = 1 << 4,     /* inserted by box: changes layouts, not values */
    OP_INTERNAL    = 1 << 5,     /* not callable from the language */
    OP_BOOL_RESULT = 1 << 6,     /* comparisons */
    OP_RANDOM      = 1 << 7,     /* depends on step and path */
    OP_TRAIN_ONLY  = 1 << 8,     /* identity outside train (dropout) */
    OP_VARIADIC    = 1 << 9,
    OP_CONTRACTION = 1 << 10,    /* counted in FLOPs and cost: einsum, attention */
    OP_STACKED     = 1 << 11,    /* reads whole stacks of values of a repeat body from outside it (norm_partials) */
    OP_SKIPS_PADDING = 1 << 12,  /* what it contracts is read without its padding (sum, output) */
    OP_WIDE        = 1 << 14,    /* adds up, so results are f32 whatever float type the operands have */
    OP_F32         = 1 << 15,    /* computes in f32 alone (ops of a program) */
    OP_GATHERED    = 1 << 17,    /* emitted calls are made by fl_gathered, before anything else that follows them */
    OP_FORWARD_TOO = 1 << 18,    /* a backward op that makes the forward's result as well: its FLOPs are those of both */
    OP_ANY_FLOAT   = 1 << 16,    /* each float operand may have a type of its own (element-wise ops and OP_WIDE do so too) */
    OP_OVERWRITES  = 1 << 19,    /* its kernel may write result 0 over operand 0, of which each entry needs that entry alone */
    OP_STRIDED     = 1 << 20,    /* its kernel takes operands and results as they lie, by strides (element-wise ops and views do so too) */
    OP_DENSE_ROWS  = 1 << 21,    /* .. but for the last dim, which is dense */
    OP_SPARES      = 1 << 22,    /* a contraction that makes only those of its results that are read (other kernels do so, too) */
    OP_ZEROES_PADDING = 1 << 13, /* results are 0 in the padding of dims that are whole (^) or of no operand */
};

/* One 1-D signature: how each operand is read and each output written along one mesh axis. */
struct sig {
    struct sbp *in, *out;        /* arena arrays of arrlen(node->in), arrlen(node->out) entries */
    bool even;                   /* legal only where the split dims divide evenly (reshape) */
    bool coords;                 /* the op's program needs its coordinates (split vocabulary): gate checks soundness */
};

/* Float64 reference: local tensors of one rank, row-major. Where an op has OP_STACKED, the operands' tensors have the
 * blocks of the repeats around them as leading dims. Op `store` writes through in[0].data: the tensor of a param
 * node is its storage. */
struct tensor {
    int ndim;
    int64_t n[MAX_DIM];          /* local extents */
    int64_t base[MAX_DIM];       /* first index, in the padded logical dim */
    int64_t full[MAX_DIM];       /* stored logical extent (phys) */
    int64_t valid[MAX_DIM];      /* logical extent without padding */
    bool flat;                   /* interpreter only: data holds `count` elements of the part, row-major, from `first` */
    int64_t first, count;
    double *data;
};
struct reference {
    const struct node *node;
    struct tensor *in, *out;     /* in[k].data NULL for an optional operand left out; out[].data zeroed */
    int64_t step;                /* for random ops and the learning rate: counted from 0 */
    int64_t update;              /* for the optimizer: the same without the steps that were skipped */
    uint64_t seed;
    double loss_scale;           /* for loss_scale: the factor of this step */
    int64_t block;               /* for random ops: flat index of the block, outermost repeat major */
    bool exact;                  /* reals: casts between float types change nothing */
};

/* Differentiation of one node: build into `at` from node's operands and results (readable as saved values) and the
 * gradients of its outputs; leave each operand's gradient in din (NULL: none). All types f32 here. */
struct grad {
    struct graph *g;
    struct region *at;
    const struct node *node;
    struct value **dout;         /* arrlen(node->out); NULL where the output has no gradient */
    struct value **din;          /* arrlen(node->in), all NULL at first */
    const bool *wanted;          /* which operands want one */
};

struct train_spec;
struct target;
/* What makes an op an optimizer (ops/optimizer.c). */
struct optimizer_setting { const char *name; size_t at; double most; };    /* in the language; a double of train_spec, below most */
struct optimizer {
    const char *state[MAX_STATE + 1];                    /* stored beside w under "w#NAME"; NULL at the end */
    bool (*has_states)(const struct train_spec *t);      /* NULL: always */
    struct optimizer_setting setting[MAX_SETTING + 1];             /* besides lr and decay; name NULL at the end */
    const struct op *redo;                               /* the same once more, from copies kept, when a deferred norm asks */
    const struct op *others;                             /* .. updates what is no matrix (muon); NULL: it is for all */
    bool follows;                                        /* operand 1 is made in the same update: it is no gradient */
};
/* Is it a part of a parameter's update, made wherever the parameter is? Those that are neither an optimizer nor `store` or
 * `copy` have the parameter as attribute "updates". */
bool updates_param(const struct node *n);
struct param *updated_param(const struct node *n);       /* of which parameter */
const struct op *optimizer_find(const char *name);       /* NULL when there is none of the name */
const char *optimizer_near(const char *name);            /* the one that was meant, or NULL */
const char *optimizer_names(const char *last);           /* all, `last` before the last one: " and " */
double *setting_of(struct train_spec *t, const struct optimizer_setting *s);

struct op {
    const char *name;            /* as called in the language */
    const char *part_of;         /* the op of the language that is lowered to this one, as messages call it; or NULL */
    const char *doc;             /* one line of mathematics with shapes */
    const char *args;            /* how a call binds: "x, weight, bias?, eps:num=1e-5, axis:axis". x: tensor operand; x?:
                                    optional; x...: all the positional ones; kinds: num int bool str axis axes dim dims
                                    type; "=": default */
    /* For the reference page, which table tests hold to what is below. */
    const char *shapes;          /* "x [.., A], weight [A] -> [.., A]"; NULL: element-wise */
    const char *factors;         /* which dims may be split, where no text rule says it (rule_of) */
    const char *more;            /* what extra adds to that */
    const char *work;            /* formula of flops */
    const char *rule, *linear;   /* factor rule and linear sets, NULL: see rule_of and extra */
    unsigned flags;
    int adds;                    /* 1 + the result that its kernel can add to what is there (%again in the call); 0: none */
    const char *expr;            /* elementwise: the C expression, "%0 + %1"; %0.. are operands as f32 (or bool/int) */
    bool (*shape)(struct graph *g, struct node *n);              /* checks operands, creates outputs, or diagnoses */
    const char *(*rule_of)(const struct node *n);                /* rule that depends on the node (einsum) */
    void (*extra)(const struct node *n, int parts, struct sig **sigs);    /* further signatures; arrput; parts: axis size */
    /* Rewrite replaces every node of an op with lower: it builds the parts into `at`, leaves the new outputs in out[]. */
    void (*lower)(struct graph *g, struct region *at, struct node *n, struct value **out);
    void (*grad)(struct grad *c);                                /* NULL: no gradient passes (i32 results, detach) */
    double (*flops)(const struct node *n);                       /* logical; NULL: 0 */
    int64_t (*index_limit)(const struct node *n, int k);         /* operand k holds whole numbers below this; 0: no indices */
    void (*ref)(struct reference *r);
    const struct optimizer *optimizer;   /* NULL: it is none */
    /* Elements of f32 that its kernel works in besides operands and results, on the largest part of any rank: the call names the
     * room as `%room`, or is made in it (FL_IN_ROOM). It may leave attributes for the call. NULL: none. ops/room.c */
    int64_t (*room)(struct node *n, const struct mesh *m, const struct target *t);
    const char *call;            /* call format for emitted code, see emit/call.h; NULL with expr, views, effects */
    /* How it works on one row at a time, where its rows (along the last dim) are whole; NULL: it does not. Statements "$m = mean
     * %0; ^0 = %0 - $m": a name or result is an expression of operands %k (%1{1.0f}: with that instead where it is left out),
     * names and numbers among the attributes (@eps), element by element, or its sum, mean or max over the row, or the columns
     * that all rows add up to ("^1 = columns %2"), or what is left of it when elements are dropped ("drop", attributes p and key).
     * fuse/rows.c, emit/rows.c */
    const char *rows;
};

/* What a value is to rows of the shape of `like`: all of them, or an element for each (the last dim left out, or 1). */
enum rows_shape { ROWS_WHOLE, ROWS_EACH, ROWS_OTHER };
enum rows_shape rows_shape(const struct value *v, const struct value *like);
bool rows_makes_column(const struct node *n, int k);      /* is result k the sum of all rows? */

/* ops.def: OP(name) one line per op, in the order of the reference page; the object is op_<name>. */
#define OP(name) extern const struct op op_##name;
#include "ops/ops.def"
#undef OP
extern const struct op *const op_table[];            /* all ops, NULL at the end */
/* The op callable from the language under this name with so many positional tensor operands: max(x, axis = A) is op_max,
 * max(a, b) is op_maximum (both have the name "max"). NULL when there is none; *known tells whether the name exists. */
const struct op *op_find(const char *name, int operands, bool *known);

enum { LINEAR_CE_PIECE = 16 << 20 };                 /* bytes of logits, f32, that linear_cross_entropy and its like make at a time */
double type_round(double x, enum type t);            /* x as the type holds it, to nearest even; ops/cast.c */
void list_ops(FILE *to);                             /* --list-ops: the whole table, for people */

/* All 1-D signatures of a node along an axis of `parts` ranks, the all-B one first, without duplicates. stb_ds array. */
struct sig *node_signatures(const struct node *n, int parts);
/* Whether the results are linear in this operand, with the others held or scaled alike. */
bool node_linear_in(const struct node *n, int operand);

/* What is known of a value's entries in the padding of one of its dims. From rules, linear sets and flags; for element-
 * wise ops from the reference itself, evaluated at what the operands may hold (ops/padding.c). */
enum pad_value { PADDING_ZERO, PADDING_FINITE, PADDING_ANY };
typedef enum pad_value dims_padding[MAX_DIM];
/* Dims without padding are PADDING_ZERO. out has arrlen(n->out) entries. */
void node_padding(const struct node *n, const dims_padding *in, dims_padding *out);
/* Sets of operands are bit sets. From the 32nd on they share a bit: only variadic ops have so many, and theirs are alike. */
static inline unsigned operand_bit(int k)
{
    return 1u << (k < 31 ? k : 31);
}
/* Operands (a bit set) whose padding must be cleared before the node may read them: it adds up over a padded dim and
 * nothing makes the padding count 0 there, or it writes a parameter. */
unsigned node_must_clear(const struct node *n, const dims_padding *in);

/* ---- helpers for shape rules and gradients (ops/build.c) ---- */
struct value *build(struct graph *g, struct region *at, const struct op *op, struct span span, int nin, ...);   /* node_new + operands + finish; first output */
struct value *build_constant(struct graph *g, struct region *at, double v, struct span span);                    /* f32 scalar */
struct value *build_zeros_like(struct graph *g, struct region *at, const struct value *v);
/* Sums v over the dims that `like` lacks or has as broadcast, so that it has like's shape (gradient of broadcasting). */
struct value *build_sum_to(struct graph *g, struct region *at, struct value *v, const struct value *like);
bool op_expect(const struct node *n, int operand, bool ok, const char *fact, ...) __attribute__((format(printf, 4, 5)));  /* diagnoses E_SHAPE when !ok */
#endif
