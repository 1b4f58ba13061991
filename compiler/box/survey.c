/* Collects the communication of all stages and entries; see survey.h. */
#include "survey.h"
#include "boxer.h"
#include "post.h"
#include <string.h>

struct survey {
    const struct physical *p;
    struct record *records;          /* stb_ds array */
    enum entry entry;
    enum phase phase;
    int stage, chunk;
};

/* All of a stack where a node at root reads a body's value. */
static int64_t value_bytes(const struct physical *p, const struct node *n, const struct value *v)
{
    bool stack = !n->region->parent && v->region->parent;
    return value_local_bytes(v, p->mesh) * (stack ? region_blocks(v->region) : 1);
}

const char *communication_kind(const struct node *n)
{
    return n->op->name + strlen("box_");
}

int64_t node_repeats(const struct node *n)
{
    return region_blocks(n->region);
}

int64_t communication_bytes(const struct physical *p, const struct node *n)
{
    int64_t bytes = 0;
    for (int k = 0; k < arrlen(n->in); k++)
        bytes += value_bytes(p, n, n->op == &op_box_all_gather ? n->out[k] : n->in[k]);
    return bytes;
}

bool is_communication(const struct node *n)
{
    return n->op == &op_box_send || n->op == &op_box_stage_reduce ||
           ((n->op->flags & OP_BOXING) && node_int(n, "comm", -1) >= 0);
}

/* Readers of v in a region and the bodies in it, and how many of them are there to make something again. */
static void count_readers(const struct region *r, const struct value *v, int *readers, int *again)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] == v) {
                (*readers)++;
                *again += n->again != NULL;
            }
        if (n->body)
            count_readers(n->body, v, readers, again);
    }
}

/* Part of doing forward work again: it converts what such a node made, or what only such nodes read. */
static bool is_recompute(const struct node *n)
{
    if (n->in[0]->def && n->in[0]->def->again)
        return true;
    int readers = 0, again = 0;
    for (int k = 0; k < arrlen(n->out); k++)
        count_readers(n->region, n->out[k], &readers, &again);
    return readers && again == readers;
}

const char *record_phase(const struct record *r)
{
    return r->recompute ? "recompute" : phase_name[r->phase];
}

/* How many calls have started what the collective waits for. */
static int64_t posts_of(const struct physical *p, int stage, const struct node *n)
{
    int64_t times = 0;
    struct node **posts = node_attr(n, "posted") ? stage_posts(&p->stages[stage]) : NULL;
    for (int i = 0; i < arrlen(posts); i++)
        times += node_ptr(posts[i], "of") == n ? post_times(posts[i]) : 0;
    return times;
}

static void add_record(struct survey *s, const struct node *n)
{
    const struct physical *p = s->p;
    struct record r = {.entry = s->entry, .phase = s->phase, .kind = communication_kind(n)};
    const struct value *v = n->in[0];
    bool shared = n->op == &op_box_stage_reduce;     /* each stage's share has a name of its own */
    r.span = shared ? n->span : v->span;
    r.where = span_where(r.span);
    r.value = shared ? n->path : v->path;
    r.values = (int)arrlen(n->in);
    if (r.values > 1)
        r.value = mem_printf("%s and %d more", n->in[0]->path, r.values - 1);
    r.type = value_type_text(v, p->mesh);
    r.recompute = s->phase == PHASE_BACKWARD && is_recompute(n);
    r.blocks = region_blocks(n->region);
    r.times = r.blocks * (phase_per_microbatch(s->phase) ? p->module->plan->microbatches : 1);
    r.bytes = communication_bytes(p, n);
    if (n->op == &op_box_send) {
        const struct link *l = &p->links[node_int(n, "link", 0)];
        r.axes = 1u << p->mesh->pipe;
        r.axis = p->mesh->axis[p->mesh->pipe].name;
        r.route = mem_printf("%d -> %d", l->from, l->to);
    } else {
        r.axes = (unsigned)node_int(n, "axes", 0);
        r.axis = mesh_axes_text(p->mesh, r.axes, ",");
    }
    struct record *same = NULL;
    for (int i = 0; i < arrlen(s->records); i++) {
        struct record *o = &s->records[i];
        bool bucket = r.phase == PHASE_UPDATE && r.values > 1 && o->values > 1;
        if (o->entry == r.entry && o->phase == r.phase && o->recompute == r.recompute && !strcmp(o->kind, r.kind) &&
            !strcmp(o->axis, r.axis) && (arrlast(o->stages) != s->stage || o->chunk != s->chunk) &&
            (bucket || (!strcmp(o->where, r.where) && !strcmp(o->value, r.value) && !strcmp(o->type, r.type))))
            same = o;
    }
    if (same && r.route)
        same->route = mem_printf("%s, %s", same->route, r.route);
    if (!same) {
        r.total = NEW_ARRAY(int64_t, p->nstage);
        r.calls = NEW_ARRAY(int64_t, p->nstage);
        arrput(s->records, r);
        same = &arrlast(s->records);
    }
    if (r.bytes > same->bytes)
        same->bytes = r.bytes;
    int64_t posts = posts_of(p, s->stage, n);
    same->posts = posts > same->posts ? posts : same->posts;
    same->calls[s->stage] += r.times;
    if (same->calls[s->stage] > same->times)
        same->times = same->calls[s->stage];
    if (r.blocks > same->blocks)
        same->blocks = r.blocks;
    if (!arrlen(same->stages) || arrlast(same->stages) != s->stage)
        arrput(same->stages, s->stage);
    same->chunk = s->chunk;
    same->total[s->stage] += r.bytes * r.times;
}

static void survey_node(struct node *n, void *context)
{
    if (is_communication(n))
        add_record(context, n);
}

struct record *comm_survey(const struct physical *p)
{
    struct survey s = {.p = p};
    for (int e = 0; e < ENTRIES; e++)
        for (int ph = 0; ph < PHASES; ph++)
            for (s.stage = 0; s.stage < p->nstage; s.stage++)
                for (s.chunk = 0; s.chunk < p->stages[s.stage].nchunk; s.chunk++) {
                    s.entry = (enum entry)e;
                    s.phase = (enum phase)ph;
                    if (p->stages[s.stage].phase[e][ph][s.chunk])
                        region_walk(p->stages[s.stage].phase[e][ph][s.chunk], survey_node, &s);
                }
    return s.records;
}

/* What the busiest stage does over each set of axes in a step of training. */
struct total *comm_totals(const struct physical *p, const struct record *records)
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
                            calls += records[i].calls[s];
                            bytes += records[i].total[s];
                        }
            if (bytes > list[t].bytes) {
                list[t].bytes = bytes;
                list[t].calls = calls;
            }
        }
    return list;
}
