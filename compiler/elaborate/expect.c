/* `expect comm PATTERN conditions : collective(axes) == count`. */
#include "elaborate.h"
#include <ctype.h>
#include <string.h>

/* An index that is a name asks about one block. */
static bool has_name(const char *pattern)
{
    for (const char *s = pattern; (s = strchr(s, '['));)
        if (isalpha((unsigned char)*++s) || *s == '_')
            return true;
    return false;
}

static bool condition(struct ast *a, struct expectation *x)
{
    if (!strcmp(a->name, "microbatch")) {
        x->per_microbatch = true;
        return true;
    }
    if (!strcmp(a->name, "step"))
        return true;
    const char **names = NULL;
    for (int p = 0; p < PHASES; p++) {
        if (!strcmp(a->name, phase_name[p])) {
            x->phase = p;
            return true;
        }
        arrput(names, phase_name[p]);
    }
    struct diag *d = diag_error(E_BLOCK_LINE, a->span, "`expect` cannot be about '%s'", a->name);
    const char *near = suggest(a->name, names);
    if (near)
        diag_help(d, "did you mean '%s'?", near);
    else
        diag_help(d, "write `per microbatch` or `per step`, and one of count, setup, forward, backward, weight, update");
    return false;
}

void expect_collect(struct frame *f, struct plan *p, struct ast *a)
{
    static const char *const kinds[] = { "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "send", "stage_reduce" };
    struct ast *comparison = NULL, *call, *conditions = ast_kid(a, 1);
    for (int i = 0; i < ast_count(a); i++)
        if (a->kids[i] && a->kids[i]->kind == AST_BINARY)
            comparison = a->kids[i];
    struct expectation x = { .phase = -1, .span = a->span, .pattern_span = ast_kid(a, 0)->span,
                             .at_most = !strcmp(comparison->name, "<=") };
    call = ast_kid(comparison, 0);
    x.pattern = ast_kid(a, 0)->name;
    x.one_block = has_name(x.pattern);
    for (int i = 0; i < ast_count(conditions); i++)
        if (!condition(conditions->kids[i], &x))
            return;
    struct ast *kind = ast_kid(call, 0);
    const char **names = NULL;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        arrput(names, kinds[k]);
        if (!strcmp(kinds[k], kind->name))
            x.kind = kinds[k];
    }
    if (!x.kind) {
        struct diag *d = diag_error(E_BLOCK_LINE, kind->span, "no collective is called '%s'", kind->name);
        const char *near = suggest(kind->name, names);
        if (near)
            diag_help(d, "did you mean '%s'?", near);
        else
            diag_help(d, "they are all_reduce, all_gather, reduce_scatter, all_to_all, permute, send and stage_reduce");
        return;
    }
    for (int i = 1; i < ast_count(call); i++) {
        unsigned axes = mesh_axes(&p->mesh, call->kids[i]->name);
        for (int k = 1; k < i; k++)
            if (!strcmp(call->kids[k]->name, call->kids[i]->name))
                diag_label(diag_error(E_AXIS, call->kids[i]->span, "axis '%s' stands twice", call->kids[i]->name),
                           call->kids[k]->span, "here already");
        if (!axes) {
            axis_unknown(&p->mesh, call->kids[i]->name, call->kids[i]->span);
            return;
        }
        for (int k = 0; k < p->mesh.naxis; k++)          /* an axis of one rank sends nothing */
            if (axes >> k & 1 && p->mesh.axis[k].size > 1)
                x.axes |= 1u << k;
    }
    for (int i = 0; i < arrlen(p->expect); i++) {
        const struct expectation *old = &p->expect[i];
        if (strcmp(old->pattern, x.pattern) || strcmp(old->kind, x.kind) || old->axes != x.axes || old->phase != x.phase ||
            old->per_microbatch != x.per_microbatch)
            continue;
        diag_label(diag_error(E_DUPLICATE, a->span, "the plan expects a count of %s of '%s' twice", x.kind, x.pattern), old->span,
                   "the first one");
        return;
    }
    if (const_int(f, ast_kid(comparison, 1), 0, "the number of collectives", &x.count))
        arrput(p->expect, x);
}
