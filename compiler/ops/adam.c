/* Adam, with decay apart from the gradient (adamw: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019) or
 * as a part of it (adam: Kingma and Ba, 2015, with decay as L2); both in the form of PyTorch: bias corrected, eps outside the
 * root. */
#include "optimizer.h"

static void update(struct reference *r, bool apart)
{
    const struct train_spec *t = node_ptr(r->node, "train");
    const struct param *p = node_ptr(r->node, "param");
    const double *w = r->in[0].data, *g = r->in[1].data, *m = r->in[2].data, *v = r->in[3].data, scale = update_factor(r, 4);
    double *w1 = r->out[0].data, *m1 = r->out[1].data, *v1 = r->out[2].data;
    double lr = update_lr(r), k = (double)(r->update + 1), c1 = 1 - pow(t->beta1, k), c2 = 1 - pow(t->beta2, k);
    if (update_skipped(r, 4))
        return;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++) {
        double d = g[i] * scale + (apart ? 0 : p->decay * w[i]);
        m1[i] = t->beta1 * m[i] + (1 - t->beta1) * d;
        v1[i] = t->beta2 * v[i] + (1 - t->beta2) * d * d;
        w1[i] = w[i] * (1 - (apart ? lr * p->decay : 0)) - lr / c1 * m1[i] / (sqrt(v1[i]) / sqrt(c2) + t->eps);
    }
}

static void ref_adamw(struct reference *r)
{
    update(r, true);
}

static void ref_adam(struct reference *r)
{
    update(r, false);
}

static void ref_adamw_redo(struct reference *r)
{
    update_redo(r, 2, ref_adamw);
}

static void ref_adam_redo(struct reference *r)
{
    update_redo(r, 2, ref_adam);
}

#define ADAM(name_, doc_)                                                                 \
    {                                                                                     \
        .name = #name_, .doc = doc_, .args = "w, g, m, v, scale?",                        \
        .rule = "b.., b.., b.., b.., - -> b.., b.., b..", .flags = OP_INTERNAL | OP_GATHERED,           \
        .shape = update_shape, .ref = ref_##name_,                                        \
        .call = "fl_" #name_ "(%step, %i0, %i1%typed(i1), %i2, %i3, %i4, %count(i0), %settings)",   \
        .optimizer = &name_,                                                              \
    }
#define ADAM_REDO(name_)                                                                                          \
    {                                                                                                             \
        .name = #name_ "_redo", .doc = "w, g, m, v as they are -> the same where scale is 1, else " #name_ " of what was kept", \
        .args = "w, g, m, v, scale, kept_w, kept_m, kept_v",                                                      \
        .rule = "b.., b.., b.., b.., -, b.., b.., b.. -> b.., b.., b..", .flags = OP_INTERNAL | OP_GATHERED,                    \
        .shape = update_shape, .ref = ref_##name_##_redo,                                                         \
        .call = "fl_" #name_ "_redo(%step, %i0, %i1%typed(i1), %i2, %i3, %i4, %i5, %i6, %i7, %count(i0), %settings)",       \
        .optimizer = &name_,                                                                                      \
    }

static const struct optimizer adamw = {
    .state = {"m", "v"},
    .setting = {SETTING(beta1, 1), SETTING(beta2, 1), SETTING(eps, INFINITY)},
    .redo = &op_adamw_redo,
}, adam = {
    .state = {"m", "v"},
    .setting = {SETTING(beta1, 1), SETTING(beta2, 1), SETTING(eps, INFINITY)},
    .redo = &op_adam_redo,
};

const struct op op_adamw = ADAM(adamw, "w, g, m, v -> the next w, m, v, from g * scale");
const struct op op_adamw_redo = ADAM_REDO(adamw);
const struct op op_adam = ADAM(adam, "w, g, m, v -> the next w, m, v, from g * scale + decay * w");
const struct op op_adam_redo = ADAM_REDO(adam);
