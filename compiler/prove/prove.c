/* The prove pass: no order leaves here that can hang. */
#include "../base/diag.h"
#include "../passes.h"
#include "certificate.h"
#include "verify.h"

static int first_rank(const struct physical *p, int stage)
{
    return p->nstage > 1 ? stage * p->mesh->axis[p->mesh->pipe].stride : 0;
}

/* "stage 0 (rank 0), forward of micro-batch 2, waits to receive x from stage 1" */
static const char *wait_text(const struct physical *p, const struct certificate *c, int stage)
{
    const char *who = mem_printf("stage %d (rank %d)", stage, first_rank(p, stage));
    if (c->at[stage] >= arrlen(c->events[stage]))
        return mem_printf("%s has finished its step", who);
    const struct event *e = &c->events[stage][c->at[stage]];
    const char *when = phase_per_microbatch(e->phase) && e->running >= 0
                           ? mem_printf("%s of micro-batch %d", phase_name[e->phase], e->running)
                           : phase_name[e->phase];
    if (e->kind == EVENT_MEET)
        return mem_printf("%s, %s, waits in a reduction over %s: %s", who, when, p->comms[e->comm].name, e->node->path);
    const struct link *l = &p->links[e->link];
    bool receives = e->kind == EVENT_WAIT_RECV;
    return mem_printf("%s, %s, waits %s %s of micro-batch %d %s stage %d", who, when,
                      receives ? "to receive" : "until it has sent", l->what, e->microbatch, receives ? "from" : "to",
                      receives ? l->from : l->to);
}

static void report(const struct physical *p, const struct certificate *c, enum entry entry)
{
    struct diag *d = diag_error(E_DEADLOCK, p->module->plan->pipeline_span, "the order of entry '%s' can hang",
                                entry_name[entry]);
    int count = (int)arrlen(c->cycle);
    for (int i = 0; i < count && i < 5; i++)
        diag_note(d, "%s", wait_text(p, c, c->cycle[i]));
    if (count > 5)
        diag_note(d, "and so on through %d stages, back to the first", count);
}

void prove(struct module *m)
{
    const struct physical *p = m->physical;
    for (int e = 0; e < ENTRIES; e++) {
        if (!m->graph[e])
            continue;
        struct certificate *c = certificate_make(p, (enum entry)e);
        if (!c->complete)
            report(p, c, (enum entry)e);
    }
    if (m->options->spoil)
        spoil(m);
    if (!diag_errors())
        verify(m);
}
