/* The simulation in unit times. From one instant to the next only those stages are looked at that became idle or for
 * which something they wait for has finished. */
#include "simulate.h"
#include <limits.h>

struct actors *actors_new(int stages, int microbatches)
{
    struct actors *a = NEW(struct actors);
    a->stages = stages;
    a->microbatches = microbatches;
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
    struct actors *a;
    int *finish;                 /* actor * microbatches + i: when that firing ends; INT_MAX before it starts */
    int *next;                   /* per queue: firings done */
    int *used;                   /* per register */
    int *running;                /* per stage: the actor at work, or -1 */
    int **queues;                /* per stage: its queues */
    int **writes, **reads;       /* per actor: registers */
    int **waiting;               /* per actor: stages with actors that need it */
    int **ends;                  /* by instant, modulo `horizon`: stages whose work ends then */
    int horizon;
    int *ready;                  /* stages to look at now */
    bool *listed;
};

static void index_actors(struct state *s)
{
    struct actors *a = s->a;
    int n = (int)arrlen(a->actor);
    s->queues = NEW_ARRAY(int *, a->stages);
    s->writes = NEW_ARRAY(int *, n);
    s->reads = NEW_ARRAY(int *, n);
    s->waiting = NEW_ARRAY(int *, n);
    for (int q = 0; q < arrlen(a->queue); q++)
        arrput(s->queues[a->queue[q].stage], q);
    for (int r = 0; r < arrlen(a->registers); r++) {
        for (int i = 0; i < arrlen(a->registers[r].writers); i++)
            arrput(s->writes[a->registers[r].writers[i]], r);
        for (int i = 0; i < arrlen(a->registers[r].readers); i++)
            arrput(s->reads[a->registers[r].readers[i]], r);
    }
    for (int i = 0; i < n; i++) {
        s->horizon = a->actor[i].time >= s->horizon ? a->actor[i].time + 1 : s->horizon;
        a->count[a->actor[i].stage] += a->microbatches;
        for (int k = 0; k < arrlen(a->actor[i].needs); k++)
            if (a->actor[a->actor[i].needs[k]].stage != a->actor[i].stage)
                arrput(s->waiting[a->actor[i].needs[k]], a->actor[i].stage);
    }
    for (int i = 0; i < a->stages; i++)
        a->order[i] = NEW_ARRAY(struct fired, a->count[i] + 1);
}

/* What the queue fires next: its micro-batches in groups, each group through all chunks. */
static bool queue_head(const struct state *s, int queue, struct turn *head)
{
    const struct queue *q = &s->a->queue[queue];
    int chunks = (int)arrlen(q->actors), m = s->a->microbatches, next = s->next[queue];
    if (q->list) {
        if (next < arrlen(q->list))
            *head = q->list[next];
        return next < arrlen(q->list);
    }
    if (next >= chunks * m)
        return false;
    int group = next / (chunks * q->group), first = group * q->group;
    int size = first + q->group > m ? m - first : q->group, place = next - first * chunks;
    *head = (struct turn){q->actors[place / size], first + place % size};
    return true;
}

static bool may_fire(const struct state *s, struct turn t, int now)
{
    const struct actor *it = &s->a->actor[t.actor];
    for (int i = 0; i < arrlen(it->needs); i++)
        if (s->finish[it->needs[i] * s->a->microbatches + t.microbatch] > now)
            return false;
    for (int i = 0; i < arrlen(s->writes[t.actor]); i++)
        if (s->used[s->writes[t.actor][i]] >= s->a->registers[s->writes[t.actor][i]].slots)
            return false;
    return true;
}

static bool fire_one(struct state *s, int stage, int now)
{
    struct actors *a = s->a;
    for (int k = 0; k < arrlen(s->queues[stage]); k++) {
        int queue = s->queues[stage][k];
        struct turn t;
        if (!queue_head(s, queue, &t) || !may_fire(s, t, now))
            continue;
        const struct actor *it = &a->actor[t.actor];
        int stop = now + it->time;
        s->finish[t.actor * a->microbatches + t.microbatch] = stop;
        s->next[queue]++;
        s->running[stage] = t.actor;
        for (int i = 0; i < arrlen(s->writes[t.actor]); i++)
            s->used[s->writes[t.actor][i]]++;
        struct firing what = {.phase = it->phase, .microbatch = t.microbatch, .chunk = it->chunk};
        if (!a->busy[stage])
            a->first[stage] = now;
        a->busy[stage] += it->time;
        a->last[stage] = stop;
        a->order[stage][a->count[stage]++] = (struct fired){what, now, it->time};
        arrput(s->ends[stop % s->horizon], stage);
        return true;
    }
    return false;
}

static void look_at(struct state *s, int stage)
{
    if (!s->listed[stage])
        arrput(s->ready, stage);
    s->listed[stage] = true;
}

/* The work of these stages has ended: they are idle, their registers are given back, whoever waited may look. */
static void end_work(struct state *s, int **ended)
{
    for (int i = 0; i < arrlen(*ended); i++) {
        int stage = (*ended)[i], actor = s->running[stage];
        s->running[stage] = -1;
        look_at(s, stage);
        for (int k = 0; k < arrlen(s->reads[actor]); k++)
            s->used[s->reads[actor][k]]--;
        for (int k = 0; k < arrlen(s->waiting[actor]); k++)
            look_at(s, s->waiting[actor][k]);
    }
    if (*ended)
        arrsetlen(*ended, 0);
}

bool actors_run(struct actors *a)
{
    int n = (int)arrlen(a->actor), left = 0, busy = 0;
    struct state s = {.a = a, .finish = NEW_ARRAY(int, n * a->microbatches), .next = NEW_ARRAY(int, arrlen(a->queue)),
                      .used = NEW_ARRAY(int, arrlen(a->registers)), .running = NEW_ARRAY(int, a->stages),
                      .listed = NEW_ARRAY(bool, a->stages)};
    a->order = NEW_ARRAY(struct fired *, a->stages);
    a->count = NEW_ARRAY(int, a->stages);
    a->busy = NEW_ARRAY(int, a->stages);
    a->first = NEW_ARRAY(int, a->stages);
    a->last = NEW_ARRAY(int, a->stages);
    index_actors(&s);
    s.ends = NEW_ARRAY(int *, s.horizon);
    for (int i = 0; i < n * a->microbatches; i++)
        s.finish[i] = INT_MAX;
    for (int i = 0; i < a->stages; i++) {
        left += a->count[i];
        a->count[i] = 0;
        s.running[i] = -1;
        look_at(&s, i);
    }
    for (int now = 0; busy || arrlen(s.ready); now++) {
        busy -= (int)arrlen(s.ends[now % s.horizon]);
        end_work(&s, &s.ends[now % s.horizon]);
        for (int i = 0; i < arrlen(s.ready); i++) {
            int stage = s.ready[i];
            s.listed[stage] = false;
            if (s.running[stage] < 0 && fire_one(&s, stage, now)) {
                left--;
                busy++;
                a->makespan = a->last[stage] > a->makespan ? a->last[stage] : a->makespan;
            }
        }
        if (s.ready)
            arrsetlen(s.ready, 0);
    }
    return left == 0;
}
