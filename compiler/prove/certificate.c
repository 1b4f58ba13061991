/* The run of all stages' events against each other, of so much of the steady state as a circle of waits can span. */
#include "certificate.h"
#include "../module.h"
#include "../op.h"
#include <string.h>

const struct event *certificate_at(const struct certificate *c, int stage)
{
    return c->stage[stage].done ? NULL : &c->stage[stage].now;
}

struct run {
    const struct physical *p;
    struct certificate *c;
    bool **sent, **posted;       /* per link and micro-batch */
    int stages;
};

static const struct event *at(const struct run *r, int stage)
{
    return certificate_at(r->c, stage);
}

/* Do two nodes on two stages add up the same tensors? */
static bool same_meeting(const struct physical *p, const struct node *a, const struct node *b)
{
    if (arrlen(a->out) != arrlen(b->out) || node_int(a, "reduce", 0) != node_int(b, "reduce", 0))
        return false;
    for (int k = 0; k < arrlen(a->out); k++) {
        const struct value *x = a->out[k], *y = b->out[k];
        if (x->type != y->type || strcmp(x->path, y->path) != 0 ||
            value_local_bytes(x, p->mesh) != value_local_bytes(y, p->mesh))
            return false;
    }
    return true;
}

/* The first member that is not at this meeting, or -1. */
static int missing(const struct run *r, const struct event *e)
{
    const int *members = r->p->comms[e->comm].stages;
    for (int i = 0; i < (members ? arrlen(members) : r->stages); i++) {
        int s = members ? members[i] : i;
        const struct event *other = at(r, s);
        if (!other || other->kind != EVENT_MEET || other->comm != e->comm ||
            !same_meeting(r->p, other->node, e->node))
            return s;
    }
    return -1;
}

/* Whom a stage waits for, or -1 when it can go on. */
static int waits_for(const struct run *r, int stage)
{
    const struct event *e = at(r, stage);
    switch (e->kind) {
    case EVENT_WAIT_RECV: return r->sent[e->link][e->microbatch] ? -1 : r->p->links[e->link].from;
    case EVENT_WAIT_SEND: return r->posted[e->link][e->microbatch] ? -1 : r->p->links[e->link].to;
    case EVENT_MEET: return missing(r, e);
    default: return -1;
    }
}

static void pass(struct run *r, int stage)
{
    const struct event *e = at(r, stage);
    if (e->kind == EVENT_POST_SEND)
        r->sent[e->link][e->microbatch] = true;
    if (e->kind == EVENT_POST_RECV)
        r->posted[e->link][e->microbatch] = true;
    if (e->kind == EVENT_MEET) {
        const int *members = r->p->comms[e->comm].stages;
        for (int i = 0; i < (members ? arrlen(members) : r->stages); i++)
            event_next(&r->c->stage[members ? members[i] : i]);
        return;
    }
    event_next(&r->c->stage[stage]);
}

static void find_cycle(struct run *r)
{
    int *seen = NEW_ARRAY(int, r->stages), s = 0, step = 0;
    while (!at(r, s))
        s++;
    for (; at(r, s) && !seen[s]; s = waits_for(r, s))
        seen[s] = ++step;
    int first = s;
    if (!at(r, s)) {                     /* the chain ends at a stage that is done: show it from its start */
        for (first = 0; seen[first] != 1; first++)
            ;
        s = first;
    }
    do {
        arrput(r->c->cycle, s);
        s = at(r, s) ? waits_for(r, s) : first;
    } while (s != first);
}

static struct certificate *make(const struct physical *p, enum entry entry, const struct rolled *order, int m)
{
    struct certificate *c = NEW(struct certificate);
    struct run r = {.p = p, .c = c, .stages = p->nstage};
    int links = (int)arrlen(p->links);
    r.sent = NEW_ARRAY(bool *, links);
    r.posted = NEW_ARRAY(bool *, links);
    for (int k = 0; k < links; k++) {
        r.sent[k] = NEW_ARRAY(bool, m);
        r.posted[k] = NEW_ARRAY(bool, m);
    }
    c->stage = NEW_ARRAY(struct event_walk, p->nstage);
    for (int s = 0; s < p->nstage; s++)
        event_start(&c->stage[s], p, entry, s, &order[s], m);
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < p->nstage; s++)
            while (at(&r, s) && waits_for(&r, s) < 0) {
                pass(&r, s);
                moved = true;
            }
    }
    c->complete = true;
    for (int s = 0; s < p->nstage; s++)
        if (at(&r, s))
            c->complete = false;
    if (!c->complete)
        find_cycle(&r);
    return c;
}

/* How far any firing of a stage lags behind the newest micro-batch, at most. */
static int under_way(const struct rolled *order)
{
    int newest = -1, most = 0;
    struct firing f;
    for (struct rolled_walk w = {.of = order}; rolled_next(&w, &f);) {
        newest = f.microbatch > newest ? f.microbatch : newest;
        most = newest - f.microbatch + 1 > most ? newest - f.microbatch + 1 : most;
    }
    return most;
}

/* Micro-batches of the steady state that need no look of their own. A circle of waits visits a stage once at most, and
 * each of its edges spans no more micro-batches than are under way; so one that exists at all exists, moved, within as
 * many as are kept. Orders in long loops are shortened by the same number on all stages. */
static int spare(const struct physical *p, enum entry entry, struct rolled *order)
{
    int m = (int)p->module->plan->microbatches, most = 0, slots = 0;
    struct rolled shortest;
    for (int s = 0; s < p->nstage; s++) {
        order[s] = p->stages[s].order;
        rolled_shorten(&order[s], m, &shortest);
        int here = under_way(&shortest);
        most = here > most ? here : most;
    }
    for (int k = 0; k < arrlen(p->links); k++) {
        slots = p->links[k].slots_sent > slots ? p->links[k].slots_sent : slots;
        slots = p->links[k].slots_received > slots ? p->links[k].slots_received : slots;
    }
    int64_t skip = m - (int64_t)(p->nstage + 1) * (most + slots + 2);
    for (int s = 0; s < p->nstage && skip > 0 && entry == ENTRY_TRAIN; s++) {
        int cut = rolled_shorten(&p->stages[s].order, (int)skip, &order[s]);
        if (cut < skip) {
            skip = cut;
            s = -1;              /* the others take out no more than this one can */
        }
    }
    for (int s = 0; s < p->nstage && skip <= 0; s++)
        order[s] = p->stages[s].order;
    return skip > 0 ? (int)skip : 0;
}

struct certificate *certificate_make(const struct physical *p, enum entry entry)
{
    struct rolled *order = NEW_ARRAY(struct rolled, p->nstage);
    int m = (int)p->module->plan->microbatches, skip = spare(p, entry, order);
    struct certificate *c = make(p, entry, order, m - skip);
    if (c->complete || !skip)
        return c;
    for (int s = 0; s < p->nstage; s++)
        order[s] = p->stages[s].order;
    return make(p, entry, order, m);     /* the whole, for what is told about it */
}
