/* Repeats in pieces. A body stands for all its blocks, so where the chosen plan or `train` says different things about
 * some of them, the repeat becomes several in a row, each with a copy of the body for its range of blocks, and what is
 * carried runs through them. A piece is as long as possible: it ends only where a pattern begins or ends. All entries
 * are cut alike, since they share parameters; a parameter becomes one in each piece, side by side.
 *
 * After this a pattern is about all blocks of a value or parameter or about none (value_meant, param_meant). */
#include "elaborate.h"
#include <stdlib.h>
#include <string.h>

struct cutting {
    struct elab *e;
    struct graph *g;
    struct { char *key; int64_t *value; } *points;       /* by repeat: numbers of blocks that begin a piece, in order */
    struct { char *key; struct param *value; } *pieces;  /* of parameters, by path and first blocks */
    struct { struct param *key; struct param **value; } *of;     /* parameter -> its pieces */
    struct { struct value *key; struct value *value; } *copies;  /* of one body, while it is copied */
};

/* The same repeat has the same name in every entry. */
static const char *repeat_key(const struct region *body)
{
    const struct node *n = body->owner;
    return mem_printf("%s:%d:%d", n->path ? n->path : "", n->span.file, n->span.begin);
}

static void add_point(struct cutting *c, const struct region *body, int64_t block)
{
    const char *key = repeat_key(body);
    int64_t *points = shget(c->points, key);
    int at = 0;
    if (block <= 0 || block >= body->total)
        return;
    while (at < arrlen(points) && points[at] < block)
        at++;
    if (at < arrlen(points) && points[at] == block)
        return;
    arrins(points, at, block);
    shput(c->points, key, points);
}

/* Notes where the pattern's blocks begin and end, in every repeat around what it matches. beneath: a call's path means
 * all that is in it. */
static void add_pattern(struct cutting *c, const char *pattern, bool beneath)
{
    for (int k = 0; k < arrlen(c->g->values); k++) {
        const struct value *v = c->g->values[k];
        struct block_ranges b;
        if (!value_matches(v, pattern, &b) && !(beneath && pattern_covers(pattern, v->path, &b)))
            continue;
        for (const struct region *r = v->region; r->parent; r = r->parent) {
            int level = region_depth(r) - 1;
            add_point(c, r, b.low[level]);
            add_point(c, r, b.high[level]);
        }
    }
}

/* ---- copies ---- */

static struct value *copy_value(struct cutting *c, struct value *v, struct region *r, struct node *def)
{
    struct value *copy = NEW(struct value);
    *copy = *v;
    copy->id = (int)arrlen(c->g->values);
    copy->region = r;
    copy->def = def;
    arrput(c->g->values, copy);
    hmput(c->copies, v, copy);
    return copy;
}

static struct value *copied(struct cutting *c, struct value *v)
{
    ptrdiff_t at = hmgeti(c->copies, v);
    return at < 0 ? v : c->copies[at].value;             /* values from outside are the same in all pieces */
}

static struct region *copy_body(struct cutting *c, struct region *from, struct region *parent);

static struct node *copy_node(struct cutting *c, struct node *from, struct region *r)
{
    struct node *n = NEW(struct node);
    *n = *from;
    n->id = c->g->nnode++;
    n->region = r;
    n->in = n->out = NULL;
    n->attr = NULL;
    for (int k = 0; k < arrlen(from->in); k++)
        arrput(n->in, from->in[k] ? copied(c, from->in[k]) : NULL);
    for (int k = 0; k < arrlen(from->attr); k++)
        arrput(n->attr, from->attr[k]);
    if (from->body) {
        n->body = copy_body(c, from->body, r);
        n->body->owner = n;
    }
    for (int k = 0; k < arrlen(from->out); k++)
        arrput(n->out, copy_value(c, from->out[k], r, n));
    return n;
}

static struct region *copy_body(struct cutting *c, struct region *from, struct region *parent)
{
    struct region *r = region_new(parent, from->count);
    r->first = from->first;
    r->total = from->total;
    if (from->index)
        r->index = copy_value(c, from->index, r, NULL);
    for (int k = 0; k < arrlen(from->args); k++)
        arrput(r->args, copy_value(c, from->args[k], r, NULL));
    for (int i = 0; i < arrlen(from->nodes); i++)
        arrput(r->nodes, copy_node(c, from->nodes[i], r));
    for (int k = 0; k < arrlen(from->results); k++)
        arrput(r->results, copied(c, from->results[k]));
    return r;
}

/* ---- pieces ---- */

/* A repeat node like n that stands before it; the outputs are new. */
static struct node *piece_before(struct cutting *c, struct node *n, struct region *body)
{
    struct node *piece = NEW(struct node);
    *piece = *n;
    piece->id = c->g->nnode++;
    piece->in = piece->out = NULL;
    piece->body = body;
    for (int k = 0; k < arrlen(n->in); k++)
        arrput(piece->in, n->in[k]);
    for (int k = 0; k < arrlen(n->out); k++)
        arrput(piece->out, copy_value(c, n->out[k], n->region, piece));
    return piece;
}

/* The node stays as the last piece, so that whoever reads its outputs need not know. */
static int cut_node(struct cutting *c, struct region *r, int at, const int64_t *points)
{
    struct node *n = r->nodes[at];
    int pieces = (int)arrlen(points) + 1;
    struct region **bodies = NULL;
    for (int k = 0; k < pieces; k++) {
        hmfree(c->copies);
        c->copies = NULL;
        arrput(bodies, k ? copy_body(c, n->body, r) : n->body);
    }
    for (int k = 0; k < pieces; k++) {
        struct region *body = bodies[k];
        body->first = k ? points[k - 1] : 0;
        body->count = (k < pieces - 1 ? points[k] : body->total) - body->first;
        body->next = k < pieces - 1 ? bodies[k + 1] : NULL;
        if (k < pieces - 1) {
            struct node *piece = piece_before(c, n, body);
            arrins(r->nodes, at + k, piece);
            for (int i = 0; i < arrlen(n->in); i++)
                n->in[i] = piece->out[i];
            body->owner = piece;
        } else {
            n->body = body;
            body->owner = n;
        }
    }
    return pieces;
}

static void cut_region(struct cutting *c, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct region *body = r->nodes[i]->body;
        const int64_t *points = body ? shget(c->points, repeat_key(body)) : NULL;
        int pieces = arrlen(points) ? cut_node(c, r, i, points) : 1;
        for (int k = 0; body && k < pieces; k++)
            cut_region(c, r->nodes[i + k]->body);
        i += pieces - 1;
    }
}

/* ---- parameters ---- */

static struct param *piece_of(struct cutting *c, struct param *p, const struct region *home)
{
    int64_t *stack = NULL, *first = NULL, *total = NULL;
    const char *key = p->path;
    bool whole = true;
    for (const struct region *r = home; r->parent; r = r->parent) {
        arrins(stack, 0, r->count);
        arrins(first, 0, r->first);
        arrins(total, 0, r->total);
        key = mem_printf("%s:%lld", key, (long long)r->first);
        whole &= r->count == r->total;
    }
    if (whole)
        return p;
    struct param *piece = shget(c->pieces, key);
    if (piece)
        return piece;
    piece = NEW(struct param);
    *piece = *p;
    piece->stack = stack;
    piece->first = first;
    piece->total = total;
    shput(c->pieces, key, piece);
    struct param **list = hmget(c->of, p);
    arrput(list, piece);
    hmput(c->of, p, list);
    return piece;
}

static void take_piece(struct node *n, void *context)
{
    if (n->op == &op_param)
        node_set_ptr(n, "param", piece_of(context, node_ptr(n, "param"), n->region));
}

static int by_first_block(const void *a, const void *b)
{
    const struct param *x = *(struct param *const *)a, *y = *(struct param *const *)b;
    for (int k = 0; k < arrlen(x->first); k++)
        if (x->first[k] != y->first[k])
            return x->first[k] < y->first[k] ? -1 : 1;
    return 0;
}

/* Pieces take the place of the whole, in order of their blocks: then all partial sums of the norm keep their places. */
static void list_pieces(struct cutting *c)
{
    struct module *m = c->e->m;
    struct param **list = NULL;
    for (int k = 0; k < arrlen(m->params); k++) {
        struct param **pieces = hmget(c->of, m->params[k]);
        if (!arrlen(pieces)) {
            arrput(list, m->params[k]);
            continue;
        }
        qsort(pieces, (size_t)arrlen(pieces), sizeof *pieces, by_first_block);
        for (int i = 0; i < arrlen(pieces); i++)
            arrput(list, pieces[i]);
    }
    for (int k = 0; k < arrlen(list); k++)
        list[k]->index = k;
    m->params = list;
}

void repeats_cut(struct elab *e)
{
    struct module *m = e->m;
    struct cutting c = {.e = e};
    struct ast **beneath = train_patterns(e);
    sh_new_arena(c.points);
    sh_new_arena(c.pieces);
    for (int k = 0; k < ENTRIES; k++) {
        if (!(c.g = m->graph[k]))
            continue;
        for (int i = 0; i < arrlen(m->plan->lines); i++)
            if (m->plan->lines[i].kind != LINE_PLACE)    /* which is about calls outside of repeats */
                add_pattern(&c, m->plan->lines[i].pattern, m->plan->lines[i].kind == LINE_RECOMPUTE);
        for (int i = 0; i < arrlen(m->plan->precision.keep); i++)
            add_pattern(&c, m->plan->precision.keep[i], true);
        for (int i = 0; i < arrlen(beneath); i++)
            add_pattern(&c, beneath[i]->name, true);
    }
    for (int k = 0; k < ENTRIES; k++)
        if ((c.g = m->graph[k])) {
            cut_region(&c, c.g->root);
            region_walk(c.g->root, take_piece, &c);
        }
    list_pieces(&c);
}
