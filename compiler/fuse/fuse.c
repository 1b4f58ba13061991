/* fuse: chains of element-wise ops become one node each, `fused`, whose attribute "expr" is the C expression of its
 * result over its operands ("expr1" .. of further results). Only within one region of one phase, and only where
 * producer and reader have the same shape and layout, so that a fused kernel is one loop nest; boxing ops are never
 * inside.
 *
 * A producer that others read too (a saved activation) becomes a further result of the fused node, as long as none of
 * these readers comes before the node it is joined with. The others are the attribute "hidden": they exist inside the
 * kernel only, made of its operands by "hidden_expr". Before all that, products take what follows them (epilogue.c), and sums
 * along rows what is around them (rows.c). */
#include "../target.h"
#include "fuse.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 12, MOST_RESULTS = 4, MOST_TEXT = 600 };

static void note(struct fusing *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        w->position[n->id] = i;
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                arrput(w->readers[n->in[k]->id], n);
        if (n->body)
            note(w, n->body);
    }
    for (int k = 0; k < arrlen(r->results); k++)
        w->kept[r->results[k]->id] = true;
}

bool fuse_same_shape(const struct fusing *w, const struct value *a, const struct value *b)
{
    if (a->ndim != b->ndim || !layout_same(&a->lay, &b->lay, w->p->mesh->naxis))
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->dim[d] != b->dim[d] && (a->dim[d]->size != b->dim[d]->size || a->dim[d]->phys != b->dim[d]->phys))
            return false;
    return true;
}

/* The node of region r in which n stands, or NULL when n is not inside r. */
static const struct node *within(const struct node *n, const struct region *r)
{
    while (n->region != r) {
        if (!n->region->owner)
            return NULL;
        n = n->region->owner;
    }
    return n;
}

bool fuse_read_before(const struct fusing *w, const struct value *v, const struct region *r, int position)
{
    for (int i = 0; i < arrlen(w->readers[v->id]); i++) {
        const struct node *n = within(w->readers[v->id][i], r);
        if (n && w->position[n->id] < position)
            return true;
    }
    return false;
}

static const char *expression(const struct node *n, int k)
{
    const char *s = node_str(n, k ? mem_printf("expr%d", k) : "expr");
    return s ? s : n->op->expr;
}

static bool joinable(const struct node *n)
{
    return n->op->flags & OP_ELEMENTWISE && arrlen(n->out) >= 1 && expression(n, 0);
}

/* Why producer p may not be joined with its reader n; NULL when it may. */
static const char *refusal(const struct fusing *w, const struct node *n, const struct value *v)
{
    const struct node *p = v->def;
    if (!p || p->region != n->region || !joinable(p) || arrlen(p->out) != 1)
        return "no element-wise producer in its region";
    if (!fuse_same_shape(w, v, n->out[0]))
        return "its operand has another shape";
    for (int k = 0; k < arrlen(p->in); k++)
        if (n->phase == PHASE_UPDATE && p->in[k]->def && p->in[k]->def->op == &op_param)
            return "its operand reads a parameter that the update may change";
    return fuse_read_before(w, v, n->region, w->position[n->id]) ? "its operand is read before it" : NULL;
}

struct chain {
    struct value **in, **out;
    const char **expr;           /* per result */
    struct value **hidden;       /* what exists inside the kernel only, and how it is made of the operands */
    const char **hidden_expr;
    struct node **nodes;         /* what was joined, in program order */
};

static int operand(struct chain *c, struct value *v)
{
    for (int k = 0; k < arrlen(c->in); k++)
        if (c->in[k] == v)
            return k;
    arrput(c->in, v);
    return (int)arrlen(c->in) - 1;
}

/* text with each %k replaced by with[k] */
static const char *replaced(const char *text, const char *const *with)
{
    char *s = NULL;
    while (*text) {
        size_t n = strcspn(text, "%");
        const char *from = text;
        text += n;
        if (!n) {
            char *end;
            from = with[strtol(text + 1, &end, 10)];
            n = strlen(from);
            text = end;
        }
        memcpy(arraddnptr(s, n), from, n);
    }
    arrput(s, 0);
    return s;
}

static const char *over_chain(struct chain *c, const struct node *n, const char *text)
{
    const char **with = NEW_ARRAY(const char *, arrlen(n->in) + 1);
    for (int i = 0; i < arrlen(n->in); i++)
        with[i] = mem_printf("%%%d", operand(c, n->in[i]));
    return replaced(text, with);
}

static const char *renumbered(struct chain *c, const struct node *n, int k)
{
    return over_chain(c, n, expression(n, k));
}

/* What is inside p is inside the chain. */
static void take_hidden(struct chain *c, const struct node *p)
{
    struct value **hidden = node_ptr(p, "hidden");
    const char **expr = node_ptr(p, "hidden_expr");
    for (int i = 0; i < arrlen(hidden); i++) {
        arrput(c->hidden, hidden[i]);
        arrput(c->hidden_expr, over_chain(c, p, expr[i]));
    }
}

/* Puts the producer of operand k into the chain. */
static void join(struct fusing *w, struct chain *c, const struct node *n, int k)
{
    struct value *v = c->in[k];
    const struct node *p = v->def;
    const char *text = mem_printf("(%s)", renumbered(c, p, 0));
    take_hidden(c, p);
    if (v->type == TYPE_BOOL)
        text = mem_printf("(%s != 0)", text);
    else if (v->type == TYPE_BF16 || v->type == TYPE_F16)
        text = mem_printf("fl_round_%s%s", type_name[v->type], text);
    else if (v->type != TYPE_F32 || p->op == &op_cast)
        text = mem_printf("((%s)%s)", type_c[v->type], text);
    int last = (int)arrlen(c->in) - 1;
    const char **with = NEW_ARRAY(const char *, last + 1);
    for (int i = 0; i <= last; i++)
        with[i] = mem_printf("%%%d", i > k ? i - 1 : i);
    text = replaced(text, with);                           /* p does not read v: its numbers only move down */
    with[k] = text;
    for (int i = 0; i < arrlen(c->hidden); i++)
        c->hidden_expr[i] = replaced(c->hidden_expr[i], with);
    for (int i = 0; i < arrlen(c->expr); i++)
        c->expr[i] = replaced(c->expr[i], with);
    bool others = w->kept[v->id];
    for (int i = 0; i < arrlen(w->readers[v->id]); i++)
        others |= w->readers[v->id][i] != n;
    if (others) {
        arrput(c->out, v);
        arrput(c->expr, text);
    } else {
        arrput(c->hidden, v);
        arrput(c->hidden_expr, text);
    }
    for (int i = k; i < last; i++)
        c->in[i] = c->in[i + 1];
    (void)arrpop(c->in);
}

static void add_nodes(struct chain *c, struct node *n)
{
    struct node **inner = node_ptr(n, "nodes");
    if (!inner)
        arrput(c->nodes, n);
    for (int i = 0; i < arrlen(inner); i++)
        arrput(c->nodes, inner[i]);
}

void fuse_remove(struct region *r, const struct node *n)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i] == n) {
            arrdel(r->nodes, i);
            return;
        }
}

/* Rewrites node n in place as the chain; the joined producers leave the region. */
static void rewrite_as(struct fusing *w, struct node *n, struct chain *c, struct node **gone)
{
    struct node *alone = NEW(struct node);
    *alone = *n;
    for (int i = (int)arrlen(gone) - 1; i >= 0; i--)
        add_nodes(c, gone[i]);
    add_nodes(c, node_ptr(n, "nodes") ? n : alone);
    n->op = &op_fused;
    n->in = c->in;
    n->out = c->out;
    n->attr = NULL;
    n->need = NEW_ARRAY(struct layout, arrlen(c->in) + 1);
    for (int k = 0; k < arrlen(c->in); k++) {
        n->need[k] = c->in[k]->lay;
        arrput(w->readers[c->in[k]->id], n);
    }
    node_set_ptr(n, "nodes", c->nodes);
    node_set_ptr(n, "results", c->out);
    node_set_ptr(n, "hidden", c->hidden);
    node_set_ptr(n, "hidden_expr", c->hidden_expr);
    for (int k = 0; k < arrlen(c->out); k++) {
        node_set_str(n, k ? mem_printf("expr%d", k) : "expr", c->expr[k]);
        c->out[k]->def = n;
        c->out[k]->def_index = k;
    }
    n->why = mem_printf("%d element-wise ops in one loop", (int)arrlen(c->nodes));
    for (int i = 0; i < arrlen(gone); i++)
        fuse_remove(n->region, gone[i]);
}

/* Why the chain may not take in p as well; NULL when it may. Without a bound a line of n ops is a text of n^2 characters, as
 * each of them is joined with all before it, and no compiler likes that. */
static const char *too_large(const struct chain *c, const struct node *p)
{
    if (arrlen(c->in) + arrlen(p->in) > MOST_OPERANDS)
        return "with more it would read too many operands";
    if (arrlen(c->out) == MOST_RESULTS)
        return "with more it would write too many results";
    if (strlen(c->expr[0]) + strlen(expression(p, 0)) > MOST_TEXT)
        return "with more its text would be too long";
    return NULL;
}

static void fuse_node(struct fusing *w, struct node *n)
{
    struct chain c = {0};
    struct node **gone = NULL;
    for (int k = 0; k < arrlen(n->in); k++)
        operand(&c, n->in[k]);
    for (int k = 0; k < arrlen(n->out); k++) {
        arrput(c.out, n->out[k]);
        arrput(c.expr, renumbered(&c, n, k));
    }
    for (int k = 0; k < arrlen(c.in);) {
        const char *why = refusal(w, n, c.in[k]);
        struct node *p = c.in[k]->def;
        if (!why)
            why = too_large(&c, p);
        if (why) {
            if (!n->why)
                n->why = why;
            k++;
            continue;
        }
        arrput(gone, p);
        join(w, &c, n, k);
        k = 0;
    }
    if (arrlen(gone))
        rewrite_as(w, n, &c, gone);
}

static void fuse_region(struct fusing *w, struct region *r)
{
    struct node **nodes = NULL;
    for (int i = 0; i < arrlen(r->nodes); i++)
        arrput(nodes, r->nodes[i]);
    for (int i = 0; i < arrlen(nodes); i++) {
        if (nodes[i]->body)
            fuse_region(w, nodes[i]->body);
        else if (joinable(nodes[i]))
            fuse_node(w, nodes[i]);
    }
}

/* Who reads what in a stage, as it is now. */
static struct fusing look(struct physical *p, struct stage *s, const struct root *roots)
{
    struct fusing w = {.p = p, .g = s->graph};
    for (int v = 0; v < arrlen(s->graph->values); v++)
        arrput(w.readers, NULL);
    w.kept = NEW_ARRAY(bool, arrlen(w.readers) + 1);
    w.position = NEW_ARRAY(int, s->graph->nnode + 1);
    for (int k = 0; k < arrlen(roots); k++)
        note(&w, roots[k].region);
    return w;
}

void fuse(struct module *m)
{
    struct physical *p = m->physical;
    for (int i = 0; i < p->nstage; i++) {
        struct stage *s = &p->stages[i];
        struct root *roots = NULL;
        for (int e = 0; e < ENTRIES; e++) {
            struct root *more = stage_roots(s, (enum entry)e);
            for (int k = 0; k < arrlen(more); k++)
                arrput(roots, more[k]);
        }
        struct fusing w = look(p, s, roots);
        if (target_of(m)->epilogues)
            for (int k = 0; k < arrlen(roots); k++)
                fuse_epilogues(&w, roots[k].region);
        w = look(p, s, roots);
        for (int k = 0; k < arrlen(roots); k++)
            fuse_rows(&w, roots[k].region);
        w = look(p, s, roots);
        for (int k = 0; k < arrlen(roots); k++)
            fuse_region(&w, roots[k].region);
    }
}
