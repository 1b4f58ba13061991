/* Runs a schedule for few micro-batches and carries the result on to as many as there are. */
#include "policy.h"
#include "rolled.h"

static struct timetable *run(const struct plan *plan, int m, struct firing *const *given)
{
    int stages = plan_stages(plan);
    struct timetable *t = NEW(struct timetable);
    struct actors *a = policy_actors(plan, m, given);
    t->stages = stages;
    t->sample = a;
    t->complete = actors_run(a);
    t->order = NEW_ARRAY(struct rolled, stages);
    t->busy = NEW_ARRAY(int64_t, stages);
    t->first = NEW_ARRAY(int64_t, stages);
    t->last = NEW_ARRAY(int64_t, stages);
    for (int s = 0; s < stages; s++) {
        struct firing *order = NEW_ARRAY(struct firing, a->count[s] + 1);
        for (int i = 0; i < a->count[s]; i++)
            order[i] = a->order[s][i].what;
        if (t->complete)
            t->order[s] = rolled_make(order, a->count[s]);
        else if (given)
            t->order[s] = rolled_make(given[s], (int)arrlen(given[s]));
        t->busy[s] = a->busy[s];
        t->first[s] = a->first[s];
        t->last[s] = a->last[s];
    }
    t->makespan = a->makespan;
    t->bound = actors_bound(a);
    return t;
}

static int64_t carry(int64_t a, int64_t b, int by)
{
    return a + by * (b - a);
}

/* t, with what u has beyond it `by` times. */
static bool extend(struct timetable *t, const struct timetable *u, int by)
{
    for (int s = 0; s < t->stages; s++) {
        struct rolled longer;
        if (!rolled_extend(&t->order[s], &u->order[s], by, &longer))
            return false;
        t->order[s] = longer;
        t->busy[s] = carry(t->busy[s], u->busy[s], by);
        t->first[s] = carry(t->first[s], u->first[s], by);
        t->last[s] = carry(t->last[s], u->last[s], by);
    }
    t->makespan = carry(t->makespan, u->makespan, by);
    t->bound = carry(t->bound, u->bound, by);
    return true;
}

struct timetable *timetable_make(const struct plan *plan, struct firing *const *order)
{
    int m = (int)plan->microbatches, stages = plan_stages(plan);
    int period = plan_chunks(plan) > 1 && plan->schedule == SCHEDULE_INTERLEAVED ? stages : 1;
    for (int enough = 2 * stages + 4 * period + 8; !order && enough + 2 * period < m; enough *= 2) {
        int few = enough + (m - enough) % period;
        struct timetable *t = run(plan, few, NULL), *u = run(plan, few + period, NULL);
        if (!t->complete)
            return t;
        if (extend(t, u, (m - few) / period))
            return t;
    }
    return run(plan, m, order);
}

double timetable_bubble(const struct timetable *t)
{
    int64_t busy = 0;
    for (int s = 0; s < t->stages; s++)
        busy += t->busy[s];
    return t->makespan ? 1 - (double)busy / ((double)t->makespan * t->stages) : 0;
}

double timetable_span_bubble(const struct timetable *t, int stage)
{
    int64_t span = t->last[stage] - t->first[stage];
    return span ? (double)(span - t->busy[stage]) / (double)span : 0;
}
