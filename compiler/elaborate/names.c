/* The program's own names: one table of dims, consts, layers and the model, whatever file they come from. A name is
 * declared once; dims and consts may be used before their line and are evaluated when first asked for. */
#include "elaborate.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct decl *names_find(struct elab *e, const char *name)
{
    return shget(e->decl_of, name);
}

void names_candidates(struct elab *e, const char ***to)
{
    for (int i = 0; i < arrlen(e->decls); i++)
        arrput(*to, e->decls[i]->name);
}

static void once(struct ast **slot, struct ast *a, const char *what)
{
    if (*slot) {
        struct diag *d = diag_error(E_DUPLICATE, a->span, "a second %s block", what);
        diag_label(d, (*slot)->span, "the first one");
        return;
    }
    *slot = a;
}

static void declare(struct elab *e, enum decl_kind kind, struct ast *a)
{
    if (!a->name)
        return;
    struct decl *old = names_find(e, a->name);
    if (old) {
        struct diag *d = diag_error(E_DUPLICATE, a->name_span, "'%s' is declared twice", a->name);
        diag_label(d, old->ast->name_span, "first declared here");
        return;
    }
    enum type type;
    if (type_find(a->name, &type)) {
        diag_error(E_DUPLICATE, a->name_span, "'%s' is the name of a type", a->name);
        return;
    }
    struct decl *d = NEW(struct decl);
    d->kind = kind;
    d->name = a->name;
    d->ast = a;
    if (kind == DECL_DIM) {
        d->dim = NEW(struct dim);
        d->dim->name = a->name;
        d->dim->span = a->name_span;
        arrput(e->m->dims, d->dim);
    }
    arrput(e->decls, d);
    shput(e->decl_of, d->name, d);
}

const char *beside(const char *importer, const char *path)
{
    const char *slash = strrchr(importer, '/');
    return path[0] == '/' || !slash ? path : mem_printf("%.*s%s", (int)(slash + 1 - importer), importer, path);
}

static bool same_file(const char *a, const char *b)
{
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    bool same = x && y && !strcmp(x, y);
    free(x);
    free(y);
    return same;
}

/* An import that was followed before, in this or another file, brings nothing new. */
static void import(struct elab *e, struct ast *a)
{
    const char *path = beside(source_get(a->span.file)->name, a->name);
    for (int i = 0; i < arrlen(e->m->programs); i++)
        if (same_file(source_get(e->m->programs[i]->span.file)->name, path))
            return;
    struct stat what;
    bool there = !stat(path, &what), plain = there && S_ISREG(what.st_mode);
    int file = plain || !there ? source_open(path) : 0;
    if (!file) {
        const char *why = there && !plain ? "it is no plain file" : strerror(errno);
        struct diag *d = diag_error(E_FILE, a->span, "cannot read '%s': %s", path, why);
        diag_help(d, "an import is looked for beside the file that imports it");
        e->import_failed = true;
        return;
    }
    struct ast *program = parse(file);
    program->span.file = file;
    arrput(e->m->programs, program);
}

static void collect(struct elab *e, struct ast *program)
{
    for (int i = 0; i < ast_count(program); i++) {
        struct ast *a = program->kids[i];
        switch (a ? a->kind : AST_KINDS) {
        case AST_IMPORT:
            import(e, a);
            break;
        case AST_DIM:
            declare(e, DECL_DIM, a);
            break;
        case AST_CONST:
            declare(e, DECL_CONST, a);
            break;
        case AST_LAYER:
            declare(e, DECL_LAYER, a);
            break;
        case AST_OP:
            declare(e, DECL_OP, a);
            break;
        case AST_MODEL:
            once(&e->model, a, "model");
            if (e->model == a)
                declare(e, DECL_MODEL, a);
            break;
        case AST_PLAN:
            arrput(e->plans, a);
            break;
        case AST_TRAIN:
            once(&e->train, a, "train");
            break;
        case AST_EVALUATE:
            once(&e->evaluate, a, "evaluate");
            break;
        case AST_SAMPLE:
            once(&e->sample, a, "sample");
            break;
        case AST_FILES:
            arrput(e->files, a);
            break;
        case AST_CLUSTER:
            once(&e->cluster, a, "cluster");
            break;
        default:
            break;
        }
    }
}

void names_collect(struct elab *e)
{
    for (int i = 0; i < arrlen(e->m->programs); i++)     /* grows while imports are followed */
        collect(e, e->m->programs[i]);
}

/* --set replaces the value a declaration gives; everything derived from it follows. */
static bool overridden(struct elab *e, struct decl *d, double *to)
{
    for (int i = (int)arrlen(e->m->options->set) - 1; i >= 0; i--) {
        const char *value = e->m->options->set[i].value;
        if (strcmp(e->m->options->set[i].name, d->name) != 0)
            continue;
        bool first = !e->m->options->set[i].used;
        for (int k = i; k >= 0; k--)
            if (!strcmp(e->m->options->set[k].name, d->name))
                e->m->options->set[k].used = true;
        char *end;
        *to = strtod(value, &end);
        bool whole = *to >= 1 && *to < 9e15 && *to == floor(*to);
        if (end == value || *end || !isfinite(*to) || (d->kind == DECL_DIM && !whole)) {
            if (first) {
                struct diag *g = diag_error(E_SET, d->ast->name_span, "--set %s=%s: %s", d->name, value,
                                            d->kind == DECL_DIM ? "a dim is a whole number, 1 or more" :
                                            "not a number");
                diag_mark(g, "would be set here");
            }
            *to = NAN;
        }
        return true;
    }
    return false;
}

static bool settle_dim(struct frame *top, struct decl *d)
{
    struct ast *pad = ast_kid(d->ast, 1);
    int64_t size = 0, multiple = 0;
    double set;
    if (overridden(top->e, d, &set)) {
        if (isnan(set))
            return false;
        size = (int64_t)set;
    } else if (!dim_eval(top, ast_kid(d->ast, 0), &size)) {
        return false;
    }
    if (!dim_size_legal(mem_printf("'%s'", d->name), size, d->ast->span))
        return false;
    if (pad && (!const_int(top, pad, 1, "the padding of a dim", &multiple) ||
                !dim_size_legal("the padding", multiple, pad->span)))
        return false;
    d->dim->size = d->dim->phys = size;
    d->dim->pad = multiple;
    d->num = (double)size;
    return true;
}

static bool settle(struct frame *top, struct decl *d)
{
    if (d->kind == DECL_DIM)
        return settle_dim(top, d);
    if (overridden(top->e, d, &d->num))
        return !isnan(d->num);
    return const_eval(top, ast_kid(d->ast, 0), &d->num);
}

/* Evaluates d when that has not been done; false after a diagnostic. */
bool decl_ready(struct frame *f, struct decl *d, struct span use)
{
    if (d->state == DECL_BUSY) {
        struct diag *g = diag_error(E_RECURSION, d->ast->name_span, "'%s' is defined by itself", d->name);
        diag_label(g, use, "needed here");
        d->state = DECL_BAD;
        return false;
    }
    if (d->state == DECL_FRESH) {
        struct frame top = {.e = f->e};
        d->state = DECL_BUSY;
        bool fine = settle(&top, d);
        d->state = fine && d->state == DECL_BUSY ? DECL_READY : DECL_BAD;
    }
    return d->state == DECL_READY;
}

void names_settle(struct elab *e)
{
    struct frame top = {.e = e};
    const char **settable = NULL;
    for (int i = 0; i < arrlen(e->decls); i++) {
        struct decl *d = e->decls[i];
        if (d->kind != DECL_DIM && d->kind != DECL_CONST)
            continue;
        arrput(settable, d->name);
        decl_ready(&top, d, d->ast->name_span);
    }
    for (int i = 0; i < arrlen(e->m->options->set); i++) {
        if (e->m->options->set[i].used)
            continue;
        const char *name = e->m->options->set[i].name, *near = suggest(name, settable);
        struct diag *d = diag_error(E_SET, (struct span){0}, "--set %s=%s: no dim or const is called '%s'", name,
                                    e->m->options->set[i].value, name);
        const char *all = "";
        for (int k = 0; k < arrlen(settable); k++)
            all = mem_printf("%s%s%s", all, k ? ", " : "", settable[k]);
        if (near)
            diag_help(d, "did you mean '%s'?", near);
        else if (*all)
            diag_help(d, "what can be set: %s", all);
    }
}
