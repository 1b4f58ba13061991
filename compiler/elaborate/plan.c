/* Plans. All are listed; only the chosen one is read: its mesh, micro-batches, pipeline and lines. What a line's
 * pattern matches is decided by the passes that use it. */
#include "elaborate.h"
#include <string.h>

enum { MOST_STAGES = 1024 };

static const struct { const char *spelling; int chunks; bool splits, vee; } schedules[SCHEDULES] = {
#define SCHEDULE(id, name, spelling, chunks, splits, vee, alone, doc) {spelling, chunks, splits, vee},
#include "../schedules.def"
#undef SCHEDULE
};

static void microbatches(struct frame *f, struct plan *p, struct ast *a)
{
    struct ast *dim = ast_kid(a, 1);
    int64_t count = 1;
    p->mb_span = a->span;
    if (const_int(f, ast_kid(a, 0), 1, "the number of micro-batches", &count) && count > 1 << 24)
        diag_error(E_MICROBATCH, a->span, "%lld micro-batches are too many", (long long)count);
    p->microbatches_written = count;
    if (f->e->m->options->microbatches)
        count = f->e->m->options->microbatches;
    struct decl *d = names_find(f->e, dim->name);
    if (!d || d->kind != DECL_DIM) {
        const char **dims = NULL;
        for (int i = 0; i < arrlen(f->e->m->dims); i++)
            arrput(dims, f->e->m->dims[i]->name);
        const char *near = suggest(dim->name, dims);
        struct diag *g = diag_error(E_UNKNOWN_NAME, dim->span, "no dim is called '%s'", dim->name);
        if (near)
            diag_help(g, "did you mean '%s'?", near);
        else
            diag_help(g, "micro-batches are cut along the dim of the sequences, as in `over N`");
        return;
    }
    if (!decl_ready(f, d, dim->span))
        return;
    p->mb_dim = d->dim;
    p->microbatches = count;
    if (d->dim->size % count) {
        struct diag *g = diag_error(E_MICROBATCH, a->span, "%s = %lld does not divide into %lld micro-batches",
                                    dim->name,
                                    (long long)d->dim->size, (long long)count);
        diag_label(g, d->dim->span, "%s = %lld", dim->name, (long long)d->dim->size);
        diag_help(g, "legal numbers are %s", divisors_text(d->dim->size));
    }
}

static void split(struct frame *f, struct plan *p, struct ast *a)
{
    p->split = ast_kid(a, 0)->name;
    p->split_span = a->span;
    p->split_uneven = a->is_int;
    struct ast *counts = ast_kid(a, 1);
    for (int i = 0; i < ast_count(counts); i++) {
        struct ast *k = counts->kids[i];
        bool times = k->kind == AST_TIMES;
        int64_t blocks, repeats = 1;
        if (!const_int(f, times ? ast_kid(k, 0) : k, 0, "the number of blocks of a stage", &blocks) ||
            (times && !const_int(f, ast_kid(k, 1), 1, "the number of stages", &repeats)))
            continue;
        if (arrlen(p->split_counts) + repeats > MOST_STAGES) {
            diag_error(E_STAGES, k->span, "a stage map of more than %d stages", MOST_STAGES);
            return;
        }
        for (int64_t r = 0; r < repeats; r++)
            arrput(p->split_counts, blocks);
    }
}

static void schedule_unknown(const char *name, struct span at)
{
    const char **names = NULL, *all = "";
    for (int i = 0; i < SCHEDULES; i++) {
        arrput(names, schedule_name[i]);
        all = mem_printf("%s%s%s", all, !i ? "" : i + 1 < SCHEDULES ? ", " : " and ", schedules[i].spelling);
    }
    struct diag *d = diag_error(E_SCHEDULE, at, "no schedule is called '%s'", name);
    const char *near = suggest(name, names);
    if (near)
        diag_help(d, "did you mean '%s'?", near);
    else
        diag_help(d, "the schedules are %s", all);
}

/* `one_f_one_b`, `interleaved(2)`, `file("x.csv")` */
static void read_schedule(struct frame *f, struct plan *p, struct ast *value, struct span at)
{
    bool call = value && value->kind == AST_CALL;
    struct ast *callee = call ? ast_kid(value, 0) : value, *argument = call ? ast_kid(value, 1) : NULL;
    const char *name = callee && callee->kind == AST_NAME ? callee->name : value ? span_text(value->span) : "";
    int found = -1;
    for (int i = 0; i < SCHEDULES; i++)
        if (!strcmp(schedule_name[i], name))
            found = i;
    p->schedule_span = value ? value->span : at;
    if (found < 0) {
        schedule_unknown(name, p->schedule_span);
        return;
    }
    bool takes = found == SCHEDULE_INTERLEAVED || found == SCHEDULE_FILE;
    if (call != takes || (call && ast_count(value) != 2)) {
        struct diag *d = diag_error(E_SCHEDULE, p->schedule_span, "%s takes %s", name,
                                    takes ? "one argument" : "no argument");
        diag_help(d, "write it as `schedule = %s`", schedules[found].spelling);
        return;
    }
    int64_t chunks = schedules[found].chunks;
    if (found == SCHEDULE_INTERLEAVED) {
        if (!const_int(f, argument, 2, "the number of chunks", &chunks))
            return;
        if (chunks > MAX_CHUNK) {
            diag_error(E_SCHEDULE, argument->span, "%lld chunks on a stage, but at most %d are possible", (long long)chunks,
                       MAX_CHUNK);
            return;
        }
    }
    if (found == SCHEDULE_FILE) {
        if (argument->kind != AST_STRING) {
            diag_error(E_SCHEDULE, argument->span, "the name of a file is a string");
            return;
        }
        p->schedule_file = argument->name;
    }
    p->schedule = (enum schedule_kind)found;
    p->chunks = (int)chunks;
    p->vee = schedules[found].vee;
    p->split_backward |= schedules[found].splits;
}

static void pipeline(struct frame *f, struct plan *p, struct ast *a)
{
    static const char *const words[] = {"schedule", "split", NULL};
    struct ast *cut = NULL, *backward = NULL;
    p->pipeline_span = a->span;
    settings_once(a);
    p->mesh.pipe = mesh_axis(&p->mesh, a->name);
    if (p->mesh.pipe < 0 || p->mesh.pipe == p->mesh.mb) {
        p->mesh.pipe = -1;
        axis_unknown(&p->mesh, a->name, a->name_span);
    }
    if (p->mesh.pipe >= 0 && p->mesh.axis[p->mesh.pipe].size > MOST_STAGES) {
        struct axis *axis = &p->mesh.axis[p->mesh.pipe];
        diag_error(E_STAGES, axis->span, "a pipeline of %d stages, but at most %d are possible", axis->size, MOST_STAGES);
        axis->size = MOST_STAGES;
    }
    for (int i = 0; i < ast_count(a); i++) {
        struct ast *s = a->kids[i], *value = ast_kid(s, 0);
        if (s->kind == AST_SPLIT) {
            const char *what = ast_kid(s, 0)->name;
            if (what && !strcmp(what, "backward") && !ast_kid(s, 1) && !s->is_int)
                p->split_backward |= line_once(&backward, s, "split backward");
            else if (line_once(&cut, s, "split"))
                split(f, p, s);
            continue;
        }
        if (!settings_word(s, "pipeline", words))
            continue;
        read_schedule(f, p, value, s->span);
    }
    if (p->schedule == SCHEDULE_FILE && p->mesh.pipe >= 0)
        schedule_file(p);
}

static void stage_range(struct frame *f, struct plan *p, struct ast *where, struct plan_line *line)
{
    struct ast *axis = ast_kid(where, 0), *range = ast_kid(where, 1);
    struct mesh *m = &p->mesh;
    int at = mesh_axis(m, axis->name);
    if (m->name && strcmp(where->name, m->name) != 0) {
        struct diag *d = diag_error(E_PLACE, where->span, "no mesh is called '%s'", where->name);
        diag_label(d, m->span, "the mesh is '%s'", m->name);
    }
    if (at < 0) {
        axis_unknown(m, axis->name, axis->span);
        return;
    }
    if (at != m->pipe) {
        struct diag *d = diag_error(E_PLACE, axis->span, "'%s' is not the axis of the pipeline", axis->name);
        diag_help(d, "place puts calls on stages: `pipeline over %s { .. }` makes them", axis->name);
        return;
    }
    int64_t stages = m->axis[at].size;
    line->stage_high = stages;
    if (range->kind != AST_RANGE) {
        if (const_int(f, range, 0, "a stage", &line->stage_low))
            line->stage_high = line->stage_low + 1;
    } else {
        if (ast_kid(range, 0) && !const_int(f, ast_kid(range, 0), 0, "a stage", &line->stage_low))
            return;
        if (ast_kid(range, 1) && !const_int(f, ast_kid(range, 1), 1, "the end of a range of stages", &line->stage_high))
            return;
    }
    if (line->stage_low >= line->stage_high || line->stage_high > stages) {
        struct diag *d = diag_error(E_PLACE, range->span, "%s has the stages 0 to %lld", axis->name,
                                    (long long)stages - 1);
        diag_label(d, m->axis[at].span, "%lld stages", (long long)stages);
    }
}

static void lines(struct frame *f, struct plan *p, struct ast *a, enum line_kind kind)
{
    struct ast *patterns = ast_kid(a, 0), *rest = ast_kid(a, 1);
    struct plan_line line = {.kind = kind, .span = a->span};
    if (kind == LINE_PLACE)
        stage_range(f, p, rest, &line);
    else if (rest)
        line.parts = layout_parts_of(&p->mesh, rest, false);
    for (int i = 0; i < ast_count(patterns); i++) {
        line.pattern = patterns->kids[i]->name;
        line.pattern_span = patterns->kids[i]->span;
        arrput(p->lines, line);
    }
}

const char *const shard_level_name[] = {"", "optimizer", "gradients", "parameters"};

/* The i-th name means an axis that an earlier one means: itself, or the group it is in. */
static void axis_again(const struct mesh *m, struct ast *names, int i)
{
    int k = 0;
    while (k < i - 1 && !(mesh_axes(m, names->kids[k]->name) & mesh_axes(m, names->kids[i]->name)))
        k++;
    struct diag *d = diag_error(E_AXIS, names->kids[i]->span, "shares are cut over axis '%s' twice", names->kids[i]->name);
    diag_label(d, names->kids[k]->span, "here already");
    diag_help(d, "name each axis once, and a group or its parts, not both");
}

/* shard optimizer | gradients | parameters over dp */
static void shard_over(struct plan *p, struct ast *a)
{
    struct ast *names = ast_kid(a, 0);
    if (p->shard.level) {
        struct diag *d = diag_error(E_DUPLICATE, a->span, "the plan has two shard lines");
        diag_label(d, p->shard.span, "the first one");
        diag_help(d, "each of optimizer, gradients, parameters includes those before it");
        return;
    }
    p->shard.span = a->span;
    for (int k = SHARD_OPTIMIZER; k <= SHARD_PARAMETERS; k++)
        if (!strcmp(a->name, shard_level_name[k]))
            p->shard.level = (enum shard_level)k;
    for (int i = 0; i < ast_count(names); i++) {
        struct ast *name = names->kids[i];
        unsigned axes = mesh_axes(&p->mesh, name->name), here = 0;
        if (!axes)
            axis_unknown(&p->mesh, name->name, name->span);
        if (axes & p->shard.axes)
            axis_again(&p->mesh, names, i);
        for (int k = 0; k < p->mesh.naxis; k++)
            if (axes >> k & 1 && (p->mesh.axis[k].time || k == p->mesh.pipe))
                here |= 1u << k;
        if (here)
            diag_help(diag_error(E_AXIS, name->span, "axis '%s' cannot hold shares", name->name),
                      "take an axis over which parameters are whole, such as that of data parallelism");
        p->shard.axes |= axes;
    }
}

/* offload optimizer, activations, parameters to host */
static void offload(struct plan *p, struct ast *a)
{
    static const char *const kinds[] = {"optimizer", "activations", "parameters"};
    struct ast *names = ast_kid(a, 0);
    for (int i = 0; i < ast_count(names); i++)
        for (int k = 0; k < 3; k++) {
            if (strcmp(names->kids[i]->name, kinds[k]))
                continue;
            if (p->offload >> k & 1)
                diag_label(diag_error(E_DUPLICATE, names->kids[i]->span, "the plan offloads its %s twice", kinds[k]),
                           p->offload_span, "here already");
            p->offload |= 1u << k;
            p->offload_span = names->kids[i]->span;
        }
}

/* buckets 25 MiB, in any plan */
static void buckets(struct plan *p, struct ast *a)
{
    const struct ast *size = ast_kid(a, 0);
    p->shard.bucket_bytes = (int64_t)size->num;
    if (size->num < 1)
        diag_help(diag_error(E_BLOCK_LINE, size->span, "a call that takes no bytes reduces nothing"),
                  "write `buckets 25 MiB`; without the line there is one call for each block");
}

/* prefetch and keep are about the shard line before them. */
static void shard_setting(struct plan *p, struct ast *a)
{
    bool keep = a->kind == AST_FLAG, prefetch = !keep;
    const struct ast *number = keep ? NULL : ast_kid(a, 0);
    if (keep)
        p->shard.keep = true;
    else
        p->shard.prefetch = number->num == 1;
    if (keep && p->shard.level != SHARD_PARAMETERS)
        diag_help(diag_error(E_BLOCK_LINE, a->span, "nothing is gathered that could be kept"),
                  "`%s` goes with a line `shard parameters over ..` before it", a->name);
    else if (prefetch && p->shard.level != SHARD_PARAMETERS && p->shard.level != SHARD_GRADIENTS)
        diag_help(diag_error(E_BLOCK_LINE, a->span, "nothing is gathered that could be fetched ahead"),
                  "`prefetch 1` goes with a line `shard parameters over ..`, or `gradients`, before it");
    else if (prefetch && number->num != 0 && number->num != 1)
        diag_help(diag_error(E_BLOCK_LINE, number->span, "parameters are gathered one block ahead, or not ahead"),
                  "write `prefetch 1`, or leave the line out");
}

static void unsupported(struct ast *a, const char *what)
{
    struct diag *d = diag_error(E_BLOCK_LINE, a->span, "a plan has no `%s` line in this version", what);
    diag_help(d, "a plan may have %s", plan_words());
}

static void read_lines(struct frame *f, struct plan *p)
{
    struct ast *memory = NULL, *precision = NULL, *strict = NULL, *keep = NULL, *cut = NULL, *ahead = NULL;
    plan_lines_once(p->ast);
    for (int i = 0; i < ast_count(p->ast); i++) {
        struct ast *a = p->ast->kids[i];
        switch (a->kind) {
        case AST_SBP: lines(f, p, a, LINE_SBP); break;
        case AST_PIN: lines(f, p, a, LINE_PIN); break;
        case AST_SAVE: lines(f, p, a, LINE_SAVE); break;
        case AST_PLACE: lines(f, p, a, LINE_PLACE); break;
        case AST_RECOMPUTE: lines(f, p, a, LINE_RECOMPUTE); break;
        case AST_MEMORY:
            if (!line_once(&memory, a, "memory"))
                break;
            if (a->num < 1)
                diag_help(diag_error(E_MEMORY, a->span, "a limit of no memory at all"),
                          "leave the line out where there is no limit");
            p->memory_bytes = a->num;
            p->memory_span = a->span;
            break;
        case AST_FLAG:
            if (!strcmp(a->name, "strict")) {
                line_once(&strict, a, "strict");
                p->strict = true;
            } else if (strcmp(a->name, "keep after forward") != 0) {
                unsupported(a, a->name);
            } else if (line_once(&keep, a, a->name)) {
                shard_setting(p, a);
            }
            break;
        case AST_PRECISION:
            if (line_once(&precision, a, "precision"))
                precision_collect(f, p, a);
            break;
        case AST_SHARD: shard_over(p, a); break;
        case AST_OFFLOAD: offload(p, a); break;
        case AST_EXPECT: expect_collect(f, p, a); break;
        case AST_SETTING:
            if (strcmp(a->name, "buckets") != 0 && strcmp(a->name, "prefetch") != 0)
                unsupported(a, a->name);
            else if (!strcmp(a->name, "buckets") && line_once(&cut, a, a->name))
                buckets(p, a);
            else if (!strcmp(a->name, "prefetch") && line_once(&ahead, a, a->name))
                shard_setting(p, a);
            break;
        default: break;
        }
    }
}

static void read_plan(struct elab *e, struct plan *p)
{
    struct frame top = {.e = e};
    struct ast *mesh = NULL, *mb = NULL, *pipe = NULL, *cluster = NULL;
    for (int i = 0; i < ast_count(p->ast); i++) {
        struct ast *a = p->ast->kids[i];
        if (a->kind == AST_MESH)
            line_once(&mesh, a, "mesh");
        else if (a->kind == AST_MICROBATCHES)
            line_once(&mb, a, "microbatches");
        else if (a->kind == AST_PIPELINE)
            line_once(&pipe, a, "pipeline");
        else if (a->kind == AST_CLUSTER)
            line_once(&cluster, a, "cluster");
    }
    p->mesh.pipe = -1;
    p->mesh.nranks = 1;
    p->mesh.span = p->span;
    p->schedule = SCHEDULE_ONE_F_ONE_B;
    if (mesh)
        mesh_build(&top, p, mesh);
    if (mb)
        microbatches(&top, p, mb);
    mesh_add_time(p);
    if (pipe)
        pipeline(&top, p, pipe);
    read_lines(&top, p);
    if (e->m->options->recompute)
        arrput(p->lines, ((struct plan_line){.kind = LINE_RECOMPUTE, .span = p->span, .pattern_span = p->span,
                                             .pattern = e->m->options->recompute}));
    p->offload |= e->m->options->offload;
    if (e->m->options->shard)
        p->shard = (struct shard_line){.level = (enum shard_level)e->m->options->shard,
                                       .axes = e->m->options->shard_axes, .span = p->span};
    cluster_collect(&top, p, cluster, mesh ? ast_kid(mesh, 1) : NULL);
}

void plans_collect(struct elab *e)
{
    struct module *m = e->m;
    const char **names = NULL;
    for (int i = 0; i < arrlen(e->plans); i++) {
        struct ast *a = e->plans[i];
        struct plan *p = NEW(struct plan);
        p->name = a->name;
        p->span = a->name_span;
        p->ast = a;
        p->microbatches = 1;
        for (int k = 0; k < arrlen(m->plans); k++)
            if (!strcmp(m->plans[k]->name, p->name)) {
                struct diag *d = diag_error(E_DUPLICATE, p->span, "two plans are called '%s'", p->name);
                diag_label(d, m->plans[k]->span, "the first one");
            }
        arrput(m->plans, p);
        arrput(names, p->name);
        if (!m->plan && (!m->options->plan || !strcmp(m->options->plan, p->name)))
            m->plan = p;
    }
    if (!m->plan && m->options->plan) {
        const char *near = suggest(m->options->plan, names), *all = "";
        struct diag *d = diag_error(E_UNKNOWN_NAME, (struct span){0}, "no plan is called '%s'", m->options->plan);
        for (int i = 0; i < arrlen(names); i++)
            all = mem_printf("%s%s%s", all, i ? ", " : "", names[i]);
        if (near)
            diag_help(d, "did you mean '%s'?", near);
        else if (*all)
            diag_help(d, "the plans are %s", all);
    }
    if (!m->plan) {                      /* a program without plans runs on one rank */
        m->plan = NEW(struct plan);
        m->plan->name = "single";
        m->plan->microbatches = 1;
        arrput(m->plans, m->plan);
    }
    read_plan(e, m->plan);
}
