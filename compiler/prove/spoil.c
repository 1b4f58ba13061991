/* --spoil "FAULT OP[(AXES)] PATTERN": one fault put into the plan on purpose, to see what a lost or doubled sum does and
 * that the comparison finds it. The marked nodes are run so by the interpreter and written so by emit; the program and
 * its plan.json say that it is spoilt. */
#include "../base/diag.h"
#include "../passes.h"
#include "verify.h"
#include <string.h>

static const struct spoiling {
    const char *word;
    enum fault fault;
    const struct op *ops[3];
} spoilings[] = {
    {"drop", FAULT_DROP, {&op_box_all_reduce, &op_box_stage_reduce, &op_box_accumulate}},
    {"double", FAULT_TWICE, {&op_box_all_reduce, &op_box_stage_reduce}},
    {"misgroup", FAULT_GROUP, {&op_box_all_reduce}},
    {"early", FAULT_EARLY, {&op_box_accumulate, &op_box_post}},
};
enum { SPOILINGS = sizeof spoilings / sizeof *spoilings };

struct search {
    struct module *m;
    const struct spoiling *how;
    const struct op *op;
    const char *axes, *pattern;
    int found, misfit;
};

static void mark(struct node *n, void *context)
{
    struct search *s = context;
    const struct mesh *mesh = s->m->physical->mesh;
    struct block_ranges b;
    if (n->op != s->op)
        return;
    if (s->axes && strcmp(s->axes, mesh_axes_text(mesh, (unsigned)node_int(n, "axes", 0), ",")) != 0)
        return;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *v = n->in[k]->logical ? n->in[k]->logical : n->in[k];
        if (n->spoilt || !v->path || !value_matches(v, s->pattern, &b) ||
            !region_touched(v->region, &b))
            continue;
        if (s->how->fault == FAULT_GROUP && comm_apart(s->m->physical, (unsigned)node_int(n, "axes", 0)) < 0) {
            s->misfit++;
            continue;
        }
        n->spoilt = (int)s->how->fault;
        n->spoilt_operand = k;
        s->found++;
    }
}

/* The three words, cut at blanks; false when there are not three. */
static bool words_of(const char *text, char *word[3])
{
    int n = 0;
    for (char *s = mem_strdup(text), *w = strtok(s, " "); w; w = strtok(NULL, " ")) {
        if (n == 3)
            return false;
        word[n++] = w;
    }
    return n == 3;
}

static bool read_fault(struct search *s, char *word[3])
{
    char *open = strchr(word[1], '('), *close = open ? strchr(open, ')') : NULL;
    if (open && close) {
        *open = *close = 0;
        s->axes = open + 1;
    }
    s->pattern = word[2];
    for (int i = 0; i < SPOILINGS; i++)
        for (int k = 0; k < 3 && !strcmp(spoilings[i].word, word[0]); k++)
            if (spoilings[i].ops[k] && !strcmp(spoilings[i].ops[k]->name + strlen("box_"), word[1])) {
                s->how = &spoilings[i];
                s->op = spoilings[i].ops[k];
            }
    return s->how != NULL;
}

void spoil(struct module *m)
{
    struct search s = {.m = m};
    char *word[3];
    if (!words_of(m->options->spoil, word) || !read_fault(&s, word)) {
        struct diag *d = diag_error(E_SPOIL, (struct span){0}, "--spoil '%s' names no fault", m->options->spoil);
        diag_help(d, "drop|double|misgroup all_reduce[(AXES)] TENSOR, drop|double stage_reduce TENSOR, "
                     "drop|early accumulate TENSOR, early post TENSOR");
        return;
    }
    for (int i = 0; i < m->physical->nstage; i++)
        for (int e = 0; e < ENTRIES; e++) {
            struct root *roots = stage_roots(&m->physical->stages[i], (enum entry)e);
            for (int k = 0; k < arrlen(roots); k++)
                region_walk(roots[k].region, mark, &s);
        }
    if (!s.found) {
        struct diag *d = diag_error(E_SPOIL, (struct span){0}, "--spoil '%s' finds no such communication in plan %s",
                                    m->options->spoil, m->plan->name);
        diag_help(d, s.misfit ? "there are no other ranks to group with" : "--emit=comm lists what there is, tensor by tensor");
    }
}
