/* What the rooms of the ops share: shape rules and factor rules of element-wise ops, signatures built by hand, short
 * forms for gradients, and loops for the float64 references. Private to compiler/ops. */
#ifndef FLOWC_OPS_COMMON_H
#define FLOWC_OPS_COMMON_H
#include "base/diag.h"
#include "module.h"
#include "op.h"
#include <math.h>
#include <string.h>

/* ---- shape rules (elementwise.c) ----
 * Broadcasting is trailing: dims are aligned from the right and match by dim_same; a nameless dim of size 1 is
 * stretched. (A named dim never is, whatever its size: --set N=1 must not change which programs are legal.) The output
 * dim is the one that has a name. */
bool broadcast_dims(const struct node *n, int first, int count, struct dim **dims, int *ndim);   /* diagnoses E_SHAPE */
bool shape_float(struct graph *g, struct node *n);       /* float operands of one type, and numbers -> the same type */
bool value_is_number(const struct value *v);             /* a number of the program: it has no type of its own */
bool shape_compare(struct graph *g, struct node *n);     /* two operands of one type -> bool */
bool shape_logical(struct graph *g, struct node *n);     /* bool operands -> bool */
bool shape_same(struct graph *g, struct node *n);        /* output 0 is like operand 0, whatever its type */
bool expect_float(const struct node *n, int operand);    /* diagnoses E_TYPE */
bool expect_type(const struct node *n, int operand, enum type t);
const char *rule_broadcast(const struct node *n);        /* "d0 d1, d1 -> d0 d1"; a stretched dim is written _ */
const char *rule_source(const struct node *n);           /* "-> d0 d1": any one dim may be split */
const char *rule_same(const struct node *n);             /* operand 0 and every output have the same dims */

/* ---- axes of reductions and softmax (reduce.c) ---- */
unsigned node_axes(const struct node *n);                /* bit set of operand 0's dims; all where the node has none */

/* ---- signatures by hand (rule.c) ---- */
struct sig sig_new(const struct node *n);                /* all B */
static inline struct sbp sbp_split(int dim)
{
    return (struct sbp){SBP_S, (uint8_t)dim, 0};
}
static inline struct sbp sbp_partial(enum reduce r)
{
    return (struct sbp){SBP_P, (uint8_t)r, 0};
}

/* ---- gradients ----
 * MAKE(c, mul, a, b) builds op_mul of a and b in the backward region; grad_give leaves v, summed to the operand's
 * shape, as operand k's gradient where it is wanted. */
#define MAKE_COUNT(...) ((int)(sizeof((struct value *[]){__VA_ARGS__}) / sizeof(struct value *)))
#define MAKE(c, op, ...) build((c)->g, (c)->at, &op_##op, (c)->node->span, MAKE_COUNT(__VA_ARGS__), __VA_ARGS__)
#define NUMBER(c, v) build_constant((c)->g, (c)->at, v, (c)->node->span)
void grad_give(struct grad *c, int k, struct value *v);
struct value *build_reduce(struct graph *g, struct region *at, const struct op *op, struct value *v, unsigned axes,
                           bool keep, struct span span);
struct value *build_expand(struct graph *g, struct region *at, struct value *v, const struct value *like);
/* v lacks the dims `axes` of like (or has them as size 1 when kept): gives it like's shape. */
struct value *build_unreduce(struct graph *g, struct region *at, struct value *v, const struct value *like,
                             unsigned axes, bool kept);

/* ---- what kernels work in (room.c) ---- */
/* Elements of v's largest part, of dims [from, to). */
int64_t room_count(const struct value *v, int from, int to, const struct mesh *m);
int64_t room_lines(int64_t elements);                    /* whole lines of 64 bytes: each of several pieces starts on one */
int64_t room_bytes(int64_t bytes);                       /* in such lines, as elements */
int64_t room_of_norm(struct node *n, const struct mesh *m, const struct target *t);      /* of the gradient of a norm */

/* Dims from the outermost in memory to the innermost, of a value that layout has placed. */
void memory_order(const struct value *v, int *perm);

/* ---- references ---- */
int64_t tensor_count(const struct tensor *t);
/* Element of t that stands at index `at` (ndim entries) of an output under trailing broadcasting. */
double tensor_broadcast(const struct tensor *t, const int64_t *at, int ndim);
/* Next index in row-major order; false after the last one. Start with all zeros and a non-empty shape. */
bool index_next(int64_t *at, const int64_t *n, int ndim);
bool tensor_is_valid(const struct tensor *t, const int64_t *at);        /* not padding */
void ref_elementwise(struct reference *r, double (*f)(const double *x));
void ref_view(struct reference *r);                      /* out[0] holds what in[0] holds, in the same order */

/* An element-wise op in a few lines: its value, its gradient's body (reads c), its table row.
 *     ELEMENTWISE_VALUE(add, x[0] + x[1]) makes add_ref */
#define ELEMENTWISE_VALUE(id, value)                                                                                   \
    static double id##_value(const double *x)                                                                         \
    {                                                                                                                  \
        return value;                                                                                                  \
    }                                                                                                                  \
    static void id##_ref(struct reference *r)                                                                         \
    {                                                                                                                  \
        ref_elementwise(r, id##_value);                                                                                \
    }
#define ELEMENTWISE_GRAD(id, ...)                                                                                      \
    static void id##_grad(struct grad *c)                                                                             \
    {                                                                                                                  \
        struct value *const *x = c->node->in, *y = c->node->out[0], *dy = c->dout[0];                                  \
        (void)x, (void)y;                                                                                              \
        __VA_ARGS__                                                                                                    \
    }
#endif
