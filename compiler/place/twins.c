/* What recompute makes again serves readers of its own stage only: elsewhere the value has come from the forward already,
 * and waiting for it in the backward, against the direction of the gradients, would hang. Such readers, and those in a
 * repeat that is cut over the stages, read what the forward made. */
#include "../rewrite/rewrite.h"
#include "place.h"

static bool settle(struct node *n, const struct node *root)
{
    bool changed = false;
    for (int k = 0; k < arrlen(n->in); k++) {
        struct node *twin = n->in[k] ? n->in[k]->def : NULL;
        if (!twin || !twin->again || twin->region->parent || (root->stage >= 0 && twin->stage == root->stage))
            continue;
        n->in[k] = twin->again->out[n->in[k]->def_index];
        changed = true;
    }
    for (int i = 0; n->body && i < arrlen(n->body->nodes); i++)
        changed |= settle(n->body->nodes[i], root);
    return changed;
}

void settle_twins(struct graph *g)
{
    bool changed = false;
    for (int i = 0; i < arrlen(g->root->nodes); i++)
        changed |= settle(g->root->nodes[i], g->root->nodes[i]);
    if (changed)
        remove_dead(g);
}
