/* transpose: the dims in another order. Never a copy by itself: layout relabels strides. */
#include "nn.h"

static bool shape(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    const int64_t *axes = node_ints(n, "axes");
    if (!axes) {
        int64_t reversed[MAX_DIM];
        for (int i = 0; i < x->ndim; i++)
            reversed[i] = x->ndim - 1 - i;
        node_set_ints(n, "axes", reversed, x->ndim);
        axes = node_ints(n, "axes");
    }
    if (!op_expect(n, 0, arrlen(axes) == x->ndim, "names %d of the %d dims", (int)arrlen(axes), x->ndim))
        return false;
    struct dim *dim[MAX_DIM];
    bool seen[MAX_DIM] = {0};
    for (int i = 0; i < x->ndim; i++) {
        bool good = axes[i] >= 0 && axes[i] < x->ndim && !seen[axes[i]];
        if (!op_expect(n, 0, good, "dim %lld is named twice or does not exist", (long long)axes[i]))
            return false;
        seen[axes[i]] = true;
        dim[i] = x->dim[axes[i]];
    }
    node_out(g, n, x->type, x->ndim, dim);
    return true;
}

static const char *rule_of(const struct node *n)
{
    const int64_t *axes = node_ints(n, "axes");
    const char *from = n->in[0]->ndim ? "" : "-", *to = "";
    for (int i = 0; i < n->in[0]->ndim; i++) {
        from = mem_printf("%s x%d", from, i);
        to = mem_printf("%s x%d", to, (int)axes[i]);
    }
    return mem_printf("%s ->%s", from, to);
}

static void grad(struct grad *c)
{
    const int64_t *axes = node_ints(c->node, "axes");
    int64_t inverse[MAX_DIM];
    int ndim = c->node->in[0]->ndim;
    for (int i = 0; i < ndim; i++)
        inverse[axes[i]] = i;
    struct node *n = node_new(c->g, c->at, &op_transpose, c->node->span);
    node_in(n, c->dout[0]);
    node_set_ints(n, "axes", inverse, ndim);
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void ref(struct reference *r)
{
    const int64_t *axes = node_ints(r->node, "axes");
    const struct tensor *x = &r->in[0], *y = &r->out[0];
    int64_t from[MAX_DIM], step[MAX_DIM], at[MAX_DIM] = {0}, o = 0;
    if (!tensor_count(y))
        return;
    tensor_strides(x, from);
    for (int i = 0; i < x->ndim; i++)
        step[i] = from[axes[i]];
    do
        y->data[o++] = x->data[index_offset(at, step, y->ndim)];
    while (index_next(at, y->n, y->ndim));
}

const struct op op_transpose = {
    .name = "transpose",
    .doc = "result dim i is operand dim axes[i]; all reversed without axes",
    .args = "x, axes:axes?",
    .linear = "{a} max{a} min{a}",
    .flags = OP_VIEW,
    .shape = shape,
    .rule_of = rule_of,
    .grad = grad,
    .ref = ref,
    .shapes = "x [a, b, c] -> [c, a, b] for axes = [2, 0, 1]",
    .factors = "every dim, wherever it goes",
};
