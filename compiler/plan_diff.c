/* --diff PLAN2: what differs between two plans of one program: layouts, communication of a training step, memory. Left
 * the plan of --plan, right the other. */
#include "box/survey.h"
#include "module.h"
#include "passes.h"
#include <string.h>

struct side { struct module *m; struct record *records; };

/* ---- layouts ---- */

static const char *layout_of(const struct module *m, const char *path)
{
    const struct graph *g = m->graph[ENTRY_TRAIN];
    for (int k = 0; g && k < arrlen(g->values); k++)
        if (g->values[k]->path && !strcmp(g->values[k]->path, path))
            return value_type_text(g->values[k], &m->plan->mesh);
    return NULL;
}

static void put_row(FILE *to, const char *what, const char *a, const char *b)
{
    fprintf(to, "  %-34s %-34s %s\n", what, a, b);
}

static int diff_layouts(FILE *to, const struct module *a, const struct module *b)
{
    const struct graph *g = a->graph[ENTRY_TRAIN];
    const char **seen = NULL;
    int count = 0;
    for (int k = 0; g && k < arrlen(g->values); k++) {
        const char *path = g->values[k]->path;
        bool known = !path;
        for (int i = 0; i < arrlen(seen) && !known; i++)
            known = !strcmp(seen[i], path);
        if (known)
            continue;
        arrput(seen, path);
        const char *x = layout_of(a, path), *y = layout_of(b, path);
        if (!x || !y || !strcmp(x, y))
            continue;
        put_row(to, path, x, y);
        count++;
    }
    return count;
}

/* ---- communication ---- */

struct line { enum phase phase; const char *kind, *axis; int64_t calls[2], bytes[2]; };

static void add_records(struct line **lines, const struct record *records, int side)
{
    for (int i = 0; i < arrlen(records); i++) {
        const struct record *r = &records[i];
        int at = 0;
        if (r->entry != ENTRY_TRAIN)
            continue;
        while (at < arrlen(*lines) && ((*lines)[at].phase != r->phase || strcmp((*lines)[at].kind, r->kind) ||
                                       strcmp((*lines)[at].axis, r->axis)))
            at++;
        if (at == arrlen(*lines))
            arrput(*lines, ((struct line){ .phase = r->phase, .kind = r->kind, .axis = r->axis }));
        (*lines)[at].calls[side] += r->times;
        (*lines)[at].bytes[side] += r->times * r->bytes;
    }
}

static const char *volume(int64_t calls, int64_t bytes)
{
    return calls ? mem_printf("%lld calls, %.3f MiB", (long long)calls, (double)bytes / (1 << 20)) : "-";
}

static int diff_communication(FILE *to, const struct module *a, const struct module *b)
{
    struct line *lines = NULL;
    int count = 0;
    add_records(&lines, comm_survey(a->physical), 0);
    add_records(&lines, comm_survey(b->physical), 1);
    for (int i = 0; i < arrlen(lines); i++) {
        const struct line *l = &lines[i];
        if (l->calls[0] == l->calls[1] && l->bytes[0] == l->bytes[1])
            continue;
        put_row(to, mem_printf("%s %s(%s)", phase_name[l->phase], l->kind, l->axis), volume(l->calls[0], l->bytes[0]),
                volume(l->calls[1], l->bytes[1]));
        count++;
    }
    return count;
}

/* ---- memory ---- */

static const struct stage *largest(const struct physical *p)
{
    const struct stage *most = &p->stages[0];
    for (int s = 1; s < p->nstage; s++)
        if (p->stages[s].arena_bytes > most->arena_bytes)
            most = &p->stages[s];
    return most;
}

static const char *mib(int64_t bytes)
{
    return mem_printf("%.3f MiB", (double)bytes / (1 << 20));
}

static int diff_memory(FILE *to, const struct module *a, const struct module *b)
{
    const struct stage *x = largest(a->physical), *y = largest(b->physical);
    int count = 0;
    for (int c = 0; c < MEM_CLASSES; c++)
        if (x->bytes[c] != y->bytes[c]) {
            put_row(to, memory_class_name[c], mib(x->bytes[c]), mib(y->bytes[c]));
            count++;
        }
    if (x->arena_bytes != y->arena_bytes) {
        put_row(to, "arena of a rank", mib(x->arena_bytes), mib(y->arena_bytes));
        count++;
    }
    return count;
}

void plan_diff(FILE *to, struct module *a, struct module *b)
{
    put_row(to, "", a->plan->name, b->plan->name);
    put_row(to, "ranks", mem_printf("%d", a->plan->mesh.nranks), mem_printf("%d", b->plan->mesh.nranks));
    fprintf(to, "layouts\n");
    if (!diff_layouts(to, a, b))
        fprintf(to, "  the same\n");
    fprintf(to, "communication of a training step, all stages\n");
    if (!diff_communication(to, a, b))
        fprintf(to, "  the same\n");
    fprintf(to, "memory of the busiest rank\n");
    if (!diff_memory(to, a, b))
        fprintf(to, "  the same\n");
    if (a->physical->bubble != b->physical->bubble)
        put_row(to, "bubble", mem_printf("%.4f", a->physical->bubble), mem_printf("%.4f", b->physical->bubble));
}
