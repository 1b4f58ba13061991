/* What each stage does in a step, as events: the phases in the scheduled order, and in them the calls of the runtime in
 * the order of the program, exactly. They are made one at a time, where the stage stands: a step may have millions. */
#include "certificate.h"
#include "../module.h"
#include "../op.h"
#include "../target.h"
#include <string.h>

/* The calls that may wait or let go, of one run of a phase. */
static struct call *calls_of(const struct region *root)
{
    struct call *calls = NULL;
    for (int k = 0; root && k < arrlen(root->nodes); k++) {
        const struct node *n = root->nodes[k];
        if (n->op == &op_box_recv)
            arrput(calls, ((struct call){CALL_RECV, (int)node_int(n, "link", 0), n}));
        else if (n->op == &op_box_send)
            arrput(calls, ((struct call){CALL_SEND, (int)node_int(n, "link", 0), n}));
        else if (n->op == &op_box_stage_reduce)
            arrput(calls, ((struct call){CALL_MEET, (int)node_int(n, "comm", 0), n}));
    }
    return calls;
}

static int passes_of(const struct event_walk *w, const struct link *l)
{
    return phase_per_microbatch(l->phase) ? w->microbatches : 1;
}

static bool make(struct event_walk *w, enum event_kind kind, int link, int comm, int microbatch, const struct node *node)
{
    w->now = (struct event){kind, w->firing.phase, (unsigned)w->firing.chunk, link, comm, microbatch, w->firing.microbatch,
                            node};
    return true;
}

/* Event `turn` of a call, or false when it has no such event.
 *
 * A receive: the cpu runtime has receives posted ahead and posts the next one into the slot it has just emptied; the cuda
 * runtime posts a receive only when it comes to it. A send: the slot must have been sent from before it is filled again. */
static bool call_event(struct event_walk *w, const struct call *c, int turn)
{
    int i = w->firing.microbatch;
    if (c->kind == CALL_MEET)
        return turn == 0 && make(w, EVENT_MEET, -1, c->which, i, c->node);
    const struct link *l = &w->p->links[c->which];
    if (c->kind == CALL_SEND) {
        if (turn == 0)
            return i >= l->slots_sent && make(w, EVENT_WAIT_SEND, c->which, -1, i - l->slots_sent, c->node);
        return make(w, EVENT_POST_SEND, c->which, -1, i, c->node);
    }
    if (turn == !w->ahead)
        return make(w, EVENT_WAIT_RECV, c->which, -1, i, c->node);
    if (!w->ahead)
        return make(w, EVENT_POST_RECV, c->which, -1, i, c->node);
    return i + l->slots_received < passes_of(w, l) &&
           make(w, EVENT_POST_RECV, c->which, -1, i + l->slots_received, c->node);
}

/* The receives posted before the step. */
static bool first_posts(struct event_walk *w)
{
    for (; w->ahead && w->link < arrlen(w->p->links); w->link++, w->slot = 0) {
        const struct link *l = &w->p->links[w->link];
        bool ours = l->entry == w->entry && l->to == w->stage->index;
        if (ours && w->slot < l->slots_received && w->slot < passes_of(w, l))
            return make(w, EVENT_POST_RECV, w->link, -1, w->slot++, NULL);
    }
    return false;
}

/* The entries without a backward take turns between chunks. */
static bool next_in_turn(struct event_walk *w, struct firing *f)
{
    int chunks = w->stage->nchunk, m = w->microbatches;
    int64_t group = w->group, at = w->fired++, first = at / (group * chunks) * group;
    int64_t of = m - first < group ? m - first : group;
    if (at >= (int64_t)m * chunks)
        return false;
    at -= first * chunks;
    *f = (struct firing){PHASE_FORWARD, (int)(first + at % of), (int)(at / of)};
    return true;
}

static bool next_once(struct event_walk *w, struct firing *f)
{
    switch (w->part) {
    case PHASE_COUNT:
        *f = (struct firing){PHASE_COUNT, (int)w->fired++, 0};
        return f->microbatch < w->microbatches && arrlen(w->calls[PHASE_COUNT][0]);
    case PHASE_FORWARD:
        return w->entry == ENTRY_TRAIN ? rolled_next(&w->order, f) : next_in_turn(w, f);
    case PHASE_SETUP:
    case PHASE_UPDATE:
        *f = (struct firing){w->part, 0, 0};
        return w->fired++ == 0;
    default:
        return false;            /* in the order of PHASE_FORWARD */
    }
}

static bool next_firing(struct event_walk *w)
{
    for (; w->part < PHASES; w->part++, w->fired = 0)
        if (next_once(w, &w->firing))
            return true;
    return false;
}

/* One step. After it everything sent has been received, so steps that follow each other cannot hang if one cannot. */
bool event_next(struct event_walk *w)
{
    w->passed++;
    if (w->link >= 0 && first_posts(w))
        return true;
    w->link = -1;
    for (;;) {
        const struct call *calls = w->calls[w->firing.phase][w->firing.chunk];
        for (; w->running && w->call < arrlen(calls); w->call++, w->turn = 0)
            while (w->turn < 2)
                if (call_event(w, &calls[w->call], w->turn++))
                    return true;
        w->call = w->turn = 0;
        w->running = next_firing(w);
        if (!w->running) {
            w->done = true;
            return false;
        }
    }
}

void event_start(struct event_walk *w, const struct physical *p, enum entry entry, int stage, const struct rolled *order,
                 int microbatches)
{
    memset(w, 0, sizeof *w);
    w->p = p;
    w->entry = entry;
    w->stage = &p->stages[stage];
    w->microbatches = microbatches;
    w->ahead = target_of(p->module)->posts_ahead;
    w->order.of = order;
    w->group = schedule_group(p);
    w->firing.microbatch = -1;
    for (int phase = 0; phase < PHASES; phase++)
        for (int chunk = 0; chunk < MAX_CHUNK; chunk++)
            w->calls[phase][chunk] = calls_of(w->stage->phase[entry][phase][chunk]);
    w->passed = -1;
    event_next(w);
}
