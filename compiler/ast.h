/* The abstract syntax tree: what the parser makes and elaborate reads. One node type; ast.def says for each kind what
 * its fields mean. Every node keeps its span to the end of compilation. */
#ifndef FLOWC_AST_H
#define FLOWC_AST_H
#include "base/mem.h"
#include "base/source.h"
#include <stdbool.h>
#include <stdio.h>

enum ast_kind {
#define AST(kind, name, doc) AST_##kind,
#include "ast.def"
#undef AST
    AST_KINDS
};

struct ast {
    enum ast_kind kind;
    struct span span;            /* the whole construct */
    struct span name_span;       /* the name alone, where there is one */
    const char *name;            /* interned, or NULL */
    double num;
    bool is_int;
    int height;                  /* levels of nodes below; parse keeps it small enough to recur on (HEIGHT_MAX) */
    struct ast **kids;           /* stb_ds array; a kid may be NULL where ast.def marks it with ? */
};

struct ast *ast_new(enum ast_kind kind, struct span span, const char *name);
struct ast *ast_add(struct ast *parent, struct ast *kid);          /* appends, returns parent */
int ast_count(const struct ast *a);                                 /* number of kids; a may be NULL */
struct ast *ast_kid(const struct ast *a, int k);                    /* NULL when there is none */
const char *ast_kind_name(enum ast_kind kind);
void ast_dump(FILE *to, const struct ast *a);                       /* --emit=ast: one node a line, indented */

/* Parses a source file (see source_open); syntax errors become diagnostics and the tree holds what could be read.
 * Imports are followed by the caller. */
struct ast *parse(int file);
const char *plan_words(void);    /* "mesh, microbatches, .. and strict": what starts a line of a plan; parse/words.c */
#endif
