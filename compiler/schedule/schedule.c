/* From phases to one static order per stage. */
#include "../base/diag.h"
#include "../passes.h"
#include "links.h"
#include "policy.h"

const char *const schedule_name[SCHEDULES] = {
#define SCHEDULE(id, name, spelling, chunks, splits, doc) name,
#include "../schedules.def"
#undef SCHEDULE
};

/* An order by hand comes as it is; one that blocks even so has no bubble, and prove says where it hangs. */
struct timetable *timetable_of(const struct plan *plan)
{
    return timetable_make(plan, plan->given);
}

void schedule(struct module *m)
{
    struct physical *p = m->physical;
    struct timetable *t = timetable_of(m->plan);
    if (!t->complete && !m->plan->given) {
        diag_error(E_SCHEDULE, m->plan->pipeline_span, "the registers of this schedule block each other");
        return;
    }
    for (int s = 0; s < p->nstage; s++)
        p->stages[s].order = t->order[s];
    links_slots(p);
    p->bubble = t->complete ? timetable_bubble(t) : -1;
}
