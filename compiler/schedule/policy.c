/* Which slots and queues make which schedule. All differ in these alone:
 *
 *              slots from forward to backward    from forward to weight    queues of a stage
 * gpipe        m                                 -                         F, B
 * one_f_one_b  p - s                             -                         F, B
 * interleaved  2(p-s-1) + (v-1)p + 1             -                         F, B; chunks in groups of p micro-batches
 * zb_h1        p - s                             p                         F, B, W
 * zb_h2        2(p-s) - 1                        2p - 1                    F, B, W
 * zb_v         -                                 2p                        F1, F0, B0, W0, B1, W1
 *
 * zb_v has an order that leaves no gap when there are micro-batches enough; it and orders from files are one queue per
 * stage. A backward that is split under another schedule gets the weight part as a third queue: a weight gradient fires
 * when nothing else can, and its slots are those of the forward. */
#include "policy.h"

struct build {
    struct actors *a;
    const struct plan *plan;
    int stages, chunks, microbatches;
    bool splits;
    int *forward, *backward, *weight;        /* actors by piece */
};

static int piece(const struct build *b, int stage, int chunk)
{
    return virtual_of(b->plan, stage, chunk);
}

static void add_actors(struct build *b)
{
    int pieces = b->stages * b->chunks;
    b->forward = NEW_ARRAY(int, pieces);
    b->backward = NEW_ARRAY(int, pieces);
    b->weight = NEW_ARRAY(int, pieces);
    for (int s = 0; s < b->stages; s++)
        for (int c = 0; c < b->chunks; c++) {
            int k = piece(b, s, c);
            b->forward[k] = actors_add(b->a, s, PHASE_FORWARD, c, 1);
            b->backward[k] = actors_add(b->a, s, PHASE_BACKWARD, c, b->splits ? 1 : 2);
            if (b->splits)
                b->weight[k] = actors_add(b->a, s, PHASE_WEIGHT, c, 1);
        }
    for (int k = 0; k < pieces; k++) {
        actors_need(b->a, b->backward[k], b->forward[k]);
        if (b->splits)
            actors_need(b->a, b->weight[k], b->backward[k]);
        if (k > 0) {
            actors_need(b->a, b->forward[k], b->forward[k - 1]);
            actors_need(b->a, b->backward[k - 1], b->backward[k]);
        }
    }
}

/* Slots shared by all chunks of a stage. */
static void add_register(struct build *b, int stage, const int *readers, int slots)
{
    struct register_file *r = actors_register(b->a, slots < 1 ? 1 : slots);
    for (int c = 0; c < b->chunks; c++) {
        arrput(r->writers, b->forward[piece(b, stage, c)]);
        arrput(r->readers, readers[piece(b, stage, c)]);
    }
}

/* A queue of one phase, chunk after chunk or against their order. */
static void add_queue(struct build *b, int stage, const int *actors, bool backwards)
{
    int group = b->chunks > 1 ? b->stages : b->microbatches;
    struct queue *q = actors_queue(b->a, stage, group);
    for (int c = 0; c < b->chunks; c++)
        arrput(q->actors, actors[piece(b, stage, backwards ? b->chunks - 1 - c : c)]);
}

static void single_queue(struct build *b, int actor)
{
    struct queue *q = actors_queue(b->a, b->a->actor[actor].stage, b->microbatches);
    arrput(q->actors, actor);
}

static void add_stage(struct build *b, int s)
{
    int p = b->stages, to_backward = 0, to_weight = 0;
    switch (b->plan->schedule) {
    case SCHEDULE_ZB_V:
        if (b->chunks < 2) {              /* one stage: nothing to fold */
            to_backward = to_weight = 1;
            break;
        }
        add_register(b, s, b->weight, 2 * p);
        single_queue(b, b->forward[piece(b, s, 1)]);
        single_queue(b, b->forward[piece(b, s, 0)]);
        single_queue(b, b->backward[piece(b, s, 0)]);
        single_queue(b, b->weight[piece(b, s, 0)]);
        single_queue(b, b->backward[piece(b, s, 1)]);
        single_queue(b, b->weight[piece(b, s, 1)]);
        return;
    case SCHEDULE_GPIPE: to_backward = p > 1 ? b->microbatches : 1; break;
    case SCHEDULE_ONE_F_ONE_B: to_backward = p - s; break;
    case SCHEDULE_INTERLEAVED: to_backward = 2 * (p - s - 1) + (b->chunks - 1) * p + 1; break;
    case SCHEDULE_ZB_H1: to_backward = p - s; to_weight = p; break;
    case SCHEDULE_ZB_H2: to_backward = 2 * (p - s) - 1; to_weight = 2 * p - 1; break;
    default: BUG("schedule %d has no slot rule", b->plan->schedule);
    }
    add_register(b, s, b->backward, to_backward);
    if (b->splits)
        add_register(b, s, b->weight, to_weight ? to_weight : to_backward);
    add_queue(b, s, b->forward, false);
    add_queue(b, s, b->backward, true);
    if (b->splits)
        add_queue(b, s, b->weight, true);
}

/* ---- orders given from outside ---- */

static void add_list(struct build *b, int stage, const struct firing *order)
{
    struct queue *q = actors_queue(b->a, stage, 1);
    for (int i = 0; i < arrlen(order); i++) {
        int k = piece(b, stage, order[i].chunk);
        int actor = order[i].phase == PHASE_FORWARD ? b->forward[k]
                    : order[i].phase == PHASE_BACKWARD ? b->backward[k] : b->weight[k];
        arrput(q->list, ((struct turn){actor, order[i].microbatch}));
    }
}

struct writer {
    struct firing *order;
    int next[2][PHASES];         /* by chunk and phase: the next micro-batch */
    int microbatches;
};

/* "F1 B1": the next micro-batch of each, those that are spent left out. */
static void write(struct writer *w, const char *what)
{
    for (; *what; what += 2 + (what[2] == ' ')) {
        enum phase phase = *what == 'F' ? PHASE_FORWARD : *what == 'B' ? PHASE_BACKWARD : PHASE_WEIGHT;
        int chunk = what[1] - '0';
        int *next = &w->next[chunk][phase];
        if (*next < w->microbatches)
            arrput(w->order, ((struct firing){phase, (*next)++, chunk}));
    }
}

static void write_times(struct writer *w, const char *what, int times)
{
    for (int i = 0; i < times; i++)
        write(w, what);
}

/* zb_v without a gap: rank r of p, at least 2p - 1 micro-batches. */
static struct firing *exact_v(int r, int p, int microbatches)
{
    struct writer w = {.microbatches = microbatches};
    write_times(&w, "F0", 2 * (p - r) - 1);
    write_times(&w, "F1 F0", r);
    write_times(&w, "F1 B1 W1", p - r);
    while (w.next[1][PHASE_FORWARD] < microbatches)
        write(&w, "F0 B0 W0 F1 B1 W1");
    write_times(&w, "B0 B1", r);
    write_times(&w, "B0 W0", p - r);
    write_times(&w, "W1", microbatches);
    write_times(&w, "W0", microbatches);
    return w.order;
}

/* interleaved when the micro-batches fill their groups: the forwards that have slots, then a backward and a forward in
 * turn. The slots alone give an order that takes as long; but where a stage has time to spare that one drifts for many
 * micro-batches before it repeats itself. */
static struct firing *saturated(const struct build *b, int stage)
{
    int group = b->stages, all = b->microbatches * b->chunks;
    int ahead = 2 * (b->stages - stage - 1) + (b->chunks - 1) * b->stages + 1;
    struct firing *order = NULL;
    ahead = ahead < all ? ahead : all;
    for (int i = -ahead; i < all; i++) {
        int f = i + ahead, first = f / (group * b->chunks) * group;
        if (f < all)
            arrput(order, ((struct firing){PHASE_FORWARD, first + f % group, f / group % b->chunks}));
        if (i < 0)
            continue;
        first = i / (group * b->chunks) * group;
        struct firing back = {PHASE_BACKWARD, first + i % group, b->chunks - 1 - i / group % b->chunks};
        if (f < all) {           /* the backward frees the slot */
            arrput(order, arrlast(order));
            order[arrlen(order) - 2] = back;
        } else {
            arrput(order, back);
        }
    }
    return order;
}

struct actors *policy_actors(const struct plan *plan, int microbatches, struct firing *const *order)
{
    int stages = plan_stages(plan);
    struct build b = {.a = actors_new(stages, microbatches), .plan = plan, .stages = stages,
                      .chunks = plan_chunks(plan), .microbatches = microbatches, .splits = plan->split_backward};
    bool exact = plan->schedule == SCHEDULE_ZB_V && b.chunks == 2 && microbatches >= 2 * stages - 1;
    bool full = plan->schedule == SCHEDULE_INTERLEAVED && b.chunks > 1 && !b.splits && microbatches % stages == 0;
    add_actors(&b);
    for (int s = 0; s < stages; s++) {
        if (order)
            add_list(&b, s, order[s]);
        else if (exact)
            add_list(&b, s, exact_v(s, stages, microbatches));
        else if (full)
            add_list(&b, s, saturated(&b, s));
        else
            add_stage(&b, s);
    }
    return b.a;
}
