/* Every pattern of the program matches something: a line that names nothing would be a layout, a decay or a stage that
 * silently is not there. */
#include "elaborate.h"
#include <ctype.h>
#include <string.h>

struct graph *any_graph(struct elab *e)
{
    for (int k = 0; k < ENTRIES; k++)
        if (e->m->graph[k])
            return e->m->graph[k];
    return NULL;
}

static bool pattern_used(struct elab *e, const char *pattern, bool values, bool beneath)
{
    struct graph *g = values ? any_graph(e) : NULL;
    for (int i = 0; i < arrlen(e->m->params); i++)
        if ((beneath ? pattern_covers : pattern_match)(pattern, e->m->params[i]->path, NULL))
            return true;
    for (int i = 0; g && i < arrlen(g->values); i++)
        if (value_matches(g->values[i], pattern, NULL) ||
            (beneath && pattern_covers(pattern, g->values[i]->path, NULL)))
            return true;
    return false;
}

/* What stands in [ ]: `*`, a name, or a block or half-open range of blocks in whole numbers, upwards from 0. */
static bool index_known(const char *s, const char *end)
{
    const char *t = s;
    if (*s == '*')
        return end == s + 1;
    if (isalpha((unsigned char)*s) || *s == '_') {
        while (t < end && (isalnum((unsigned char)*t) || *t == '_'))
            t++;
        return t == end;
    }
    t += strspn(t, "0123456789");
    if (t == end)
        return t > s;
    if (strncmp(t, "..", 2) != 0)
        return false;
    t += 2;
    return t + strspn(t, "0123456789") == end;
}

/* A dim or const of the program by that name? As an index it would be taken for the name of all blocks. */
static const struct ast *size_named(const struct elab *e, const char *name, size_t length)
{
    for (int p = 0; p < arrlen(e->m->programs); p++)
        for (int i = 0; i < ast_count(e->m->programs[p]); i++) {
            const struct ast *a = e->m->programs[p]->kids[i];
            if (a && (a->kind == AST_DIM || a->kind == AST_CONST) && strlen(a->name) == length && !strncmp(a->name, name, length))
                return a;
        }
    return NULL;
}

/* An error for every index in the patterns of a that is none: h[-1], h[1.5], h[L]. */
static void check_indices(struct elab *e, const struct ast *a)
{
    for (int i = 0; a && i < ast_count(a); i++)
        check_indices(e, a->kids[i]);
    if (!a || a->kind != AST_PATTERN)
        return;
    for (const char *s = a->name; (s = strchr(s, '['));) {
        const char *end = strchr(++s, ']');
        if (!end)
            return;
        const struct ast *size = size_named(e, s, (size_t)(end - s));
        if (!size && index_known(s, end))
            continue;
        struct diag *d = diag_error(E_PATTERN, a->span, "'%.*s' in '%s' is no block", (int)(end - s), s, a->name);
        if (size)
            diag_label(d, size->span, "a size; as an index it would stand for every block");
        diag_help(d, "blocks are counted from 0: one is `[2]`, some are `[2..4]`, all are `[*]`");
        return;
    }
}

/* A pattern that names blocks names some that are there: of one of the repeats it matches, all of them. */
static void check_blocks(struct elab *e, const char *pattern, struct span span, bool beneath)
{
    struct graph *g = any_graph(e);
    const struct region *widest = NULL;
    struct block_ranges b;
    for (int i = 0; g && i < arrlen(g->values); i++) {
        const struct value *v = g->values[i];
        bool fine = true;
        if (!value_matches(v, pattern, &b) && !(beneath && pattern_covers(pattern, v->path, &b)))
            continue;
        for (const struct region *r = v->region; r->parent; r = r->parent) {
            int k = region_depth(r) - 1;
            if (b.low[k] < b.high[k] && b.low[k] < r->count && (b.high[k] == INT64_MAX || b.high[k] <= r->count))
                continue;
            fine = false;
            widest = !widest || r->count > widest->count ? r : widest;
        }
        if (fine)
            return;
    }
    if (!widest)
        return;
    struct diag *d = diag_error(E_PATTERN, span, "'%s' names blocks that are not there", pattern);
    diag_label(d, widest->owner->span, "this repeat has the blocks 0 to %lld", (long long)widest->count - 1);
    diag_help(d, "a range is half-open: [0..%lld] is all of them", (long long)widest->count);
}

/* What recompute and place lines are about runs. Inputs and parameters do not: they are there, in the backward too. */
static void check_computed(struct elab *e, const struct plan_line *l)
{
    struct graph *g = any_graph(e);
    const struct value *given = NULL;
    for (int i = 0; g && i < arrlen(g->values); i++) {
        const struct value *v = g->values[i];
        if (!value_matches(v, l->pattern, NULL) && !pattern_covers(l->pattern, v->path, NULL))
            continue;
        if (v->def && v->def->op != &op_input && v->def->op != &op_param)
            return;
        given = v;
    }
    if (!given || !given->def)
        return;
    const char *what = given->def->op == &op_input ? "an input" : "a parameter";
    struct diag *d;
    if (l->kind == LINE_PLACE) {
        d = diag_error(E_PLACE, l->pattern_span, "'%s' is %s, which is wherever its readers run", l->pattern, what);
        diag_label(d, given->span, "declared here");
        diag_help(d, "place the call or the value that reads it");
    } else {
        d = diag_error(E_BLOCK_LINE, l->pattern_span, "'%s' is %s: there is nothing to recompute", l->pattern, what);
        diag_label(d, given->span, "declared here, and kept in any case");
        diag_help(d, "name calls or values that the forward computes, as in `recompute h[*]`");
    }
}

static void check_split(struct elab *e, struct plan *p)
{
    struct graph *g = any_graph(e);
    const char *repeats = "";
    const struct region *unnamed = NULL;
    const struct node *other = NULL;
    struct node **nodes = g ? g->root->nodes : NULL;
    const char **near = NULL;
    for (int i = 0; i < arrlen(nodes); i++)
        if (nodes[i]->body) {
            if (pattern_match(p->split, nodes[i]->path, NULL) ||
                pattern_match(p->split, mem_printf("%s[*]", nodes[i]->path), NULL)) {
                p->split = nodes[i]->path;
                return;
            }
            unnamed = nodes[i]->body;
            if (strcmp(path_last(nodes[i]->path), "repeat") != 0) {          /* a word of the language, never a label */
                repeats = mem_printf("%s%s%s", repeats, *repeats ? ", " : "", nodes[i]->path);
                arrput(near, nodes[i]->path);
            }
        }
    struct ast *split = NULL;
    for (int i = 0; i < ast_count(p->ast); i++)
        for (int k = 0; p->ast->kids[i]->kind == AST_PIPELINE && k < ast_count(p->ast->kids[i]); k++)
            if (p->ast->kids[i]->kids[k]->kind == AST_SPLIT)
                split = p->ast->kids[i]->kids[k];
    struct diag *d = diag_error(E_PATTERN, ast_kid(split, 0)->span, "'%s' is no repeat of the model", p->split);
    for (int i = 0; i < arrlen(e->labels); i++)
        if (!strcmp(e->labels[i], p->split) && unnamed && span_within(e->label_spans[i], unnamed->owner->span) &&
            !pattern_told(e, mem_printf("%s[*]", p->split))) {
            diag_label(d, e->label_spans[i], "this label has no index");
            diag_help(d, "write `%s[i]: ..` there, in a `repeat .. as i`: then each block has its own parameters", p->split);
            return;
        }
    for (int i = 0; i < arrlen(nodes) && !other; i++)
        other = nodes[i]->op != &op_param && nodes[i]->span.file && pattern_covers(p->split, nodes[i]->path, NULL) ? nodes[i] : NULL;
    if (other)
        diag_label(d, other->span, "a part of '%s', which no repeat goes by", p->split);
    const char *best = suggest(p->split, near);
    if (best)
        diag_help(d, "did you mean '%s'?", best);
    else if (*repeats)
        diag_help(d, "a repeat goes by the label in its body: %s", repeats);
    else if (unnamed)
        diag_help(d, "give the repeat a label in its body, as in `repeat L as i { x = h[i]: Block(x) }`");
    else
        diag_help(d, "the model has no repeat outside of layers");
}

/* The micro-batches cut a dim of the inputs. */
static void check_microbatches(struct elab *e, struct plan *p)
{
    if (!p->mb_dim)
        return;
    for (int i = 0; i < arrlen(e->inputs); i++)
        for (int k = 0; k < e->inputs[i]->ndim; k++)
            if (e->inputs[i]->dim[k] == p->mb_dim)
                return;
    struct diag *d = diag_error(E_MICROBATCH, p->mb_span, "no input of the model has the dim %s", p->mb_dim->name);
    diag_label(d, e->m->model_span, "the model");
}

void patterns_check(struct elab *e)
{
    struct plan *p = e->m->plan;
    struct ast **train = train_patterns(e);
    int before = diag_errors();
    for (int i = 0; i < arrlen(e->m->programs); i++)
        for (int k = 0; k < ast_count(e->m->programs[i]); k++) {
            const struct ast *a = e->m->programs[i]->kids[k];
            if (a && (a->kind != AST_PLAN || a == p->ast))
                check_indices(e, a);
        }
    if (diag_errors() != before)
        return;
    if (p->split)
        check_split(e, p);
    for (int i = 0; i < arrlen(p->lines); i++) {
        struct plan_line *l = &p->lines[i];
        if (!pattern_used(e, l->pattern, true, l->kind == LINE_PLACE || l->kind == LINE_RECOMPUTE))
            pattern_unmatched(e, l->pattern, l->pattern_span, false);
        else
            check_blocks(e, l->pattern, l->pattern_span, l->kind == LINE_PLACE || l->kind == LINE_RECOMPUTE);
        if (l->kind == LINE_RECOMPUTE || l->kind == LINE_PLACE)
            check_computed(e, l);
    }
    for (int i = 0; i < arrlen(p->precision.keep); i++) {
        const char *keep = p->precision.keep[i];
        if (!pattern_used(e, keep, true, true))
            pattern_unmatched(e, keep, p->precision.keep_span[i], false);
        else
            check_blocks(e, keep, p->precision.keep_span[i], true);
    }
    for (int i = 0; i < arrlen(p->expect); i++) {
        const struct expectation *x = &p->expect[i];
        if (!strcmp(x->pattern, "*") || !strcmp(x->pattern, "grad_norm"))
            continue;
        if (!pattern_used(e, x->pattern, true, true))
            pattern_unmatched(e, x->pattern, x->pattern_span, false);
        else
            check_blocks(e, x->pattern, x->pattern_span, true);
    }
    for (int i = 0; i < arrlen(train); i++)
        if (!pattern_used(e, train[i]->name, false, true))
            pattern_unmatched(e, train[i]->name, train[i]->span, true);
        else
            check_blocks(e, train[i]->name, train[i]->span, true);
    check_microbatches(e, p);
}
