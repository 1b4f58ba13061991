/* Nodes whose making needs a check: what the grammar takes too generously is refused here, in the user's words. */
#include "check.h"
#include "base/diag.h"
#include "flow.tab.h"
#include <stdlib.h>
#include <string.h>

/* A statement has at most one error. */
static bool fails(struct scan *s, bool condition)
{
    if (!condition || s->reported || s->done)
        return false;
    return s->reported = true;
}

struct ast *deep(struct scan *s, struct ast *a)
{
    if (a->height > HEIGHT_MAX)
        scan_give_up(s, a->name_span, "this expression is nested too deeply");
    return a;
}

struct ast *add_all(struct ast *list, struct ast *kid, struct span span)
{
    if (kid && kid->kind == AST_LIST)
        add_kids_of(list, kid);
    else if (kid)
        ast_add(list, kid);
    list->span = span;
    return list;
}

void add_kids_of(struct ast *to, struct ast *list)
{
    for (int i = 0; i < ast_count(list); i++)
        ast_add(to, ast_kid(list, i));
}

/* ---- numbers and units ---- */

struct ast *number_node(struct span at, const char *text)
{
    struct ast *a = ast_new(AST_NUMBER, at, text);
    a->num = strtod(text, NULL);
    a->is_int = strspn(text, "0123456789") == strlen(text);
    return a;
}

static const struct unit { const char *text; double factor; enum { BYTES, RATE, SECONDS } of; } units[] = {
    {"B", 1, BYTES},           {"KiB", 1024.0, BYTES},     {"MiB", 1048576.0, BYTES},  {"GiB", 1073741824.0, BYTES},
    {"TiB", 1099511627776.0, BYTES},                       {"KB", 1e3, BYTES},         {"MB", 1e6, BYTES},
    {"GB", 1e9, BYTES},        {"TB", 1e12, BYTES},        {"KB/s", 1e3, RATE},        {"MB/s", 1e6, RATE},
    {"GB/s", 1e9, RATE},       {"TB/s", 1e12, RATE},       {"ns", 1e-9, SECONDS},      {"us", 1e-6, SECONDS},
    {"ms", 1e-3, SECONDS},     {"s", 1, SECONDS},
};

static const struct unit *unit_of(const char *text)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].text, text) == 0)
            return &units[i];
    return NULL;
}

struct ast *quantity_node(struct scan *s, struct span at, const char *number, const char *unit)
{
    struct ast *a = number_node(at, number);
    const struct unit *u = unit_of(unit);
    if (!u) {
        if (fails(s, true))
            diag_help(diag_error(E_SYNTAX, at, "unknown unit '%.40s'", unit),
                      "sizes: B KiB MiB GiB TiB KB MB GB TB; rates: KB/s MB/s GB/s TB/s; times: ns us ms s");
        a->name = NULL;
        return a;
    }
    a->num *= u->factor;
    a->is_int = false;
    a->name = intern(mem_printf("%s %s", number, unit));
    return a;
}

static struct ast *expect_unit(struct scan *s, struct ast *q, int of, const char *what, const char *example)
{
    const char *blank = q->name ? strchr(q->name, ' ') : NULL;
    const struct unit *u = blank ? unit_of(blank + 1) : NULL;
    if (fails(s, u && (int)u->of != of))
        diag_help(diag_error(E_SYNTAX, q->span, "expected %s, found '%s'", what, q->name), "such as '%s'", example);
    return q;
}

struct ast *bytes(struct scan *s, struct ast *quantity)
{
    return expect_unit(s, quantity, BYTES, "a size in bytes", "16 GiB");
}

struct ast *memory_node(struct scan *s, struct span at, struct ast *quantity, struct span word_span, const char *word)
{
    if (fails(s, strcmp(word, "rank") != 0))
        diag_help(diag_error(E_SYNTAX, word_span, "expected 'rank', found '%.40s'", word), "write 'memory 16 GiB per rank'");
    struct ast *a = ast_new(AST_MEMORY, at, bytes(s, quantity)->name);
    a->num = quantity->num;
    a->name_span = quantity->span;
    return a;
}

struct ast *link_node(struct scan *s, struct span at, struct span which_span, const char *which, struct ast *bandwidth,
                      struct ast *latency)
{
    if (fails(s, strcmp(which, "inside") != 0 && strcmp(which, "between") != 0 && strcmp(which, "host") != 0))
        diag_help(diag_error(E_SYNTAX, which_span, "expected 'inside', 'between' or 'host', found '%.40s'", which),
                  "'link inside' joins devices of one host, 'link between' hosts, 'link host' a device and host memory");
    expect_unit(s, bandwidth, RATE, "a bandwidth", "450 GB/s");
    expect_unit(s, latency, SECONDS, "a latency", "3 us");
    struct ast *both = node_make(AST_LIST, span_join(bandwidth->span, latency->span), NULL, 2, bandwidth, latency);
    return node_named(AST_SETTING, at, which_span, intern(mem_printf("link %.40s", which)), 1, both);
}

/* ---- expressions ---- */

struct ast *call_node(struct scan *s, struct span at, struct ast *callee, struct ast *arguments)
{
    struct ast *a = node_named(AST_CALL, at, callee->name_span, NULL, 1, callee);
    bool keyword = false;
    for (int i = 0; i < ast_count(arguments); i++) {
        struct ast *arg = ast_kid(arguments, i);
        if (arg->kind == AST_KEYWORD)
            keyword = true;
        else if (fails(s, keyword))
            diag_help(diag_error(E_SYNTAX, arg->span, "a positional argument after a named one"),
                      "write the arguments without a name first");
        ast_add(a, arg);
    }
    return a;
}

struct ast *index_node(struct span at, struct ast *of, struct ast *indices)
{
    struct ast *a = node_named(AST_INDEX, at, of->name_span, NULL, 1, of);
    add_kids_of(a, indices);
    return a;
}

struct ast *label_node(struct scan *s, struct span at, struct ast *label, struct ast *of)
{
    bool plain = label->kind == AST_NAME;
    bool indexed = label->kind == AST_INDEX && ast_count(label) == 2 && ast_kid(label, 0)->kind == AST_NAME &&
                   (ast_kid(label, 1)->kind == AST_NAME || ast_kid(label, 1)->kind == AST_NUMBER);
    bool argument = label->span.begin != s->head.span.begin && (s->last.kind == T_RPAREN || s->last.kind == T_COMMA);
    if (fails(s, !plain && !indexed))
        diag_help(diag_error(E_SYNTAX, label->span, "this cannot be a label"), "%s", label->kind == AST_NUMBER ?
                  "a slice is written with two dots: 'x[0..2]', 'x[..-1]'" :
                  "a label is a name, or a name with one index: 'attn: ..', 'h[i]: ..'");
    else if (fails(s, of->kind == AST_LABEL))
        diag_help(diag_error(E_SYNTAX, of->name_span, "a second label for one call"), "keep one of them");
    else if (fails(s, of->kind != AST_CALL))
        diag_help(diag_error(E_SYNTAX, of->span, "only a call can have a label"), "%s",
                  of->kind == AST_MEMBER ? "label the call first, take a part of it in a second line" :
                  of->kind == AST_INDEX && ast_kid(of, 0)->kind == AST_CALL ? "put the labelled call in ( )" :
                  argument ? "an argument is named with '=': 'axis = 0'" :
                  "a type is written in headers and after 'param NAME:' only");
    return node_named(AST_LABEL, at, label->span, NULL, 2, label, of);
}

struct ast *assign_node(struct scan *s, struct span at, struct ast *targets, struct ast *value)
{
    struct ast *names = ast_new(AST_NAMES, targets->span, NULL);
    for (int i = 0; i < ast_count(targets); i++) {
        struct ast *t = ast_kid(targets, i);
        if (t->kind == AST_NAME) {
            ast_add(names, t);
            continue;
        }
        if (!fails(s, true))
            continue;
        struct diag *d = diag_error(E_SYNTAX, t->span, "only a name can stand on the left of '='");
        if (t->kind == AST_LABEL)
            diag_help(d, "a label stands on the right: 'x = %s: ..'; a parameter is 'param NAME: TYPE = ..'",
                      span_text(ast_kid(t, 0)->span));
        else if (t->kind == AST_INDEX)
            diag_help(d, "values do not change in place; bind a new one with where, concat or stack");
    }
    return node_make(AST_ASSIGN, at, NULL, 2, names, value);
}

struct ast *unused_value(struct scan *s, struct span at, struct ast *values)
{
    struct ast *v = ast_kid(values, 0);
    if (!fails(s, true))
        return NULL;
    struct diag *d = diag_error(E_SYNTAX, at, "this value is not used");
    if (v->kind == AST_BINARY && strcmp(v->name, "==") == 0 && ast_kid(v, 0)->kind == AST_NAME)
        diag_help(d, "'==' compares; to bind a name write '%s = ..'", ast_kid(v, 0)->name);
    else
        diag_help(d, "bind it with 'name = ..', or hand it out with 'return' or 'output'");
    return NULL;
}

/* ---- plan lines ---- */

struct ast *layout_node(struct scan *s, struct span at, struct ast *axes, struct span kind_span, const char *kind,
                        struct ast *argument)
{
    struct ast *a = node_named(AST_LAYOUT_AXIS, at, kind_span, kind, 2, axes, argument);
    bool b = strcmp(kind, "B") == 0, split = strcmp(kind, "S") == 0, p = strcmp(kind, "P") == 0;
    bool reduce = argument && argument->kind == AST_NAME && (strcmp(argument->name, "sum") == 0 ||
                  strcmp(argument->name, "max") == 0 || strcmp(argument->name, "min") == 0);
    if (fails(s, !b && !split && !p))
        diag_help(diag_error(E_LAYOUT_LINE, kind_span, "expected B, S or P, found '%.40s'", kind),
                  "S(N) splits the dim N, B keeps a copy everywhere, P is a partial sum");
    else if (fails(s, b && argument))
        diag_error(E_LAYOUT_LINE, argument->span, "B takes no argument");
    else if (fails(s, split && !argument))
        diag_help(diag_error(E_LAYOUT_LINE, kind_span, "S without the dim it splits"), "write S(N), or S(0) for the first dim");
    else if (fails(s, split && argument && argument->kind == AST_NUMBER && !argument->is_int))
        diag_error(E_LAYOUT_LINE, argument->span, "S takes a dim or its number");
    else if (fails(s, p && argument && !reduce))
        diag_error(E_LAYOUT_LINE, argument->span, "P takes sum, max or min");
    return a;
}

struct ast *times_node(struct scan *s, struct span at, struct ast *value, struct span x_span, const char *x,
                       struct ast *count)
{
    if (fails(s, strcmp(x, "x") != 0))
        diag_help(diag_error(E_SYNTAX, x_span, "expected ',' or 'x', found '%.40s'", x), "'8 x 14' means 14 times 8");
    return node_make(AST_TIMES, at, NULL, 2, value, count);
}

/* What shard and offload lines are about: one of three words. */
static bool kind_is(struct scan *s, struct span at, const char *what, const char *const kinds[3], const char *otherwise)
{
    const char **near_by = NULL;
    for (int i = 0; i < 3; i++) {
        if (!strcmp(what, kinds[i]))
            return true;
        arrput(near_by, kinds[i]);
    }
    if (!fails(s, true))
        return false;
    struct diag *d = diag_error(E_SYNTAX, at, "expected '%s', '%s' or '%s', found '%.40s'", kinds[0], kinds[1], kinds[2], what);
    const char *near = suggest(what, near_by);
    if (near)
        diag_help(d, "did you mean '%s'?", near);
    else
        diag_help(d, "%s", otherwise);
    return false;
}

struct ast *shard_node(struct scan *s, struct span at, struct span what_span, const char *what, struct ast *axes)
{
    static const char *const kinds[] = {"optimizer", "gradients", "parameters"};
    kind_is(s, what_span, what, kinds, "'shard optimizer over dp' keeps each rank's share of the optimizer state only");
    return node_named(AST_SHARD, at, what_span, what, 1, axes);
}

struct ast *offload_node(struct scan *s, struct span at, struct ast *what, struct span to_span, const char *to,
                         struct span host_span, const char *host)
{
    if (fails(s, strcmp(to, "to") != 0 || strcmp(host, "host") != 0))
        diag_help(diag_error(E_SYNTAX, span_join(to_span, host_span), "expected 'to host', found '%.40s %.40s'", to, host),
                  "host memory is where it can go: 'offload optimizer to host'");
    static const char *const kinds[] = {"optimizer", "activations", "parameters"};
    for (int i = 0; i < ast_count(what); i++)
        kind_is(s, what->kids[i]->span, what->kids[i]->name, kinds, "'offload optimizer to host' keeps the optimizer state in host memory");
    return node_make(AST_OFFLOAD, at, NULL, 1, what);
}

struct ast *keep_node(struct scan *s, struct span at, struct span a_span, const char *a, struct span b_span, const char *b)
{
    if (fails(s, strcmp(a, "after") != 0 || strcmp(b, "forward") != 0))
        diag_help(diag_error(E_SYNTAX, span_join(a_span, b_span), "expected 'after forward', found '%.40s %.40s'", a, b),
                  "write 'keep after forward', behind a line 'shard parameters over ..'");
    return ast_new(AST_FLAG, at, "keep after forward");
}

struct ast *expect_node(struct span at, struct ast *pattern, struct ast *conditions, struct ast *comparison)
{
    struct ast *call = ast_kid(comparison, 0);
    struct ast *a = node_make(AST_EXPECT, at, NULL, 4, pattern, conditions, ast_kid(call, 0), ast_kid(call, 1));
    return ast_add(a, comparison);
}

struct ast *compare_node(struct span at, const char *how, struct span name_span, const char *name, struct ast *axes,
                         struct ast *count)
{
    struct ast *callee = ast_new(AST_NAME, name_span, name);
    struct ast *call = node_make(AST_CALL, span_join(name_span, axes->span), NULL, 1, callee);
    add_kids_of(call, axes);
    return node_make(AST_BINARY, at, how, 2, call, count);
}

struct ast *optional_node(struct scan *s, struct span at, struct span word_span, const char *word, struct span text_span,
                          const char *text)
{
    if (fails(s, strcmp(word, "prefix") != 0))
        diag_error(E_SYNTAX, word_span, "expected 'prefix', found '%.40s'", word);
    struct ast *string = ast_new(AST_STRING, text_span, text);
    return node_named(AST_SETTING, at, word_span, "optional prefix", 2, string, NULL);
}

struct ast *transpose_node(struct span at)
{
    return ast_new(AST_NAME, at, "transpose");
}
