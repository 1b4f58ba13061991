/* From phases to one static order per stage. The plan's schedule says how many slots the registers between forward and
 * backward have; the actor system does the rest. Also settles the slots at the ends of links. */
#include "../base/diag.h"
#include "../passes.h"
#include "dump.h"
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

/* ---- link slots ---- */

struct reads { const struct value *value; bool found; };

static void look_for(struct node *n, void *context)
{
    struct reads *r = context;
    for (int k = 0; k < arrlen(n->in); k++)
        r->found |= n->in[k] == r->value;
}

static bool read_in(struct region *root, const struct value *v)
{
    struct reads r = {.value = v};
    if (root && v)
        region_walk(root, look_for, &r);
    return r.found;
}

/* One slot more than the value itself needs, so that the next micro-batch can arrive while this one is worked on. */
static int end_slots(const struct physical *p, const struct link *l, int stage, const struct value *v, int m)
{
    if (!phase_per_microbatch(l->phase))
        return 1;
    const struct stage *s = &p->stages[stage];
    int slots = 1;
    if (l->phase == PHASE_FORWARD && (read_in(s->phase[l->entry][PHASE_BACKWARD], v) ||
                                      read_in(s->phase[l->entry][PHASE_WEIGHT], v)))
        slots = s->saved_slots;
    return slots + 1 < m ? slots + 1 : m;
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
    for (int i = 0; i < arrlen(p->links); i++) {
        struct link *l = &p->links[i];
        l->slots_sent = end_slots(p, l, l->from, l->sent, (int)plan->microbatches);
        l->slots_received = end_slots(p, l, l->to, l->received, (int)plan->microbatches);
    }
    p->bubble = a->bubble;
    if (p->nstage > 1 && plan->microbatches < p->nstage) {
        struct diag *d = diag_warning(W_BUBBLE, plan->mb_span.file ? plan->mb_span : plan->pipeline_span,
                                      "%d micro-batches keep %d stages idle %.0f %% of the time", (int)plan->microbatches,
                                      p->nstage, 100 * a->bubble);
        diag_help(d, "with %d micro-batches it would be %.0f %%", 4 * p->nstage,
                  100.0 * (p->nstage - 1) / (5 * p->nstage - 1));
    }
}
