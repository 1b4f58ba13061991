/* rms_norm over the last dim, and its gradient: layer_norm without mean and bias. */
#include "nn.h"

static bool shape(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    if (!expect_float(n, 0) || !op_expect(n, 0, x->ndim >= 1, "needs a dim to normalise over"))
        return false;
    struct dim *last = x->dim[x->ndim - 1];
    if (!op_expect(n, 0, !last->pad, "cannot normalise over the padded dim %s", last->name ? last->name : ""))
        return false;
    if (arrlen(n->in) > 1 && n->in[1] &&
        !op_expect(n, 1, n->in[1]->ndim == 1 && dim_same(n->in[1]->dim[0], last),
                   "weight has the shape of the last dim of %s", value_type_text(x, NULL)))
        return false;
    node_out(g, n, x->type, x->ndim, (struct dim *const *)x->dim);
    return true;
}

static struct value *weight_of(const struct node *n)
{
    return arrlen(n->in) > 1 ? n->in[1] : NULL;
}

static void grad(struct grad *c)
{
    const struct node *f = c->node;
    struct node *n = node_new(c->g, c->at, &op_rms_norm_grad, f->span);
    node_in(n, f->in[0]);
    node_in(n, weight_of(f));
    node_in(n, c->dout[0]);
    node_set_num(n, "eps", node_num(f, "eps", 1e-6));
    if (!node_finish(c->g, n))
        return;
    for (int k = 0; k < arrlen(f->in); k++)
        c->din[k] = c->wanted[k] && f->in[k] ? n->out[k] : NULL;
}

static double scale_of(const double *x, int64_t width, double eps)
{
    double square = 0;
    for (int64_t i = 0; i < width; i++)
        square += x[i] * x[i];
    return 1 / sqrt(square / (double)width + eps);
}

static void ref(struct reference *r)
{
    const struct tensor *x = &r->in[0];
    const double *weight = weight_of(r->node) ? r->in[1].data : NULL;
    int64_t width = x->n[x->ndim - 1], count = tensor_count(x);
    for (int64_t o = 0; o < count; o += width) {
        double scale = scale_of(x->data + o, width, node_num(r->node, "eps", 1e-6));
        for (int64_t i = 0; i < width; i++)
            r->out[0].data[o + i] = x->data[o + i] * scale * (weight ? weight[i] : 1);
    }
}

const struct op op_rms_norm = {
    .name = "rms_norm",
    .doc = "x / sqrt(mean of x^2 + eps) * weight over the last dim",
    .args = "x, weight?, eps:num=1e-6",
    .rule = "b.. a^, a^ -> b.. a^",
    .linear = "{b}",
    .flags = OP_ANY_FLOAT,
    .shape = shape,
    .grad = grad,
    .ref = ref,
    .rows = "$v = mean %0 * %0; $s = 1.0f / sqrtf($v + @eps{1e-6f}); ^0 = %0 * $s * %1{1.0f}",
    .call = "fl_rms_norm%mixed()(%o0, %i0, %i1, %rows(i0), %last(i0), %num(eps,1e-6)%types(o0,i0,i1))",
    .shapes = "x [.., A], weight [A] -> [.., A]",
};

static bool shape_grad(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    struct dim *last = x->dim[x->ndim - 1];
    if ((n->in[1] && !expect_dims(n, 1, 1, &last)) || !expect_like(n, 2, x))
        return false;
    node_out(g, n, x->type, x->ndim, (struct dim *const *)x->dim);
    node_out(g, n, x->type, 1, &last);
    return true;
}

/* dx is linear in the weight; dweight does not see it. */
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
    double *dx = r->out[0].data, *dweight = r->out[1].data;
    int64_t width = x->n[x->ndim - 1], count = tensor_count(x);
    for (int64_t o = 0; o < count; o += width) {
        double scale = scale_of(x->data + o, width, node_num(r->node, "eps", 1e-6)), across = 0;
        for (int64_t i = 0; i < width; i++) {
            double h = x->data[o + i] * scale;
            across += dy[o + i] * (weight ? weight[i] : 1) * h;
            dweight[i] += dy[o + i] * h;
        }
        for (int64_t i = 0; i < width; i++)
            dx[o + i] = scale * (dy[o + i] * (weight ? weight[i] : 1) -
                                 x->data[o + i] * scale * across / (double)width);
    }
}

const struct op op_rms_norm_grad = {
    .name = "rms_norm_grad",
    .doc = "x, weight, dy -> dx, dweight of rms_norm",
    .args = "x, weight?, dy, eps:num=1e-6",
    .rule = "b..+ a^, a^, b..+ a^ -> b.. a^, a^",
    .linear = "{c}",
    .flags = OP_INTERNAL | OP_ANY_FLOAT,
    .shape = shape_grad,
    .extra = extra_grad,
    .ref = ref_grad,
    .rows = "$v = mean %0 * %0; $s = 1.0f / sqrtf($v + @eps{1e-6f}); $h = %0 * $s; $e = %2 * %1{1.0f}; $b = mean $e * $h; "
            "^0 = ($e - $h * $b) * $s; ^1 = columns %2 * $h",
    .room = room_of_norm,
    .call = "fl_rms_norm_grad%mixed()(%o0, %o1, %i2, %i0, %i1, %rows(i0), %last(i0), %num(eps,1e-6)%types(o0,o1,i2,i0,i1))",
};
