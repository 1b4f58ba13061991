/* Building nodes from inside shape rules and gradients. Everything built here has been checked before: a shape rule
 * that refuses its operands is a defect of the caller. */
#include "common.h"

struct value *build(struct graph *g, struct region *at, const struct op *op, struct span span, int nin, ...)
{
    struct node *n = node_new(g, at, op, span);
    va_list args;
    va_start(args, nin);
    for (int k = 0; k < nin; k++)
        node_in(n, va_arg(args, struct value *));
    va_end(args);
    return node_finish(g, n) ? n->out[0] : NULL;
}

struct value *build_constant(struct graph *g, struct region *at, double v, struct span span)
{
    struct node *n = node_new(g, at, &op_constant, span);
    node_set_num(n, "value", v);
    return node_finish(g, n) ? n->out[0] : NULL;
}

struct value *build_expand(struct graph *g, struct region *at, struct value *v, const struct value *like)
{
    bool same = v->ndim == like->ndim;
    for (int d = 0; same && d < v->ndim; d++)
        same = dim_same(v->dim[d], like->dim[d]);
    if (same)
        return v;
    struct dim **dims = NULL;
    for (int d = 0; d < like->ndim; d++)
        arrput(dims, like->dim[d]);
    struct node *n = node_new(g, at, &op_expand, like->span);
    node_in(n, v);
    node_set_ptr(n, "dims", dims);
    return node_finish(g, n) ? n->out[0] : NULL;
}

struct value *build_zeros_like(struct graph *g, struct region *at, const struct value *v)
{
    return build_expand(g, at, build_constant(g, at, 0, v->span), v);
}

struct value *build_reduce(struct graph *g, struct region *at, const struct op *op, struct value *v, unsigned axes,
                           bool keep, struct span span)
{
    int64_t list[MAX_DIM];
    int count = 0;
    for (int d = 0; d < v->ndim; d++)
        if (axes >> d & 1)
            list[count++] = d;
    struct node *n = node_new(g, at, op, span);
    node_in(n, v);
    node_set_ints(n, "axes", list, count);
    node_set_int(n, "keep", keep);
    return node_finish(g, n) ? n->out[0] : NULL;
}

struct value *build_sum_to(struct graph *g, struct region *at, struct value *v, const struct value *like)
{
    int lead = v->ndim - like->ndim;
    unsigned leading = (1u << lead) - 1, stretched = 0;
    if (leading)
        v = build_reduce(g, at, &op_sum, v, leading, false, v->span);
    for (int d = 0; d < like->ndim; d++)
        if (!dim_same(like->dim[d], v->dim[d]))
            stretched |= 1u << d;
    if (stretched)
        v = build_reduce(g, at, &op_sum, v, stretched, true, v->span);
    return v;
}

struct value *build_unreduce(struct graph *g, struct region *at, struct value *v, const struct value *like,
                             unsigned axes, bool kept)
{
    if (!kept && v->ndim) {
        int64_t list[MAX_DIM];
        int count = 0;
        for (int d = 0; d < like->ndim; d++)
            if (axes >> d & 1)
                list[count++] = d;
        for (int i = 0; i < count; i++) {
            struct node *n = node_new(g, at, &op_new_axis, like->span);
            node_in(n, v);
            node_set_int(n, "axis", list[i]);
            if (!node_finish(g, n))
                return NULL;
            v = n->out[0];
        }
    }
    return build_expand(g, at, v, like);
}

void grad_give(struct grad *c, int k, struct value *v)
{
    if (c->wanted[k])
        c->din[k] = build_sum_to(c->g, c->at, v, c->node->in[k]);
}

bool op_expect(const struct node *n, int operand, bool ok, const char *fact, ...)
{
    if (ok)
        return true;
    va_list args;
    va_start(args, fact);
    const char *text = mem_vprintf(fact, args);
    va_end(args);
    struct diag *d = diag_error(E_SHAPE, n->span, "%s: %s", n->op->name, text);
    if (operand >= 0 && operand < arrlen(n->in) && n->in[operand])
        diag_label(d, n->in[operand]->span, "%s", value_type_text(n->in[operand], NULL));
    return false;
}
