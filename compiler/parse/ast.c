/* The tree: making nodes and printing them. */
#include "ast.h"
#include "scan.h"
#include <string.h>

struct ast *ast_new(enum ast_kind kind, struct span span, const char *name)
{
    struct ast *a = NEW(struct ast);
    a->kind = kind;
    a->span = a->name_span = span;
    a->name = name;
    return a;
}

struct ast *ast_add(struct ast *parent, struct ast *kid)
{
    arrput(parent->kids, kid);
    if (kid && parent->height <= kid->height)
        parent->height = kid->height + 1;
    return parent;
}

int ast_count(const struct ast *a)
{
    return a ? (int)arrlen(a->kids) : 0;
}

struct ast *ast_kid(const struct ast *a, int k)
{
    return a && k >= 0 && k < arrlen(a->kids) ? a->kids[k] : NULL;
}

const char *ast_kind_name(enum ast_kind kind)
{
    static const char *const names[AST_KINDS] = {
#define AST(kind, name, doc) name,
#include "ast.def"
#undef AST
    };
    return names[kind];
}

static struct ast *add_kids(struct ast *a, int kids, va_list list)
{
    for (int i = 0; i < kids; i++)
        ast_add(a, va_arg(list, struct ast *));
    return a;
}

struct ast *node_make(enum ast_kind kind, struct span span, const char *name, int kids, ...)
{
    va_list list;
    va_start(list, kids);
    struct ast *a = add_kids(ast_new(kind, span, name), kids, list);
    va_end(list);
    return a;
}

struct ast *node_named(enum ast_kind kind, struct span span, struct span name_span, const char *name, int kids, ...)
{
    va_list list;
    va_start(list, kids);
    struct ast *a = add_kids(ast_new(kind, span, name), kids, list);
    va_end(list);
    a->name_span = name_span;
    return a;
}

/* ---- printing: kind, place, name, then what else the kind has ---- */

static void dump_name(FILE *to, const struct ast *a)
{
    if (a->kind != AST_STRING && a->kind != AST_IMPORT) {
        fprintf(to, " %s", a->name);
        return;
    }
    fputs(" \"", to);
    for (const char *c = a->name; *c; c++) {
        if (*c == '\n')
            fputs("\\n", to);
        else if (*c == '\t')
            fputs("\\t", to);
        else if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else
            fputc(*c, to);
    }
    fputc('"', to);
}

static void dump(FILE *to, const struct ast *a, int indent)
{
    fprintf(to, "%*s", 2 * indent, "");
    if (!a) {
        fputs("-\n", to);
        return;
    }
    fputs(ast_kind_name(a->kind), to);
    if (a->span.file) {
        struct position p = source_position(a->span.file, a->span.begin);
        fprintf(to, " %d:%d", p.line, p.column);
    }
    if (a->name)
        dump_name(to, a);
    if (a->kind == AST_TYPE && a->num != 0)
        fputs(" []", to);
    if (a->kind == AST_MEMORY || (a->kind == AST_NUMBER && a->name && strpbrk(a->name, " ")))
        fprintf(to, " = %.17g", a->num);
    if (a->is_int && (a->kind == AST_SPLIT || a->kind == AST_LAYOUT_AXIS))
        fputs(" uneven", to);
    fputc('\n', to);
    for (int i = 0; i < ast_count(a); i++)
        dump(to, a->kids[i], indent + 1);
}

void ast_dump(FILE *to, const struct ast *a)
{
    dump(to, a, 0);
}
