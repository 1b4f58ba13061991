/* One walk in program order that replaces nodes:
 *   - dropout and its like outside train, and `to` none of whose axes is in the mesh, are the identity;
 *   - an op with lower becomes its parts (cross_entropy).
 * A value that takes another's place takes its names too, so that plan lines still find it. */
#include "../module.h"
#include "rewrite.h"

struct replacing {
    struct graph *g;
    struct value **with;         /* by id: what stands in for a value, or NULL */
    int count;                   /* values that existed before */
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
