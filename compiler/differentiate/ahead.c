/* Counts that blocks take of inputs. Micro-batches are counted before the first of them, at the root of the graph; so a
 * count that a repeated block takes, of a mask that is the same for all blocks, is made there too, in front of the repeat,
 * by copies of the nodes that lead to it. Blocks read it from outside. What else read those nodes still does. */
#include "../batch.h"
#include "../module.h"
#include "tape.h"

struct counting {
    struct graph *g;
    bool *cut;                   /* by value id: batch.h */
    int8_t *of_inputs;           /* by value id: 0 not known, 1 depends on inputs only, the same for all blocks, -1 not */
    struct { const struct value *key; struct value *value; } *copies;      /* stb_ds map */
    int nvalues;                 /* values from here on are copies */
};

static bool of_inputs(struct counting *c, const struct value *v)
{
    int8_t *known = &c->of_inputs[v->id];
    const struct node *n = v->def;
    if (*known)
        return *known > 0;
    bool fine = n && !n->body && n->op != &op_param && !(n->op->flags & (OP_RANDOM | OP_EFFECT));
    for (int k = 0; fine && k < arrlen(n->in); k++)
        fine = !n->in[k] || of_inputs(c, n->in[k]);
    *known = fine ? 1 : -1;
    return fine;
}

static bool is_count(struct counting *c, const struct node *n)
{
    bool cut = false;
    for (int k = 0; k < arrlen(n->in); k++)
        cut |= n->in[k] && c->cut[n->in[k]->id];
    return cut && !n->body && arrlen(n->out) == 1 && !c->cut[n->out[0]->id] && of_inputs(c, n->out[0]);
}

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
            if (n->in[k] && n->in[k]->id < c->nvalues && n->in[k]->def && n->in[k]->def->region != c->g->root &&
                is_count(c, n->in[k]->def))
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
    c.cut = cut_values(g);
    c.of_inputs = NEW_ARRAY(int8_t, c.nvalues + 1);
    visit(&c, g->root, NULL);
}
