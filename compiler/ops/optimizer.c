/* The update: the squared sum of a gradient, the global norm, the clipping factor, the optimizers, and `store`, which
 * puts what they make in the place of a parameter. A part of a parameter can be updated alone, so every dim is free; a
 * gradient that is still a sum of parts must be reduced first.
 *
 * An optimizer is an op with a `struct optimizer`: its states, and its settings in the language. It reads (w, g, states..,
 * scale?) and gives (w, states..). Its kernel works in place: layout lets result 0 lie where operand 0 does, and result
 * 1 + k where state k does.
 *
 * `clip_norm c deferred` updates before the norm is known, from copies of w and the states kept, and then once more by the
 * optimizer's `redo`: (w, g, states.., scale, kept w, kept states..). Where the factor is 1 that gives back what it finds,
 * else the update of what was kept by the factor, which is what would have been made with the factor known.
 *
 * A factor that is no number says that the step's gradients are not finite: then no update changes anything. Every rank has
 * the same factor, so they all skip the step or none does. */
#include "../../runtime/fl_lr.h"
#include "../../runtime/fl_rooms.h"
#include "nn.h"
#include "optimizer.h"
#include "target.h"
#include <string.h>

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

static int64_t room_of_squares(struct node *n, const struct mesh *m, const struct target *t)
{
    const struct value *g = n->in[0];
    return t->scratch ? room_bytes(fl_room_of_squares(value_local_bytes(g, m) / type_bytes[g->type])) : 0;
}

const struct op op_square_sum = {
    .name = "square_sum",
    .doc = "g -> the sum of its squares",
    .args = "g",
    .rule = "b..+ ->",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = shape_scalar,
    .flops = flops_square,
    .ref = ref_square_sum,
    .room = room_of_squares,
    .call = "fl_square_sum(%o0, %i0%typed(i0), %count(i0))",
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
    double norm = r->in[0].data[0];
    r->out[0].data[0] = isfinite(norm) ? fmin(1, node_num(r->node, "clip", 0) / (norm + 1e-6)) : NAN;
}

const struct op op_clip_scale = {
    .name = "clip_scale",
    .doc = "norm -> min(1, clip / (norm + 1e-6)), or no number where the norm is not finite",
    .args = "norm, clip:num",
    .rule = "->",
    .flags = OP_INTERNAL,
    .shape = shape_scalar,
    .ref = ref_clip_scale,
    .call = "fl_clip_scale(%o0, %i0, %num(clip,0))",
};

bool train_skips(const struct module *m)
{
    return m->train.clip > 0 || m->train.skip || (m->plan && m->plan->precision.loss_scale > 0);
}

double train_lr(const struct train_spec *t, int64_t step)
{
    return fl_lr_of((enum fl_lr)t->lr_kind, t->lr_peak, t->lr_floor, t->lr_warmup, t->lr_decay,
                    t->steps, step);
}

double update_lr(const struct reference *r)
{
    const struct param *p = node_ptr(r->node, "param");
    return train_lr(node_ptr(r->node, "train"), r->step) * p->lr_scale;
}

/* Results are like the parameter and those states that are there. */
bool update_shape(struct graph *g, struct node *n)
{
    int states = 0;
    while (n->op->optimizer->state[states])
        states++;
    node_out(g, n, n->in[0]->type, n->in[0]->ndim, n->in[0]->dim);
    for (int k = 2; k < 2 + states; k++)
        if (n->in[k])
            node_out(g, n, n->in[k]->type, n->in[k]->ndim, n->in[k]->dim);
    return true;
}

double update_factor(const struct reference *r, int k)
{
    return k < arrlen(r->node->in) && r->node->in[k] ? r->in[k].data[0] : 1;
}

bool update_skipped(const struct reference *r, int k)
{
    if (!isnan(update_factor(r, k)))
        return false;
    for (int o = 0; o < arrlen(r->node->out); o++)
        memcpy(r->out[o].data, r->in[o ? 1 + o : 0].data, sizeof(double) * (size_t)tensor_count(&r->out[o]));
    return true;
}

void update_redo(struct reference *r, int states, void (*update)(struct reference *))
{
    int scale = 2 + states;
    if (r->in[scale].data[0] >= 1) {
        for (int k = 0; k < arrlen(r->node->out); k++)
            memcpy(r->out[k].data, r->in[k ? 1 + k : 0].data, sizeof(double) * (size_t)tensor_count(&r->out[k]));
        return;
    }
    struct tensor *in = NEW_ARRAY(struct tensor, scale + 1);
    in[0] = r->in[scale + 1];
    in[1] = r->in[1];
    for (int k = 0; k < states; k++)
        in[2 + k] = r->in[scale + 2 + k];
    in[scale] = r->in[scale];
    struct reference from_kept = *r;
    from_kept.in = in;
    update(&from_kept);
}

static const struct op *const optimizers[] = {&op_adamw, &op_adam, &op_sgd, &op_lion, &op_muon, NULL};

const struct op *optimizer_find(const char *name)
{
    for (int i = 0; optimizers[i]; i++)
        if (!strcmp(optimizers[i]->name, name))
            return optimizers[i];
    return NULL;
}

const char *optimizer_near(const char *name)
{
    const char **names = NULL;
    for (int i = 0; optimizers[i]; i++)
        arrput(names, optimizers[i]->name);
    return suggest(name, names);
}

const char *optimizer_names(const char *last)
{
    const char *s = "";
    for (int i = 0; optimizers[i]; i++)
        s = mem_printf("%s%s%s", s, !i ? "" : optimizers[i + 1] ? ", " : last, optimizers[i]->name);
    return s;
}

bool updates_param(const struct node *n)
{
    return n->op->optimizer || n->op == &op_store || n->op == &op_copy || node_attr(n, "updates");
}

struct param *updated_param(const struct node *n)
{
    if (node_attr(n, "updates"))
        return node_ptr(n, "updates");
    const struct node *def = n->in[0]->def;
    while (def && def->op->optimizer)
        def = def->in[0]->def;
    struct param *p = def && def->op == &op_param ? node_ptr(def, "param") : NULL;
    return p && p->is_state && p->of ? p->of : p;
}

double *setting_of(struct train_spec *t, const struct optimizer_setting *s)
{
    return (double *)((char *)t + s->at);
}

static bool shape_none(struct graph *g, struct node *n)
{
    return true;
}

static void ref_store(struct reference *r)
{
    memcpy(r->in[0].data, r->in[1].data, sizeof(double) * (size_t)tensor_count(&r->in[0]));
}

const struct op op_store = {
    .name = "store",
    .doc = "param, x: x is what the parameter holds from now on",
    .args = "param, x",
    .rule = "b.., b.. ->",
    .flags = OP_INTERNAL | OP_EFFECT,
    .shape = shape_none,
    .ref = ref_store,
    .call = "fl_copy(%i0, %i1, %count(i0), 4)",
};

const struct op op_next = {
    .name = "next",
    .doc = "state, x: x is what the state holds from the next step on; differentiate makes a store of it",
    .args = "state, x",
    .rule = "b.., b.. ->",
    .flags = OP_INTERNAL | OP_EFFECT,
    .shape = shape_none,
    .ref = ref_store,
};
