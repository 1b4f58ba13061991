/* Recompute: what a `recompute` line covers is not kept for the backward but made again there, from what is kept.
 * Each covered forward value that the backward reads gets a twin: its node once more in the backward region that
 * walks the same blocks, right before the first reader, fed by twins of what is covered too and by the forward's
 * own values otherwise. A twin names the node it repeats (node->again), has its attributes (so the same random
 * numbers) and, as shard ties the two, its layouts: the same bits. What the forward made is then read by the
 * forward alone.
 *
 * A repeat inside a covered call is done again as a whole, for the inner blocks' inputs; what its backward needs of
 * each inner block is then made again from these. A `save` line takes the values it names out; what micro-batches
 * sum up of inputs alone, a count of targets, is known before the first of them and not made again; nor are the
 * rows' maxima and sums of a loss without its logits (loss_parts.c), which would take the head's product once more. */
#include "../batch.h"
#include "../module.h"
#include "rewrite.h"

struct twin_key { const struct value *value; const struct region *at; };
struct recomputing {
    struct graph *g;
    const struct plan *plan;
    bool *covered;               /* by id of the nodes that were there before */
    int count;
    bool *counts;                /* by value id: batch.h */
    struct { struct twin_key key; struct value *value; } *twins;   /* stb_ds map */
};
/* Where the walk stands: a backward region and the place of the reader in it, and the same of the regions around. */
struct stand {
    struct region *at;
    int index;
    struct stand *around;
};

/* ---- what is covered ---- */

static bool line_covers(const struct plan_line *line, const struct node *n)
{
    const char *path = n->path;
    struct block_ranges b;
    if (n->body) {                       /* its own pattern means the blocks, one by one, not all of them at once */
        const char *dot = path ? strrchr(path, '.') : NULL;
        path = dot ? mem_printf("%.*s", (int)(dot - path), path) : NULL;
        return pattern_covers(line->pattern, path, &b) && region_meant(n->region, &b);
    }
    if (pattern_covers(line->pattern, path, &b) && region_meant(n->region, &b))
        return true;
    for (int k = 0; k < arrlen(n->out); k++)
        if (value_meant(n->out[k], line->pattern))
            return true;
    return false;
}

bool recompute_asked(const struct plan *plan, const struct node *n)
{
    for (int i = 0; i < arrlen(plan->lines); i++)
        if (plan->lines[i].kind == LINE_RECOMPUTE && line_covers(&plan->lines[i], n))
            return true;
    return false;
}

static bool saved(const struct recomputing *r, const struct node *n)
{
    for (int i = 0; i < arrlen(r->plan->lines); i++)
        for (int k = 0; r->plan->lines[i].kind == LINE_SAVE && k < arrlen(n->out); k++)
            if (value_meant(n->out[k], r->plan->lines[i].pattern))
                return true;
    return false;
}

static bool counted_ahead(const struct recomputing *r, const struct node *n)
{
    return n->region == r->g->root && arrlen(n->out) == 1 && r->counts[n->out[0]->id];
}

static void cover(struct recomputing *r, struct region *at)
{
    for (int i = 0; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i];
        if (node_at_root(n)->phase != PHASE_FORWARD)
            continue;
        if (!(n->op->flags & (OP_SOURCE | OP_EFFECT)) && !n->kept && recompute_asked(r->plan, n))
            r->covered[n->id] = !saved(r, n) && !counted_ahead(r, n);
        if (n->body)
            cover(r, n->body);
    }
}

static bool is_covered(const struct recomputing *r, const struct node *n)
{
    return n && n->id < r->count && r->covered[n->id];
}

/* ---- twins ---- */

static struct value *twin_of(struct recomputing *r, struct value *v, struct stand *s);

static struct value *twin_value(struct recomputing *r, struct region *at, const struct value *v)
{
    struct value *t = value_new(r->g, at, v->type, v->ndim, (struct dim *const *)v->dim);
    t->span = v->span;
    t->path = mem_printf("%s~again", v->path);
    t->call_output = v->call_output;
    arrput(t->alias, v->path);           /* plan lines are about both */
    for (int i = 0; i < arrlen(v->alias); i++)
        arrput(t->alias, v->alias[i]);
    hmput(r->twins, ((struct twin_key){v, at}), t);
    return t;
}

static void twin_outputs(struct recomputing *r, struct node *twin, const struct node *n)
{
    for (int k = 0; k < arrlen(n->out); k++) {
        struct value *t = twin_value(r, twin->region, n->out[k]);
        t->def = twin;
        t->def_index = k;
        arrput(twin->out, t);
    }
}

static struct node *twin_node(struct recomputing *r, struct region *at, struct node *n)
{
    struct node *twin = node_new(r->g, at, n->op, n->span);
    for (int i = 0; i < arrlen(n->attr); i++)
        arrput(twin->attr, n->attr[i]);
    twin->path = n->path;
    twin->phase = PHASE_BACKWARD;
    twin->forward = twin->again = n;
    return twin;
}

/* All of a body again: it walks the same blocks forwards. */
static struct region *twin_body(struct recomputing *r, struct region *parent, struct region *body, struct stand *around)
{
    struct region *again = region_mirror(parent, body);
    struct stand s = {again, 0, around};
    for (int k = 0; k < arrlen(body->args); k++) {
        struct value *t = twin_value(r, again, body->args[k]);
        t->def_index = k;
        arrput(again->args, t);
    }
    for (int i = 0; i < arrlen(body->nodes); i++) {
        struct node *n = body->nodes[i], *twin;
        if (n->op->flags & OP_SOURCE)
            continue;                    /* read where it is, as the backward does */
        twin = twin_node(r, again, n);
        for (int k = 0; k < arrlen(n->in); k++)
            arrput(twin->in, n->in[k] ? twin_of(r, n->in[k], &s) : NULL);
        if (n->body) {
            twin->body = twin_body(r, again, n->body, &s);
            twin->body->owner = twin;
        }
        twin_outputs(r, twin, n);
        s.index = (int)arrlen(again->nodes);
    }
    for (int k = 0; k < arrlen(body->results); k++)
        arrput(again->results, twin_of(r, body->results[k], &s));
    return again;
}

/* n once more where the walk stands in the region of the same blocks; the operands' twins come first. */
static void make_twin(struct recomputing *r, struct node *n, struct stand *s)
{
    struct value **in = NULL;
    for (int k = 0; k < arrlen(n->in); k++)
        arrput(in, n->in[k] ? twin_of(r, n->in[k], s) : NULL);
    struct region *body = n->body ? twin_body(r, s->at, n->body, s) : NULL;      /* what it captures comes first, too */
    struct node *twin = twin_node(r, s->at, n);
    (void)arrpop(s->at->nodes);
    arrins(s->at->nodes, s->index, twin);
    s->index++;
    twin->in = in;
    twin->body = body;
    if (body)
        body->owner = twin;
    twin_outputs(r, twin, n);
}

/* What the backward reads in place of v. */
static struct value *twin_of(struct recomputing *r, struct value *v, struct stand *s)
{
    struct node *maker = v->def ? v->def : v->region->owner;     /* an argument comes with its repeat */
    if (!is_covered(r, maker) || v == v->region->index)
        return v;
    for (struct stand *here = s; here; here = here->around) {
        struct value *made = hmget(r->twins, ((struct twin_key){v, here->at}));
        if (made)
            return made;
    }
    while (s && region_origin(s->at) != region_origin(v->def ? v->region : maker->region))
        s = s->around;
    if (!s)
        return v;
    if (!v->def) {                       /* the argument of a covered repeat: an argument of the twin */
        struct value *out = arrlen(maker->out) ? twin_of(r, maker->out[0], s) : NULL;
        for (int k = 0; out && k < arrlen(v->region->args); k++)
            if (v->region->args[k] == v)
                return out->def->body->args[k];
        return v;
    }
    make_twin(r, v->def, s);
    return hmget(r->twins, ((struct twin_key){v, s->at}));
}

static void walk(struct recomputing *r, struct region *at, struct stand *around)
{
    for (struct stand s = {at, 0, around}; s.index < arrlen(at->nodes); s.index++) {
        struct node *n = at->nodes[s.index];
        if (n->again || (!at->parent && n->phase != PHASE_BACKWARD && n->phase != PHASE_WEIGHT))
            continue;
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                n->in[k] = twin_of(r, n->in[k], &s);
        if (n->body)
            walk(r, n->body, &s);
    }
    for (int k = 0; k < arrlen(at->results); k++) {
        struct stand end = {at, (int)arrlen(at->nodes), around};
        at->results[k] = twin_of(r, at->results[k], &end);
    }
}

void recompute(struct graph *g)
{
    const struct plan *plan = g->module->plan;
    struct recomputing r = {.g = g, .plan = plan, .count = g->nnode};
    bool any = false;
    for (int i = 0; i < arrlen(plan->lines); i++)
        any |= plan->lines[i].kind == LINE_RECOMPUTE;
    if (!any || g->entry != ENTRY_TRAIN)
        return;
    r.covered = NEW_ARRAY(bool, g->nnode + 1);
    r.counts = count_values(g);
    cover(&r, g->root);
    walk(&r, g->root, NULL);
}
