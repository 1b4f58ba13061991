/* From phases to one static order per stage. */
#include "../base/diag.h"
#include "../passes.h"
#include "links.h"
#include "policy.h"

const char *const schedule_name[SCHEDULES] = {
#define SCHEDULE(id, name, spelling, chunks, splits, vee, alone, doc) name,
#include "../schedules.def"
#undef SCHEDULE
};

const bool schedule_alone[SCHEDULES] = {
#define SCHEDULE(id, name, spelling, chunks, splits, vee, alone, doc) alone,
#include "../schedules.def"
#undef SCHEDULE
};

/* An order by hand comes as it is; one that blocks even so has no bubble, and prove says where it hangs. */
struct timetable *timetable_of(const struct plan *plan)
{
    return timetable_make(plan, plan->given);
}

/* What the ranks really wait under this schedule, splits and chunks included. */
static void warn_bubble(const struct plan *plan, double bubble)
{
    int stages = plan_stages(plan);
    if (plan->microbatches >= stages)
        return;
    struct span at = plan->mb_span.file ? plan->mb_span : plan->pipeline_span.file ? plan->pipeline_span : plan->span;
    struct diag *d = diag_warning(W_BUBBLE, at, "%lld micro-batch%s on %d stages: ranks wait %.0f%% of the step",
                                  (long long)plan->microbatches, plan->microbatches == 1 ? "" : "es", stages, bubble * 100);
    diag_label(d, plan->mesh.axis[plan->mesh.pipe].span, "%d stages", stages);
    int64_t size = plan->mb_dim ? plan->mb_dim->size : 0, most = 4 * stages, count = most;
    while (count < size && size % count && count < most + 100000)
        count++;
    if (!size)
        diag_help(d, "take %lld micro-batches or more", (long long)count);
    else if (count <= size && size % count == 0)
        diag_help(d, "take %lld micro-batches or more, of those that divide %s = %lld", (long long)count,
                  plan->mb_dim->name, (long long)size);
    else
        diag_help(d, "%lld or more would be best, but they must divide %s = %lld: take one of %s, or fewer stages",
                  (long long)most, plan->mb_dim->name, (long long)size, divisors_text(size));
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
    if (t->complete)
        links_widen(p);
    p->bubble = t->complete ? timetable_bubble(t) : -1;
    if (t->complete)
        warn_bubble(m->plan, p->bubble);
}
