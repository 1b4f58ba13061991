/* expand(x, dims): x stretched by trailing broadcasting to a given shape; a view with stride 0. It stretches into padding
 * as well. */
#include "common.h"

static bool expand_shape(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    struct dim **dims = node_ptr(n, "dims");
    int ndim = (int)arrlen(dims), lead = ndim - x->ndim;
    bool fits = lead >= 0;
    for (int d = 0; fits && d < x->ndim; d++)
        fits = dim_same(x->dim[d], dims[d + lead]) || (!x->dim[d]->name && x->dim[d]->size == 1);
    struct value like = {.type = x->type, .ndim = ndim};
    for (int d = 0; d < ndim; d++)
        like.dim[d] = dims[d];
    if (!op_expect(n, 0, fits, "%s cannot be stretched to %s", value_type_text(x, NULL), value_type_text(&like, NULL)))
        return false;
    node_out(g, n, x->type, ndim, dims);
    return true;
}

static void expand_grad(struct grad *c)
{
    grad_give(c, 0, c->dout[0]);
}

static void expand_ref(struct reference *r)
{
    struct tensor *out = &r->out[0];
    int64_t at[MAX_DIM] = {0}, i = 0;
    if (!tensor_count(out))
        return;
    do
        out->data[i++] = tensor_broadcast(&r->in[0], at, out->ndim);
    while (index_next(at, out->n, out->ndim));
}

const struct op op_expand = {
    .name = "expand", .doc = "x stretched to a shape", .args = "x, dims:dims", .rule_of = rule_broadcast,
    .linear = "{a} max{a} min{a}", .flags = OP_VIEW, .shape = expand_shape, .grad = expand_grad, .ref = expand_ref,
    .shapes = "x -> dims; dims are aligned from the right, one of size 1 is stretched",
    .factors = "every dim of the result; a stretched dim of x is whole",
};
