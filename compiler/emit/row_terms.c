/* The terms of row work: the nodes that were joined, and what each op says of itself (op->rows), in one list. */
#include "../ops/common.h"
#include "call.h"
#include "row_terms.h"
#include <ctype.h>
#include <stdlib.h>

struct named { const char *name; int term; };
struct making {
    const struct node *n;
    const struct value *like;
    struct term *terms;
    int *of;                     /* by value id: 1 + its term */
};

static int add(struct making *m, struct term t)
{
    t.operand = t.how == HOW_LOAD ? t.operand : -1;
    t.result = -1;
    for (int k = 0; t.v && k < arrlen(m->n->out); k++)
        if (m->n->out[k] == t.v)
            t.result = k;
    arrput(m->terms, t);
    return (int)arrlen(m->terms) - 1;
}

/* An operand of the node, as read by work whose result has its last dim `skipped` before that of the rows. */
static int load(struct making *m, const struct value *v, int skipped)
{
    for (int i = 0; i < arrlen(m->terms); i++)
        if (m->terms[i].how == HOW_LOAD && m->terms[i].v == v && m->terms[i].skipped == skipped)
            return i;
    struct term t = {.v = v, .skipped = skipped, .type = v->type};
    if (!in_memory(v)) {
        t.kind = TERM_NUMBER;
        t.expr = mem_printf("(%s)", number_text(node_num(v->def, "value", 0)));
    } else {
        int last = v->ndim - 1;
        t.kind = !skipped && v->ndim && v->dim[last]->phys == m->like->dim[m->like->ndim - 1]->phys ? TERM_WHOLE : TERM_EACH;
    }
    for (int k = 0; k < arrlen(m->n->in); k++)
        if (m->n->in[k] == v)
            t.operand = k;
    return add(m, t);
}

static int term_of(struct making *m, const struct value *v, int skipped)
{
    for (int i = (int)arrlen(m->terms) - 1; i >= 0; i--)
        if (m->terms[i].how != HOW_LOAD && m->terms[i].v == v)
            return i;
    return load(m, v, skipped);
}

static const char *rounded(enum type t, const char *expr)
{
    if (t == TYPE_BOOL)
        return mem_printf("(%s) ? 1.0f : 0.0f", expr);
    return type_is_short(t) ? mem_printf("fl_round_%s(%s)", type_name[t], expr) : expr;
}

static void note_in(struct term *t, int k)
{
    for (int i = 0; i < arrlen(t->in); i++)
        if (t->in[i] == k)
            return;
    arrput(t->in, k);
}

static int find_name(const struct named *names, const char *at, size_t length)
{
    for (int i = (int)arrlen(names) - 1; i >= 0; i--)
        if (strlen(names[i].name) == length && !strncmp(names[i].name, at, length))
            return names[i].term;
    BUG("row work reads the unknown name '%.*s'", (int)length, at);
}

/* Text over operands %k, names $x and attributes @a of node n, over terms. */
static const char *over_terms(struct making *m, const struct node *n, const char *text, size_t length, const struct named *names,
                              int skipped, struct term *t)
{
    const char *s = "", *end = text + length;
    while (text < end) {
        char c = *text;
        if (!strchr("%$@", c) || text + 1 == end || (c == '%' && !isdigit((unsigned char)text[1]))) {
            s = mem_printf("%s%c", s, *text++);
            continue;
        }
        const char *word = ++text;
        while (text < end && (isalnum((unsigned char)*text) || *text == '_'))
            text++;
        const char *otherwise = NULL, *from = text;
        if (text < end && *text == '{') {
            text += strcspn(text, "}") + 1;
            otherwise = mem_printf("%.*s", (int)(text - from - 2), from + 1);
        }
        int term = -1;
        if (c == '%') {
            int k = atoi(word);
            const struct value *v = k < arrlen(n->in) ? n->in[k] : NULL;
            term = v ? term_of(m, v, skipped) : -1;
        } else if (c == '$') {
            term = find_name(names, word, (size_t)(from - word));
        } else {
            const char *name = mem_printf("%.*s", (int)(from - word), word);
            otherwise = node_attr(n, name) || !otherwise ? number_text(node_num(n, name, 0)) : otherwise;
        }
        if (term >= 0)
            note_in(t, term);
        s = term >= 0 ? mem_printf("%s%%%d", s, term) : mem_printf("%s%s", s, otherwise ? otherwise : "0");
    }
    return s;
}

static bool reads_whole(const struct making *m, const struct term *t)
{
    for (int i = 0; i < arrlen(t->in); i++)
        if (m->terms[t->in[i]].kind == TERM_WHOLE)
            return true;
    return false;
}

/* What is summed up is a term of its own. */
static int add_reduction(struct making *m, struct term t, enum term_how how)
{
    bool plain = arrlen(t.in) == 1 && t.expr[0] == '%' && strspn(t.expr + 1, "0123456789") + 1 == strlen(t.expr);
    struct term sum = {.kind = how == HOW_COLUMNS ? TERM_WHOLE : TERM_EACH, .how = how, .v = t.v, .type = t.type};
    t.v = NULL;
    t.kind = TERM_WHOLE;
    t.type = TYPE_F32;
    arrput(sum.in, plain ? t.in[0] : add(m, t));
    return add(m, sum);
}

/* What dropout leaves of t, by marks that are named after the term. */
static void drop_some(struct making *m, const struct node *n, struct term *t)
{
    float p = (float)node_num(n, "p", 0);
    t->drop = n;
    t->expr = mem_printf("(FL_KEPT(kept%d, i) ? %s * %s : 0.0f)", (int)arrlen(m->terms), t->expr, number_text((double)(1 / (1 - p))));
}

static void add_program(struct making *m, const struct node *n)
{
    static const struct { const char *word; enum term_how how; } words[] = {
        {"sum ", HOW_SUM}, {"mean ", HOW_MEAN}, {"max ", HOW_MAX}, {"columns ", HOW_COLUMNS},
    };
    struct named *names = NULL;
    for (const char *at = n->op->rows; *at; at += strspn(at, "; ")) {
        size_t length = strcspn(at, ";");
        const char *equal = strstr(at, " = "), *from = equal + 3;
        enum term_how how = HOW_EXPR;
        bool drops = !strncmp(from, "drop ", 5);
        from += drops ? 5 : 0;
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            if (!strncmp(from, words[w].word, strlen(words[w].word))) {
                how = words[w].how;
                from += strlen(words[w].word);
            }
        struct term t = {.how = HOW_EXPR, .type = TYPE_F32};
        t.expr = over_terms(m, n, from, (size_t)(at + length - from), names, 0, &t);
        if (*at == '^') {
            t.v = n->out[atoi(at + 1)];
            t.type = t.v->type;
        }
        t.kind = reads_whole(m, &t) ? TERM_WHOLE : TERM_EACH;
        if (drops)
            drop_some(m, n, &t);
        if (how == HOW_EXPR)
            t.expr = rounded(t.type, t.expr);
        int made = how == HOW_EXPR ? add(m, t) : add_reduction(m, t, how);
        if (*at == '$')
            arrput(names, ((struct named){mem_printf("%.*s", (int)(equal - at - 1), at + 1), made}));
        at += length;
    }
}

static void add_node(struct making *m, const struct node *n)
{
    if (n->op->rows) {
        add_program(m, n);
        return;
    }
    const struct value *v = n->out[0];
    struct term t = {.how = HOW_EXPR, .v = v, .type = v->type};
    if (n->op == &op_sum || n->op == &op_mean || n->op == &op_max || n->op == &op_min) {
        bool columns = rows_makes_column(n, 0);
        arrput(t.in, term_of(m, n->in[0], 0));
        t.expr = mem_printf("%%%d", t.in[0]);
        add_reduction(m, t, columns ? HOW_COLUMNS : n->op == &op_sum ? HOW_SUM : n->op == &op_mean ? HOW_MEAN :
                            n->op == &op_max ? HOW_MAX : HOW_MIN);
        return;
    }
    const char *expr = n->op->flags & OP_ELEMENTWISE ? n->op->expr : "%0";
    t.kind = rows_shape(v, m->like) == ROWS_WHOLE ? TERM_WHOLE : TERM_EACH;
    t.expr = over_terms(m, n, expr, strlen(expr), NULL, m->like->ndim - v->ndim, &t);
    t.expr = rounded(v->type, t.expr);
    add(m, t);
}

static void note_live(struct term *terms, int i)
{
    if (terms[i].live)
        return;
    terms[i].live = true;
    for (int k = 0; k < arrlen(terms[i].in); k++)
        note_live(terms, terms[i].in[k]);
}

/* Levels, and for how long each row is needed. A row that is added up must be f32 in memory, one of a later pass anything. */
static void note_levels(struct term *terms)
{
    for (int i = 0; i < arrlen(terms); i++) {
        struct term *t = &terms[i];
        for (int k = 0; k < arrlen(t->in); k++) {
            int after = terms[t->in[k]].level + term_along(t->how);
            t->level = after > t->level ? after : t->level;
        }
        t->last = t->level;
        for (int k = 0; t->live && k < arrlen(t->in); k++) {
            struct term *u = &terms[t->in[k]];
            int at = term_along(t->how) ? t->level - 1 : t->level;
            u->last = at > u->last ? at : u->last;
            u->summed |= term_along(t->how);
        }
    }
    for (int i = 0; i < arrlen(terms); i++) {
        struct term *t = &terms[i];
        bool in_place = t->type == TYPE_F32 && (t->how == HOW_LOAD || t->result >= 0);
        if (t->kind == TERM_WHOLE && t->live && t->how != HOW_COLUMNS)
            t->kept = !in_place && (t->summed || (t->how != HOW_LOAD && t->last > t->level));
    }
}

/* Rows of their own take turns with the memory. */
static void give_slots(struct term *terms)
{
    int *free_from = NULL;               /* by slot: the first pass in which it may be written */
    for (int i = 0; i < arrlen(terms); i++) {
        struct term *t = &terms[i];
        if (!t->kept)
            continue;
        for (t->slot = 0; t->slot < arrlen(free_from) && free_from[t->slot] > t->level; t->slot++)
            continue;
        if (t->slot == arrlen(free_from))
            arrput(free_from, 0);
        free_from[t->slot] = t->last + 1;
    }
}

struct term *row_terms(const struct node *n)
{
    struct node **nodes = node_ptr(n, "nodes");
    struct making m = {.n = n, .like = node_ptr(n, "like")};
    for (int i = 0; i < arrlen(nodes); i++)
        add_node(&m, nodes[i]);
    for (int i = 0; i < arrlen(m.terms); i++)
        if (m.terms[i].result >= 0)
            note_live(m.terms, i);
    note_levels(m.terms);
    give_slots(m.terms);
    return m.terms;
}
