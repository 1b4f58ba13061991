/* concat: tensors one after the other along a dim, which must be whole. */
#include "nn.h"

static bool shape(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    int64_t axis = node_int(n, "axis", 0), size = 0;
    if (!op_expect(n, 0, axis >= 0 && axis < x->ndim, "there is no dim %lld to join along", (long long)axis))
        return false;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *v = n->in[k];
        bool same = v->ndim == x->ndim && v->type == x->type;
        for (int i = 0; same && i < x->ndim; i++)
            same = i == axis || dim_same(v->dim[i], x->dim[i]);
        if (!op_expect(n, k, same, "operands must be alike but for dim %lld: %s against %s",
                       (long long)axis, value_type_text(v, NULL), value_type_text(x, NULL)) ||
            !op_expect(n, k, !v->dim[axis]->pad, "cannot join along the padded dim %s",
                       v->dim[axis]->name ? v->dim[axis]->name : ""))
            return false;
        size += v->dim[axis]->size;
    }
    struct dim *dim[MAX_DIM];
    for (int i = 0; i < x->ndim; i++)
        dim[i] = i == axis ? dim_anonymous(size) : x->dim[i];
    node_out(g, n, x->type, x->ndim, dim);
    return true;
}

static const char *rule_of(const struct node *n)
{
    int64_t axis = node_int(n, "axis", 0);
    const char *rule = "";
    for (int k = 0; k <= arrlen(n->in); k++) {
        rule = mem_printf("%s%s", rule, !k ? "" : k < arrlen(n->in) ? "," : " ->");
        for (int i = 0; i < n->out[0]->ndim; i++)
            rule = i == axis ? mem_printf("%s c%d^", rule, k) : mem_printf("%s x%d", rule, i);
    }
    return rule;
}

static void grad(struct grad *c)
{
    const struct node *n = c->node;
    int64_t axis = node_int(n, "axis", 0), at = 0;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *x = n->in[k];
        int64_t start[MAX_DIM] = {0}, stop[MAX_DIM];
        for (int i = 0; i < x->ndim; i++)
            stop[i] = c->dout[0]->dim[i]->size;
        start[axis] = at;
        stop[axis] = at += x->dim[axis]->size;
        if (!c->wanted[k])
            continue;
        struct node *s = node_new(c->g, c->at, &op_slice, n->span);
        node_in(s, c->dout[0]);
        node_set_ints(s, "start", start, x->ndim);
        node_set_ints(s, "stop", stop, x->ndim);
        c->din[k] = node_finish(c->g, s) ? s->out[0] : NULL;
    }
}

static void ref(struct reference *r)
{
    const struct tensor *y = &r->out[0];
    int64_t axis = node_int(r->node, "axis", 0), stride[MAX_DIM], first = 0;
    tensor_strides(y, stride);
    for (int k = 0; k < arrlen(r->node->in); k++) {
        const struct tensor *x = &r->in[k];
        int64_t at[MAX_DIM] = {0}, i = 0;
        if (tensor_count(x))
            do
                y->data[first + index_offset(at, stride, y->ndim)] = x->data[i++];
            while (index_next(at, x->n, x->ndim));
        first += x->n[axis] * stride[axis];
    }
}

const struct op op_concat = {
    .name = "concat",
    .doc = "the operands one after the other along axis",
    .args = "x..., axis:axis",
    .linear = "{*} max{a} max{b} max{*} min{a} min{b} min{*}",
    .flags = OP_VARIADIC | OP_STRIDED,
    .shape = shape,
    .rule_of = rule_of,
    .grad = grad,
    .ref = ref,
    .shapes = "x [a, b], y [a, c] -> [a, b + c] along 1",
    .factors = "every dim but the axis, which is whole (^)",
};
