/* Removes what no effect needs: nodes, and values that a repeat carries for nobody. */
#include "rewrite.h"

struct marking {
    const struct graph *g;
    bool *value, *node;          /* by id: needed */
    bool any_effect;
    struct value **work;         /* stb_ds array: needed values whose sources are still to be marked */
};

static void need_value(struct marking *m, struct value *v)
{
    if (v && !m->value[v->id]) {
        m->value[v->id] = true;
        arrput(m->work, v);
    }
}

/* A needed node needs its operands (a repeat: only those of the values it must carry) and the repeats around it. */
static void need_node(struct marking *m, struct node *n)
{
    for (; n && !m->node[n->id]; n = n->region->owner) {
        m->node[n->id] = true;
        for (int k = 0; k < arrlen(n->in) && !n->body; k++)
            need_value(m, n->in[k]);
    }
}

static void need_carried(struct marking *m, struct node *repeat, int k)
{
    need_value(m, repeat->in[k]);
    need_value(m, repeat->body->args[k]);
    need_value(m, repeat->body->results[k]);
}

static void spread(struct marking *m)
{
    while (arrlen(m->work)) {
        struct value *v = arrpop(m->work);
        if (v->def) {
            need_node(m, v->def);
            if (v->def->body)
                need_carried(m, v->def, v->def_index);
            continue;
        }
        struct region *r = v->region;
        need_node(m, r->owner);
        for (int k = 0; k < arrlen(r->args); k++)
            if (r->args[k] == v)
                need_carried(m, r->owner, k);
    }
}

static void need_effect(struct node *n, void *context)
{
    if (n->op->flags & OP_EFFECT) {
        struct marking *m = context;
        m->any_effect |= n->op != &op_next;
        need_node(m, n);
    }
}

static void sweep(const struct marking *m, struct region *r)
{
    int kept = 0;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (!m->node[n->id])
            continue;
        r->nodes[kept++] = n;
        if (!n->body)
            continue;
        int carried = 0;
        struct region *b = n->body;
        for (int k = 0; k < arrlen(n->in); k++)
            if (m->value[b->args[k]->id]) {
                n->in[carried] = n->in[k];
                n->out[carried] = n->out[k];
                b->args[carried] = b->args[k];
                b->results[carried] = b->results[k];
                n->out[carried]->def_index = b->args[carried]->def_index = carried;
                carried++;
            }
        if (arrlen(n->in)) {
            arrsetlen(n->in, carried);
            arrsetlen(n->out, carried);
            arrsetlen(b->args, carried);
            arrsetlen(b->results, carried);
        }
        sweep(m, b);
    }
    if (r->nodes)
        arrsetlen(r->nodes, kept);
}

void remove_dead(struct graph *g)
{
    struct marking m = {.g = g, .value = NEW_ARRAY(bool, arrlen(g->values) + 1),
                        .node = NEW_ARRAY(bool, g->nnode + 1)};
    region_walk(g->root, need_effect, &m);
    if (!m.any_effect) {           /* a graph without outputs yet: keep what it may give */
        need_value(&m, g->loss);
        for (int i = 0; i < arrlen(g->outputs); i++)
            need_value(&m, g->outputs[i].value);
        for (int i = 0; i < arrlen(g->metrics); i++)
            need_value(&m, g->metrics[i].value);
    }
    spread(&m);
    sweep(&m, g->root);
}
