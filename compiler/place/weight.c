/* The weight part of a backward stays on its virtual stage: a schedule puts it off, each chunk's by itself. So what
 * another virtual stage reads of it, the gradient of a value made there and read after the last block, say, belongs to
 * the input part, and so does all that it needs; likewise a sum over blocks that goes from stage to stage, which would
 * have every stage wait for the weight part of the next. Only the places tell, so this mends here what rewrite split. */
#include "place.h"

struct parts {
    bool *moves;                 /* by id of a root node: to the input part */
    bool *leads_on;              /* by id of a root node: read by more than the update and sums for it */
};

static bool travels(const struct node *n)
{
    return n->body && region_origin(n->body)->cut && arrlen(n->in);
}

/* A sum of gradients for the update waits for the update: it may take its operands from anywhere. */
static bool sums_for_update(const struct parts *p, const struct node *n)
{
    return n->op == &op_add && !p->leads_on[n->id];
}

static void mark_operands(struct parts *p, const struct node *n, const struct node *root)
{
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct node *def = n->in[k] && n->in[k]->def ? node_at_root(n->in[k]->def) : NULL;
        if (!def || def == root || def->phase != PHASE_WEIGHT)
            continue;
        p->leads_on[def->id] = true;
        bool everywhere = def->op->flags & OP_SOURCE || (def->body && region_origin(def->body)->cut);
        bool crosses = def->stage >= 0 && root->stage >= 0 && def->stage != root->stage;
        if (p->moves[root->id] || (crosses && !everywhere))
            p->moves[def->id] = true;
    }
    for (int i = 0; n->body && i < arrlen(n->body->nodes); i++)
        mark_operands(p, n->body->nodes[i], root);
}

static void to_input(struct node *n, void *context)
{
    n->phase = PHASE_BACKWARD;
}

void keep_weight_parts(struct graph *g)
{
    struct node **old = g->root->nodes, **nodes = NULL;
    struct parts p = {NEW_ARRAY(bool, g->nnode + 1), NEW_ARRAY(bool, g->nnode + 1)};
    int count = (int)arrlen(old), first = count;
    for (int i = count - 1; i >= 0; i--)
        if (old[i]->phase == PHASE_WEIGHT) {
            first = i;
            p.moves[old[i]->id] |= travels(old[i]);
            if (!sums_for_update(&p, old[i]) || p.moves[old[i]->id])
                mark_operands(&p, old[i], old[i]);
        }
    for (int i = 0; i < first; i++)
        arrput(nodes, old[i]);
    for (int i = first; i < count; i++)
        if (p.moves[old[i]->id]) {
            to_input(old[i], NULL);
            if (old[i]->body)
                region_walk(old[i]->body, to_input, NULL);
            arrput(nodes, old[i]);
        }
    for (int i = first; i < count; i++)
        if (!p.moves[old[i]->id])
            arrput(nodes, old[i]);
    g->root->nodes = nodes;
}
