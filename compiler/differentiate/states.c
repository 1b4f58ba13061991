/* States that a step updates. Where the model says `update s = x`, elaborate left a node `next` behind x; here it becomes a
 * store in the update phase, which runs once a step, after all reads of the old value, and not in a step that is skipped.
 *
 * What leads to x alone and has lost the dim that micro-batches cut moves there too: statistics are then complete, so that
 * x may be any function of them, a square or the mean with the old value. What still has the dim stays in the forward and is
 * accumulated; so does what has it under another name, behind a reshape of [N, T] to [N*T]. All of it stands before the
 * optimizer's stores, as x is a function of the weights that the step began with; with a deferred clip, whose first stores
 * wait for nothing, what reads a weight that is trained stays in the forward. */
#include "../batch.h"
#include "../module.h"
#include "tape.h"

struct stating {
    struct graph *g;
    struct value *keep;          /* bool scalar: the step counts; NULL: each does */
    int *readers;                /* by value id: how many read it, but for nodes that move */
    bool *cut;                   /* by value id: batch.h */
};

static void count(struct node *n, void *context)
{
    struct stating *s = context;
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k])
            s->readers[n->in[k]->id]++;
    for (int k = 0; n->body && k < arrlen(n->body->results); k++)
        s->readers[n->body->results[k]->id]++;
}

static bool has_next(const struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i]->op == &op_next || (r->nodes[i]->body && has_next(r->nodes[i]->body)))
            return true;
    return false;
}

/* Is v a weight that was stored anew before the norm was known? */
static bool stored_early(const struct stating *s, const struct value *v)
{
    const struct module *m = s->g->module;
    return m->train.deferred && m->train.clip > 0 && v->def->op == &op_param &&
           !((const struct param *)node_ptr(v->def, "param"))->is_state;
}

static bool moves(const struct stating *s, const struct node *n)
{
    const struct dim *mb = s->g->module->plan ? s->g->module->plan->mb_dim : NULL;
    bool fine = mb && !n->body && !(n->op->flags & (OP_SOURCE | OP_EFFECT | OP_RANDOM)) && n->phase == PHASE_FORWARD;
    for (int k = 0; k < arrlen(n->in) && fine; k++)
        fine = !n->in[k] || (!s->cut[n->in[k]->id] && !stored_early(s, n->in[k]));
    for (int k = 0; k < arrlen(n->out) && fine; k++)
        fine = !s->readers[n->out[k]->id] && !s->cut[n->out[k]->id];
    return fine;
}

static void forget(struct stating *s, const struct node *n)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k])
            s->readers[n->in[k]->id]--;
}

static struct node *make(struct stating *s, struct region *at, const struct op *op, const struct node *next)
{
    struct node *n = node_new(s->g, at, op, next->span);
    n->phase = PHASE_UPDATE;
    n->path = next->path;
    return n;
}

static struct value *kept_or(struct stating *s, struct region *at, const struct node *next)
{
    if (!s->keep)
        return next->in[1];
    struct node *n = make(s, at, &op_where, next);
    node_in(n, s->keep);
    node_in(n, next->in[1]);
    node_in(n, next->in[0]);
    node_finish(s->g, n);
    n->out[0]->path = mem_printf("%s#next", next->in[0]->path);
    return n->out[0];
}

/* The nodes of `forward` that belong to updates leave it, in order, for `at`. */
static struct node **take_out(struct stating *s, struct region *forward, struct region *at)
{
    struct node **next = NULL, **moved = NULL, **left = NULL;
    for (int i = (int)arrlen(forward->nodes) - 1; i >= 0; i--) {
        struct node *n = forward->nodes[i];
        bool goes = n->op == &op_next || moves(s, n);
        if (goes)
            forget(s, n);
        if (n->op == &op_next)
            arrins(next, 0, n);
        else if (goes)
            arrins(moved, 0, n);
        else
            arrins(left, 0, n);
    }
    forward->nodes = left;
    for (int i = 0; i < arrlen(moved); i++) {
        moved[i]->region = at;
        moved[i]->phase = PHASE_UPDATE;
        for (int k = 0; k < arrlen(moved[i]->out); k++)
            moved[i]->out[k]->region = at;
        arrput(at->nodes, moved[i]);
    }
    return next;
}

/* Inner blocks first: they may read states of the regions around them. */
static void visit(struct stating *s, struct region *forward, struct region *at)
{
    for (int i = 0, nodes = (int)arrlen(forward->nodes); i < nodes; i++) {
        struct node *f = forward->nodes[i];
        if (!f->body || f->phase != PHASE_FORWARD || !has_next(f->body))
            continue;
        struct region *body = region_mirror(at, f->body);
        struct node *n = node_new(s->g, at, &op_repeat, f->span);
        n->phase = PHASE_UPDATE;
        n->path = f->path;
        n->body = body;
        body->owner = n;
        node_finish(s->g, n);
        visit(s, f->body, body);
    }
    struct node **next = take_out(s, forward, at);
    struct value **made = NULL;
    for (int i = 0; i < arrlen(next); i++)
        arrput(made, kept_or(s, at, next[i]));
    for (int i = 0; i < arrlen(next); i++) {
        struct node *n = make(s, at, &op_store, next[i]);
        node_in(n, next[i]->in[0]);
        node_in(n, made[i]);
        node_finish(s->g, n);
    }
}

void update_states(struct graph *g, struct value *scale)
{
    struct stating s = {.g = g};
    if (!has_next(g->root))
        return;
    if (scale) {                         /* no number where the step is skipped */
        struct node *n = node_new(g, g->root, &op_equal, scale->span);
        n->phase = PHASE_UPDATE;
        node_in(n, scale);
        node_in(n, scale);
        node_finish(g, n);
        n->out[0]->path = "grad_norm#finite";
        s.keep = n->out[0];
    }
    s.readers = NEW_ARRAY(int, arrlen(g->values) + 1);
    s.cut = cut_values(g);
    s.readers[g->loss->id]++;            /* its output is made last */
    region_walk(g->root, count, &s);
    visit(&s, g->root, g->root);
}
