/* Turns raw tokens into the tokens of the grammar. What holds of its output:
 *   - every statement is closed by one END, made from `;`, from a line end outside ( ) [ ] and layout braces that does
 *     not follow an operator or comma, or put in before and after the `}` of a block;
 *   - brackets are balanced: a missing closer is reported and put in, one too many is reported and dropped;
 *   - a name is a word only where words.def says so;
 *   - after a syntax error the rest of the statement is skipped, so that each statement has at most one error. */
#include "scan.h"
#include "base/diag.h"
#include "flow.tab.h"
#include <ctype.h>
#include <string.h>

static ptrdiff_t block_depth(const struct scan *s)      /* open brackets up to and with the innermost block */
{
    ptrdiff_t n = arrlen(s->open);
    while (n && s->open[n - 1].block >= BLOCK_LAYOUT)
        n--;
    return n;
}

/* A header whose '{' stands on the line below: says so and reads on as if it were in place. */
static bool brace_on_next_line(struct scan *s, const struct token *t)
{
    int at = t->span.end;
    while (at < s->size && isspace((unsigned char)s->text[at]))
        at++;
    if (s->opens == BLOCK_NONE || s->text[at] != '{')
        return false;
    if (!s->reported)
        diag_help(diag_error(E_SYNTAX, (struct span){t->span.file, at, at + 1}, "a '{' on a line of its own"),
                  "a line end closes the statement: write '{' on the line of '%s'", s->head.text);
    return s->reported = true;
}

/* ---- what tokens are ---- */

static bool goes_on(int kind)        /* a line that ends in this token goes on in the next one */
{
    switch (kind) {
    case T_COMMA: case T_COLON: case T_EQUAL: case T_DOT: case T_ARROW: case T_PLUS: case T_MINUS: case T_TIMES:
    case T_DIVIDE: case T_AT: case T_LESS: case T_LESS_EQUAL: case T_GREATER: case T_GREATER_EQUAL: case T_EQUALS:
    case T_NOT_EQUAL: case T_AND: case T_OR: case T_NOT:
        return true;
    }
    return false;
}

static bool wants_paths(int kind)
{
    return kind == T_SBP || kind == T_PIN || kind == T_SAVE || kind == T_PLACE || kind == T_RECOMPUTE ||
           kind == T_FROZEN || kind == T_SPLIT || kind == T_COMM;
}

/* ---- delivering ---- */

static struct token token_at(int kind, struct span span)
{
    return (struct token){.kind = kind, .span = span};
}

static struct token deliver(struct scan *s, struct token t)
{
    if (scan_at_start(s) && t.kind != T_END && t.kind != T_RBRACE) {
        s->head = t;
        s->reported = s->stray > 0;
        s->path_list = false;
    }
    enum block block = scan_block(s);
    bool start = t.kind == T_END || t.kind == T_LBRACE;
    if (t.kind == T_PATTERN)
        s->want_path = false;
    else if (wants_paths(t.kind) || (t.kind == T_ON && block != BLOCK_PLAN))
        s->want_path = true, s->path_list = t.kind != T_COMM && t.kind != T_SPLIT;
    else if (t.kind == T_LBRACKET && s->last.kind == T_ON && block != BLOCK_PLAN)
        s->want_path = true, s->path_list = true;
    else if (t.kind == T_COMMA)
        s->want_path = s->path_list;
    else
        s->want_path = false, s->path_list = false;
    if (t.kind == T_END && s->stray)
        s->stray--;
    if (start)
        s->want_path = block == BLOCK_FILES && !scan_in_brackets(s);
    if (start)
        s->opens = BLOCK_NONE, s->path_list = false;
    s->before = s->last;
    s->last = t;
    return t;
}

static void queue_add(struct scan *s, struct token t)   /* delivered after what is queued already */
{
    arrins(s->queue, 0, t);
}

static struct token put_back(struct scan *s, struct token raw)
{
    s->again = raw;
    s->putback = true;
    return raw;
}

static struct token read_raw(struct scan *s)
{
    if (s->putback) {
        s->putback = false;
        return s->again;
    }
    return scan_raw(s);
}

void scan_give_up(struct scan *s, struct span at, const char *fact)
{
    if (s->done)
        return;
    diag_error(E_SYNTAX, at, "%s", fact);
    s->done = true;
    s->reported = true;
}

/* ---- brackets ---- */

static const char *bracket_text(int closer, bool opener)
{
    if (closer == T_RPAREN)
        return opener ? "(" : ")";
    if (closer == T_RBRACKET)
        return opener ? "[" : "]";
    return opener ? "{" : "}";
}

static void open_bracket(struct scan *s, const struct token *t)
{
    struct open o = {.closer = T_RBRACE, .block = BLOCK_BRACKET, .span = t->span, .head = s->head};
    if (t->kind == T_LPAREN)
        o.closer = T_RPAREN;
    else if (t->kind == T_LBRACKET)
        o.closer = T_RBRACKET;
    else if (t->kind == T_LAYOUT)
        o.block = BLOCK_LAYOUT;
    else
        o.block = s->opens;
    arrput(s->open, o);
    if (arrlen(s->open) > NESTING_MAX)
        scan_give_up(s, t->span, "brackets are nested too deeply");
}

/* What the user would call the open bracket: "plan 'dp2'", "'('". */
static const char *open_name(const struct scan *s, const struct open *o)
{
    if (o->block >= BLOCK_LAYOUT || !o->head.text)
        return mem_printf("'%s'", bracket_text(o->closer, true));
    const char *p = s->text + o->head.span.end;
    int n = scan_skip_blanks(s, o->head.span.end) - o->head.span.end, m = 0;
    while (isalnum((unsigned char)p[n + m]) || p[n + m] == '_')
        m++;
    if (m && m < 60)
        return mem_printf("'%s %.*s'", o->head.text, m, p + n);
    return mem_printf("'%s'", o->head.text);
}

/* Closes everything above `depth` by putting in the closers, then delivers `then` (kind -1: nothing). Reports the first. */
static void close_to(struct scan *s, ptrdiff_t depth, struct span at)
{
    struct span here = {at.file, at.begin, at.begin};
    while (arrlen(s->open) > depth) {
        struct open o = arrpop(s->open);
        int last = arrlen(s->queue) ? s->queue[0].kind : s->last.kind;
        if (o.block < BLOCK_LAYOUT && last != T_END && last != T_LBRACE)
            queue_add(s, token_at(T_END, here));
        queue_add(s, token_at(o.closer, here));
        if (o.block < BLOCK_LAYOUT)
            queue_add(s, token_at(T_END, here));
    }
}

static void report_open(struct scan *s, const struct open *o, struct span at, const char *before)
{
    if (s->reported || s->stray)
        return;
    s->reported = true;
    struct diag *d = diag_error(E_SYNTAX, at, "missing '%s' before %s", bracket_text(o->closer, false), before);
    diag_label(d, o->span, "%s opened here", o->block < BLOCK_LAYOUT ? open_name(s, o) : mem_printf("'%s'",
               bracket_text(o->closer, true)));
}

/* [a; b]: is the ( or [ in which this ';' stands closed on the same line, before anything else closes? */
static bool closed_behind(const struct scan *s, const struct token *semicolon)
{
    int closer = arrlast(s->open).closer, depth = 0;
    for (int at = semicolon->span.end; at < s->size && !strchr("\n#{}\"", s->text[at]); at++) {
        if (strchr("([", s->text[at]))
            depth++;
        else if (strchr(")]", s->text[at]) && !depth--)
            return s->text[at] == (closer == T_RPAREN ? ')' : closer == T_RBRACKET ? ']' : 0);
    }
    return false;
}

/* A closer came. False: it closes nothing and is dropped. */
static bool close_bracket(struct scan *s, struct token t)
{
    ptrdiff_t n = arrlen(s->open), low = t.kind == T_RBRACE ? 0 : block_depth(s), k = n - 1;
    while (k >= low && s->open[k].closer != t.kind)
        k--;
    if (k < low && n > low && t.kind != T_RBRACE) {     /* f(x]: taken for the closer that was meant */
        report_open(s, &s->open[n - 1], t.span, mem_printf("'%s'", bracket_text(t.kind, false)));
        t.kind = s->open[n - 1].closer;
        k = n - 1;
    }
    if (k < low) {
        if (!s->reported && !s->stray)
            diag_error(E_SYNTAX, t.span, "'%s' closes nothing", bracket_text(t.kind, false));
        s->reported = true;
        return false;
    }
    if (k < n - 1) {
        report_open(s, &s->open[n - 1], t.span, mem_printf("'%s'", bracket_text(t.kind, false)));
        close_to(s, k + 1, t.span);
    }
    struct open o = arrpop(s->open);
    int last = arrlen(s->queue) ? s->queue[0].kind : s->last.kind;
    if (o.block < BLOCK_LAYOUT && last != T_END && last != T_LBRACE)
        queue_add(s, token_at(T_END, t.span));
    queue_add(s, t);
    if (o.block < BLOCK_LAYOUT)
        queue_add(s, token_at(T_END, t.span));
    return true;
}

/* ---- the statement after an error ---- */

/* Does the line after this line end stand further right than the statement's head? (`def f(x):` and its lines.) */
static bool line_is_indented(const struct scan *s, const struct token *end)
{
    int head = source_position(s->file, s->head.span.begin).column, at = end->span.end, column = 1;
    for (; at < s->size && isspace((unsigned char)s->text[at]); at++)
        column = s->text[at] == '\n' ? 1 : column + 1;
    return at < s->size && s->text[at] != '}' && column > head;
}

/* `layer X`, `plan p`, .. first on its line, in another block or after an operator: something before it was not ended. */
static bool starts_top_block(const struct scan *s, const struct token *t)
{
    if (t->kind != T_NAME || !t->first || (!arrlen(s->open) && !goes_on(s->last.kind)))
        return false;
    bool named = strcmp(t->text, "layer") == 0 || strcmp(t->text, "model") == 0 || strcmp(t->text, "plan") == 0;
    bool bare = strcmp(t->text, "train") == 0 || strcmp(t->text, "sample") == 0 || strcmp(t->text, "files") == 0;
    return (named && scan_name_after(s, t)) || (bare && scan_char_after(s, t) == '{');
}

static struct token skip_statement(struct scan *s)
{
    struct token t = s->last;
    if (t.kind == T_END || t.kind == 0)
        return token_at(-1, t.span);                    /* nothing to skip */
    bool opened = t.kind == T_LBRACE && arrlen(s->open) && arrlast(s->open).span.begin == t.span.begin;
    enum block opens = opened ? arrlast(s->open).block : BLOCK_NONE;
    ptrdiff_t target = block_depth(s);
    if (opened && target == arrlen(s->open))
        target--;
    if (opened && opens != BLOCK_NONE)                  /* `layer X {`: go on with the block */
        return token_at(-1, t.span);
    if (t.first && arrlen(s->open) > target && t.span.begin > s->head.span.begin && !opened) {
        arrsetlen(s->open, target);                     /* an open ( on the line before: a new statement begins here */
        s->stray = 2;
        put_back(s, t);
        return token_at(T_END, t.span);
    }
    struct token before = t;
    bool parens = t.kind == T_LPAREN && s->opens != BLOCK_NONE;     /* `plan p( .. )`: its lines are in there */
    bool indented = false;                              /* in lines that hang under one that ended in ':' */
    for (;;) {
        t = read_raw(s);
        ptrdiff_t n = arrlen(s->open);
        if (t.kind == 0) {
            put_back(s, t);
            arrsetlen(s->open, n < target ? n : target);
            return token_at(T_END, t.span);
        }
        if (t.kind == T_END && n == target) {
            indented = (indented || before.kind == T_COLON) && t.newline && line_is_indented(s, &t);
            if (!indented)
                return t;
            continue;
        }
        if (parens && starts_top_block(s, &t)) {
            arrsetlen(s->open, target);
            put_back(s, t);
            return token_at(T_END, t.span);
        }
        if (t.kind == T_END) {
            if (parens || block_depth(s) > target || goes_on(before.kind))
                continue;
            arrsetlen(s->open, target);
            s->stray = 2;
            return t;
        }
        if (t.kind == T_LPAREN || t.kind == T_LBRACKET || t.kind == T_LBRACE) {
            bool layout = t.kind == T_LBRACE && (scan_in_brackets(s) || before.kind == T_EQUAL || before.kind == T_COMMA);
            if (t.kind == T_LBRACE && !layout && n == target && s->opens != BLOCK_NONE) {
                put_back(s, t);
                return token_at(-1, t.span);
            }
            if (layout)
                t.kind = T_LAYOUT;
            enum block kept = s->opens;
            s->opens = BLOCK_NONE;
            open_bracket(s, &t);
            s->opens = kept;
            if (s->done)
                return token_at(T_END, t.span);
        } else if (t.kind == T_RPAREN || t.kind == T_RBRACKET || t.kind == T_RBRACE) {
            ptrdiff_t k = n - 1;
            while (k >= target && s->open[k].closer != t.kind)
                k--;
            if (k >= target) {
                bool block = s->open[k].block < BLOCK_LAYOUT;
                arrsetlen(s->open, k);
                if (block && k == target)
                    return token_at(T_END, t.span);
            } else if (t.kind == T_RBRACE && target > 0) {
                arrsetlen(s->open, target);
                put_back(s, t);
                return token_at(T_END, t.span);
            }
        }
        before = t;
    }
}

/* ---- the main loop ---- */

struct token scan_next(struct scan *s)
{
    if (s->recover) {
        s->recover = false;
        if (!s->done && !arrlen(s->queue)) {
            struct token t = skip_statement(s);
            if (t.kind >= 0)
                return deliver(s, t);
        }
    }
    for (;;) {
        if (s->done) {
            struct token t = token_at(s->last.kind == T_END || s->last.kind == 0 ? 0 : T_END, s->last.span);
            return deliver(s, t);
        }
        if (arrlen(s->queue))
            return deliver(s, arrpop(s->queue));
        struct token t = read_raw(s);
        if (starts_top_block(s, &t) && !arrlen(s->open)) {
            put_back(s, t);
            t = token_at(T_END, t.span);
            t.newline = true;
            return deliver(s, t);
        }
        if (starts_top_block(s, &t)) {
            s->reported = false;
            s->stray = 0;
            report_open(s, &arrlast(s->open), t.span, mem_printf("'%s'", t.text));
            close_to(s, 0, t.span);
            put_back(s, t);
            continue;
        }
        switch (t.kind) {
        case 0:
            if (arrlen(s->open)) {
                s->reported = false;
            s->stray = 0;
                report_open(s, &arrlast(s->open), t.span, "the end of the file");
                s->reported = true;
                close_to(s, 0, t.span);
                put_back(s, t);
                continue;
            }
            if (!scan_at_start(s)) {
                put_back(s, t);
                return deliver(s, token_at(T_END, t.span));
            }
            return deliver(s, t);
        case T_END:
            if (t.newline && (scan_in_brackets(s) || goes_on(s->last.kind)))
                continue;
            if (scan_in_brackets(s) && closed_behind(s, &t)) {
                if (!s->reported && !s->stray)
                    diag_help(diag_error(E_SYNTAX, t.span, "expected ',', found ';'"), "a ';' ends a statement: within brackets a ',' parts");
                s->reported = true;
                t.kind = T_COMMA;
                return deliver(s, t);
            }
            if (scan_in_brackets(s)) {
                report_open(s, &arrlast(s->open), t.span, "';'");
                close_to(s, block_depth(s), t.span);
                put_back(s, t);
                continue;
            }
            if (scan_at_start(s))
                continue;
            if (t.newline && brace_on_next_line(s, &t))
                continue;
            return deliver(s, t);
        case T_LBRACE:
            if (scan_in_brackets(s) || s->last.kind == T_EQUAL || s->last.kind == T_COMMA)
                t.kind = T_LAYOUT;
            open_bracket(s, &t);
            return deliver(s, t);
        case T_LPAREN: case T_LBRACKET:
            open_bracket(s, &t);
            return deliver(s, t);
        case T_RPAREN: case T_RBRACKET: case T_RBRACE:
            close_bracket(s, t);
            continue;
        case T_NAME: case T_PATTERN:
            scan_classify(s, &t);
            return deliver(s, t);
        default:
            return deliver(s, t);
        }
    }
}
