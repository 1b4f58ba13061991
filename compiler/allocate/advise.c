/* Refuses a plan over its memory limit: the rank, the largest tensors, and what would fit. The advice is computed: each
 * trial below changes the plan in one way and compiles the program up to its arenas. */
#include "advise.h"
#include "../base/diag.h"
#include "../op.h"
#include "../passes.h"
#include "outside.h"
#include <stdlib.h>
#include <string.h>

enum { FITTING = 3 };                    /* no more is tried once so many fit */

struct change {                          /* of the plan */
    int microbatches;                    /* times as many; 0: as they are */
    unsigned offload;                    /* OFFLOAD_.. more on the host */
    bool recompute;                      /* the blocks of the first repeat */
    bool shard;                          /* over the axes that split inputs: the first level that fits */
    enum { NO_AXIS, PIPE_AXIS, OTHER_AXES } axis;    /* which axes get `times` the ranks, one after the other */
    int times;
    bool further;                        /* tried only when none before it fits */
};
/* A line here is a piece of advice: the cheapest first. */
static const struct change changes[] = {
    {.microbatches = 2}, {.recompute = true}, {.shard = true}, {.axis = OTHER_AXES, .times = 2},
    {.axis = PIPE_AXIS, .times = 2}, {.shard = true, .recompute = true, .further = true},
    {.offload = OFFLOAD_OPTIMIZER, .further = true}, {.offload = OFFLOAD_ACTIVATIONS, .further = true},
    {.shard = true, .offload = OFFLOAD_OPTIMIZER, .further = true},
    {.offload = OFFLOAD_OPTIMIZER | OFFLOAD_ACTIVATIONS, .further = true},
    {.microbatches = 4, .further = true}, {.microbatches = 4, .recompute = true, .further = true},
    {.axis = OTHER_AXES, .times = 2, .recompute = true, .further = true},
    {.axis = PIPE_AXIS, .times = 2, .recompute = true, .further = true},
    {.axis = OTHER_AXES, .times = 4, .further = true}, {.axis = PIPE_AXIS, .times = 4, .further = true},
};

static const char *size_text(double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; bytes >= 1000 && u < 4; u++)
        bytes /= 1024;
    return mem_printf(u && bytes < 100 ? "%.2f %s" : "%.0f %s", bytes, unit[u]);
}

static int64_t needed_bytes(const struct stage *s)
{
    return s->arena_bytes + outside_bytes(s);
}

static const struct stage *worst_stage(const struct physical *p)
{
    const struct stage *worst = &p->stages[0];
    for (int i = 1; i < p->nstage; i++)
        if (needed_bytes(&p->stages[i]) > needed_bytes(worst))
            worst = &p->stages[i];
    return worst;
}

/* Bytes of the worst rank of the program under the options, or -1 where it is rejected. */
static int64_t try_options(const struct module *m, struct options *o)
{
    struct module *other = NEW(struct module);
    o->trial = true;
    o->explain = NULL;
    o->time = false;
    other->options = o;
    for (int i = 0; i < arrlen(m->programs); i++)
        arrput(other->programs, m->programs[i]);
    struct diag_held held = diag_hold();
    bool fine = passes_run(other, elaborate, allocate);
    int64_t bytes = fine ? needed_bytes(worst_stage(other->physical)) : -1;
    diag_drop(held);
    return bytes;
}

/* The pattern of the blocks that a pipeline cuts, else of the first repeat; or NULL. */
static const char *blocks_of(const struct module *m)
{
    const struct graph *g = m->graph[ENTRY_TRAIN];
    for (int i = 0; g && i < arrlen(g->root->nodes); i++) {
        const struct node *n = g->root->nodes[i];
        for (int k = 0; n->body && k < arrlen(n->body->nodes); k++) {
            const struct node *inner = n->body->nodes[k];
            const char *path = arrlen(inner->out) && inner->out[0]->path ? inner->out[0]->path : "";
            const char *end = strstr(path, "[*]");
            if (end && !strchr(path, '#'))
                return mem_printf("%.*s", (int)(end - path) + 3, path);
        }
    }
    return NULL;
}

/* The axes that split an input of training: parameters are most often whole over them. */
static unsigned data_axes(const struct module *m)
{
    const struct graph *g = m->graph[ENTRY_TRAIN];
    const struct mesh *mesh = &m->plan->mesh;
    unsigned axes = 0;
    for (int i = 0; g && i < arrlen(g->root->nodes); i++)
        for (int a = 0; g->root->nodes[i]->op == &op_input && a < mesh->naxis; a++)
            if (a != mesh->mb && a != mesh->pipe && mesh->axis[a].size > 1 &&
                g->root->nodes[i]->out[0]->lay.ax[a].kind == SBP_S)
                axes |= 1u << a;
    return axes;
}

static const char *shard_text(const struct mesh *mesh, enum shard_level level, unsigned axes)
{
    const char *names = mesh_axes_text(mesh, axes, ", ");
    return mem_printf(axes & (axes - 1) ? "`shard %s over (%s)`" : "`shard %s over %s`", shard_level_name[level], names);
}

struct advice { const char *fits, *nearest; int count; int64_t least; };

/* `level`: of a line `shard`, or SHARD_NOTHING. */
static void try_change(struct module *m, const struct change *c, const struct axis *axis, enum shard_level level,
                       struct advice *a)
{
    const struct plan *plan = m->plan;
    struct options *o = NEW(struct options);
    *o = *m->options;
    const char *text = "";
    if (c->microbatches) {
        if (!plan->mb_dim)
            return;
        o->microbatches = plan->microbatches * c->microbatches;
        text = mem_printf("`microbatches %lld over %s`", (long long)o->microbatches, plan->mb_dim->name);
    }
    if (axis) {
        o->wider = axis->name;
        o->wider_times = c->times;
        text = mem_printf("`%s: %d`", axis->name, axis->size * c->times);
    }
    if (level) {
        o->shard = level;
        o->shard_axes = data_axes(m);
        if (!o->shard_axes || plan->shard.level)
            return;
        text = shard_text(&plan->mesh, level, o->shard_axes);
    }
    if (c->recompute) {
        o->recompute = blocks_of(m);
        for (int i = 0; i < arrlen(plan->lines); i++)
            if (plan->lines[i].kind == LINE_RECOMPUTE)
                return;
        if (!o->recompute)
            return;
        text = mem_printf("%s%s`recompute %s`", text, *text ? " and " : "", o->recompute);
    }
    if (c->offload) {
        if (plan->offload & c->offload)
            return;
        o->offload = c->offload;
        text = mem_printf("%s%s`offload %s%s%s to host`", text, *text ? " and " : "",
                          c->offload & OFFLOAD_OPTIMIZER ? "optimizer" : "",
                          c->offload == (OFFLOAD_OPTIMIZER | OFFLOAD_ACTIVATIONS) ? ", " : "",
                          c->offload & OFFLOAD_ACTIVATIONS ? "activations" : "");
    }
    int64_t bytes = try_options(m, o);
    if (bytes < 0)
        return;
    text = mem_printf("%s (%s)", text, size_text((double)bytes));
    if ((double)bytes <= plan->memory_bytes) {
        a->fits = mem_printf("%s%s%s", a->fits ? a->fits : "", a->fits ? ", " : "", text);
        a->count++;
    } else if (!a->nearest || bytes < a->least) {
        a->nearest = text;
        a->least = bytes;
    }
}

static struct advice advise(struct module *m)
{
    struct advice a = {0};
    const struct mesh *mesh = &m->plan->mesh;
    for (size_t i = 0; i < sizeof changes / sizeof *changes && a.count < FITTING; i++) {
        const struct change *c = &changes[i];
        if (c->further && a.count)
            continue;
        int before = a.count;
        for (int level = SHARD_OPTIMIZER; c->shard && level <= SHARD_PARAMETERS && a.count == before; level++)
            try_change(m, c, NULL, (enum shard_level)level, &a);
        if (c->axis == NO_AXIS && !c->shard)
            try_change(m, c, NULL, SHARD_NOTHING, &a);
        for (int k = 0; c->axis != NO_AXIS && k < mesh->naxis && a.count < FITTING; k++)
            if (k != mesh->mb && (k == mesh->pipe) == (c->axis == PIPE_AXIS))
                try_change(m, c, &mesh->axis[k], SHARD_NOTHING, &a);
    }
    return a;
}

static int by_bytes(const void *a, const void *b)
{
    const struct buffer *x = *(struct buffer *const *)a, *y = *(struct buffer *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->id - y->id;
}

static void name_largest(struct diag *d, const struct stage *s)
{
    struct buffer **sorted = NULL;
    for (int i = 0; i < arrlen(s->buffers); i++)
        if (s->buffers[i]->bytes)
            arrput(sorted, s->buffers[i]);
    if (sorted)
        qsort(sorted, (size_t)arrlen(sorted), sizeof *sorted, by_bytes);
    int64_t outside = outside_bytes(s);
    for (int i = 0; i < (outside ? 2 : 3) && i < arrlen(sorted); i++)
        diag_note(d, "%s: %s (%s%s%s)", sorted[i]->name, size_text((double)sorted[i]->bytes),
                  memory_class_name[sorted[i]->class], sorted[i]->span.file ? ", " : "",
                  sorted[i]->span.file ? span_where(sorted[i]->span) : "");
    if (outside)
        diag_note(d, "links and packing of collectives: %s", size_text((double)outside));
}

void refuse_too_large(struct module *m)
{
    const struct plan *plan = m->plan;
    if (m->options->trial || diag_errors() || plan->memory_bytes <= 0)
        return;
    const struct stage *s = worst_stage(m->physical);
    if ((double)needed_bytes(s) <= plan->memory_bytes)
        return;
    int rank = 0;
    while (rank < plan->mesh.nranks && rank_stage(m->physical, rank) != s->index)
        rank++;
    struct diag *d = diag_error(E_MEMORY, plan->memory_span, "rank %d (stage %d) needs %s, more than the %s of plan '%s'",
                                rank, s->index, size_text((double)needed_bytes(s)), size_text(plan->memory_bytes),
                                plan->name);
    name_largest(d, s);
    struct advice a = advise(m);
    double fixed = (double)(s->bytes[MEM_PARAM] + s->bytes[MEM_STATE] + s->bytes[MEM_GRAD]);
    if (a.fits)
        diag_help(d, "%s: %s", a.count > 1 ? "each of these fits" : "this fits", a.fits);
    else if (a.nearest)
        diag_help(d, "nothing that was tried fits; the nearest is %s; parameters, gradients and optimizer state alone "
                  "take %s", a.nearest, size_text(fixed));
    else
        diag_help(d, "parameters, gradients and optimizer state alone take %s: split the weights over more ranks or cut "
                  "the model in more stages", size_text(fixed));
}
