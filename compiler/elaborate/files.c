/* The files block: what parameters are called in weight files, and in what shape they stand there. */
#include "elaborate.h"
#include <ctype.h>
#include <string.h>

/* "h.{i}.attn.weight" for the pattern h[i].attn.weight becomes "h.{0}.attn.weight". */
static const char *numbered(struct ast *pattern, struct ast *text, int *used)
{
    const char *names[8];
    int n = 0;
    for (const char *s = pattern->name; (s = strchr(s, '[')) && n < 8; s++)
        names[n++] = intern_n(s + 1, strcspn(s + 1, "]"));
    const char *out = "";
    *used = n;
    for (const char *s = text->name; *s;) {
        size_t plain = strcspn(s, "{");
        out = mem_printf("%s%.*s", out, (int)plain, s);
        s += plain;
        if (!*s)
            break;
        size_t len = strcspn(s + 1, "}");
        const char *name = intern_n(s + 1, len);
        int k = 0;
        while (k < n && names[k] != name)
            k++;
        if (k == n) {
            struct diag *d = diag_error(E_FILE, text->span, "{%s} is no index of %s", name, pattern->name);
            diag_label(d, pattern->span, "its indices stand in [ ]");
            return NULL;
        }
        out = mem_printf("%s{%d}", out, k);
        s += 1 + len + (s[1 + len] == '}');
    }
    return out;
}

static bool read_shape(struct frame *f, struct ast *list, int64_t **to, int64_t *count)
{
    bool fine = true;
    *count = 1;
    for (int i = 0; i < ast_count(list); i++) {
        int64_t size = 1;
        fine &= dim_eval(f, list->kids[i], &size);
        arrput(*to, size);
        if (size < 1 || __builtin_mul_overflow(*count, size, count)) {
            diag_error(E_DIM_VALUE, list->kids[i]->span, "no tensor has %lld such elements", (long long)size);
            return false;
        }
    }
    return fine;
}

static int64_t param_count(const struct param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++)
        n *= p->dim[i]->size;
    return n;
}

static struct param *param_of(struct elab *e, struct ast *pattern)
{
    struct param *found = NULL;
    for (int i = 0; i < arrlen(e->m->params); i++) {
        if (!pattern_match(pattern->name, e->m->params[i]->path, NULL))
            continue;
        if (found) {
            diag_error(E_PATTERN, pattern->span, "a file name is for one parameter, but this matches %s and %s",
                       found->path,
                       e->m->params[i]->path);
            return NULL;
        }
        found = e->m->params[i];
    }
    if (!found)
        pattern_unmatched(e, pattern->name, pattern->span, true);
    return found;
}

static void map(struct frame *f, struct ast *a)
{
    struct ast *pattern = ast_kid(a, 0), *text = ast_kid(a, 1), *shape = ast_kid(a, 2), *turn = ast_kid(a, 4);
    struct param *p = param_of(f->e, pattern);
    if (!text || text->kind != AST_STRING || ast_kid(a, 3)) {
        diag_help(diag_error(E_FILE, a->span, "a parameter is one tensor of the file"),
                  "write NAME = \"name in the file\" as [shape in the file], and transpose if two dims are swapped");
        return;
    }
    int used = 0;
    const char *name = numbered(pattern, text, &used);
    if (!p || !name)
        return;
    if (p->file_name) {
        diag_error(E_DUPLICATE, pattern->span, "%s has two names in files", p->path);
        return;
    }
    for (int k = 0; k < used; k++)
        if (arrlen(p->stack) > k && !strstr(name, mem_printf("{%d}", k))) {
            struct diag *d = diag_error(E_FILE, text->span, "all blocks of %s would have one name in the file",
                                        p->path);
            diag_help(d, "name the block, as in h[i].. = \"h.{i}..\"");
            return;
        }
    for (int i = 0; i < arrlen(f->e->m->params); i++) {
        struct param *o = f->e->m->params[i];
        if (o->file_name && !strcmp(o->file_name, name))
            diag_error(E_DUPLICATE, text->span, "%s and %s have one name in the file", o->path, p->path);
    }
    p->file_name = name;
    int64_t count;
    if (shape) {
        if (!read_shape(f, shape, &p->file_shape, &count))
            return;
        if (count != param_count(p)) {
            struct diag *d = diag_error(E_SHAPE, shape->span, "%lld elements in the file, but %s has %lld",
                                        (long long)count,
                                        p->path, (long long)param_count(p));
            diag_label(d, p->span, "declared here");
        }
    }
    if (turn) {
        int ndim = shape ? (int)arrlen(p->file_shape) : p->ndim;
        p->file_transpose = true;
        if (ndim != 2)
            diag_error(E_SHAPE, turn->span, "transpose swaps two dims, but there are %d", ndim);
    }
}

void files_collect(struct elab *e)
{
    struct frame top = {.e = e};
    for (int b = 0; b < arrlen(e->files); b++)
        for (int i = 0; i < ast_count(e->files[b]); i++) {
            struct ast *a = e->files[b]->kids[i];
            if (a->kind == AST_FILE_MAP)
                map(&top, a);
            else if (a->kind == AST_SETTING && !strcmp(a->name, "ignore"))
                arrput(e->m->files.ignore, ast_kid(a, 0)->name);
            else if (a->kind == AST_SETTING)
                arrput(e->m->files.prefix, ast_kid(a, 0)->name);
        }
}
