/* softmax and log_softmax over one or several axes, which must be whole. Only valid entries take part; padding is 0 in
 * softmax and in both gradients. y_grad takes the result y and dy and is linear in dy. */
#include "common.h"
#include "target.h"

static bool softmax_shape(struct graph *g, struct node *n)
{
    return expect_float(n, 0) && shape_same(g, n);
}

static const char *softmax_rule(const struct node *n)
{
    unsigned axes = node_axes(n);
    char *dims = "";
    for (int d = 0; d < n->in[0]->ndim; d++)
        dims = mem_printf("%s d%d%s", dims, d, axes >> d & 1 ? "^" : "");
    return arrlen(n->in) == 1 ? mem_printf("%s ->%s", dims, dims) : mem_printf("%s,%s ->%s", dims, dims, dims);
}

static double softmax_flops(const struct node *n)
{
    return 4 * (double)value_count(n->in[0]);
}

/* Calls f once for each slice along the axes, with the offsets of its valid entries. */
static void each_slice(struct reference *r, void (*f)(struct reference *r, const int64_t *offset, int64_t count))
{
    const struct tensor *x = &r->in[0];
    unsigned axes = node_axes(r->node);
    int64_t stride[MAX_DIM], outer[MAX_DIM] = {0}, inner_n[MAX_DIM], outer_n[MAX_DIM], size = 1, step = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->n[d];
        outer_n[d] = axes >> d & 1 ? 1 : x->n[d];
        inner_n[d] = axes >> d & 1 ? x->n[d] : 1;
        size *= inner_n[d];
    }
    if (!tensor_count(x))
        return;
    int64_t *offset = NEW_ARRAY(int64_t, size);
    do {
        int64_t inner[MAX_DIM] = {0}, count = 0;
        do {
            int64_t at = 0;
            bool valid = true;
            for (int d = 0; d < x->ndim; d++) {
                at += (outer[d] + inner[d]) * stride[d];
                if (axes >> d & 1)
                    valid &= x->base[d] + inner[d] < x->valid[d];
            }
            if (valid)
                offset[count++] = at;
        } while (index_next(inner, inner_n, x->ndim));
        f(r, offset, count);
    } while (index_next(outer, outer_n, x->ndim));
}

static double log_sum_exp(const double *x, const int64_t *offset, int64_t count)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        top = fmax(top, x[offset[i]]);
    for (int64_t i = 0; i < count; i++)
        sum += exp(x[offset[i]] - top);
    return top + log(sum);
}

static void log_softmax_slice(struct reference *r, const int64_t *offset, int64_t count)
{
    const double *x = r->in[0].data;
    double lse = log_sum_exp(x, offset, count);
    for (int64_t i = 0; i < count; i++)
        r->out[0].data[offset[i]] = x[offset[i]] - lse;
}

static void softmax_slice(struct reference *r, const int64_t *offset, int64_t count)
{
    const double *x = r->in[0].data;
    double lse = log_sum_exp(x, offset, count);
    for (int64_t i = 0; i < count; i++)
        r->out[0].data[offset[i]] = exp(x[offset[i]] - lse);
}

static void softmax_grad_slice(struct reference *r, const int64_t *offset, int64_t count)
{
    const double *y = r->in[0].data, *dy = r->in[1].data;
    double dot = 0;
    for (int64_t i = 0; i < count; i++)
        dot += y[offset[i]] * dy[offset[i]];
    for (int64_t i = 0; i < count; i++)
        r->out[0].data[offset[i]] = y[offset[i]] * (dy[offset[i]] - dot);
}

static void log_softmax_grad_slice(struct reference *r, const int64_t *offset, int64_t count)
{
    const double *y = r->in[0].data, *dy = r->in[1].data;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += dy[offset[i]];
    for (int64_t i = 0; i < count; i++)
        r->out[0].data[offset[i]] = dy[offset[i]] - exp(y[offset[i]]) * sum;
}

static void softmax_ref(struct reference *r)
{
    each_slice(r, softmax_slice);
}

static void log_softmax_ref(struct reference *r)
{
    each_slice(r, log_softmax_slice);
}

static void softmax_grad_ref(struct reference *r)
{
    each_slice(r, softmax_grad_slice);
}

static void log_softmax_grad_ref(struct reference *r)
{
    each_slice(r, log_softmax_grad_slice);
}

static void grad_with(struct grad *c, const struct op *op)
{
    const struct node *f = c->node;
    if (!c->wanted[0])
        return;
    unsigned axes = node_axes(f);
    int64_t list[MAX_DIM];
    int count = 0;
    for (int d = 0; d < f->in[0]->ndim; d++)
        if (axes >> d & 1)
            list[count++] = d;
    struct node *n = node_new(c->g, c->at, op, f->span);
    node_in(n, f->out[0]);
    node_in(n, c->dout[0]);
    node_set_ints(n, "axes", list, count);
    if (node_finish(c->g, n))
        c->din[0] = n->out[0];
}

static void softmax_backward(struct grad *c)
{
    grad_with(c, &op_softmax_grad);
}

static void log_softmax_backward(struct grad *c)
{
    grad_with(c, &op_log_softmax_grad);
}

/* Where a slice is no row, its kernel on a processor lists the offsets (8 bytes) of its entries. */
static int64_t room(struct node *n, const struct mesh *m, const struct target *t)
{
    const struct value *x = n->in[0];
    unsigned axes = node_axes(n);
    int64_t entries = 1;
    for (int d = 0; d < x->ndim; d++)
        entries *= axes >> d & 1 ? value_extent(x, d, m, NULL) : 1;
    bool rows = axes == 1u << (x->ndim - 1);
    return rows || !t->scratch ? 0 : room_lines(2 * entries);
}

const struct op op_softmax = {
    .name = "softmax", .doc = "exp(x) / sum of exp(x) over axes", .args = "x, axes:axes", .rule_of = softmax_rule,
    .flags = OP_ZEROES_PADDING, .shape = softmax_shape, .grad = softmax_backward, .flops = softmax_flops, .ref = softmax_ref,
    .rows = "$t = max %0; $e = fl_exp(%0 - $t); $z = sum $e; $b = 1.0f / $z; ^0 = $e * $b",
    .room = room,
    .call = "fl_softmax%as(o0,i0)(%o0, %i0%type(i0), %reduce)",
    .shapes = "x -> the same",
    .factors = "every dim but the axes, which are whole (^)",
    .work = "4 elements of x",
};

const struct op op_softmax_grad = {
    .name = "softmax_grad", .doc = "y (dy - sum of y dy over axes)", .args = "y, dy, axes:axes",
    .rule_of = softmax_rule, .linear = "{b}", .flags = OP_INTERNAL | OP_ZEROES_PADDING, .shape = softmax_shape, .flops = softmax_flops,
    .ref = softmax_grad_ref, .rows = "$s = sum %0 * %1; ^0 = %0 * (%1 - $s)",
    .room = room,
    .call = "fl_softmax_grad%as(o0,i0,i1)(%o0, %i0, %i1%type(i0), %reduce)",
};

const struct op op_log_softmax = {
    .name = "log_softmax", .doc = "x - log of the sum of exp(x) over axes", .args = "x, axes:axes",
    .rule_of = softmax_rule, .flags = OP_ZEROES_PADDING, .shape = softmax_shape, .grad = log_softmax_backward, .flops = softmax_flops,
    .ref = log_softmax_ref,
    .rows = "$t = max %0; $e = fl_exp(%0 - $t); $z = sum $e; $l = $t + logf($z); ^0 = %0 - $l",
    .room = room,
    .call = "fl_log_softmax%as(o0,i0)(%o0, %i0%type(i0), %reduce)",
    .shapes = "x -> the same",
    .factors = "every dim but the axes, which are whole (^)",
    .work = "4 elements of x",
};

const struct op op_log_softmax_grad = {
    .name = "log_softmax_grad", .doc = "dy - exp(y) sum of dy over axes", .args = "y, dy, axes:axes",
    .rule_of = softmax_rule, .linear = "{b}", .flags = OP_INTERNAL | OP_ZEROES_PADDING, .shape = softmax_shape, .flops = softmax_flops,
    .ref = log_softmax_grad_ref, .rows = "$s = sum %1; ^0 = %1 - fl_exp(%0) * $s",
    .room = room,
    .call = "fl_log_softmax_grad%as(o0,i0,i1)(%o0, %i0, %i1%type(i0), %reduce)",
};
