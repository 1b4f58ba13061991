/* Splits the backward into input and weight parts (PHASE_WEIGHT), so that a schedule can put off the weight gradients.
 *
 * What stays is what leads on: a node whose result the backward of another forward node reads, what a repeat carries from
 * block to block, and all that these need. The rest leads to gradients of parameters alone. A backward repeat of which both
 * are found becomes two: the weight part walks the same blocks and reads what it needs of the input part by naming it
 * (rule 3 of graph.h); it carries the sums over blocks. Values that both make from nothing are made in each. */
#include "../module.h"
#include "rewrite.h"

struct splitting {
    struct graph *g;
    bool *stays;                 /* by node id */
    bool *known;                 /* by value id: seen on the way back */
    struct value **work;         /* stb_ds array */
    struct node **weight;        /* stb_ds array: nodes of the root that move */
    struct { const struct value *key; struct value *value; } *clones;      /* stb_ds map, of one body */
};

static bool is_backward(const struct node *n)
{
    return node_at_root(n)->phase == PHASE_BACKWARD;
}

/* results[k] is args[k] plus something, and nothing else reads args[k]: a sum over blocks. */
static bool is_sum(const struct region *body, int k)
{
    const struct node *add = body->results[k]->def;
    if (!add || add->op != &op_add || add->region != body || add->in[0] != body->args[k])
        return false;
    for (int i = 0; i < arrlen(body->nodes); i++)
        for (int x = 0; x < arrlen(body->nodes[i]->in); x++)
            if (body->nodes[i]->in[x] == body->args[k] && body->nodes[i] != add)
                return false;
    return true;
}

static bool adds_to_sum(const struct node *n)
{
    for (int k = 0; n->region->owner && k < arrlen(n->region->results); k++)
        if (n->region->results[k]->def == n && is_sum(n->region, k))
            return true;
    return false;
}

static void need_value(struct splitting *s, struct value *v)
{
    if (v && !s->known[v->id]) {
        s->known[v->id] = true;
        arrput(s->work, v);
    }
}

static void need_node(struct splitting *s, struct node *n)
{
    for (; n && is_backward(n) && !s->stays[n->id]; n = n->region->owner) {
        s->stays[n->id] = true;
        for (int k = 0; k < arrlen(n->in) && !n->body; k++)
            need_value(s, n->in[k]);
    }
}

static void need_carried(struct splitting *s, struct node *repeat, int k)
{
    need_node(s, repeat);
    need_value(s, repeat->in[k]);
    need_value(s, repeat->body->args[k]);
    need_value(s, repeat->body->results[k]);
}

static void spread(struct splitting *s)
{
    while (arrlen(s->work)) {
        struct value *v = arrpop(s->work);
        struct region *r = v->region;
        if (v->def && v->def->body && is_backward(v->def))
            need_carried(s, v->def, v->def_index);
        else if (v->def)
            need_node(s, v->def);
        for (int k = 0; !v->def && r->owner && k < arrlen(r->args); k++)
            if (r->args[k] == v && is_backward(r->owner))
                need_carried(s, r->owner, k);
    }
}

/* Is a forward node made of parameters and numbers alone, a bias with new axes, say? Its gradients lead to theirs only. */
static bool of_parameters(const struct node *n)
{
    if (!n || n->body || n->op == &op_input || n->op->flags & OP_RANDOM)
        return false;
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k] && !of_parameters(n->in[k]->def))
            return false;
    return true;
}

/* Does the backward of another forward node read what n makes? */
static bool leads_on(const struct node *n, const struct node *reader)
{
    return is_backward(reader) && reader->forward != n->forward && !adds_to_sum(reader) &&
           !(reader->forward && of_parameters(reader->forward));
}

static void seed(struct node *n, void *context)
{
    struct splitting *s = context;
    if (!is_backward(n))
        return;
    for (int k = 0; k < arrlen(n->in); k++) {
        struct value *v = n->in[k];
        if (v && v->def && is_backward(v->def) && !n->body && leads_on(v->def, n))
            need_value(s, v);
    }
    if (n->again || (n->region->owner && s->stays[n->region->owner->id] && n->region->owner->again))
        need_node(s, n);
    for (int k = 0; n->body && k < arrlen(n->in); k++)
        if (!is_sum(n->body, k))
            need_carried(s, n, k);
}

/* ---- the weight part ---- */

static struct value *clone_source(struct splitting *s, struct value *v, struct region *to)
{
    struct value *made = hmget(s->clones, v);
    if (made)
        return made;
    struct node *n = node_new(s->g, to, v->def->op, v->span);
    for (int i = 0; i < arrlen(v->def->attr); i++)
        arrput(n->attr, v->def->attr[i]);
    n->path = v->def->path;
    n->forward = v->def->forward;
    n->phase = PHASE_WEIGHT;
    if (!node_finish(s->g, n))
        BUG("%s cannot be made twice", v->def->op->name);
    n->out[0]->path = v->path;
    hmput(s->clones, v, n->out[0]);
    return n->out[0];
}

static void set_phase(struct node *n, void *context)
{
    n->phase = *(enum phase *)context;
}

static void move_node(struct splitting *s, struct node *n, struct region *to)
{
    enum phase weight = PHASE_WEIGHT;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *v = n->in[k];
        if (v && v->def && v->def->op->flags & OP_SOURCE && !arrlen(v->def->in) && v->region->owner &&
            v->region == n->region && s->stays[v->def->id])
            n->in[k] = clone_source(s, n->in[k], to);
    }
    n->phase = weight;
    n->region = to;
    for (int k = 0; k < arrlen(n->out); k++)
        n->out[k]->region = to;
    if (n->body) {
        n->body->parent = to;
        region_walk(n->body, set_phase, &weight);
    }
    arrput(to->nodes, n);
}

static void split_region(struct splitting *s, struct region *from, struct region *to);

static bool moves_any(const struct splitting *s, const struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (!s->stays[r->nodes[i]->id] || (r->nodes[i]->body && moves_any(s, r->nodes[i]->body)))
            return true;
    return false;
}

/* The weight part of a repeat; the sums that nothing of the input part needs go with it. */
static struct node *split_repeat(struct splitting *s, struct node *n, struct region *to)
{
    struct node *w = node_new(s->g, to, &op_repeat, n->span);
    struct region *a = n->body, *b = region_new(to, a->count);
    int kept = 0;
    w->path = n->path;
    w->forward = n->forward;
    w->phase = PHASE_WEIGHT;
    w->body = b;
    b->owner = w;
    b->first = a->first;
    b->total = a->total;
    b->reverse = a->reverse;
    b->mirror = a->mirror;
    for (int k = 0; k < arrlen(n->in); k++) {
        if (s->known[a->results[k]->id]) {
            n->in[kept] = n->in[k];
            n->out[kept] = n->out[k];
            a->args[kept] = a->args[k];
            a->results[kept] = a->results[k];
            n->out[kept]->def_index = a->args[kept]->def_index = kept;
            kept++;
            continue;
        }
        int at = (int)arrlen(w->in);
        arrput(w->in, n->in[k]);
        arrput(w->out, n->out[k]);
        arrput(b->args, a->args[k]);
        arrput(b->results, a->results[k]);
        w->out[at]->def = w;
        w->out[at]->region = to;
        w->out[at]->def_index = b->args[at]->def_index = at;
        b->args[at]->region = b;
    }
    if (arrlen(n->in)) {
        arrsetlen(n->in, kept);
        arrsetlen(n->out, kept);
        arrsetlen(a->args, kept);
        arrsetlen(a->results, kept);
    }
    split_region(s, a, b);
    return w;
}

static void split_region(struct splitting *s, struct region *from, struct region *to)
{
    struct node **old = from->nodes;
    from->nodes = NULL;
    hmfree(s->clones);
    s->clones = NULL;
    for (int i = 0; i < arrlen(old); i++) {
        struct node *n = old[i];
        if (!s->stays[n->id]) {
            move_node(s, n, to);
            continue;
        }
        arrput(from->nodes, n);
        if (n->body && moves_any(s, n->body))
            split_repeat(s, n, to);
    }
}

/* The root is both: what moves goes behind the last backward node. */
static void split_root(struct splitting *s)
{
    struct region *root = s->g->root;
    struct node **old = root->nodes, **after = NULL;
    int last = -1;
    for (int i = 0; i < arrlen(old); i++)
        last = old[i]->phase == PHASE_BACKWARD ? i : last;
    root->nodes = NULL;
    for (int i = 0; i <= last; i++) {
        struct node *n = old[i];
        if (n->phase == PHASE_BACKWARD && !s->stays[n->id])
            arrput(after, n);
        else
            arrput(root->nodes, n);
        if (n->phase == PHASE_BACKWARD && s->stays[n->id] && n->body && moves_any(s, n->body))
            arrput(after, n);
    }
    for (int i = 0; i < arrlen(after); i++) {
        if (s->stays[after[i]->id])
            split_repeat(s, after[i], root);
        else
            move_node(s, after[i], root);
    }
    for (int i = last + 1; i < arrlen(old); i++)
        arrput(root->nodes, old[i]);
}

void split_backward(struct graph *g)
{
    struct splitting s = {.g = g, .stays = NEW_ARRAY(bool, g->nnode + 1), .known = NEW_ARRAY(bool, arrlen(g->values) + 1)};
    if (!g->module->plan->split_backward || g->entry != ENTRY_TRAIN)
        return;
    region_walk(g->root, seed, &s);
    spread(&s);
    split_root(&s);
}
