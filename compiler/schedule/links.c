/* One slot more than the value itself needs, so that the next micro-batch can arrive while this one is worked on. */
#include "links.h"
#include "../module.h"

struct reads { const struct value *value; bool found; };

static void look_for(struct node *n, void *context)
{
    struct reads *r = context;
    for (int k = 0; k < arrlen(n->in); k++)
        r->found |= n->in[k] == r->value;
    for (int k = 0; n->body && k < arrlen(n->body->results); k++)
        r->found |= n->body->results[k] == r->value;
}

static bool read_in(const struct stage *s, const struct link *l, enum phase phase, const struct value *v)
{
    struct reads r = {.value = v};
    struct region *root = s->phase[l->entry][phase];
    if (root && v)
        region_walk(root, look_for, &r);
    return r.found;
}

static enum phase last_reader(const struct stage *s, const struct link *l, const struct value *v)
{
    static const enum phase later[] = {PHASE_WEIGHT, PHASE_BACKWARD};
    for (int i = 0; l->phase == PHASE_FORWARD && i < 2; i++)
        if (read_in(s, l, later[i], v))
            return later[i];
    return l->phase;
}

enum phase link_last_reader(const struct physical *p, const struct link *l)
{
    return last_reader(&p->stages[l->to], l, l->received);
}

static int end_slots(const struct physical *p, const struct link *l, int stage, const struct value *v)
{
    int m = (int)p->module->plan->microbatches;
    if (!phase_per_microbatch(l->phase))
        return 1;
    const struct stage *s = &p->stages[stage];
    int slots = 1 + (last_reader(s, l, v) == l->phase ? 1 : s->saved_slots);
    return slots < m ? slots : m;
}

void links_slots(struct physical *p)
{
    for (int i = 0; i < arrlen(p->links); i++) {
        struct link *l = &p->links[i];
        l->slots_sent = end_slots(p, l, l->from, l->sent);
        l->slots_received = end_slots(p, l, l->to, l->received);
    }
}
