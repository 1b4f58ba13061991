/* The invariants of graph.h, checked after every pass in debug builds and in tests. */
#include "graph.h"
#include "op.h"

/* May a node in region r read v? Values of r and of every enclosing region; values of a region that walks the same
 * blocks as r or one of its enclosing regions; with OP_STACKED any value. */
static bool visible(struct region *r, const struct value *v)
{
    for (; r; r = r->parent)
        if (v->region == r || region_origin(v->region) == region_origin(r))
            return true;
    return false;
}

static void verify_region(const struct graph *g, struct region *r, const char *after)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->region != r)
            BUG("after %s: node %d (%s) is listed in a region it does not belong to", after, n->id, n->op->name);
        for (int k = 0; k < arrlen(n->in); k++) {
            struct value *v = n->in[k];
            if (!v)
                continue;
            if (v->id >= arrlen(g->values) || g->values[v->id] != v)
                BUG("after %s: operand %d of node %d (%s) is not a value of this graph", after, k, n->id, n->op->name);
            if (!(n->op->flags & OP_STACKED) && !visible(r, v))
                BUG("after %s: node %d (%s) reads %%%d, which it cannot see", after, n->id, n->op->name, v->id);
        }
        for (int k = 0; k < arrlen(n->out); k++)
            if (n->out[k]->def != n || n->out[k]->def_index != k || n->out[k]->region != r)
                BUG("after %s: output %d of node %d (%s) has another definition", after, k, n->id, n->op->name);
        if (!n->body)
            continue;
        struct region *b = n->body;
        if (b->owner != n || b->parent != r)
            BUG("after %s: body of node %d has another owner or parent", after, n->id);
        if (arrlen(b->args) != arrlen(n->in) || arrlen(b->results) != arrlen(n->in) || arrlen(n->out) != arrlen(n->in))
            BUG("after %s: repeat %d carries %d, %d, %d, %d values", after, n->id, (int)arrlen(n->in),
                (int)arrlen(b->args), (int)arrlen(b->results), (int)arrlen(n->out));
        for (int k = 0; k < arrlen(b->args); k++)
            if (!visible(b, b->results[k]))
                BUG("after %s: result %d of repeat %d is not visible in its body", after, k, n->id);
        verify_region(g, b, after);
    }
}

void graph_verify(const struct graph *g, const char *after)
{
    verify_region(g, g->root, after);
}
