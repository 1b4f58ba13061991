/* Optimizers with one state, a running mean of gradients: sgd (Sutskever et al., On the importance of initialization and
 * momentum, 2013, in the form of PyTorch: v = momentum v + g, w = w - lr v) and lion (Chen et al., Symbolic Discovery of
 * Optimization Algorithms, 2023, algorithm 2: the sign of a mean that looks ahead, decay apart from it). */
#include "optimizer.h"

static void ref_sgd(struct reference *r)
{
    const struct train_spec *t = node_ptr(r->node, "train");
    const struct param *p = node_ptr(r->node, "param");
    const double *w = r->in[0].data, *g = r->in[1].data, scale = update_factor(r, 3), lr = update_lr(r);
    bool momentum = arrlen(r->node->out) > 1;
    if (update_skipped(r, 3))
        return;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++) {
        double d = g[i] * scale + p->decay * w[i];
        if (momentum)
            d = r->out[1].data[i] = t->momentum * r->in[2].data[i] + d;
        r->out[0].data[i] = w[i] - lr * d;
    }
}

static const char *rule_sgd(const struct node *n)
{
    return arrlen(n->in) > 2 && n->in[2] ? "b.., b.., b.., - -> b.., b.." : "b.., b.., b.., - -> b..";
}

static const char *rule_sgd_redo(const struct node *n)
{
    return arrlen(n->in) > 2 && n->in[2] ? "b.., b.., b.., -, b.., b.. -> b.., b.." : "b.., b.., b.., -, b.., b.. -> b..";
}

static void ref_sgd_redo(struct reference *r)
{
    update_redo(r, 1, ref_sgd);
}

static bool uses_momentum(const struct train_spec *t)
{
    return t->momentum != 0;
}

static const struct optimizer sgd = {
    .state = {"m"}, .has_states = uses_momentum, .setting = {SETTING(momentum, INFINITY)}, .redo = &op_sgd_redo,
};

const struct op op_sgd = {
    .name = "sgd",
    .doc = "w, g, momentum -> the next w, momentum, from g * scale",
    .args = "w, g, m?, scale?",
    .rule_of = rule_sgd,
    .factors = "all",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = update_shape,
    .ref = ref_sgd,
    .call = "fl_sgd(%step, %i0, %i1%typed(i1), %i2, %i3, %count(i0), %settings)",
    .optimizer = &sgd,
};

const struct op op_sgd_redo = {
    .name = "sgd_redo",
    .doc = "w, g, momentum as they are -> the same where scale is 1, else sgd of what was kept",
    .args = "w, g, m?, scale, kept_w, kept_m?",
    .rule_of = rule_sgd_redo,
    .factors = "all",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = update_shape,
    .ref = ref_sgd_redo,
    .call = "fl_sgd_redo(%step, %i0, %i1%typed(i1), %i2, %i3, %i4, %i5, %count(i0), %settings)",
    .optimizer = &sgd,
};

static void ref_lion(struct reference *r)
{
    const struct train_spec *t = node_ptr(r->node, "train");
    const struct param *p = node_ptr(r->node, "param");
    const double *w = r->in[0].data, *g = r->in[1].data, *m = r->in[2].data, scale = update_factor(r, 3), lr = update_lr(r);
    if (update_skipped(r, 3))
        return;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++) {
        double d = g[i] * scale, ahead = t->beta1 * m[i] + (1 - t->beta1) * d;
        r->out[0].data[i] = w[i] * (1 - lr * p->decay) - lr * ((ahead > 0) - (ahead < 0));
        r->out[1].data[i] = t->beta2 * m[i] + (1 - t->beta2) * d;
    }
}

static void ref_lion_redo(struct reference *r)
{
    update_redo(r, 1, ref_lion);
}

static const struct optimizer lion = {
    .state = {"m"}, .setting = {SETTING(beta1, 1), SETTING(beta2, 1)}, .redo = &op_lion_redo,
};

const struct op op_lion = {
    .name = "lion",
    .doc = "w, g, m -> the next w, m, from g * scale",
    .args = "w, g, m, scale?",
    .rule = "b.., b.., b.., - -> b.., b..",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = update_shape,
    .ref = ref_lion,
    .call = "fl_lion(%step, %i0, %i1%typed(i1), %i2, %i3, %count(i0), %settings)",
    .optimizer = &lion,
};

const struct op op_lion_redo = {
    .name = "lion_redo",
    .doc = "w, g, m as they are -> the same where scale is 1, else lion of what was kept",
    .args = "w, g, m, scale, kept_w, kept_m",
    .rule = "b.., b.., b.., -, b.., b.. -> b.., b..",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = update_shape,
    .ref = ref_lion_redo,
    .call = "fl_lion_redo(%step, %i0, %i1%typed(i1), %i2, %i3, %i4, %i5, %count(i0), %settings)",
    .optimizer = &lion,
};
