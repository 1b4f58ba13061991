/* Muon, for parameters that are matrices: K. Jordan, Muon: An optimizer for hidden layers in neural networks, 2024. The
 * momentum of the gradient, with Nesterov's look ahead, is made nearly orthogonal, and that is the update. What comes first and
 * last is element-wise, is made in place and works on parts of a tensor; the products of whole matrices between the two are
 * ordinary nodes (differentiate/orthogonal.c). */
#include "optimizer.h"

static bool shape_momentum(struct graph *g, struct node *n)
{
    return update_shape(g, n) && node_out(g, n, n->in[0]->type, n->in[0]->ndim, n->in[0]->dim);
}

static void ref_momentum(struct reference *r)
{
    const double *m = r->in[0].data, *g = r->in[1].data, scale = update_factor(r, 2);
    double beta = node_num(r->node, "momentum", 0), *next = r->out[0].data, *ahead = r->out[1].data;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++) {
        next[i] = isnan(scale) ? m[i] : beta * m[i] + (1 - beta) * g[i] * scale;
        ahead[i] = isnan(scale) ? m[i] : beta * next[i] + (1 - beta) * g[i] * scale;
    }
}

static const struct optimizer momentum = {0};

const struct op op_muon_momentum = {
    .name = "muon_momentum",
    .doc = "m, g -> the next m = beta m + (1 - beta) g scale, and beta m + (1 - beta) g scale of that one",
    .args = "m, g, scale?, momentum:num",
    .rule = "b.., b.., - -> b.., b..",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = shape_momentum,
    .ref = ref_momentum,
    .call = "fl_muon_momentum(%step, %i0, %o1, %i1%typed(i1), %i2, %count(i0), %num(momentum,0))",
    .optimizer = &momentum,
};

static bool shape_muon(struct graph *g, struct node *n)
{
    return node_out(g, n, n->in[0]->type, n->in[0]->ndim, n->in[0]->dim);
}

static void ref_muon(struct reference *r)
{
    const struct param *p = node_ptr(r->node, "param");
    double lr = update_lr(r), factor = node_num(r->node, "factor", 1);
    if (update_skipped(r, 2))
        return;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++)
        r->out[0].data[i] = r->in[0].data[i] * (1 - lr * p->decay) - lr * factor * r->in[1].data[i];
}

static const struct optimizer muon = {
    .state = {"m"},
    .setting = {SETTING(momentum, 1), SETTING(beta1, 1), SETTING(beta2, 1), SETTING(eps, INFINITY)},
    .others = &op_adamw,
    .follows = true,
};

const struct op op_muon = {
    .name = "muon",
    .doc = "w, o -> w (1 - lr decay) - lr factor o",
    .args = "w, o, scale?, factor:num, decay:num, lr_scale:num",
    .rule = "b.., b.., - -> b..",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = shape_muon,
    .ref = ref_muon,
    .call = "fl_muon(%step, %i0, %i1, %i2, %count(i0), %num(factor,1), %num(decay,0), %num(lr_scale,1))",
    .optimizer = &muon,
};
