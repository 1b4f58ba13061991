/* What each stage does in a step, as events: the phases in the scheduled order, and in them the calls of the runtime in
 * the order of the program, exactly. Then the run. */
#include "certificate.h"
#include "../module.h"
#include "../op.h"
#include "../schedule/rolled.h"
#include <string.h>

struct builder {
    const struct physical *p;
    enum entry entry;
    const struct stage *stage;
    struct event *events;
    int microbatches;
    enum phase phase;
    int chunk, running;
    bool ahead;                  /* receives are posted ahead */
    bool counting;               /* first they are counted: there may be many */
    int64_t count;
    struct rolled order;
};

static void add(struct builder *b, enum event_kind kind, int link, int comm, int microbatch, const struct node *node)
{
    if (b->counting) {
        b->count++;
        return;
    }
    arrput(b->events, ((struct event){kind, b->phase, (unsigned)b->chunk, link, comm, microbatch, b->running, node}));
}

static int passes(const struct builder *b, const struct link *l)
{
    return phase_per_microbatch(l->phase) ? b->microbatches : 1;
}

/* Where box_recv stands. The cpu runtime has receives posted ahead and posts the next one into the slot it has just
 * emptied; the cuda runtime posts a receive only when it comes to it. */
static void receive(struct builder *b, int link, int i, const struct node *n)
{
    const struct link *l = &b->p->links[link];
    if (!b->ahead)
        add(b, EVENT_POST_RECV, link, -1, i, n);
    add(b, EVENT_WAIT_RECV, link, -1, i, n);
    if (b->ahead && i + l->slots_received < passes(b, l))
        add(b, EVENT_POST_RECV, link, -1, i + l->slots_received, n);
}

/* Where box_send stands: the slot must have been sent from before it is filled again. */
static void send(struct builder *b, int link, int i, const struct node *n)
{
    int slots = b->p->links[link].slots_sent;
    if (i >= slots)
        add(b, EVENT_WAIT_SEND, link, -1, i - slots, n);
    add(b, EVENT_POST_SEND, link, -1, i, n);
}

/* One run of a phase of a chunk for micro-batch i (0 in phases that run once). */
static void run_phase(struct builder *b, enum phase phase, int chunk, int i)
{
    struct region *root = b->stage->phase[b->entry][phase][chunk];
    b->phase = phase;
    b->chunk = chunk;
    b->running = i;
    for (int k = 0; root && k < arrlen(root->nodes); k++) {
        const struct node *n = root->nodes[k];
        if (n->op == &op_box_recv)
            receive(b, (int)node_int(n, "link", 0), i, n);
        else if (n->op == &op_box_send)
            send(b, (int)node_int(n, "link", 0), i, n);
        else if (n->op == &op_box_stage_reduce)
            add(b, EVENT_MEET, -1, (int)node_int(n, "comm", 0), i, n);
    }
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

/* One step. After it everything sent has been received, so steps that follow each other cannot hang if one cannot. */
static void build_stage(struct builder *b)
{
    const struct physical *p = b->p;
    b->running = -1;
    for (int k = 0; k < arrlen(p->links) && b->ahead; k++) {
        const struct link *l = &p->links[k];
        bool ours = l->entry == b->entry && l->to == b->stage->index;
        for (int i = 0; ours && i < l->slots_received && i < passes(b, l); i++)
            add(b, EVENT_POST_RECV, k, -1, i, NULL);
    }
    for (int i = 0; i < b->microbatches; i++)
        run_phase(b, PHASE_COUNT, 0, i);
    run_phase(b, PHASE_SETUP, 0, 0);
    if (b->entry == ENTRY_TRAIN) {
        struct firing f;
        for (struct rolled_walk w = {.of = &b->order}; rolled_next(&w, &f);)
            run_phase(b, f.phase, f.chunk, f.microbatch);
    } else {
        int group = schedule_group(p);
        for (int first = 0; first < b->microbatches; first += group)
            for (int chunk = 0; chunk < b->stage->nchunk; chunk++)
                for (int i = first; i < first + group && i < b->microbatches; i++)
                    run_phase(b, PHASE_FORWARD, chunk, i);
    }
    run_phase(b, PHASE_UPDATE, 0, 0);
}

/* ---- the run ---- */

struct run {
    const struct physical *p;
    struct certificate *c;
    bool **sent, **posted;       /* per link and micro-batch */
    int stages;
};

static const struct event *at(const struct run *r, int stage)
{
    return r->c->at[stage] < arrlen(r->c->events[stage]) ? &r->c->events[stage][r->c->at[stage]] : NULL;
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
            r->c->at[members ? members[i] : i]++;
        return;
    }
    r->c->at[stage]++;
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
    bool ahead = !p->module->options || strcmp(p->module->options->target, "cuda") != 0;
    r.sent = NEW_ARRAY(bool *, links);
    r.posted = NEW_ARRAY(bool *, links);
    for (int k = 0; k < links; k++) {
        r.sent[k] = NEW_ARRAY(bool, m);
        r.posted[k] = NEW_ARRAY(bool, m);
    }
    c->events = NEW_ARRAY(struct event *, p->nstage);
    c->at = NEW_ARRAY(int, p->nstage);
    for (int s = 0; s < p->nstage; s++) {
        struct builder b = {.p = p, .entry = entry, .stage = &p->stages[s], .microbatches = m, .ahead = ahead,
                            .order = order[s]};
        b.counting = true;
        build_stage(&b);
        arrsetcap(b.events, b.count);
        b.counting = false;
        build_stage(&b);
        c->events[s] = b.events;
    }
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

struct certificate *certificate_make(const struct physical *p, enum entry entry)
{
    struct rolled *order = NEW_ARRAY(struct rolled, p->nstage);
    int m = (int)p->module->plan->microbatches, skip = spare(p, entry, order);
    struct certificate *c = make(p, entry, order, m - skip);
    for (int s = 0; s < p->nstage; s++)
        order[s] = p->stages[s].order;
    return c->complete || !skip ? c : make(p, entry, order, m);    /* the whole, for what is told about it */
}
