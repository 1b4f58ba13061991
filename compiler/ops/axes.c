/* new_axis and drop_axis: a dim of one element put in at "axis", or taken out there. What `b[:, _, :]` and an index
 * such as x[0] become. */
#include "nn.h"

static bool shape_new(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    int64_t axis = node_int(n, "axis", 0);
    if (!op_expect(n, 0, x->ndim < MAX_DIM, "a tensor has at most %d dims", MAX_DIM) ||
        !op_expect(n, 0, axis >= 0 && axis <= x->ndim, "no place %lld for a new axis in %d dims", (long long)axis,
                   x->ndim))
        return false;
    struct dim *dim[MAX_DIM];
    for (int i = 0; i <= x->ndim; i++)
        dim[i] = i < axis ? x->dim[i] : i == axis ? dim_anonymous(1) : x->dim[i - 1];
    node_out(g, n, x->type, x->ndim + 1, dim);
    return true;
}

static bool shape_drop(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    int64_t axis = node_int(n, "axis", 0);
    if (!op_expect(n, 0, axis >= 0 && axis < x->ndim, "there is no dim %lld to drop in %d dims", (long long)axis,
                   x->ndim) ||
        !op_expect(n, 0, x->dim[axis]->size == 1, "only a dim of size 1 can be dropped, not one of %lld",
                   (long long)x->dim[axis]->size))
        return false;
    struct dim *dim[MAX_DIM];
    for (int i = 0; i < x->ndim - 1; i++)
        dim[i] = x->dim[i < axis ? i : i + 1];
    node_out(g, n, x->type, x->ndim - 1, dim);
    return true;
}

/* Dims with the one at `axis` whole, and dims without it. */
static const char *factors(int ndim, int64_t axis, bool with)
{
    const char *text = "";
    for (int i = 0, k = 0; i < ndim; i++) {
        if (i == axis)
            text = with ? mem_printf("%s u^", text) : text;
        else
            text = mem_printf("%s x%d", text, k++);
    }
    return *text ? text : with ? "" : "-";
}

static const char *rule_new(const struct node *n)
{
    int ndim = n->out[0]->ndim;
    int64_t axis = node_int(n, "axis", 0);
    return mem_printf("%s ->%s", factors(ndim, axis, false), factors(ndim, axis, true));
}

static const char *rule_drop(const struct node *n)
{
    int ndim = n->in[0]->ndim;
    int64_t axis = node_int(n, "axis", 0);
    const char *to = factors(ndim, axis, false);
    return mem_printf("%s ->%s", factors(ndim, axis, true), strcmp(to, "-") ? to : "");
}

static void invert(struct grad *c, const struct op *op)
{
    struct node *n = node_new(c->g, c->at, op, c->node->span);
    node_in(n, c->dout[0]);
    node_set_int(n, "axis", node_int(c->node, "axis", 0));
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void grad_new(struct grad *c)
{
    invert(c, &op_drop_axis);
}

static void grad_drop(struct grad *c)
{
    invert(c, &op_new_axis);
}

static void ref(struct reference *r)
{
    memcpy(r->out[0].data, r->in[0].data, sizeof(double) * (size_t)tensor_count(&r->out[0]));
}

const struct op op_new_axis = {
    .name = "new_axis",
    .doc = "a dim of size 1 put in at axis",
    .args = "x, axis:axis",
    .linear = "{a} max{a} min{a}",
    .flags = OP_VIEW,
    .shape = shape_new,
    .rule_of = rule_new,
    .grad = grad_new,
    .ref = ref,
    .shapes = "x [a, b] -> [a, 1, b] for axis = 1",
    .factors = "every dim of x",
};

const struct op op_drop_axis = {
    .name = "drop_axis",
    .doc = "the dim of size 1 at axis taken out",
    .args = "x, axis:axis",
    .linear = "{a} max{a} min{a}",
    .flags = OP_VIEW,
    .shape = shape_drop,
    .rule_of = rule_drop,
    .grad = grad_drop,
    .ref = ref,
    .shapes = "x [a, 1, b] -> [a, b] for axis = 1",
    .factors = "every dim but the one of size 1",
};
