/* stack: tensors of one shape along a new dim at "axis"; unstack: the entries of a dim as values of their own. Each is
 * the other's gradient. The dim itself must be whole. Attribute "dim" (a dim, or absent) of stack names the new dim, so
 * that the gradient of unstack has the very dims of its operand. */
#include "nn.h"

static bool shape(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    int64_t axis = node_int(n, "axis", 0);
    struct dim *added = node_ptr(n, "dim");
    if (!op_expect(n, 0, axis >= 0 && axis <= x->ndim, "no place %lld for a new dim in %d dims", (long long)axis,
                   x->ndim) ||
        !op_expect(n, 0, x->ndim < MAX_DIM, "a tensor has at most %d dims", MAX_DIM))
        return false;
    for (int k = 1; k < arrlen(n->in); k++) {
        const struct value *v = n->in[k];
        bool same = v->ndim == x->ndim && v->type == x->type;
        for (int i = 0; same && i < x->ndim; i++)
            same = dim_same(v->dim[i], x->dim[i]);
        if (!op_expect(n, k, same, "operands must have one type: %s against %s", value_type_text(v, NULL),
                       value_type_text(x, NULL)))
            return false;
    }
    struct dim *dim[MAX_DIM];
    for (int i = 0; i <= x->ndim; i++)
        dim[i] = i < axis ? x->dim[i] : i == axis ? (added ? added : dim_anonymous(arrlen(n->in))) : x->dim[i - 1];
    node_out(g, n, x->type, x->ndim + 1, dim);
    return true;
}

static bool shape_unstack(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    int64_t axis = node_int(n, "axis", 0);
    if (!op_expect(n, 0, axis >= 0 && axis < x->ndim, "there is no dim %lld to take apart in %d dims", (long long)axis,
                   x->ndim) ||
        !op_expect(n, 0, x->dim[axis]->size <= 64, "%lld results; at most 64 are possible",
                   (long long)x->dim[axis]->size))
        return false;
    struct dim *dim[MAX_DIM];
    for (int i = 0; i < x->ndim - 1; i++)
        dim[i] = x->dim[i < axis ? i : i + 1];
    for (int k = 0; k < x->dim[axis]->size; k++) {
        struct value *v = node_out(g, n, x->type, x->ndim - 1, dim);
        v->path = mem_printf("%s_%d", v->path, k);
    }
    return true;
}

static const char *large_factors(int ndim, int64_t axis)
{
    const char *text = "";
    for (int i = 0, k = 0; i < ndim; i++)
        text = i == axis ? mem_printf("%s u^", text) : mem_printf("%s x%d", text, k++);
    return text;
}

static const char *small_factors(int ndim)
{
    const char *text = "";
    for (int i = 0; i < ndim; i++)
        text = mem_printf("%s x%d", text, i);
    return *text ? text : " -";
}

static const char *rule_of(const struct node *n)
{
    const char *rule = "";
    for (int k = 0; k < arrlen(n->in); k++)
        rule = mem_printf("%s%s%s", rule, k ? "," : "", small_factors(n->in[0]->ndim));
    return mem_printf("%s ->%s", rule, large_factors(n->out[0]->ndim, node_int(n, "axis", 0)));
}

static const char *rule_unstack(const struct node *n)
{
    const char *rule = mem_printf("%s ->", large_factors(n->in[0]->ndim, node_int(n, "axis", 0)));
    for (int k = 0; k < arrlen(n->out); k++)
        rule = mem_printf("%s%s%s", rule, k ? "," : "", n->out[0]->ndim ? small_factors(n->out[0]->ndim) : "");
    return rule;
}

static void grad(struct grad *c)
{
    struct node *n = node_new(c->g, c->at, &op_unstack, c->node->span);
    node_in(n, c->dout[0]);
    node_set_int(n, "axis", node_int(c->node, "axis", 0));
    if (!node_finish(c->g, n))
        return;
    for (int k = 0; k < arrlen(c->node->in); k++)
        c->din[k] = c->wanted[k] ? n->out[k] : NULL;
}

static void grad_unstack(struct grad *c)
{
    const struct node *f = c->node;
    int64_t axis = node_int(f, "axis", 0);
    struct value **parts = NULL;
    for (int k = 0; k < arrlen(f->out); k++)
        arrput(parts, c->dout[k] ? c->dout[k] : build_zeros_like(c->g, c->at, f->out[k]));
    struct node *n = node_new(c->g, c->at, &op_stack, f->span);
    for (int k = 0; k < arrlen(parts); k++)
        node_in(n, parts[k]);
    node_set_int(n, "axis", axis);
    node_set_ptr(n, "dim", f->in[0]->dim[axis]);
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

/* Copies between part k and its place in the large tensor. */
static void copy(const struct tensor *part, const struct tensor *large, int64_t axis, int k, bool gather)
{
    int64_t full[MAX_DIM], step[MAX_DIM], at[MAX_DIM] = {0}, i = 0;
    if (!tensor_count(part))
        return;
    tensor_strides(large, full);
    for (int d = 0; d < part->ndim; d++)
        step[d] = full[d < axis ? d : d + 1];
    do {
        int64_t o = k * full[axis] + index_offset(at, step, part->ndim);
        if (gather)
            large->data[o] = part->data[i++];
        else
            part->data[i++] = large->data[o];
    } while (index_next(at, part->n, part->ndim));
}

static void ref(struct reference *r)
{
    for (int k = 0; k < arrlen(r->node->in); k++)
        copy(&r->in[k], &r->out[0], node_int(r->node, "axis", 0), k, true);
}

static void ref_unstack(struct reference *r)
{
    for (int k = 0; k < arrlen(r->node->out); k++)
        copy(&r->out[k], &r->in[0], node_int(r->node, "axis", 0), k, false);
}

const struct op op_stack = {
    .name = "stack",
    .doc = "operands of one shape along a new dim at axis",
    .args = "x..., axis:axis=0",
    .linear = "{*} max{a} max{b} max{*} min{a} min{b} min{*}",
    .flags = OP_VARIADIC | OP_STRIDED,
    .shape = shape,
    .rule_of = rule_of,
    .grad = grad,
    .ref = ref,
    .shapes = "k times [a, b] -> [k, a, b] at 0",
    .factors = "every dim of the operands",
};

const struct op op_unstack = {
    .name = "unstack",
    .doc = "the entries along axis, each a result of its own",
    .args = "x, axis:axis=0",
    .linear = "{a} max{a} min{a}",
    .flags = OP_VIEW,
    .shape = shape_unstack,
    .rule_of = rule_unstack,
    .grad = grad_unstack,
    .ref = ref_unstack,
    .shapes = "[k, a, b] -> k times [a, b] at 0",
    .factors = "every dim but the axis, which is whole (^)",
};
