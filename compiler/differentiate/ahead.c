/* Counts that blocks take of inputs. Micro-batches are counted before the first of them, at the root of the graph; so a
 * count that a repeated block takes, of a mask that is the same for all blocks, is made there too, in front of the repeat,
 * by copies of the nodes that lead to it. Blocks read it from outside. What else read those nodes still does. */
#include "../batch.h"
#include "../module.h"
#include "tape.h"

struct counting {
    struct graph *g;
    bool *count;                 /* by value id: batch.h */
    struct { const struct value *key; struct value *value; } *copies;      /* stb_ds map */
    int nvalues;                 /* values from here on are copies */
};

static struct value *copy_before(struct counting *c, struct value *v, const struct node *repeat)
{
    struct region *root = c->g->root;
    if (v->def->region == root)
        return v;
    struct value *made = hmget(c->copies, v);
    if (made)
        return made;
    struct node *old = v->def, *n = node_new(c->g, root, old->op, old->span);
    arrpop(root->nodes);
    for (int k = 0; k < arrlen(old->in); k++)
        node_in(n, old->in[k] ? copy_before(c, old->in[k], repeat) : NULL);
    for (int i = 0; i < arrlen(old->attr); i++)
        arrput(n->attr, old->attr[i]);
    n->phase = repeat->phase;
    arrput(root->nodes, n);
    if (!node_finish(c->g, n))
        BUG("%s cannot be built twice", old->op->name);
    arrpop(root->nodes);
    int at = 0;
    while (root->nodes[at] != repeat)
        at++;
    arrins(root->nodes, at, n);
    for (int k = 0; k < arrlen(n->out); k++) {
        n->out[k]->path = old->out[k]->path ? mem_printf("%s~ahead", old->out[k]->path) : NULL;
        n->out[k]->span = old->out[k]->span;
        hmput(c->copies, old->out[k], n->out[k]);
    }
    return n->out[v->def_index];
}

/* From the inner blocks out: what they read is copied together. */
static void visit(struct counting *c, struct region *at, const struct node *repeat)
{
    for (int i = 0; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i];
        if (n->body)
            visit(c, n->body, repeat ? repeat : n);
        for (int k = 0; repeat && k < arrlen(n->in); k++)
            if (n->in[k] && n->in[k]->id < c->nvalues && c->count[n->in[k]->id] && n->in[k]->region != c->g->root)
                n->in[k] = copy_before(c, n->in[k], repeat);
        while (!repeat && at->nodes[i] != n)
            i++;                         /* copies came in before it */
    }
}

void count_ahead(struct graph *g)
{
    struct counting c = {.g = g, .nvalues = (int)arrlen(g->values)};
    if (!g->module->plan || !g->module->plan->mb_dim)
        return;
    c.count = count_values(g);
    visit(&c, g->root, NULL);
}
