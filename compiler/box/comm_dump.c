/* --emit=comm: each communication once, with how often a rank makes it in a step and how many bytes each call takes;
 * totals per axis. Stages that run the same communication (blocks of a cut repeat, gradient buckets) share a line, which
 * then shows the busiest of them. */
#include "../passes.h"
#include "survey.h"
#include <jansson.h>
#include <string.h>

static void dump_json(FILE *to, const struct module *m, const struct record *records)
{
    const struct physical *p = m->physical;
    json_t *list = json_array(), *sums = json_object();
    for (int i = 0; i < arrlen(records); i++) {
        const struct record *r = &records[i];
        json_t *stages = json_array();
        for (int k = 0; k < arrlen(r->stages); k++)
            json_array_append_new(stages, json_integer(r->stages[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:o}",
            "where", r->where, "entry", entry_name[r->entry], "phase", record_phase(r), "value", r->value, "axis",
            r->axis, "kind", r->kind, "type", r->type, "values", r->values, "bytes", (json_int_t)r->bytes, "times",
            (json_int_t)r->times, "blocks", (json_int_t)r->blocks, "posts", (json_int_t)r->posts,
            "stages", stages));
    }
    struct total *sum = comm_totals(p, records);
    for (int i = 0; i < arrlen(sum); i++)
        json_object_set_new(sums, sum[i].axis, json_pack("{s:I, s:I}", "calls", (json_int_t)sum[i].calls, "bytes",
                                                         (json_int_t)sum[i].bytes));
    json_t *all = json_pack("{s:s, s:i, s:o, s:o}", "plan", m->plan->name, "microbatches", (int)m->plan->microbatches,
                            "communication", list, "per_step", sums);
    json_dumpf(all, to, JSON_INDENT(2));
    fputc('\n', to);
    json_decref(all);
}

void comm_dump(FILE *to, struct module *m, bool json)
{
    const struct physical *p = m->physical;
    struct record *records = comm_survey(p);
    if (json) {
        dump_json(to, m, records);
        return;
    }
    fprintf(to, "plan %s: each communication once; bytes of one call, calls of one rank per step\n", m->plan->name);
    fprintf(to, "%-18s %-9s %-9s %-14s %-6s %12s %7s  %s\n", "source", "entry", "phase", "kind", "axis", "bytes",
            "times", "tensor");
    for (int i = 0; i < arrlen(records); i++) {
        const struct record *r = &records[i];
        fprintf(to, "%-18s %-9s %-9s %-14s %-6s %12lld %7lld  %s: %s", r->where, entry_name[r->entry],
                record_phase(r), r->kind, r->axis, (long long)r->bytes, (long long)r->times, r->value, r->type);
        if (r->route)
            fprintf(to, "  stage %s", r->route);
        if (r->posts)
            fprintf(to, "  begun beside backward in %lld calls", (long long)r->posts);
        fputc('\n', to);
    }
    struct total *sum = comm_totals(p, records);
    for (int i = 0; i < arrlen(sum); i++)
        fprintf(to, "total over %-6s: %lld calls, %.3f MiB per training step on the busiest rank\n", sum[i].axis,
                (long long)sum[i].calls, (double)sum[i].bytes / (1 << 20));
}
