/* The update: squared sums of all gradients, their global norm, the clipping factor, and one optimizer node for each
 * parameter with its states. With `clip_norm c deferred` copies of all these are kept, the update goes first and its redo,
 * which does nothing where the factor is 1, comes when the norm is known; only then are the results stored. An update that does
 * not wait for the norm stands beside the squares: a target may make both in one go (runtime/cuda/optimizer.cu). Under
 * `precision f16` gradients are too large by the loss scale, by which norm and factor are divided; no update goes ahead then,
 * as it could not know whether something overflowed. Averages come last, of all
 * that is new. What belongs to parameters of a repeat body is in a repeat of the update phase that walks the same blocks. */
#include "../module.h"
#include "tape.h"
#include <math.h>
#include <string.h>

struct builder {
    struct differentiation *d;
    struct value *scale;         /* factor on every gradient, or NULL */
    void (*each)(struct builder *b, struct region *at, struct trained *t);
};

static struct node *make(struct builder *b, struct region *at, const struct op *op, const struct trained *t)
{
    struct node *n = node_new(b->d->g, at, op, t->param->span);
    n->phase = PHASE_UPDATE;
    n->path = t->param->path;
    return n;
}

static void square(struct builder *b, struct region *at, struct trained *t)
{
    t->grad = whole_apart(b->d, at, t->grad);
    struct node *n = make(b, at, &op_square_sum, t);
    node_in(n, t->grad);
    node_finish(b->d->g, n);
    t->square = n->out[0];
    t->square->path = mem_printf("%s#square", t->param->path);
}

/* `norm inf`: the largest entry of the gradient, which is P(max) where the parameter is split. */
static void largest(struct builder *b, struct region *at, struct trained *t)
{
    t->grad = whole_apart(b->d, at, t->grad);
    struct node *n = make(b, at, &op_magnitude, t);
    node_in(n, t->grad);
    node_finish(b->d->g, n);
    if (t->grad->ndim) {
        int64_t axes[MAX_DIM];
        for (int d = 0; d < t->grad->ndim; d++)
            axes[d] = d;
        struct value *sizes = n->out[0];
        n = make(b, at, &op_max, t);
        node_in(n, sizes);
        node_set_ints(n, "axes", axes, t->grad->ndim);
        node_set_int(n, "keep", 0);
        node_finish(b->d->g, n);
    }
    t->square = n->out[0];
    t->square->path = mem_printf("%s#largest", t->param->path);
}

/* A state of the shape of the parameter, zero at the start, kept beside it. */
static struct value *state(struct builder *b, struct region *at, const struct trained *t, const char *suffix)
{
    struct module *m = b->d->g->module;
    struct param *p = NEW(struct param);
    *p = *t->param;
    p->index = (int)arrlen(m->params);
    p->path = intern(mem_printf("%s%s", t->param->path, suffix));
    p->init = INIT_ZEROS;
    p->is_state = true;
    p->of = t->param;
    p->decay = 0;
    p->file_names = NULL;
    p->file_shape = NULL;
    p->file_order = NULL;
    arrput(m->params, p);
    struct node *n = make(b, at, &op_param, t);
    node_set_ptr(n, "param", p);
    node_finish(b->d->g, n);
    return n->out[0];
}

static void store(struct builder *b, struct region *at, const struct trained *t, struct value *param, struct value *v)
{
    v->path = mem_printf("%s#new", param->path);
    struct node *n = make(b, at, &op_store, t);
    node_in(n, param);
    node_in(n, v);
    node_finish(b->d->g, n);
}

static struct value *copy_of(struct builder *b, struct region *at, struct trained *t, struct value *v)
{
    if (!v)
        return NULL;
    struct node *n = make(b, at, &op_copy, t);
    node_in(n, v);
    node_finish(b->d->g, n);
    n->out[0]->path = mem_printf("%s#kept", v->path);
    return n->out[0];
}

static struct node *optimize(struct builder *b, struct region *at, struct trained *t, const struct op *op,
                             struct value *const *old, struct value *scale, struct value *const *kept)
{
    int states = 0;
    while (op->optimizer->state[states])
        states++;
    struct node *n = make(b, at, op, t);
    node_in(n, old[0]);
    node_in(n, t->grad);
    for (int k = 0; k < states; k++)
        node_in(n, old[1 + k]);
    node_in(n, scale);
    for (int k = 0; kept && k < 1 + states; k++)
        node_in(n, kept[k]);
    node_set_ptr(n, "param", t->param);
    node_set_ptr(n, "train", &b->d->g->module->train);
    node_finish(b->d->g, n);
    return n;
}

static void store_all(struct builder *b, struct region *at, struct trained *t, const struct node *n)
{
    t->made = n->out[0];
    for (int k = 0; k < arrlen(n->out); k++)
        store(b, at, t, t->old[k], n->out[k]);
}

static const struct op *optimizer_of(const struct builder *b)
{
    const struct op *op = b->d->g->module->train.optimizer;
    return op->optimizer->others ? op->optimizer->others : op;
}

/* What the optimizer reads besides the gradient. */
static void read_old(struct builder *b, struct region *at, struct trained *t)
{
    struct train_spec *spec = &b->d->g->module->train;
    const struct optimizer *o = optimizer_of(b)->optimizer;
    t->old[0] = t->value;
    for (int k = 0; o->state[k] && (!o->has_states || o->has_states(spec)); k++)
        t->old[1 + k] = state(b, at, t, mem_printf("#%s", o->state[k]));
}

/* A matrix: its momentum, that made orthogonal, and the step along it. The factor is that of J. Liu et al., Muon is Scalable
 * for LLM Training, 2025: entries of an update have the size that AdamW's have, so that one rate serves both, and it does not
 * matter which side is called the rows. */
static void apply_muon(struct builder *b, struct region *at, struct trained *t)
{
    struct train_spec *spec = &b->d->g->module->train;
    struct value *m = state(b, at, t, "#m");
    struct node *n = make(b, at, &op_muon_momentum, t), *u;
    double larger;
    node_in(n, m);
    node_in(n, t->grad);
    node_in(n, b->scale);
    node_set_ptr(n, "param", t->param);
    node_set_num(n, "momentum", spec->momentum);
    node_finish(b->d->g, n);
    n->out[1]->path = mem_printf("%s#ahead", t->param->path);
    store(b, at, t, m, n->out[0]);
    struct value *o = orthogonal(b->d->g, at, n->out[1], t->param, &larger);
    u = make(b, at, &op_muon, t);
    node_in(u, t->value);
    node_in(u, o);
    node_in(u, b->scale);
    node_set_ptr(u, "param", t->param);
    node_set_ptr(u, "train", spec);
    node_set_num(u, "factor", 0.2 * sqrt(larger));
    node_set_num(u, "decay", t->param->decay);
    node_set_num(u, "lr_scale", t->param->lr_scale);
    node_finish(b->d->g, u);
    t->made = u->out[0];
    store(b, at, t, t->value, u->out[0]);
}

static void apply(struct builder *b, struct region *at, struct trained *t)
{
    if (t->param->rows) {
        apply_muon(b, at, t);
        return;
    }
    read_old(b, at, t);
    store_all(b, at, t, optimize(b, at, t, optimizer_of(b), t->old, b->scale, NULL));
}

static void keep(struct builder *b, struct region *at, struct trained *t)
{
    t->grad = whole_apart(b->d, at, t->grad);
    read_old(b, at, t);
    for (int k = 0; k < 1 + MAX_STATE; k++)
        t->kept[k] = copy_of(b, at, t, t->old[k]);
}

static void apply_ahead(struct builder *b, struct region *at, struct trained *t)
{
    struct node *n = optimize(b, at, t, b->d->g->module->train.optimizer, t->old, NULL, NULL);
    for (int k = 0; k < arrlen(n->out); k++) {
        t->ahead[k] = n->out[k];
        n->out[k]->path = mem_printf("%s#ahead", t->old[k]->path);
    }
}

static void apply_again(struct builder *b, struct region *at, struct trained *t)
{
    const struct op *redo = b->d->g->module->train.optimizer->optimizer->redo;
    store_all(b, at, t, optimize(b, at, t, redo, t->ahead, b->scale, t->kept));
}

/* In files it goes by the name of its parameter. */
static void average(struct builder *b, struct region *at, struct trained *t)
{
    struct value *e = state(b, at, t, "#ema");
    struct param *p = node_ptr(e->def, "param");
    p->file_names = t->param->file_names;
    p->file_shape = t->param->file_shape;
    p->file_order = t->param->file_order;
    t->param->average = p;
    struct node *n = make(b, at, &op_ema, t);
    node_in(n, e);
    node_in(n, t->made);
    node_in(n, b->scale);
    node_set_ptr(n, "param", t->param);
    node_set_num(n, "decay", b->d->g->module->train.ema);
    node_finish(b->d->g, n);
    store(b, at, t, e, n->out[0]);
}

static void read_average(struct node *n, void *context)
{
    const struct param *p = n->op == &op_param ? node_ptr(n, "param") : NULL;
    if (p && p->average)
        node_set_ptr(n, "param", p->average);
}

/* `weights ema`: the entry reads the averages where the model reads the parameters. */
static void read_averages(struct graph *g, bool wanted)
{
    if (g && wanted)
        region_walk(g->root, read_average, NULL);
}

static bool has_trained(struct differentiation *d, const struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        const struct trained *t = n->op == &op_param ? trained_find(d, node_ptr(n, "param")) : NULL;
        if ((t && t->grad) || (n->body && has_trained(d, n->body)))
            return true;
    }
    return false;
}

/* Does each for every trained parameter of `forward`, building into `at`, which walks the same blocks. */
static void visit(struct builder *b, struct region *forward, struct region *at)
{
    int count = (int)arrlen(forward->nodes);     /* the root grows under the loop */
    for (int i = 0; i < count; i++) {
        struct node *f = forward->nodes[i];
        if (f->phase != PHASE_FORWARD)
            continue;
        if (f->op == &op_param) {
            struct trained *t = trained_find(b->d, node_ptr(f, "param"));
            if (t && t->grad)
                b->each(b, at, t);
        } else if (f->body && has_trained(b->d, f->body)) {
            struct region *body = region_mirror(at, f->body);
            struct node *n = node_new(b->d->g, at, &op_repeat, f->span);
            n->phase = PHASE_UPDATE;
            n->path = f->path;
            n->body = body;
            body->owner = n;
            node_finish(b->d->g, n);
            visit(b, f->body, body);
        }
    }
}

static void visit_each(struct builder *b, void (*each)(struct builder *b, struct region *at, struct trained *t))
{
    b->each = each;
    visit(b, b->d->g->root, b->d->g->root);
}

static struct value *scalar(struct differentiation *d, const struct op *op, struct value *in, const char *path)
{
    struct node *n = node_new(d->g, d->g->root, op, d->g->module->train.span);
    n->phase = PHASE_UPDATE;
    node_in(n, in);
    if (op == &op_max)
        node_set_ints(n, "axes", (int64_t[]){0}, 1);
    if (op == &op_clip_scale)
        node_set_num(n, "clip", d->g->module->train.clip > 0 ? d->g->module->train.clip : 1e38);
    node_finish(d->g, n);
    n->out[0]->path = path;
    return n->out[0];
}

/* v divided by the factor with which the gradient of the loss started, where there is one. */
static struct value *unscaled(struct differentiation *d, struct value *v, const char *path)
{
    struct region *at = d->g->root;
    if (!(d->g->module->plan->precision.loss_scale > 0))
        return v;
    int from = (int)arrlen(at->nodes);
    v->path = mem_printf("%s#scaled", path);
    struct value *by = build(d->g, at, &op_loss_scale, v->span, 0), *result = build(d->g, at, &op_div, v->span, 2, v, by);
    for (int i = from; i < arrlen(at->nodes); i++)
        at->nodes[i]->phase = PHASE_UPDATE;
    result->path = path;
    return result;
}

static void output(struct differentiation *d, const char *name, struct value *v)
{
    for (int i = 0; i < arrlen(d->g->root->nodes); i++) {
        struct node *n = d->g->root->nodes[i];
        if (n->op == &op_output && !strcmp(node_str(n, "name"), name))
            return;
    }
    struct node *n = node_new(d->g, d->g->root, &op_output, v->span);
    n->phase = PHASE_UPDATE;
    node_in(n, v);
    node_set_str(n, "name", name);
    node_set_int(n, "metric", 0);
    node_finish(d->g, n);
}

/* States of one path side by side, as their parameters are. */
static void join_pieces(struct module *m)
{
    struct param **list = NULL;
    for (int i = 0; i < arrlen(m->params); i++) {
        bool listed = false;
        for (int k = 0; k < arrlen(list) && !listed; k++)
            listed = list[k] == m->params[i];
        for (int k = i; !listed && k < arrlen(m->params); k++)
            if (k == i || (m->params[k]->of && !strcmp(m->params[k]->path, m->params[i]->path)))
                arrput(list, m->params[k]);
    }
    for (int i = 0; i < arrlen(list); i++)
        list[i]->index = i;
    m->params = list;
}

void update(struct differentiation *d)
{
    struct module *m = d->g->module;
    bool scaled = m->plan->precision.loss_scale > 0;
    bool deferred = m->train.deferred && m->train.clip > 0 && !scaled;
    bool waits = train_skips(m);
    struct builder b = {.d = d};
    if (deferred)
        visit_each(&b, keep);
    if (deferred)
        visit_each(&b, apply_ahead);
    visit_each(&b, m->train.largest ? largest : square);
    if (!waits) {
        update_states(d->g, NULL);
        visit_each(&b, apply);
    }
    struct node *partials = node_new(d->g, d->g->root, &op_norm_partials, m->train.span);
    partials->phase = PHASE_UPDATE;
    for (int i = 0; i < arrlen(d->trained); i++)
        if (d->trained[i].square)
            node_in(partials, d->trained[i].square);
    node_finish(d->g, partials);
    partials->out[0]->path = m->train.largest ? "grad_norm#largest" : "grad_norm#squares";
    struct value *norm = scalar(d, m->train.largest ? &op_max : &op_global_norm, partials->out[0], "grad_norm");
    norm = unscaled(d, norm, "grad_norm");
    if (waits)
        b.scale = unscaled(d, scalar(d, &op_clip_scale, norm, "grad_norm#scale"), "grad_norm#scale");
    if (waits) {
        update_states(d->g, b.scale);
        visit_each(&b, deferred ? apply_again : apply);
    }
    if (m->train.ema > 0)
        visit_each(&b, average);
    read_averages(m->graph[ENTRY_EVALUATE], m->evaluate.ema);
    read_averages(m->graph[ENTRY_SAMPLE], m->sample.ema);
    join_pieces(m);
    output(d, "loss", d->g->loss);
    output(d, "grad_norm", norm);
}
