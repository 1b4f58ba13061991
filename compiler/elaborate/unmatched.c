/* What may have been meant by a pattern that matches nothing. Several patterns that lack by one thing have one message. */
#include "elaborate.h"
#include <string.h>

const char *path_last(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* With the indices as paths have them, so that a distance counts only what is misspelt. */
static const char *plain_indices(const char *pattern)
{
    const char *out = "";
    for (const char *s = pattern; *s;) {
        size_t n = strcspn(s, "[");
        out = mem_printf("%s%.*s", out, (int)n, s);
        s += n;
        if (!*s)
            break;
        out = mem_printf("%s[*]", out);
        s += strcspn(s, "]");
        s += *s == ']';
    }
    return out;
}

/* How paths begin, where nothing is near: all of the parameters, or the first parts of all paths. */
static void help_begins(struct diag *d, struct param **params, const char **paths)
{
    enum { MOST = 8 };
    const char **begins = NULL, *all = "";
    for (int i = 0; i < arrlen(params ? (void *)params : (void *)paths); i++) {
        const char *path = params ? params[i]->path : paths[i];
        const char *name = intern_n(path, params ? strlen(path) : strcspn(path, ".@"));
        bool known = strchr(name, '#') || strchr(name, '~');
        for (int k = 0; k < arrlen(begins); k++)
            known |= begins[k] == name;
        if (!known)
            arrput(begins, name);
    }
    int n = (int)arrlen(begins);
    for (int i = 0; i < n; i++)
        all = mem_printf("%s%s%s", all, !i ? "" : i + 1 < n ? ", " : " and ", begins[i]);
    if (n && n <= MOST)
        diag_help(d, params ? n == 1 ? "there is one parameter, %s" : "the parameters are %s" : "paths begin with %s", all);
}

/* The shortest beginning of a pattern, up to a dot, with which no path begins; a `*` outside of [ ] may be anything. */
static const char *beginning(const char *text, const char **paths)
{
    for (const char *end = text;; end++) {
        end += strcspn(end, ".");
        size_t n = (size_t)(end - text);
        bool some = false;
        for (int i = 0; i < arrlen(paths) && !some; i++)
            some = !strncmp(paths[i], text, n) && (!paths[i][n] || paths[i][n] == '.');
        for (const char *s = text; s < end && !some; s++)
            some = *s == '*' && (s == text || s[-1] != '[');
        if (!some || !*end)
            return intern_n(text, n);
    }
}

/* Several lines about one thing that is not there have one message. */
bool pattern_told(struct elab *e, const char *begins)
{
    for (int i = 0; i < arrlen(e->told); i++)
        if (!strcmp(e->told[i], begins))
            return true;
    arrput(e->told, begins);
    return false;
}

/* h[*].up where the label is h, without an index: one set of parameters for all blocks. */
static bool without_index(struct elab *e, const char *pattern, const char *begins, struct span span)
{
    size_t n = strlen(begins) < 3 ? 0 : strlen(begins) - 3;
    for (int i = 0; i < arrlen(e->labels); i++) {
        if (!n || strlen(e->labels[i]) != n || strncmp(e->labels[i], begins, n) || strcmp(begins + n, "[*]"))
            continue;
        struct diag *d = diag_error(E_PATTERN, span, "'%s' names blocks, but the label '%s' has no index", pattern, e->labels[i]);
        diag_label(d, e->label_spans[i], "one set of parameters for all blocks");
        diag_help(d, "write `%s[i]: ..` there, in a `repeat .. as i`, or '%s%s' here", path_last(e->labels[i]), e->labels[i],
                  pattern + strcspn(pattern, "]") + 1);
        return true;
    }
    return false;
}

/* s where the body binds s twice: the values are s@1 and s@2. */
static bool bound_twice(struct elab *e, struct diag *d, const char *pattern)
{
    struct graph *g = any_graph(e);
    const char *all = "";
    int n = 0;
    for (const struct value *v = NULL;; v = NULL) {
        const char *path = mem_printf("%s@%d", pattern, n + 1);
        for (int i = 0; g && i < arrlen(g->values) && !v; i++)
            v = value_matches(g->values[i], path, NULL) ? g->values[i] : NULL;
        if (!v)
            break;
        if (n < 2 && v->span.file)
            diag_label(d, v->span, "%s", path);
        all = mem_printf("%s%s%s", all, n++ ? ", " : "", path);
    }
    if (n)
        diag_help(d, "a name that is bound again stands for several values: %s", all);
    return n > 0;
}

/* h.attn for h[*].attn */
static const char *without_indices(const char *path)
{
    const char *out = "";
    for (const char *s = path; *s; s += strcspn(s, "]"), s += *s == ']') {
        size_t n = strcspn(s, "[");
        out = mem_printf("%s%.*s", out, (int)n, s);
        s += n;
        if (!*s)
            break;
    }
    return out;
}

void pattern_unmatched(struct elab *e, const char *pattern, struct span span, bool params_only)
{
    const char **paths = NULL, **parts = NULL;
    for (int i = 0; i < arrlen(e->m->params); i++)
        arrput(paths, e->m->params[i]->path);
    struct graph *g = params_only ? NULL : any_graph(e);
    for (int i = 0; g && i < arrlen(g->values); i++)
        if (g->values[i]->path)
            arrput(paths, g->values[i]->path);
    for (int i = 0; i < arrlen(e->labels); i++)
        arrput(paths, e->labels[i]);
    for (int i = 0; i < arrlen(paths); i++)
        arrput(parts, path_last(paths[i]));
    const char *begins = beginning(plain_indices(pattern), paths);
    if (pattern_told(e, begins) || without_index(e, pattern, begins, span))
        return;
    struct diag *d = diag_error(E_PATTERN, span, "'%s' matches no %s", pattern, params_only ? "parameter" : "tensor");
    const char *text = plain_indices(pattern), *indexed = mem_printf("%s[*]", text), *near = suggest(text, paths);
    for (int i = 0; i < arrlen(paths); i++)
        near = !strcmp(paths[i], indexed) || !strcmp(without_indices(paths[i]), text) ? paths[i] : near;
    if (bound_twice(e, d, pattern))
        return;
    const char *first = near && !strcmp(near, text) ? mem_printf("%s.0", text) : NULL;
    for (int i = 0; first && g && i < arrlen(g->values); i++)
        if (value_matches(g->values[i], first, NULL)) {
            diag_help(d, "this call has several results: they go by their numbers, from %s.0 on", pattern);
            return;
        }
    if (near) {
        diag_help(d, "did you mean '%s'?", near);
        return;
    }
    const char *part = suggest(path_last(text), parts);
    if (part && strcmp(part, path_last(text)) != 0)
        diag_help(d, "did you mean '%.*s%s'?", (int)(path_last(pattern) - pattern), pattern, part);
    else if (part)
        for (int i = 0; i < arrlen(paths); i++)
            if (!strcmp(path_last(paths[i]), part)) {
                diag_help(d, "did you mean '%s'?", paths[i]);
                return;
            }
    if (!part)
        help_begins(d, params_only ? e->m->params : NULL, paths);
}
