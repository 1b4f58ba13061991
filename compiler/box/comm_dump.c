/* --emit=comm: each communication once, with how often a rank makes it in a step and how many bytes each call takes;
 * totals per axis. Stages that run the same communication (blocks of a cut repeat, gradient buckets) share a line, which
 * then shows the busiest of them. */
#include "../passes.h"
#include "boxer.h"
#include <jansson.h>
#include <string.h>

struct record {
    const char *where, *value, *axis, *kind, *type;
    enum entry entry;
    enum phase phase;
    int64_t bytes, times;            /* per call; per step and rank, on the busiest stage */
    int64_t blocks;
    int values;                      /* tensors in one call */
    int *stages;                     /* stb_ds array */
    int64_t *total;                  /* bytes a step, per stage */
    const char *route;               /* of links: "stage 0 -> 1, 1 -> 2" */
};

struct survey {
    const struct physical *p;
    struct record *records;          /* stb_ds array */
    enum entry entry;
    enum phase phase;
    int stage;
};

static int64_t repeats(const struct region *r)
{
    int64_t count = 1;
    for (; r->parent; r = r->parent)
        count *= r->count;
    return count;
}

/* All of a stack where a node at root reads a body's value. */
static int64_t value_bytes(const struct physical *p, const struct node *n, const struct value *v)
{
    bool stack = !n->region->parent && v->region->parent;
    return value_local_bytes(v, p->mesh) * (stack ? repeats(v->region) : 1);
}

static const char *kind_of(const struct node *n)
{
    return n->op->name + strlen("box_");
}

static void add_record(struct survey *s, const struct node *n)
{
    const struct physical *p = s->p;
    struct record r = {.entry = s->entry, .phase = s->phase, .kind = kind_of(n)};
    const struct value *v = n->in[0];
    bool shared = n->op == &op_box_stage_reduce;     /* each stage's share has a name of its own */
    r.where = span_where(shared ? n->span : v->span);
    r.value = shared ? n->path : v->path;
    r.values = (int)arrlen(n->in);
    if (r.values > 1)
        r.value = mem_printf("%s and %d more", n->in[0]->path, r.values - 1);
    r.type = value_type_text(v, p->mesh);
    r.blocks = repeats(n->region);
    r.times = r.blocks * (phase_per_microbatch(s->phase) ? p->module->plan->microbatches : 1);
    for (int k = 0; k < r.values; k++)
        r.bytes += value_bytes(p, n, n->op == &op_box_all_gather ? n->out[k] : n->in[k]);
    if (n->op == &op_box_send) {
        const struct link *l = &p->links[node_int(n, "link", 0)];
        r.axis = p->mesh->axis[p->mesh->pipe].name;
        r.route = mem_printf("%d -> %d", l->from, l->to);
    } else {
        r.axis = mesh_axes_text(p->mesh, (unsigned)node_int(n, "axes", 0), ",");
    }
    struct record *same = NULL;
    for (int i = 0; i < arrlen(s->records); i++) {
        struct record *o = &s->records[i];
        bool bucket = r.phase == PHASE_UPDATE && r.values > 1 && o->values > 1;
        if (o->entry == r.entry && o->phase == r.phase && !strcmp(o->kind, r.kind) && !strcmp(o->axis, r.axis) &&
            arrlast(o->stages) != s->stage &&
            (bucket || (!strcmp(o->where, r.where) && !strcmp(o->value, r.value) && !strcmp(o->type, r.type))))
            same = o;
    }
    if (same && r.route)
        same->route = mem_printf("%s, %s", same->route, r.route);
    if (!same) {
        r.total = NEW_ARRAY(int64_t, p->nstage);
        arrput(s->records, r);
        same = &arrlast(s->records);
    }
    if (r.bytes > same->bytes)
        same->bytes = r.bytes;
    if (r.times > same->times) {
        same->times = r.times;
        same->blocks = r.blocks;
    }
    arrput(same->stages, s->stage);
    same->total[s->stage] += r.bytes * r.times;
}

static void survey_node(struct node *n, void *context)
{
    if (n->op == &op_box_send || n->op == &op_box_stage_reduce ||
        ((n->op->flags & OP_BOXING) && node_int(n, "comm", -1) >= 0))
        add_record(context, n);
}

static struct record *survey_all(const struct physical *p)
{
    struct survey s = {.p = p};
    for (int e = 0; e < ENTRIES; e++)
        for (int ph = 0; ph < PHASES; ph++)
            for (s.stage = 0; s.stage < p->nstage; s.stage++) {
                s.entry = (enum entry)e;
                s.phase = (enum phase)ph;
                if (p->stages[s.stage].phase[e][ph])
                    region_walk(p->stages[s.stage].phase[e][ph], survey_node, &s);
            }
    return s.records;
}

struct total { const char *axis; int64_t calls, bytes; };

/* What the busiest stage does over each set of axes in a step of training. */
static struct total *totals(const struct physical *p, const struct record *records)
{
    struct total *list = NULL;
    for (int i = 0; i < arrlen(records); i++) {
        int known = 0;
        while (known < arrlen(list) && strcmp(list[known].axis, records[i].axis))
            known++;
        if (known == arrlen(list))
            arrput(list, ((struct total){.axis = records[i].axis}));
    }
    for (int t = 0; t < arrlen(list); t++)
        for (int s = 0; s < p->nstage; s++) {
            int64_t calls = 0, bytes = 0;
            for (int i = 0; i < arrlen(records); i++)
                if (records[i].entry == ENTRY_TRAIN && !strcmp(records[i].axis, list[t].axis))
                    for (int k = 0; k < arrlen(records[i].stages); k++)
                        if (records[i].stages[k] == s) {
                            calls += records[i].times;
                            bytes += records[i].total[s];
                        }
            if (bytes > list[t].bytes) {
                list[t].bytes = bytes;
                list[t].calls = calls;
            }
        }
    return list;
}

static void dump_json(FILE *to, const struct module *m, const struct record *records)
{
    const struct physical *p = m->physical;
    json_t *list = json_array(), *sums = json_object();
    for (int i = 0; i < arrlen(records); i++) {
        const struct record *r = &records[i];
        json_t *stages = json_array();
        for (int k = 0; k < arrlen(r->stages); k++)
            json_array_append_new(stages, json_integer(r->stages[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:o}",
            "where", r->where, "entry", entry_name[r->entry], "phase", phase_name[r->phase], "value", r->value, "axis",
            r->axis, "kind", r->kind, "type", r->type, "values", r->values, "bytes", (json_int_t)r->bytes, "times",
            (json_int_t)r->times, "blocks", (json_int_t)r->blocks, "stages", stages));
    }
    struct total *sum = totals(p, records);
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
    struct record *records = survey_all(p);
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
                phase_name[r->phase], r->kind, r->axis, (long long)r->bytes, (long long)r->times, r->value, r->type);
        if (r->route)
            fprintf(to, "  stage %s", r->route);
        fputc('\n', to);
    }
    struct total *sum = totals(p, records);
    for (int i = 0; i < arrlen(sum); i++)
        fprintf(to, "total over %-6s: %lld calls, %.3f MiB per training step on the busiest rank\n", sum[i].axis,
                (long long)sum[i].calls, (double)sum[i].bytes / (1 << 20));
}
