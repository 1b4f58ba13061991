/* Choosing by a condition. The condition is always read whole or split, never P. */
#include "common.h"

static bool where_shape(struct graph *g, struct node *n)
{
    struct dim *dims[MAX_DIM];
    int ndim;
    const struct value *a = n->in[1], *b = n->in[2];
    bool first = value_is_number(a) && type_is_float(b->type), second = value_is_number(b) && type_is_float(a->type);
    if (!expect_type(n, 0, TYPE_BOOL) || (!first && !second && !expect_type(n, 2, a->type)) || !broadcast_dims(n, 0, 3, dims, &ndim))
        return false;
    node_out(g, n, first ? b->type : a->type, ndim, dims);
    return true;
}

ELEMENTWISE_VALUE(where, x[0] != 0 ? x[1] : x[2])
ELEMENTWISE_GRAD(where, {
    struct value *zero = NUMBER(c, 0);
    grad_give(c, 1, MAKE(c, where, x[0], dy, zero));
    grad_give(c, 2, MAKE(c, where, x[0], zero, dy));
})

const struct op op_where = {
    .name = "where", .doc = "a where c holds, else b", .args = "c, a, b", .rule_of = rule_broadcast,
    .linear = "{b, c} max{b} max{c} max{b, c} min{b} min{c} min{b, c}", .flags = OP_ELEMENTWISE,
    .expr = "%0 ? %1 : %2", .shape = where_shape, .grad = where_grad, .ref = where_ref,
};

static bool mask_shape(struct graph *g, struct node *n)
{
    struct dim *dims[MAX_DIM];
    int ndim;
    if (!expect_float(n, 0) || !expect_type(n, 1, TYPE_BOOL) || !broadcast_dims(n, 0, 2, dims, &ndim))
        return false;
    node_out(g, n, n->in[0]->type, ndim, dims);
    return true;
}

ELEMENTWISE_VALUE(mask, x[1] != 0 ? x[0] : 0)
ELEMENTWISE_GRAD(mask, grad_give(c, 0, MAKE(c, mask, dy, x[1]));)

const struct op op_mask = {
    .name = "mask", .doc = "x where m holds, else 0", .args = "x, m", .rule_of = rule_broadcast,
    .linear = "{a} max{a} min{a}", .flags = OP_ELEMENTWISE, .expr = "%1 ? %0 : 0.0f", .shape = mask_shape,
    .grad = mask_grad, .ref = mask_ref,
};
