/* The last look at a stage program: clones nobody reads go, each need becomes the operand's layout, and the invariants
 * of physical.h are checked. */
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
        for (int ph = PHASES - 1; ph >= 0; ph--)
            if (s->phase[entry][ph])
                sweep(&c, s->phase[entry][ph]);
    }
    for (int ph = 0; ph < PHASES; ph++) {
        struct region **root = &s->phase[entry][ph];
        if (*root)
            remove_dead(p, &c, *root);
        if (*root && !arrlen((*root)->nodes))
            *root = NULL;
    }
}

static bool visible(struct region *r, const struct value *v)
{
    for (; r; r = r->parent)
        if (v->region == r || (!v->region->parent && !r->parent) ||
            (v->region->parent && r->parent && region_origin(v->region) == region_origin(r)))
            return true;
    return false;
}

static void define(bool *defined, struct value **values)
{
    for (int k = 0; k < arrlen(values); k++)
        defined[values[k]->id] = true;
}

static void verify_region(const struct physical *p, const struct stage *s, struct region *r, bool *defined)
{
    define(defined, r->args);
    if (r->index)
        defined[r->index->id] = true;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->region != r)
            BUG("stage %d: node %d (%s) is listed in another region", s->index, n->id, n->op->name);
        for (int k = 0; k < arrlen(n->in); k++) {
            struct value *v = n->in[k];
            bool stacks = (n->op->flags & OP_STACKED) || ((n->op->flags & OP_BOXING) && !r->parent);
            if (v && !stacks && !visible(r, v))
                BUG("stage %d: node %d (%s) reads %s, which it cannot see", s->index, n->id, n->op->name, v->path);
            if (v && !defined[v->id])
                BUG("stage %d: node %d (%s) reads %s before it is there", s->index, n->id, n->op->name, v->path);
            if (v && !layout_agrees(p->mesh, &v->lay, &n->need[k]))
                BUG("stage %d: node %d (%s) reads %s in another layout", s->index, n->id, n->op->name, v->path);
        }
        for (int k = 0; n->body && k < arrlen(n->out); k++)
            if (!layout_agrees(p->mesh, &n->body->args[k]->lay, &n->body->results[k]->lay) ||
                !layout_agrees(p->mesh, &n->body->args[k]->lay, &n->in[k]->lay) ||
                !layout_agrees(p->mesh, &n->body->args[k]->lay, &n->out[k]->lay))
                BUG("stage %d: repeat %d carries %s in several layouts", s->index, n->id, n->body->args[k]->path);
        if (n->body)
            verify_region(p, s, n->body, defined);
        define(defined, n->out);
    }
}

void stage_verify(const struct physical *p, const struct stage *s)
{
    bool *defined = NEW_ARRAY(bool, arrlen(s->graph->values));
    for (int e = 0; e < ENTRIES; e++)
        for (int ph = 0; ph < PHASES; ph++)
            if (s->phase[e][ph])
                verify_region(p, s, s->phase[e][ph], defined);
}
