/* A function per entry that runs one whole step: counts, the micro-batches in the order of the schedule as rolled
 * loops, the update. */
#include "emitter.h"
#include <string.h>

static bool has(const struct emitter *e, enum entry entry, enum phase f, int chunk)
{
    return e->s->phase[entry][f][chunk];
}

static void loop_all(struct emitter *e, enum entry entry, enum phase f)
{
    int count = e->p->mesh->axis[e->p->mesh->mb].size;
    bool any = false;
    for (int chunk = 0; chunk < e->s->nchunk; chunk++)
        any |= has(e, entry, f, chunk);
    if (!any)
        return;
    fprintf(e->functions, "    for (int mb = 0; mb < %d; mb++) {\n        run->step.microbatch = mb;\n", count);
    for (int chunk = 0; chunk < e->s->nchunk; chunk++)
        if (has(e, entry, f, chunk))
            fprintf(e->functions, "        %s(run, mb);\n", phase_function(e, entry, f, chunk));
    fputs("    }\n", e->functions);
}

static void once(struct emitter *e, enum entry entry, enum phase f)
{
    if (has(e, entry, f, 0))
        fprintf(e->functions, "    %s(run);\n", phase_function(e, entry, f, 0));
}

static void fire(struct emitter *e, const struct firing *f, const char *mb, const char *indent)
{
    if (!has(e, ENTRY_TRAIN, f->phase, f->chunk))
        return;
    fprintf(e->functions, "%srun->step.microbatch = %s;\n%s%s(run, %s);\n", indent, mb, indent,
            phase_function(e, ENTRY_TRAIN, f->phase, f->chunk), mb);
}

static void scheduled(struct emitter *e)
{
    for (int i = 0; i < arrlen(e->s->rolls); i++) {
        const struct roll *r = &e->s->rolls[i];
        if (r->times > 1)
            fprintf(e->functions, "    for (int i = 0; i < %d; i++) {\n", r->times);
        for (int k = 0; k < r->len; k++) {
            const struct firing *f = &e->s->order[r->start + k];
            const char *mb = mem_printf("%d", f->microbatch);
            if (r->times > 1)
                mb = f->microbatch ? mem_printf("i + %d", f->microbatch) : "i";
            fire(e, f, mb, r->times > 1 ? "        " : "    ");
        }
        if (r->times > 1)
            fputs("    }\n", e->functions);
    }
}

void emit_steps(struct emitter *e)
{
    for (int i = 0; i < ENTRIES; i++) {
        enum entry entry = (enum entry)i;
        if (!e->m->graph[entry])
            continue;
        fprintf(e->functions, "/* One step of %s. */\nstatic void %s_step(struct fl_run *run)\n{\n", entry_name[i],
                entry_name[i]);
        loop_all(e, entry, PHASE_COUNT);
        once(e, entry, PHASE_SETUP);
        if (entry == ENTRY_TRAIN && arrlen(e->s->rolls))
            scheduled(e);
        else
            loop_all(e, entry, PHASE_FORWARD);
        once(e, entry, PHASE_UPDATE);
        fputs("    (void)run;\n}\n\n", e->functions);
    }
}
