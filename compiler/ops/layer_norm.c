/* layer_norm over the last dim, and its gradient. The rows are free; the last dim is whole. A gain or bias is shared by
 * all rows, so over split rows its gradient is a sum still open. */
#include "nn.h"

static bool shape(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    if (!expect_float(n, 0) || !op_expect(n, 0, x->ndim >= 1, "needs a dim to normalise over"))
        return false;
    struct dim *last = x->dim[x->ndim - 1];
    if (!op_expect(n, 0, !last->pad, "cannot normalise over the padded dim %s", last->name ? last->name : ""))
        return false;
    for (int k = 1; k < arrlen(n->in); k++)
        if (n->in[k] && !op_expect(n, k, n->in[k]->ndim == 1 && dim_same(n->in[k]->dim[0], last),
                                   "%s has the shape of the last dim of %s", k == 1 ? "weight" : "bias",
                                   value_type_text(x, NULL)))
            return false;
    node_out(g, n, x->type, x->ndim, (struct dim *const *)x->dim);
    return true;
}

static struct value *operand(const struct node *n, int k)
{
    return k < arrlen(n->in) ? n->in[k] : NULL;
}

/* Linear in weight and bias together: in weight alone only when there is no bias. */
static void extra(const struct node *n, int parts, struct sig **sigs)
{
    if (!operand(n, 1) || operand(n, 2))
        return;
    struct sig s = sig_new(n);
    s.in[1] = s.out[0] = sbp_partial(REDUCE_SUM);
    arrput(*sigs, s);
}

static void grad(struct grad *c)
{
    const struct node *f = c->node;
    struct node *n = node_new(c->g, c->at, &op_layer_norm_grad, f->span);
    node_in(n, f->in[0]);
    node_in(n, operand(f, 1));
    node_in(n, c->dout[0]);
    node_set_num(n, "eps", node_num(f, "eps", 1e-5));
    if (!node_finish(c->g, n))
        return;
    for (int k = 0; k < arrlen(f->in); k++)
        c->din[k] = c->wanted[k] && f->in[k] ? n->out[k] : NULL;
}

/* Mean and 1/deviation of one row. */
static void moments(const double *x, int64_t width, double eps, double *mean, double *scale)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < width; i++)
        sum += x[i];
    *mean = sum / (double)width;
    for (int64_t i = 0; i < width; i++)
        square += (x[i] - *mean) * (x[i] - *mean);
    *scale = 1 / sqrt(square / (double)width + eps);
}

static void ref(struct reference *r)
{
    const struct tensor *x = &r->in[0];
    const double *weight = operand(r->node, 1) ? r->in[1].data : NULL;
    const double *bias = operand(r->node, 2) ? r->in[2].data : NULL;
    int64_t width = x->n[x->ndim - 1], count = tensor_count(x);
    for (int64_t o = 0; o < count; o += width) {
        double mean, scale;
        moments(x->data + o, width, node_num(r->node, "eps", 1e-5), &mean, &scale);
        for (int64_t i = 0; i < width; i++)
            r->out[0].data[o + i] = (x->data[o + i] - mean) * scale * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
    }
}

const struct op op_layer_norm = {
    .name = "layer_norm",
    .doc = "(x - mean) / sqrt(variance + eps) * weight + bias over the last dim",
    .args = "x, weight?, bias?, eps:num=1e-5",
    .rule = "b.. a^, a^, a^ -> b.. a^",
    .linear = "{b, c} max{c} min{c}",
    .flags = OP_ANY_FLOAT,
    .shape = shape,
    .extra = extra,
    .grad = grad,
    .ref = ref,
    .rows = "$m = mean %0; $d = %0 - $m; $v = mean $d * $d; $s = 1.0f / sqrtf($v + @eps{1e-5f}); ^0 = $d * $s * %1{1.0f} + %2{0.0f}",
    .call = "fl_layer_norm%mixed()(%o0, %i0, %i1, %i2, %rows(i0), %last(i0), %num(eps,1e-5)%types(o0,i0,i1,i2))",
    .shapes = "x [.., A], weight [A], bias [A] -> [.., A]",
    .more = "linear in weight alone where there is no bias",
};

/* x, weight or none, dy -> dx, dweight, dbias; the last two always exist, and are dead where nobody wants them. */
static bool shape_grad(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    struct dim *last = x->dim[x->ndim - 1];
    if ((n->in[1] && !expect_dims(n, 1, 1, &last)) || !expect_like(n, 2, x))
        return false;
    node_out(g, n, x->type, x->ndim, (struct dim *const *)x->dim);
    node_out(g, n, x->type, 1, &last);
    node_out(g, n, x->type, 1, &last);
    return true;
}

/* dx is linear in the weight; the others do not see it. */
static void extra_grad(const struct node *n, int parts, struct sig **sigs)
{
    if (!n->in[1])
        return;
    struct sig s = sig_new(n);
    s.in[1] = s.out[0] = sbp_partial(REDUCE_SUM);
    arrput(*sigs, s);
}

static void ref_grad(struct reference *r)
{
    const struct tensor *x = &r->in[0];
    const double *weight = r->node->in[1] ? r->in[1].data : NULL, *dy = r->in[2].data;
    double *dx = r->out[0].data, *dweight = r->out[1].data, *dbias = r->out[2].data;
    int64_t width = x->n[x->ndim - 1], count = tensor_count(x);
    for (int64_t o = 0; o < count; o += width) {
        double mean, scale, along = 0, across = 0;
        moments(x->data + o, width, node_num(r->node, "eps", 1e-5), &mean, &scale);
        for (int64_t i = 0; i < width; i++) {
            double h = (x->data[o + i] - mean) * scale, t = dy[o + i] * (weight ? weight[i] : 1);
            along += t;
            across += t * h;
            dweight[i] += dy[o + i] * h;
            dbias[i] += dy[o + i];
        }
        for (int64_t i = 0; i < width; i++) {
            double h = (x->data[o + i] - mean) * scale, t = dy[o + i] * (weight ? weight[i] : 1);
            dx[o + i] = scale * (t - along / (double)width - h * across / (double)width);
        }
    }
}

const struct op op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .doc = "x, weight, dy -> dx, dweight, dbias of layer_norm",
    .args = "x, weight?, dy, eps:num=1e-5",
    .rule = "b..+ a^, a^, b..+ a^ -> b.. a^, a^, a^",
    .linear = "{c}",
    .flags = OP_INTERNAL | OP_ANY_FLOAT,
    .shape = shape_grad,
    .extra = extra_grad,
    .ref = ref_grad,
    .rows = "$m = mean %0; $d = %0 - $m; $v = mean $d * $d; $s = 1.0f / sqrtf($v + @eps{1e-5f}); $h = $d * $s; $e = %2 * %1{1.0f}; "
            "$a = mean $e; $b = mean $e * $h; ^0 = ($e - $a - $h * $b) * $s; ^1 = columns %2 * $h; ^2 = columns %2",
    .room = room_of_norm,
    .call = "fl_layer_norm_grad%mixed()(%o0, %o1, %o2, %i2, %i0, %i1, %rows(i0), %last(i0), %num(eps,1e-5)"
            "%types(o0,o1,o2,i2,i0,i1))",
};
