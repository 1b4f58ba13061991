/* The prove pass: no order leaves here that can hang. */
#include "../base/diag.h"
#include "../op.h"
#include "../passes.h"
#include "certificate.h"
#include "verify.h"

static int first_rank(const struct physical *p, int stage)
{
    return p->nstage > 1 ? stage * p->mesh->axis[p->mesh->pipe].stride : 0;
}

/* Where an order by hand says what runs: ", x.csv:7" */
static const char *given_where(const struct physical *p, int stage, const struct event *e)
{
    const struct plan *plan = p->module->plan;
    for (int i = 0; plan->given && i < arrlen(plan->given[stage]); i++) {
        const struct firing *f = &plan->given[stage][i];
        if (f->phase == e->phase && f->chunk == e->chunk && f->microbatch == e->running)
            return mem_printf(", %s", span_where(plan->given_span[stage][i]));
    }
    return "";
}

/* "stage 0 (rank 0), forward of micro-batch 2 (x.csv:7), box_recv of x, micro-batch 2, waits for stage 1 (gpt.flow:9)" */
static const char *wait_text(const struct physical *p, const struct certificate *c, int stage)
{
    const char *who = mem_printf("rank %d (stage %d)", first_rank(p, stage), stage);
    const struct event *e = certificate_at(c, stage);
    if (!e)
        return mem_printf("%s has finished its step", who);
    const char *chunk = p->stages[stage].nchunk > 1 ? mem_printf(" of chunk %d", e->chunk) : "";
    const char *when = phase_per_microbatch(e->phase) && e->running >= 0
                           ? mem_printf("%s%s of micro-batch %d%s", phase_name[e->phase], chunk, e->running,
                                        given_where(p, stage, e))
                           : phase_name[e->phase];
    const char *line = e->node ? mem_printf(" (%s)", span_where(e->node->span)) : "";
    if (e->kind == EVENT_MEET)
        return mem_printf("%s, %s: %s over %s waits for the others: %s%s", who, when, e->node->op->name,
                          p->comms[e->comm].name, e->node->path, line);
    const struct link *l = &p->links[e->link];
    bool receives = e->kind == EVENT_WAIT_RECV;
    int peer = receives ? l->from : l->to;
    return mem_printf("%s, %s: %s %s of micro-batch %d %s rank %d (stage %d)%s", who, when,
                      receives ? "box_recv waits for" : "box_send waits until", l->what, e->microbatch,
                      receives ? "from" : "is taken by", first_rank(p, peer), peer, line);
}

/* The one message that may be longer than eight lines: a circle is of use only as a whole. */
static void report(const struct physical *p, const struct certificate *c, enum entry entry)
{
    bool given = p->module->plan->given && entry == ENTRY_TRAIN;
    struct diag *d = diag_error(E_DEADLOCK, given ? p->module->plan->schedule_span : p->module->plan->pipeline_span,
                                "the order of entry '%s' can hang", entry_name[entry]);
    int count = (int)arrlen(c->cycle);
    for (int i = 0; i < count && i < 16; i++)
        diag_note(d, "%s", wait_text(p, c, c->cycle[i]));
    if (count > 16)
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
