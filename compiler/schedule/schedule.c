/* From phases to one static order per stage. */
#include "../base/diag.h"
#include "../op.h"
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

/* On how many ranks the rows lie that are cut into micro-batches: these may cut only what each of them holds. */
static int64_t ranks_of_rows(const struct module *m)
{
    const struct plan *plan = m->plan;
    int64_t most = 1;
    for (int e = 0; e < ENTRIES; e++)
        for (int i = 0; m->graph[e] && i < arrlen(m->graph[e]->values); i++) {
            const struct value *v = m->graph[e]->values[i];
            int64_t ranks = 1;
            if (!v->def || v->def->op != &op_input)
                continue;
            for (int a = 0; a < plan->mesh.naxis; a++)
                if (!plan->mesh.axis[a].time && v->lay.ax[a].kind == SBP_S && v->dim[v->lay.ax[a].dim] == plan->mb_dim)
                    ranks *= plan->mesh.axis[a].size;
            most = ranks > most ? ranks : most;
        }
    return most;
}

/* What the ranks really wait under this schedule, splits and chunks included. */
static void warn_bubble(const struct module *m, double bubble)
{
    const struct plan *plan = m->plan;
    int stages = plan_stages(plan);
    if (plan->microbatches >= stages)
        return;
    struct span at = plan->mb_span.file ? plan->mb_span : plan->pipeline_span.file ? plan->pipeline_span : plan->span;
    struct diag *d = diag_warning(W_BUBBLE, at, "%lld micro-batch%s on %d stages: ranks wait %.0f%% of the step",
                                  (long long)plan->microbatches, plan->microbatches == 1 ? "" : "es", stages, bubble * 100);
    diag_label(d, plan->mesh.axis[plan->mesh.pipe].span, "%d stages", stages);
    int64_t ranks = plan->mb_dim ? ranks_of_rows(m) : 1, whole = plan->mb_dim ? plan->mb_dim->size : 0;
    int64_t size = whole % ranks ? 1 : whole / ranks, most = 4 * stages, count = most;      /* uneven rows are not cut */
    const char *name = plan->mb_dim ? plan->mb_dim->name : "";
    const char *rows = ranks > 1 ? mem_printf("the %lld of %s on a rank", (long long)size, name)
                                 : mem_printf("%s = %lld", name, (long long)size);
    while (count < size && size % count && count < most + 100000)
        count++;
    if (!whole)
        diag_help(d, "take %lld micro-batches or more", (long long)count);
    else if (count <= size && size % count == 0)
        diag_help(d, "take %lld micro-batches or more, of those that divide %s", (long long)count, rows);
    else if (whole % ranks)
        diag_help(d, "%lld or more would be best, but %s = %lld is uneven over %lld ranks and not cut: take %s = %lld",
                  (long long)most, name, (long long)whole, (long long)ranks, name, (long long)(most * ranks));
    else
        diag_help(d, "%lld or more would be best, but they must divide %s: take one of %s, or %s = %lld, or fewer stages",
                  (long long)most, rows, divisors_text(size), name, (long long)(most * ranks));
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
        warn_bubble(m, p->bubble);
}
