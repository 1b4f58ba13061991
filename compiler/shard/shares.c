/* `shard optimizer | gradients | parameters over dp`: S(flat) for what the update reads and makes, once all other layouts
 * are chosen. A parameter is shared out over those of the axes on which it is B:
 *     optimizer     its states are stored as shares; the optimizer reads shares of the parameter and of the gradient and
 *                   makes a share of the new parameter, which is gathered to be stored
 *     gradients     the gradient becomes a share where it is made, before it is accumulated over micro-batches
 *     parameters    the parameter is stored as a share and gathered by its readers, in the backward again
 * Where the model computes in a shorter type (rewrite/precision.c), the f32 parameter is a state of the optimizer like the
 * others: it is stored as a share, cast as one, and the copy is gathered, once per step or, with `parameters`, by each of
 * its readers.
 * Boxing does the rest. Squared sums are of shares, so that the list of them is a sum over the axes.
 *
 * Uses of one parameter are summed before the optimizer reads them, over stages too: shares are cut after that, or, where
 * each use is shared out already, alike on every stage. */
#include "shard.h"

struct sharing {
    struct sharding *s;
    struct graph *g;
    const struct shard_line *line;
    unsigned *gradient;          /* by value id: axes over which it is read as shares */
    struct { const struct param *key; bool value; } *copied;     /* parameters that the model reads through a copy */
    unsigned summed;             /* axes over which the list of squares is a sum */
};

static unsigned shared_axes(const struct sharing *c, const struct param *p)
{
    const struct mesh *m = c->s->mesh;
    unsigned axes = 0;
    for (int a = 0; a < m->naxis && p->ndim; a++)
        if (c->line->axes >> a & 1 && m->axis[a].size > 1 && p->lay.ax[a].kind == SBP_B)
            axes |= 1u << a;
    return axes;
}

static void flatten(struct layout *l, unsigned axes)
{
    int order = 0;
    for (int a = 0; a < MAX_AXIS; a++)
        if (axes >> a & 1)
            l->ax[a] = (struct sbp){ SBP_S, DIM_FLAT, (uint8_t)order++ };
}

static void share_update(struct sharing *c, struct node *n)
{
    struct param *p = node_ptr(n, "param");
    bool follows = n->op->optimizer->follows, again = follows || n->op == n->op->optimizer->redo;    /* as its first node */
    unsigned axes = again ? p->flat : (p->flat = shared_axes(c, p));
    if (!axes)
        return;
    for (int k = 0; k < arrlen(n->in); k++) {
        struct value *v = n->in[k];
        if (!v || !v->ndim)
            continue;
        n->need[k] = p->lay;                 /* the weight's own splits, then shares */
        flatten(&n->need[k], axes);
        struct param *q = v->def && v->def->op == &op_param ? node_ptr(v->def, "param") : NULL;
        if (q && q != p) {
            q->lay = n->need[k];
            q->flat = axes;
        }
        if (v->def && v->def->op == &op_copy)
            v->lay = v->def->need[0] = n->need[k];
    }
    for (int k = 0; k < arrlen(n->out); k++) {
        n->out[k]->lay = p->lay;
        flatten(&n->out[k]->lay, axes);
    }
    if (!follows)
        c->gradient[n->in[1]->id] = axes;
    if (c->line->level == SHARD_PARAMETERS || hmgeti(c->copied, p) >= 0)
        flatten(&p->lay, axes);
}

static void each_copied(struct node *n, void *context)
{
    struct sharing *c = context;
    if (n->op == &op_cast && value_is_copy(n->out[0]))
        hmput(c->copied, value_param(n->out[0]), true);
}

/* A share of the copy is made of the share of the parameter. With `shard parameters` it stays one, and is gathered where a
 * parameter of the copy's type would be, unless gathered parameters are kept anyway. */
static void each_copy(struct node *n, void *context)
{
    const struct sharing *c = context;
    const struct param *p = n->op == &op_cast && value_is_copy(n->out[0]) ? value_param(n->out[0]) : NULL;
    if (!p || !p->flat)
        return;
    n->need[0] = n->out[0]->lay = p->lay;
    n->out[0]->anew = c->line->level == SHARD_PARAMETERS && !c->line->keep;
}

static void each_update(struct node *n, void *context)
{
    if (n->op->optimizer)
        share_update(context, n);
}

static void each_square(struct node *n, void *context)
{
    struct sharing *c = context;
    unsigned axes = n->op == &op_square_sum ? c->gradient[n->in[0]->id] : 0;
    if (!axes)
        return;
    flatten(&n->need[0], axes);
    for (int a = 0; a < c->s->mesh->naxis; a++)
        if (axes >> a & 1)
            n->out[0]->lay.ax[a] = (struct sbp){ SBP_P, REDUCE_SUM, 0 };
    c->summed |= axes;
}

/* One share of each square on every rank; those that are whole count on the first rank. */
static void each_list(struct node *n, void *context)
{
    struct sharing *c = context;
    for (int a = 0; n->op == &op_norm_partials && a < c->s->mesh->naxis; a++) {
        if (!(c->summed >> a & 1))
            continue;
        for (int k = 0; k < arrlen(n->in); k++)
            n->need[k].ax[a] = (struct sbp){ SBP_P, REDUCE_SUM, 0 };
        n->out[0]->lay.ax[a] = (struct sbp){ SBP_P, REDUCE_SUM, 0 };
    }
}

/* What is stored lies as its parameter does, and so does every read of it. */
static void each_stored(struct node *n, void *context)
{
    if (n->op == &op_param)
        n->out[0]->lay = ((struct param *)node_ptr(n, "param"))->lay;
    if (n->op == &op_store && n->in[0]->def && n->in[0]->def->op == &op_param)
        n->need[0] = n->need[1] = ((struct param *)node_ptr(n->in[0]->def, "param"))->lay;
}

static bool reads_in_update(const struct node *n)
{
    return node_phase(n) == PHASE_UPDATE;
}

static void redirect(struct region *r, const struct value *from, struct value *to)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in) && reads_in_update(n); k++)
            if (n->in[k] == from)
                n->in[k] = to;
        if (n->body)
            redirect(n->body, from, to);
    }
}

/* Makes shares of gradient v where it is made. */
static void share_gradient(struct sharing *c, struct value *v, unsigned axes)
{
    struct node *def = v->def;
    if (!def)
        return;
    if (def->op == &op_add && node_phase(def) == PHASE_UPDATE) {     /* a sum of uses: each of them */
        for (int k = 0; k < arrlen(def->in); k++) {
            share_gradient(c, def->in[k], axes);
            def->need[k] = v->lay;
            flatten(&def->need[k], axes);
        }
        flatten(&v->lay, axes);
        return;
    }
    struct region *r = v->region;
    struct node *n = node_new(c->g, r, &op_to, def->span);
    node_in(n, v);
    n->path = def->path;
    n->phase = def->phase;
    n->stage = def->stage;
    n->forward = def->forward;
    struct value *out = node_out(c->g, n, v->type, v->ndim, v->dim);
    out->path = v->path;
    out->span = v->span;
    out->lay = v->lay;
    flatten(&out->lay, axes);
    arrput(n->need, v->lay);
    redirect(c->g->root, v, out);
    n->in[0] = v;
    (void)arrpop(r->nodes);
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i] == def) {
            arrins(r->nodes, i + 1, n);
            return;
        }
    BUG("%s is not made in its region", v->path);
}

static void keep_gathered(struct sharing *c)
{
    for (int k = 0; k < arrlen(c->g->values); k++) {
        struct value *v = c->g->values[k];
        struct param *p = v->def && v->def->op == &op_param ? node_ptr(v->def, "param") : NULL;
        if (!p || !layout_flat(&p->lay, c->s->mesh) || p->is_state || value_phase(v) != PHASE_FORWARD)
            continue;
        struct layout *keep = NEW(struct layout);
        *keep = p->lay;
        for (int a = 0; a < c->s->mesh->naxis; a++)
            if (p->flat >> a & 1)
                keep->ax[a] = (struct sbp){ 0 };
        v->keep = keep;
    }
}

void shares_apply(struct sharding *s)
{
    struct sharing c = { .s = s, .g = s->m->graph[ENTRY_TRAIN], .line = &s->m->plan->shard };
    if (!c.line->level || !c.g)
        return;
    int n = (int)arrlen(c.g->values);
    c.gradient = NEW_ARRAY(unsigned, n + 1);
    region_walk(c.g->root, each_copied, &c);
    region_walk(c.g->root, each_update, &c);
    region_walk(c.g->root, each_square, &c);
    region_walk(c.g->root, each_list, &c);
    for (int e = 0; e < ENTRIES; e++)
        if (s->m->graph[e])
            region_walk(s->m->graph[e]->root, each_stored, &c);
    for (int e = 0; e < ENTRIES && c.copied; e++)
        if (s->m->graph[e])
            region_walk(s->m->graph[e]->root, each_copy, &c);
    for (int k = 0; k < n && c.line->level >= SHARD_GRADIENTS; k++)
        if (c.gradient[k])
            share_gradient(&c, c.g->values[k], c.gradient[k]);
    if (c.line->keep)
        keep_gathered(&c);
}
