/* From phases to one static order per stage. The plan's schedule says how many slots the registers between forward and
 * backward have; the actor system does the rest. */
#include "../base/diag.h"
#include "../passes.h"
#include "dump.h"
#include "links.h"
#include "simulate.h"

static int saved_slots(const struct plan *plan, int stages, int stage)
{
    int m = (int)plan->microbatches, slots;
    if (stages == 1)
        return 1;
    switch (plan->schedule) {
    case SCHEDULE_GPIPE: slots = m; break;
    case SCHEDULE_ONE_F_ONE_B: slots = stages - stage; break;
    default: BUG("schedule %d has no slot rule", plan->schedule);
    }
    return slots < m ? slots : m;
}

/* Forward and backward of every virtual stage; all chunks of a stage share the slots between the two, and take turns in
 * groups of as many micro-batches as there are stages. */
static struct actors *interleaved(const struct plan *plan)
{
    int stages = plan_stages(plan), chunks = plan_chunks(plan), m = (int)plan->microbatches;
    struct actors *a = actors_new(stages, m);
    for (int u = 0; u < stages * chunks; u++) {
        int f = actors_add(a, stage_of(plan, u), PHASE_FORWARD, chunk_of(plan, u), 1);
        int b = actors_add(a, stage_of(plan, u), PHASE_BACKWARD, chunk_of(plan, u), 2);
        actors_need(a, b, f);
        if (u > 0) {
            actors_need(a, f, f - 2);
            actors_need(a, b - 2, b);
        }
    }
    for (int s = 0; s < stages; s++) {
        int slots = 2 * (stages - s - 1) + (chunks - 1) * stages + 1;
        struct queue *forward = actors_queue(a, s, stages < m ? stages : m);
        for (int c = 0; c < chunks; c++)
            arrput(forward->actors, 2 * virtual_of(plan, s, c));
        struct queue *backward = actors_queue(a, s, stages < m ? stages : m);
        for (int c = chunks - 1; c >= 0; c--)
            arrput(backward->actors, 2 * virtual_of(plan, s, c) + 1);
        struct register_file *saved = actors_register(a, slots < m * chunks ? slots : m * chunks);
        for (int c = 0; c < chunks; c++) {
            arrput(saved->writers, 2 * virtual_of(plan, s, c));
            arrput(saved->readers, 2 * virtual_of(plan, s, c) + 1);
        }
    }
    return actors_run(a) ? a : NULL;
}

struct actors *schedule_actors(const struct plan *plan, int stages)
{
    if (plan->schedule == SCHEDULE_INTERLEAVED && stages > 1)
        return interleaved(plan);
    int *slots = NEW_ARRAY(int, stages);
    for (int s = 0; s < stages; s++)
        slots[s] = saved_slots(plan, stages, s);
    struct actors *a = actors_pipeline(stages, (int)plan->microbatches, slots);
    return actors_run(a) ? a : NULL;
}

void schedule(struct module *m)
{
    struct physical *p = m->physical;
    const struct plan *plan = m->plan;
    struct actors *a = schedule_actors(plan, p->nstage);
    if (!a) {
        diag_error(E_SCHEDULE, plan->pipeline_span, "the registers of this schedule block each other");
        return;
    }
    for (int s = 0; s < p->nstage; s++) {
        struct stage *stage = &p->stages[s];
        arrsetlen(stage->order, 0);
        for (int i = 0; i < arrlen(a->order[s]); i++)
            arrput(stage->order, a->order[s][i].what);
        stage->rolls = roll_firings(stage->order, (int)arrlen(stage->order));
    }
    links_slots(p);
    p->bubble = a->bubble;
}
