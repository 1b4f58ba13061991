/* A block's gradient that is partly of the batch and partly of weights alone (a penalty on the block's own weight). The first
 * part is a sum over micro-batches and the second is whole in each: they can be added once a step only, behind the last
 * micro-batch. At the root a sum may run there as it stands (shard/microbatch.c); one in a repeat of the backward pass is
 * taken apart here, and added in the repeat of the update that walks the same blocks. */
#include "../module.h"
#include "tape.h"

/* Does v depend on an input? What was seen on the way is not asked twice. */
static bool of_inputs(const struct value *v, bool *seen)
{
    if (seen[v->id])
        return false;
    seen[v->id] = true;
    const struct region *body = NULL;
    if (!v->def) {
        if (v == v->region->index)
            return false;
        body = v->region;
    } else if (v->def->body) {
        body = v->def->body;
    }
    if (body)
        return of_inputs(body->owner->in[v->def_index], seen) || of_inputs(body->results[v->def_index], seen);
    if (v->def->op == &op_input)
        return true;
    for (int k = 0; k < arrlen(v->def->in); k++)
        if (v->def->in[k] && of_inputs(v->def->in[k], seen))
            return true;
    return false;
}

struct readers { const struct value *of; struct value *now; int count; };

static void look(struct node *n, void *context)
{
    struct readers *r = context;
    for (int k = 0; k < arrlen(n->in); k++) {
        r->count += n->in[k] == r->of;
        if (n->in[k] == r->of && r->now)
            n->in[k] = r->now;
    }
    for (int k = 0; n->body && k < arrlen(n->body->results); k++)
        r->count += n->body->results[k] == r->of;
}

static int count_readers(const struct graph *g, const struct value *v)
{
    struct readers r = {.of = v};
    region_walk(g->root, look, &r);
    return r.count;
}

/* The add in a chain of them below v one of whose operands is of weights alone, and which (0, 1); NULL: none is. */
static struct node *find_add(const struct graph *g, const struct value *v, int top, int *which)
{
    struct node *n = v->def;
    if (!n || n->op != &op_add || n->phase == PHASE_UPDATE || !n->region->owner || count_readers(g, v) != top)
        return NULL;
    bool of[2];
    for (int k = 0; k < 2; k++)
        of[k] = of_inputs(n->in[k], NEW_ARRAY(bool, arrlen(g->values) + 1));
    for (int k = 0; k < 2; k++)
        if (!of[k] && of[!k] && n->in[k]->ndim == v->ndim && n->in[!k]->ndim == v->ndim) {
            *which = k;
            return n;
        }
    for (int k = 0; k < 2; k++) {
        struct node *below = of[k] ? find_add(g, n->in[k], 1, which) : NULL;
        if (below)
            return below;
    }
    return NULL;
}

struct value *whole_apart(struct differentiation *d, struct region *at, struct value *grad)
{
    const struct plan *plan = d->g->module->plan;
    struct node *n;
    int which;
    while (plan->microbatches > 1 && (n = find_add(d->g, grad, 0, &which))) {
        struct value *whole = n->in[which], *rest = n->in[!which], *sum = n->out[0];
        struct region *from = n->region;
        for (int i = 0; i < arrlen(from->nodes); i++)
            if (from->nodes[i] == n) {
                arrdel(from->nodes, i);
                break;
            }
        struct readers r = {.of = sum, .now = rest};
        region_walk(d->g->root, look, &r);
        n->region = sum->region = at;
        n->phase = PHASE_UPDATE;
        n->in[0] = grad == sum ? rest : grad;
        n->in[1] = whole;
        arrput(at->nodes, n);
        grad = sum;
    }
    return grad;
}
