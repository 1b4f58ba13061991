/* The simulation in unit times, and the actor system of a plain pipeline. */
#include "simulate.h"
#include <limits.h>

struct actors *actors_new(int stages, int microbatches)
{
    struct actors *a = NEW(struct actors);
    a->stages = stages;
    a->microbatches = microbatches;
    a->order = NEW_ARRAY(struct fired *, stages);
    return a;
}

int actors_add(struct actors *a, int stage, enum phase phase, int chunk, int time)
{
    arrput(a->actor, ((struct actor){.stage = stage, .phase = phase, .chunk = chunk, .time = time}));
    return (int)arrlen(a->actor) - 1;
}

void actors_need(struct actors *a, int actor, int producer)
{
    arrput(a->actor[actor].needs, producer);
}

struct queue *actors_queue(struct actors *a, int stage, int group)
{
    arrput(a->queue, ((struct queue){.stage = stage, .group = group}));
    return &arrlast(a->queue);
}

struct register_file *actors_register(struct actors *a, int slots)
{
    arrput(a->registers, ((struct register_file){.slots = slots}));
    return &arrlast(a->registers);
}

struct state {
    int *started;                /* per actor: firings begun; those of one actor go 0, 1, 2 .. */
    int *finish;                 /* actor * microbatches + i: when that firing ends; INT_MAX before it starts */
    int *idle;                   /* per stage: when it is free */
};

/* What the queue fires next: its micro-batches in groups, each group through all chunks. */
static bool queue_head(const struct actors *a, const struct queue *q, int *actor, int *microbatch)
{
    int chunks = (int)arrlen(q->actors), m = a->microbatches;
    if (q->next >= chunks * m)
        return false;
    int group = q->next / (chunks * q->group), first = group * q->group;
    int size = first + q->group > m ? m - first : q->group, place = q->next - first * chunks;
    *actor = q->actors[place / size];
    *microbatch = first + place % size;
    return true;
}

static int finished_by(const struct actors *a, const struct state *s, int actor, int now)
{
    int count = 0;
    for (int i = s->started[actor] - 1; i >= 0; i--)
        if (s->finish[actor * a->microbatches + i] <= now) {
            count = i + 1;
            break;
        }
    return count;
}

static bool contains(const int *set, int x)
{
    for (int i = 0; i < arrlen(set); i++)
        if (set[i] == x)
            return true;
    return false;
}

static bool may_fire(const struct actors *a, const struct state *s, int actor, int microbatch, int now)
{
    const struct actor *it = &a->actor[actor];
    for (int i = 0; i < arrlen(it->needs); i++)
        if (s->finish[it->needs[i] * a->microbatches + microbatch] > now)
            return false;
    for (int r = 0; r < arrlen(a->registers); r++) {
        const struct register_file *file = &a->registers[r];
        if (!contains(file->writers, actor))
            continue;
        int used = 0;
        for (int i = 0; i < arrlen(file->writers); i++)
            used += s->started[file->writers[i]];
        for (int i = 0; i < arrlen(file->readers); i++)
            used -= finished_by(a, s, file->readers[i], now);
        if (used >= file->slots)
            return false;
    }
    return true;
}

static bool fire_one(struct actors *a, struct state *s, int stage, int now)
{
    for (int k = 0; k < arrlen(a->queue); k++) {
        struct queue *q = &a->queue[k];
        int actor, i;
        if (q->stage != stage || !queue_head(a, q, &actor, &i) || !may_fire(a, s, actor, i, now))
            continue;
        int stop = now + a->actor[actor].time;
        s->finish[actor * a->microbatches + i] = stop;
        s->started[actor]++;
        s->idle[stage] = stop;
        q->next++;
        struct firing what = {.phase = a->actor[actor].phase, .microbatch = i, .chunk = a->actor[actor].chunk};
        arrput(a->order[stage], ((struct fired){.what = what, .start = now, .stop = stop}));
        return true;
    }
    return false;
}

bool actors_run(struct actors *a)
{
    int n = (int)arrlen(a->actor), left = n * a->microbatches, busy = 0;
    struct state s = {NEW_ARRAY(int, n), NEW_ARRAY(int, n * a->microbatches), NEW_ARRAY(int, a->stages)};
    for (int i = 0; i < n * a->microbatches; i++)
        s.finish[i] = INT_MAX;
    for (int now = 0; left > 0;) {
        int next = INT_MAX;
        for (int stage = 0; stage < a->stages; stage++) {
            if (s.idle[stage] <= now && fire_one(a, &s, stage, now)) {
                left--;
                busy += s.idle[stage] - now;
            }
            if (s.idle[stage] > now && s.idle[stage] < next)
                next = s.idle[stage];
            if (s.idle[stage] > a->makespan)
                a->makespan = s.idle[stage];
        }
        if (next == INT_MAX && left > 0)
            return false;
        now = next;
    }
    a->bubble = a->makespan ? 1 - (double)busy / ((double)a->makespan * a->stages) : 0;
    return true;
}

struct actors *actors_pipeline(int stages, int microbatches, const int *slots)
{
    struct actors *a = actors_new(stages, microbatches);
    for (int s = 0; s < stages; s++) {
        int f = actors_add(a, s, PHASE_FORWARD, 0, 1), b = actors_add(a, s, PHASE_BACKWARD, 0, 2);
        struct queue *q = actors_queue(a, s, microbatches);
        arrput(q->actors, f);
        q = actors_queue(a, s, microbatches);
        arrput(q->actors, b);
        struct register_file *saved = actors_register(a, slots[s]);
        arrput(saved->writers, f);
        arrput(saved->readers, b);
        actors_need(a, b, f);
        if (s > 0) {
            actors_need(a, f, f - 2);
            actors_need(a, b - 2, b);
        }
    }
    return a;
}
