/* Which values carry a gradient: those that depend on a parameter that is trained, through ops that have a gradient. */
#include "../module.h"
#include "tape.h"

struct trained *trained_find(struct differentiation *d, const struct param *p)
{
    for (int i = 0; i < arrlen(d->trained); i++)
        if (d->trained[i].param == p)
            return &d->trained[i];
    return NULL;
}

static bool any(const struct differentiation *d, struct value *const *values)
{
    for (int k = 0; k < arrlen(values); k++)
        if (values[k] && d->needs[values[k]->id])
            return true;
    return false;
}

static void mark_region(struct differentiation *d, struct region *r);

/* What a repeat carries needs a gradient when its start or what the body makes of it does: a fixpoint. */
static void mark_repeat(struct differentiation *d, struct node *n)
{
    struct region *b = n->body;
    for (bool again = true; again;) {
        again = false;
        for (int k = 0; k < arrlen(n->in); k++)
            if (type_is_float(b->args[k]->type))
                d->needs[b->args[k]->id] |= d->needs[n->in[k]->id];
        mark_region(d, b);
        for (int k = 0; k < arrlen(n->in); k++)
            if (type_is_float(b->args[k]->type) && d->needs[b->results[k]->id] && !d->needs[b->args[k]->id])
                d->needs[b->args[k]->id] = again = true;
    }
    for (int k = 0; k < arrlen(n->out); k++)
        d->needs[n->out[k]->id] = d->needs[b->args[k]->id];
}

static void mark_region(struct differentiation *d, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->body) {
            mark_repeat(d, n);
        } else if (n->op == &op_param) {
            struct trained *t = trained_find(d, node_ptr(n, "param"));
            if (t)
                t->value = n->out[0];
            d->needs[n->out[0]->id] = t != NULL;
        } else if (n->op->grad && any(d, n->in)) {
            for (int k = 0; k < arrlen(n->out); k++)
                d->needs[n->out[k]->id] = type_is_float(n->out[k]->type);
        }
    }
}

void find_needs(struct differentiation *d)
{
    struct module *m = d->g->module;
    for (int i = 0; i < arrlen(m->params); i++) {
        struct param *p = m->params[i];
        if (!p->is_state && !p->frozen && type_is_float(p->type))
            arrput(d->trained, ((struct trained){.param = p}));
    }
    d->nforward = (int)arrlen(d->g->values);
    d->needs = NEW_ARRAY(bool, d->nforward + 1);
    mark_region(d, d->g->root);
}
