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

struct actors *schedule_actors(const struct plan *plan, int stages)
{
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
        stage->saved_slots = saved_slots(plan, p->nstage, s);
        arrsetlen(stage->order, 0);
        for (int i = 0; i < arrlen(a->order[s]); i++)
            arrput(stage->order, a->order[s][i].what);
        stage->rolls = roll_firings(stage->order, (int)arrlen(stage->order));
    }
    links_slots(p);
    p->bubble = a->bubble;
}
