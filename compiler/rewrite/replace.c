/* One walk in program order that replaces nodes:
 *   - dropout and its like outside train, and `to` none of whose axes is in the mesh, are the identity;
 *   - an op with lower becomes its parts (cross_entropy). A part that is there already, in the forward of the same blocks,
 *     is read instead of made again: with split classes each of them ends in a collective.
 * A value that takes another's place takes its names too, so that plan lines still find it. */
#include "../module.h"
#include "rewrite.h"
#include <string.h>

struct replacing {
    struct graph *g;
    struct value **with;         /* by id: what stands in for a value, or NULL */
    int count;                   /* values that existed before */
    struct node **parts;         /* stb_ds array: what lowering has made so far */
};

static struct value *now(const struct replacing *r, struct value *v)
{
    while (v && v->id < r->count && r->with[v->id])
        v = r->with[v->id];
    return v;
}

static void stand_in(struct replacing *r, struct value *old, struct value *by, bool fresh)
{
    if (old == by)
        return;
    r->with[old->id] = by;
    if (fresh) {
        by->path = old->path;
        by->span = old->span;
    } else if (old->path) {
        arrput(by->alias, old->path);
    }
    by->call_output |= old->call_output;
    for (int i = 0; i < arrlen(old->alias); i++)
        arrput(by->alias, old->alias[i]);
}

static bool is_identity(const struct graph *g, const struct node *n)
{
    if ((n->op->flags & OP_TRAIN_ONLY) && g->entry != ENTRY_TRAIN)
        return true;
    if (n->op != &op_to)
        return false;
    const struct layout_part *parts = node_ptr(n, "parts");
    for (int i = 0; i < arrlen(parts); i++)
        if (parts[i].axes)
            return false;
    return true;
}

/* The node that stands where a forward node stood: backward nodes follow it to its stage. */
static struct node *forward_now(struct replacing *r, struct node *forward)
{
    return forward && arrlen(forward->out) ? now(r, forward->out[0])->def : forward;
}

static bool same_attributes(const struct node *a, const struct node *b)
{
    bool same = arrlen(a->attr) == arrlen(b->attr);
    for (int i = 0; same && i < arrlen(a->attr); i++) {
        const struct attr *x = &a->attr[i], *y = &b->attr[i];
        same = !strcmp(x->name, y->name) && x->kind == y->kind && x->i == y->i && x->f == y->f && x->ptr == y->ptr &&
               (x->s == y->s || (x->s && y->s && !strcmp(x->s, y->s))) && x->ints == y->ints;
    }
    return same;
}

static struct node *made_before(const struct replacing *r, const struct node *n)
{
    for (int i = 0; i < arrlen(r->parts); i++) {
        struct node *old = r->parts[i];
        bool same = old->op == n->op && arrlen(old->in) == arrlen(n->in) && same_attributes(old, n) &&
                    region_origin(old->region) == region_origin(n->region);
        for (int k = 0; same && k < arrlen(n->in); k++)
            same = old->in[k] == n->in[k];
        if (same)
            return old;
    }
    return NULL;
}

/* Takes the nodes of at from `from` on that were made before out again; out are the results of the lowered op. */
static void share_parts(struct replacing *r, struct region *at, int from, struct value **out, int nout)
{
    for (int i = from; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i], *old = NULL;
        if (!(n->op->flags & (OP_RANDOM | OP_EFFECT | OP_SOURCE)))
            old = made_before(r, n);
        if (!old) {
            arrput(r->parts, n);
            continue;
        }
        for (int k = 0; k < arrlen(n->out); k++) {
            for (int j = i + 1; j < arrlen(at->nodes); j++)
                for (int x = 0; x < arrlen(at->nodes[j]->in); x++)
                    if (at->nodes[j]->in[x] == n->out[k])
                        at->nodes[j]->in[x] = old->out[k];
            for (int x = 0; x < nout; x++)
                if (out[x] == n->out[k])
                    out[x] = old->out[k];
        }
        arrdel(at->nodes, i);
        i--;
    }
}

static void replace_region(struct replacing *r, struct region *at)
{
    struct node **old = at->nodes;
    at->nodes = NULL;
    for (int i = 0; i < arrlen(old); i++) {
        struct node *n = old[i];
        for (int k = 0; k < arrlen(n->in); k++)
            n->in[k] = now(r, n->in[k]);
        n->forward = forward_now(r, n->forward);
        if (is_identity(r->g, n)) {
            stand_in(r, n->out[0], n->in[0], false);
        } else if (n->op->lower) {
            struct value **out = NEW_ARRAY(struct value *, arrlen(n->out));
            int from = (int)arrlen(at->nodes);
            n->op->lower(r->g, at, n, out);
            share_parts(r, at, from, out, (int)arrlen(n->out));
            for (int k = from; k < arrlen(at->nodes); k++) {
                at->nodes[k]->phase = n->phase;
                at->nodes[k]->stage = n->stage;
                at->nodes[k]->path = n->path;
                at->nodes[k]->forward = n->forward;
            }
            for (int k = 0; k < arrlen(n->out); k++)
                stand_in(r, n->out[k], out[k], true);
        } else {
            arrput(at->nodes, n);
            if (n->body)
                replace_region(r, n->body);
        }
    }
    for (int k = 0; k < arrlen(at->results); k++)
        at->results[k] = now(r, at->results[k]);
}

void replace_nodes(struct graph *g)
{
    struct replacing r = {.g = g, .count = (int)arrlen(g->values)};
    r.with = NEW_ARRAY(struct value *, r.count + 1);
    replace_region(&r, g->root);
    g->loss = now(&r, g->loss);
    for (int i = 0; i < arrlen(g->outputs); i++)
        g->outputs[i].value = now(&r, g->outputs[i].value);
    for (int i = 0; i < arrlen(g->metrics); i++)
        g->metrics[i].value = now(&r, g->metrics[i].value);
}
