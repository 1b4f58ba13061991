/* Between the characters and the grammar. flow.l cuts the text into raw tokens; scan.c decides where statements end,
 * which names are words, where a path pattern is wanted, and keeps brackets balanced, so that the grammar sees only
 * balanced tokens, every statement closed by END. After a syntax error it skips to the end of the statement. */
#ifndef FLOWC_SCAN_H
#define FLOWC_SCAN_H
#include "ast.h"
#include "base/mem.h"
#include "base/source.h"
#include <stdbool.h>

enum block {
    BLOCK_NONE, BLOCK_TOP, BLOCK_BODY, BLOCK_PLAN, BLOCK_PIPELINE, BLOCK_TRAIN, BLOCK_EVALUATE, BLOCK_DATA,
    BLOCK_SETTINGS, BLOCK_FILES, BLOCK_CLUSTER, BLOCK_LAYOUT, BLOCK_BRACKET
};

struct token {
    int kind;                    /* T_... */
    struct span span;
    const char *text;            /* names, strings (their contents), numbers; interned */
    bool first;                  /* first on its line */
    bool newline;                /* an END made by a line end, not by ';' or '}' */
};

struct open {                    /* one bracket that waits for its closer */
    int closer;                  /* T_RPAREN, T_RBRACKET, T_RBRACE */
    enum block block;
    struct span span;            /* the bracket */
    struct token head;           /* first token of the statement that opened it */
};

struct scan {
    int file;
    const char *text;
    int size;
    int at;                      /* bytes read by flow.l */
    void *raw;                   /* its state */
    struct open *open;           /* stb_ds array */
    struct token *queue;         /* tokens to deliver before reading on; stb_ds array, next one last */
    struct token again;          /* a raw token put back; kind 0: none */
    bool putback;
    struct token last, before;   /* delivered last, and before that */
    struct token head;           /* first token of the current statement */
    enum block opens;            /* what the next block brace of this statement starts */
    bool want_path;              /* flow.l reads a path pattern if it can */
    bool path_list;              /* a comma here is followed by another one */
    bool line_start;             /* nothing but blanks since the last line end */
    bool reported;               /* this statement already has its error */
    bool recover;                /* the parser failed on `last`: skip to the statement's end */
    int stray;                   /* statements to go in which errors are the echo of brackets dropped in recovery */
    bool done;                   /* given up: nothing but end of file from here on */
    struct ast *program;
};

#define IN(block) (1 << BLOCK_##block)

/* flow.l */
void scan_text(struct scan *s);
struct token scan_raw(struct scan *s);

/* scan.c */
struct token scan_next(struct scan *s);
void scan_give_up(struct scan *s, struct span at, const char *fact);

/* words.c */
enum block scan_block(const struct scan *s);                        /* innermost block, brackets not counted */
bool scan_in_brackets(const struct scan *s);                        /* ( ) [ ] or the braces of a layout */
bool scan_at_start(const struct scan *s);                           /* the next token starts a statement */
const char **words_at_start(enum block block);                      /* that start a statement there; stb_ds array */
int scan_skip_blanks(const struct scan *s, int at);
char scan_char_after(const struct scan *s, const struct token *t);  /* the next one that is not a blank */
bool scan_name_after(const struct scan *s, const struct token *t);
void scan_classify(struct scan *s, struct token *t);                /* makes a name a word where it is one */

/* message.c: what: the names of the expected tokens. */
void syntax_error(struct scan *s, const char **expected, int n);

/* ast.c, for the grammar: node with kids; a node deeper than the limit ends the parse with a diagnostic */
enum { NESTING_MAX = 200, HEIGHT_MAX = 600 };
struct ast *node_make(enum ast_kind kind, struct span span, const char *name, int kids, ...);
struct ast *node_named(enum ast_kind kind, struct span span, struct span name_span, const char *name, int kids, ...);
#endif
