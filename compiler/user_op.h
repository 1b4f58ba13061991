/* An op that a program declares: what it takes and gives, its rule, and where its kernels are. It is an op like those of
 * the table (its `op` comes first, so a node's op is it), with one shape rule for all: ops/user.c. */
#ifndef FLOWC_USER_OP_H
#define FLOWC_USER_OP_H
#include "op.h"

enum { MAX_USER_TENSORS = 8 };

struct user_tensor {
    const char *name;            /* NULL: a result */
    enum type type;
    int ndim;
    const char *dim[MAX_DIM];    /* the op's own names: equal names, equal dims */
};
struct user_source { const char *path; struct span span; };    /* path NULL: none */
struct user_op {
    struct op op;
    struct span span;
    struct user_tensor in[MAX_USER_TENSORS], out[MAX_USER_TENSORS];
    int nin, nout;
    const char **scalars;        /* stb_ds array: names of its numbers */
    struct user_op *grad;        /* takes the operands and the gradients of all results, gives those of float operands */
    struct span grad_span;
    struct user_source cpu, cuda;
};

bool user_op_shape(struct graph *g, struct node *n);
void user_op_grad(struct grad *c);
/* Text of the rule and the linear sets, checked: what is wrong with them, or NULL. */
const char *user_rule_fault(const struct user_op *u);
const char *user_linear_fault(const struct user_op *u);
#endif
