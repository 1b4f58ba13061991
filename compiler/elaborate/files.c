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
            const char *all = "";
            for (int i = 0; i < n; i++)
                all = mem_printf("%s%s{%s}", all, i ? ", " : "", names[i]);
            if (n)
                diag_help(d, "write %s for the number of the block", all);
            else
                diag_help(d, "a parameter without blocks has one name, without { }");
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

/* Adds the name of a tensor in the file, which no other parameter and no other block may have; false: a diagnostic. */
static bool add_name(struct elab *e, struct param *p, struct ast *pattern, struct ast *text)
{
    int used = 0;
    const char *name = numbered(pattern, text, &used);
    if (!p || !name)
        return false;
    for (int k = 0; k < used; k++)
        if (arrlen(p->stack) > k && !strstr(name, mem_printf("{%d}", k))) {
            struct diag *d = diag_error(E_FILE, text->span, "all blocks of %s would have one name in the file",
                                        p->path);
            diag_help(d, "name the block, as in h[i].. = \"h.{i}..\"");
            return false;
        }
    for (int i = 0; i < arrlen(e->m->params); i++) {
        struct param *o = e->m->params[i];
        for (int k = 0; k < arrlen(o->file_names); k++)
            if (!strcmp(o->file_names[k], name) && o == p)
                diag_error(E_DUPLICATE, text->span, "one tensor of the file stands twice in the stack");
            else if (!strcmp(o->file_names[k], name))
                diag_label(diag_error(E_DUPLICATE, text->span, "%s and %s have one name in the file", o->path, p->path),
                           o->file_span, "the first one");
    }
    arrput(p->file_names, name);
    return true;
}

/* The strings of "name" or stack("one", "other"); NULL where it is anything else. */
static struct ast **names_of(struct ast *a)
{
    struct ast **list = NULL;
    if (a && a->kind == AST_STRING)
        arrput(list, a);
    if (!a || a->kind != AST_CALL || strcmp(ast_kid(a, 0)->name ? ast_kid(a, 0)->name : "", "stack"))
        return list;
    for (int i = 1; i < ast_count(a); i++) {
        if (a->kids[i]->kind != AST_STRING)
            return NULL;
        arrput(list, a->kids[i]);
    }
    return list;
}

/* The same text: sizes go by how they are written, so that D and H*K are two dims even where they are as large. */
static bool same_size(const struct ast *a, const struct ast *b)
{
    bool same = a->kind == b->kind && a->name == b->name && a->num == b->num && ast_count(a) == ast_count(b);
    for (int i = 0; same && i < ast_count(a); i++)
        same = same_size(a->kids[i], b->kids[i]);
    return same;
}

/* as [2, F, D] -> [D, 2, F]: where in the file the dims of the parameter are. */
static void read_order(struct param *p, struct ast *file, struct ast *own)
{
    int n = ast_count(file);
    for (int d = 0; d < n; d++)
        for (int k = 0; k < d; k++)
            if (same_size(file->kids[d], file->kids[k])) {
                struct diag *d2 = diag_error(E_FILE, file->kids[d]->span,
                                             "two dims of the file are written alike, so nobody knows which is which");
                diag_label(d2, file->kids[k]->span, "the other one");
                diag_help(d2, "write one of them otherwise, as H*K for D; `transpose` swaps the dims of a matrix");
                return;
            }
    for (int d = 0; d < ast_count(own); d++) {
        int k = 0;
        while (k < n && !same_size(file->kids[k], own->kids[d]))
            k++;
        if (k < n)
            arrput(p->file_order, k);
    }
    bool taken[MAX_DIM] = {false}, fine = n == ast_count(own) && n == arrlen(p->file_order);
    for (int d = 0; d < n && fine; d++) {
        fine = !taken[p->file_order[d]];
        taken[p->file_order[d]] = true;
    }
    if (!fine) {
        struct diag *d = diag_error(E_FILE, own->span, "these are not the dims of the file in another order");
        diag_label(d, file->span, "the dims of the file");
        diag_help(d, "write each as it stands there, as in [2, F, D] -> [D, 2, F]");
    }
}

static void map_shape(struct frame *f, struct param *p, struct ast *text, struct ast *shape)
{
    int64_t count, parts = arrlen(p->file_names);
    if (!read_shape(f, shape, &p->file_shape, &count))
        return;
    if (count != param_count(p)) {
        struct diag *d = diag_error(E_SHAPE, shape->span, "%lld elements in the file, but %s has %lld", (long long)count,
                                    p->path, (long long)param_count(p));
        diag_label(d, p->span, "declared here");
    }
    if (text->kind == AST_CALL && arrlen(p->file_shape) > 0 && p->file_shape[0] != parts) {
        struct diag *d = diag_error(E_SHAPE, shape->kids[0]->span, "%lld tensors are stacked, but this is %lld", (long long)parts,
                                    (long long)p->file_shape[0]);
        diag_label(d, text->span, "%lld names", (long long)parts);
    }
}

static void map_turned(struct param *p, struct ast *turn)
{
    int ndim = p->file_shape ? (int)arrlen(p->file_shape) : p->ndim;
    if (ndim != 2) {
        diag_error(E_SHAPE, turn->span, "transpose swaps two dims, but there are %d", ndim);
        return;
    }
    for (int d = 0; d < ndim && arrlen(p->file_shape) < ndim; d++)
        arrput(p->file_shape, p->dim[d]->size);
    int64_t first = p->file_shape[0];
    p->file_shape[0] = p->file_shape[1];
    p->file_shape[1] = first;
    arrput(p->file_order, 1);
    arrput(p->file_order, 0);
}

static void map(struct frame *f, struct ast *a)
{
    struct ast *pattern = ast_kid(a, 0), *text = ast_kid(a, 1), *shape = ast_kid(a, 2), *own = ast_kid(a, 3), *turn = ast_kid(a, 4);
    struct param *p = param_of(f->e, pattern);
    struct ast **names = names_of(text);
    if (!names) {
        diag_help(diag_error(E_FILE, text ? text->span : a->span, "a parameter is a tensor of the file, or several stacked"),
                  "write \"name in the file\" as [shape in the file], or stack(\"one\", \"other\") as [2, ..]");
        return;
    }
    if (p && p->file_names) {
        struct diag *d = diag_error(E_DUPLICATE, pattern->span, "%s has two names in files", p->path);
        diag_label(d, p->file_span, "the first one");
        diag_help(d, "keep the name that the file has; several tensors stacked are stack(\"one\", \"other\")");
        return;
    }
    if (p)
        p->file_span = a->span;
    for (int i = 0; i < arrlen(names); i++)
        if (!add_name(f->e, p, pattern, names[i]))
            return;
    if (text->kind == AST_CALL && (!ast_count(shape) || turn)) {
        diag_help(diag_error(E_FILE, turn ? turn->span : text->span, turn ? "what is stacked is put in order by listing its dims" :
                             "stack needs the shape that it makes"),
                  "write stack(..) as [%d, F, D], with -> [D, %d, F] where the parameter has them in another order", (int)arrlen(names),
                  (int)arrlen(names));
        return;
    }
    if (shape)
        map_shape(f, p, text, shape);
    if (own)
        read_order(p, shape, own);
    if (turn)
        map_turned(p, turn);
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
