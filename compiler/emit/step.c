/* A function per entry that runs one whole step: counts, the micro-batches in the order of the schedule as rolled
 * loops, the update. */
#include "../schedule/rolled.h"
#include "emitter.h"
#include <stdlib.h>
#include <string.h>

static bool has(const struct emitter *e, enum entry entry, enum phase f, int chunk)
{
    return e->s->phase[entry][f][chunk];
}

/* All micro-batches in a row; through several chunks in groups, each group chunk by chunk. */
static void loop_all(struct emitter *e, enum entry entry, enum phase f)
{
    int count = e->p->mesh->axis[e->p->mesh->mb].size, group = schedule_group(e->p);
    bool groups = e->s->nchunk > 1 && phase_has_chunks(f) && group < count;
    const char *indent = groups ? "        " : "    ", *first = groups ? "first" : "0";
    const char *end = groups ? mem_printf("first + %d && mb < %d", group, count) : mem_printf("%d", count);
    if (groups)
        fprintf(e->functions, "    for (int first = 0; first < %d; first += %d) {\n", count, group);
    for (int chunk = 0; chunk < e->s->nchunk; chunk++)
        if (has(e, entry, f, chunk))
            fprintf(e->functions, "%sfor (int mb = %s; mb < %s; mb++) {\n%s    run->step.microbatch = mb;\n"
                    "%s    %s(run, mb);\n%s}\n", indent, first, end, indent, indent, phase_function(e, entry, f, chunk),
                    indent);
    if (groups)
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

/* "8 + 4 * j + i" */
static const char *microbatch_text(const struct beat *b, const struct roll *lap, const struct roll *roll)
{
    const int steps[] = {lap->times > 1 ? b->lap_step : 0, roll->times > 1 ? b->step : 0};
    const char *text = b->what.microbatch ? mem_printf("%d", b->what.microbatch) : "";
    for (int k = 0; k < 2; k++)
        if (steps[k]) {
            const char *by = abs(steps[k]) == 1 ? "" : mem_printf("%d * ", abs(steps[k]));
            const char *sign = steps[k] < 0 ? (*text ? " - " : "-") : *text ? " + " : "";
            text = mem_printf("%s%s%s%c", text, sign, by, "ji"[k]);
        }
    return *text ? text : "0";
}

enum { MOST_LINES = 200 };       /* of an order written out as loops */

/* An order that follows no pattern, by hand: as a table, so that the text stays short. */
static void tabled(struct emitter *e)
{
    const struct rolled *o = &e->s->order;
    struct firing f, *kinds = NULL;
    int line = 0;
    fputs("    static const struct { unsigned char call; int mb; } order[] = {", e->functions);
    for (struct rolled_walk w = {.of = o}; rolled_next(&w, &f);) {
        int k = 0;
        if (!has(e, ENTRY_TRAIN, f.phase, f.chunk))
            continue;
        while (k < arrlen(kinds) && (kinds[k].phase != f.phase || kinds[k].chunk != f.chunk))
            k++;
        if (k == arrlen(kinds))
            arrput(kinds, f);
        fprintf(e->functions, "%s{%d, %d},", line++ % 12 ? " " : "\n        ", k, f.microbatch);
    }
    fputs("\n    };\n    for (unsigned k = 0; k < sizeof order / sizeof *order; k++) {\n"
          "        run->step.microbatch = order[k].mb;\n        switch (order[k].call) {\n", e->functions);
    for (int k = 0; k < arrlen(kinds); k++)
        fprintf(e->functions, "        case %d: %s(run, order[k].mb); break;\n", k,
                phase_function(e, ENTRY_TRAIN, kinds[k].phase, kinds[k].chunk));
    fputs("        }\n    }\n", e->functions);
}

static void scheduled(struct emitter *e)
{
    const struct rolled *o = &e->s->order;
    if (arrlen(o->beats) > MOST_LINES) {
        tabled(e);
        return;
    }
    for (int l = 0; l < arrlen(o->laps); l++) {
        const struct roll *lap = &o->laps[l];
        const char *indent = lap->times > 1 ? "        " : "    ";
        if (lap->times > 1)
            fprintf(e->functions, "    for (int j = 0; j < %d; j++) {\n", lap->times);
        for (int r = lap->start; r < lap->start + lap->len; r++) {
            const struct roll *roll = &o->rolls[r];
            const char *inner = roll->times > 1 ? mem_printf("    %s", indent) : indent;
            if (roll->times > 1)
                fprintf(e->functions, "%sfor (int i = 0; i < %d; i++) {\n", indent, roll->times);
            for (int k = roll->start; k < roll->start + roll->len; k++)
                fire(e, &o->beats[k].what, microbatch_text(&o->beats[k], lap, roll), inner);
            if (roll->times > 1)
                fprintf(e->functions, "%s}\n", indent);
        }
        if (lap->times > 1)
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
        if (entry == ENTRY_TRAIN && !rolled_empty(&e->s->order))
            scheduled(e);
        else
            loop_all(e, entry, PHASE_FORWARD);
        once(e, entry, PHASE_UPDATE);
        fputs("    (void)run;\n}\n\n", e->functions);
    }
}
