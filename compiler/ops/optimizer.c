/* The update: the squared sum of a gradient, the global norm, the clipping factor and the optimizers. adamw and sgd
 * write the parameter and its states in place. A part of a parameter can be updated alone, so every dim is free; a gradient
 * that is still a sum of parts must be reduced first, so nothing here is linear but the list of squares. */
#include "../../runtime/fl_lr.h"
#include "nn.h"

static bool shape_scalar(struct graph *g, struct node *n)
{
    node_out(g, n, TYPE_F32, 0, NULL);
    return true;
}

static double flops_square(const struct node *n)
{
    return 2 * (double)value_count(n->in[0]);
}

static void ref_square_sum(struct reference *r)
{
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++)
        r->out[0].data[0] += r->in[0].data[i] * r->in[0].data[i];
}

const struct op op_square_sum = {
    .name = "square_sum",
    .doc = "g -> the sum of its squares",
    .args = "g",
    .rule = "b..+ ->",
    .flags = OP_INTERNAL,
    .shape = shape_scalar,
    .flops = flops_square,
    .ref = ref_square_sum,
    .call = "fl_square_sum(%o0, %i0, %count(i0))",
};

/* Copies of a value of a repeat body: one per block of every repeat around it. */
static int64_t blocks(const struct value *v)
{
    int64_t count = 1;
    for (const struct region *r = v->region; r && r->parent; r = r->parent)
        count *= r->count;
    return count;
}

static bool shape_partials(struct graph *g, struct node *n)
{
    int64_t count = 0;
    for (int k = 0; k < arrlen(n->in); k++)
        count += blocks(n->in[k]);
    struct dim *dim = dim_anonymous(count);
    node_out(g, n, TYPE_F32, 1, &dim);
    return true;
}

/* Operand k arrives as the stack of its blocks, outermost first. In a stage program attribute "entry" says where the
 * blocks that are there begin. */
static void ref_partials(struct reference *r)
{
    const int64_t *entry = node_ints(r->node, "entry");
    int64_t o = entry && arrlen(entry) ? entry[0] : 0;
    for (int k = 0; k < arrlen(r->node->in); k++, o = entry && k < arrlen(entry) ? entry[k] : o)
        for (int64_t i = 0; i < tensor_count(&r->in[k]); i++)
            r->out[0].data[o++] = r->in[k].data[i];
}

const struct op op_norm_partials = {
    .name = "norm_partials",
    .doc = "the squares of all gradients in declaration order, block by block, as one list",
    .args = "x...",
    .rule = "-> _",
    .linear = "{*} max{a} max{b} max{*} min{a} min{b} min{*}",
    .flags = OP_INTERNAL | OP_VARIADIC | OP_STACKED,
    .shape = shape_partials,
    .ref = ref_partials,
};

static void ref_global_norm(struct reference *r)
{
    double sum = 0;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++)
        sum += r->in[0].data[i];
    r->out[0].data[0] = sqrt(sum);
}

const struct op op_global_norm = {
    .name = "global_norm",
    .doc = "partials [K] -> sqrt of their sum, added in order",
    .args = "partials",
    .rule = "_ ->",
    .flags = OP_INTERNAL,
    .shape = shape_scalar,
    .ref = ref_global_norm,
    .call = "fl_global_norm(%o0, %i0, %count(i0))",
};

static void ref_clip_scale(struct reference *r)
{
    r->out[0].data[0] = fmin(1, node_num(r->node, "clip", 0) / (r->in[0].data[0] + 1e-6));
}

const struct op op_clip_scale = {
    .name = "clip_scale",
    .doc = "norm -> min(1, clip / (norm + 1e-6))",
    .args = "norm, clip:num",
    .rule = "->",
    .linear = "min{a}:max",
    .flags = OP_INTERNAL,
    .shape = shape_scalar,
    .ref = ref_clip_scale,
    .call = "fl_clip_scale(%o0, %i0, %num(clip,0))",
};

double train_lr(const struct train_spec *t, int64_t step)
{
    _Static_assert(LR_COSINE == (int)FL_LR_COSINE && LR_LINEAR == (int)FL_LR_LINEAR, "kinds of learning rates");
    return fl_lr_of((enum fl_lr)t->lr_kind, t->lr_peak, t->lr_floor, t->lr_warmup, t->steps, step);
}

static bool shape_none(struct graph *g, struct node *n)
{
    return true;
}

static double clipped(const struct reference *r, int k)
{
    return k < arrlen(r->node->in) && r->node->in[k] ? r->in[k].data[0] : 1;
}

/* As PyTorch: decay apart from the gradient, bias corrected, eps outside the root. */
static void ref_adamw(struct reference *r)
{
    const struct train_spec *t = node_ptr(r->node, "train");
    const struct param *p = node_ptr(r->node, "param");
    double *w = r->in[0].data, *g = r->in[1].data, *m = r->in[2].data, *v = r->in[3].data, scale = clipped(r, 4);
    double lr = train_lr(t, r->step), k = (double)(r->step + 1);
    double c1 = 1 - pow(t->beta1, k), c2 = 1 - pow(t->beta2, k);
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++) {
        double d = g[i] * scale;
        m[i] = t->beta1 * m[i] + (1 - t->beta1) * d;
        v[i] = t->beta2 * v[i] + (1 - t->beta2) * d * d;
        w[i] = w[i] * (1 - lr * p->decay) - lr / c1 * m[i] / (sqrt(v[i]) / sqrt(c2) + t->eps);
    }
}

const struct op op_adamw = {
    .name = "adamw",
    .doc = "w, m, v updated in place from g * scale",
    .args = "w, g, m, v, scale?",
    .rule = "b.., b.., b.., b.., - ->",
    .flags = OP_INTERNAL | OP_EFFECT,
    .shape = shape_none,
    .ref = ref_adamw,
    .call = "fl_adamw(%step, %i0, %i1, %i2, %i3, %i4, %count(i0), %adamw)",
};

static void ref_sgd(struct reference *r)
{
    const struct train_spec *t = node_ptr(r->node, "train");
    const struct param *p = node_ptr(r->node, "param");
    double *w = r->in[0].data, *g = r->in[1].data, scale = clipped(r, 3), lr = train_lr(t, r->step);
    double *m = arrlen(r->node->in) > 2 && r->node->in[2] ? r->in[2].data : NULL;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++) {
        double d = g[i] * scale + p->decay * w[i];
        if (m)
            d = m[i] = t->momentum * m[i] + d;
        w[i] -= lr * d;
    }
}

const struct op op_sgd = {
    .name = "sgd",
    .doc = "w, momentum updated in place from g * scale",
    .args = "w, g, m?, scale?",
    .rule = "b.., b.., b.., - ->",
    .flags = OP_INTERNAL | OP_EFFECT,
    .shape = shape_none,
    .ref = ref_sgd,
    .call = "fl_sgd(%step, %i0, %i1, %i2, %i3, %count(i0), %sgd)",
};
