/* The last look at a stage program: clones nobody reads go, and each need becomes the operand's layout. */
#include "boxer.h"

struct cleaning {
    bool *live;                      /* per value id */
    bool *node;                      /* per node id */
    bool changed;
};

static void live_value(struct cleaning *c, const struct value *v)
{
    if (v && !c->live[v->id])
        c->live[v->id] = c->changed = true;
}

static bool lasting(const struct node *n)
{
    return (n->op->flags & OP_EFFECT) || n->op == &op_box_send || n->op == &op_box_recv || n->op == &op_box_stage_reduce;
}

/* One sweep against program order; repeated until nothing changes, because bodies read each other's values. */
static void sweep(struct cleaning *c, struct region *r)
{
    for (int i = (int)arrlen(r->nodes) - 1; i >= 0; i--) {
        struct node *n = r->nodes[i];
        bool live = c->node[n->id] || lasting(n);
        for (int k = 0; k < arrlen(n->out); k++)
            live |= c->live[n->out[k]->id];
        if (n->body) {
            for (int k = 0; k < arrlen(n->out); k++) {
                bool carried = c->live[n->out[k]->id] || c->live[n->body->args[k]->id];
                live |= carried;         /* a value that comes in may be read by another walk of the blocks alone */
                if (carried) {
                    live_value(c, n->in[k]);
                    live_value(c, n->body->args[k]);
                    live_value(c, n->body->results[k]);
                }
            }
            sweep(c, n->body);
            for (int k = 0; k < arrlen(n->body->nodes); k++)
                live |= c->node[n->body->nodes[k]->id];
        } else if (live) {
            for (int k = 0; k < arrlen(n->in); k++)
                live_value(c, n->in[k]);
        }
        if (live && !c->node[n->id])
            c->node[n->id] = c->changed = true;
    }
}

static void remove_dead(const struct physical *p, struct cleaning *c, struct region *r)
{
    int kept = 0;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (!c->node[n->id])
            continue;
        r->nodes[kept++] = n;
        for (int k = (int)arrlen(n->out) - 1; n->body && k >= 0; k--)
            if (!c->live[n->body->args[k]->id] && !c->live[n->out[k]->id]) {
                arrdel(n->in, k);
                arrdel(n->out, k);
                arrdel(n->body->args, k);
                arrdel(n->body->results, k);
            }
        for (int k = 0; n->body && k < arrlen(n->out); k++)
            n->out[k]->def_index = n->body->args[k]->def_index = k;
        arrsetlen(n->need, arrlen(n->in));
        for (int k = 0; k < arrlen(n->in); k++)
            n->need[k] = n->in[k] ? n->in[k]->lay : (struct layout){0};
        if (n->body)
            remove_dead(p, c, n->body);
    }
    arrsetlen(r->nodes, kept);
}

void stage_clean(struct physical *p, struct stage *s, enum entry entry)
{
    struct cleaning c = {NEW_ARRAY(bool, arrlen(s->graph->values)), NEW_ARRAY(bool, s->graph->nnode), true};
    while (c.changed) {
        c.changed = false;
        struct root *roots = stage_roots(s, entry);
        for (int i = (int)arrlen(roots) - 1; i >= 0; i--)
            sweep(&c, roots[i].region);
    }
    struct root *roots = stage_roots(s, entry);
    for (int i = 0; i < arrlen(roots); i++) {
        remove_dead(p, &c, roots[i].region);
        if (!arrlen(roots[i].region->nodes))
            s->phase[entry][roots[i].phase][roots[i].chunk] = NULL;
    }
}
