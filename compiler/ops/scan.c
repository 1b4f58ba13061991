/* Ops that carry something along one axis, which must be whole: running sums, and roll. */
#include "nn.h"

static int axis_of_node(const struct node *n)
{
    return (int)node_int(n, "axis", 0);
}

static const char *axis_rule(const struct node *n)
{
    char *dims = "";
    for (int d = 0; d < n->in[0]->ndim; d++)
        dims = mem_printf("%s d%d%s", dims, d, d == axis_of_node(n) ? "^" : "");
    return mem_printf("%s ->%s", dims, dims);
}

static bool has_axis(const struct node *n)
{
    return op_expect(n, 0, axis_of_node(n) < n->in[0]->ndim, "there is no dim %d", axis_of_node(n));
}

/* ---- cumsum ---- */

static bool cumsum_shape(struct graph *g, struct node *n)
{
    return expect_float(n, 0) && has_axis(n) && shape_same(g, n);
}

static double cumsum_flops(const struct node *n)
{
    return (double)value_count(n->in[0]);
}

static void cumsum_grad(struct grad *c)
{
    if (!c->wanted[0])
        return;
    struct node *n = node_new(c->g, c->at, &op_cumsum, c->node->span);
    node_in(n, c->dout[0]);
    node_set_int(n, "axis", axis_of_node(c->node));
    node_set_int(n, "reverse", !node_int(c->node, "reverse", 0));
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void cumsum_ref(struct reference *r)
{
    const struct tensor *x = &r->in[0];
    int axis = axis_of_node(r->node);
    bool reverse = node_int(r->node, "reverse", 0);
    int64_t outer = 1, inner = 1, n = x->n[axis], valid = n < x->valid[axis] ? n : x->valid[axis];
    for (int d = 0; d < x->ndim; d++)
        *(d < axis ? &outer : &inner) *= d == axis ? 1 : x->n[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t j = 0; j < valid; j++) {
                int64_t at = (o * n + (reverse ? valid - 1 - j : j)) * inner + i;
                r->out[0].data[at] = sum += x->data[at];
            }
        }
}

const struct op op_cumsum = {
    .name = "cumsum", .doc = "running sums of x along axis, from its end where reverse; 0 in padding",
    .args = "x, axis:axis, reverse:bool=false", .rule_of = axis_rule, .linear = "{a}", .flags = OP_ZEROES_PADDING,
    .shape = cumsum_shape, .grad = cumsum_grad, .flops = cumsum_flops, .ref = cumsum_ref,
    .call = "fl_cumsum%as(i0,o0)(%o0, %i0%type(i0), %reduce, %bool(reverse))",
    .shapes = "x -> the same",
    .factors = "every dim but the axis, which is whole (^)",
    .work = "elements of x",
};

/* ---- roll ---- */

static bool roll_shape(struct graph *g, struct node *n)
{
    const struct dim *d = has_axis(n) ? n->in[0]->dim[axis_of_node(n)] : NULL;
    return d && op_expect(n, 0, !d->pad, "cannot roll along the padded dim %s", d->name ? d->name : "") &&
           shape_same(g, n);
}

/* The shift to the right, from 0 to n - 1. */
static int64_t shift_of(const struct node *n, int64_t size)
{
    int64_t s = size ? node_int(n, "shift", 0) % size : 0;
    return s < 0 ? s + size : s;
}

static void roll_grad(struct grad *c)
{
    if (!c->wanted[0])
        return;
    struct node *n = node_new(c->g, c->at, &op_roll, c->node->span);
    node_in(n, c->dout[0]);
    node_set_int(n, "axis", axis_of_node(c->node));
    node_set_int(n, "shift", -node_int(c->node, "shift", 0));
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static struct value *take(struct graph *g, struct region *at, const struct node *roll, int64_t start, int64_t stop)
{
    struct value *x = roll->in[0];
    int64_t from[MAX_DIM] = {0}, to[MAX_DIM];
    for (int d = 0; d < x->ndim; d++)
        to[d] = x->dim[d]->size;
    from[axis_of_node(roll)] = start;
    to[axis_of_node(roll)] = stop;
    struct node *n = node_new(g, at, &op_slice, roll->span);
    node_in(n, x);
    node_set_ints(n, "start", from, x->ndim);
    node_set_ints(n, "stop", to, x->ndim);
    return node_finish(g, n) ? n->out[0] : NULL;
}

/* The last entries, then the others, under the dims of x. */
static void roll_lower(struct graph *g, struct region *at, struct node *n, struct value **out)
{
    struct value *x = n->in[0];
    int64_t size = x->dim[axis_of_node(n)]->size, s = shift_of(n, size);
    struct value *v = x;
    if (s) {
        struct value *tail = take(g, at, n, size - s, size), *head = take(g, at, n, 0, size - s);
        struct node *join = node_new(g, at, &op_concat, n->span);
        node_in(join, tail);
        node_in(join, head);
        node_set_int(join, "axis", axis_of_node(n));
        v = node_finish(g, join) ? join->out[0] : NULL;
    }
    struct dim **dims = NULL;
    for (int d = 0; d < x->ndim; d++)
        arrput(dims, x->dim[d]);
    struct node *shaped = node_new(g, at, &op_reshape, n->span);
    node_in(shaped, v);
    node_set_ptr(shaped, "dims", dims);
    if (!node_finish(g, shaped))
        BUG("roll cannot be taken apart");
    out[0] = shaped->out[0];
}

static void roll_ref(struct reference *r)
{
    const struct tensor *x = &r->in[0];
    int axis = axis_of_node(r->node);
    int64_t at[MAX_DIM] = {0}, stride[MAX_DIM], i = 0, s = shift_of(r->node, x->n[axis]);
    if (!tensor_count(x))
        return;
    tensor_strides(x, stride);
    do {
        int64_t to[MAX_DIM];
        memcpy(to, at, sizeof to);
        to[axis] = (at[axis] + s) % x->n[axis];
        r->out[0].data[index_offset(to, stride, x->ndim)] = x->data[i++];
    } while (index_next(at, x->n, x->ndim));
}

const struct op op_roll = {
    .name = "roll", .doc = "x moved by shift places along axis; what leaves at the end comes back at the start",
    .args = "x, shift:int, axis:axis", .rule_of = axis_rule, .linear = "{a} max{a} min{a}", .shape = roll_shape,
    .lower = roll_lower, .grad = roll_grad, .ref = roll_ref,
    .shapes = "x -> the same",
    .factors = "every dim but the axis, which is whole (^)",
};
