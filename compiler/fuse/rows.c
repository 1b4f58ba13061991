/* Row work becomes one node, `rows` (ops/rows.c): what adds up, or takes the largest, along the last dim, and ops that say how they
 * work on a row (op->rows), each with the element-wise work before, between and behind them, and with sums of all rows.
 *
 * A group starts from each such node and takes in what it reads and what reads it, as long as one place in the region is left at
 * which all it reads is made and nothing it makes has been read; no product, repeat or communication may lie between its nodes,
 * which would keep operands longer. Rows must be whole on every rank: a row that is split has a conversion inside. */
#include "../../runtime/fl_defaults.h"
#include "../ops/common.h"
#include "../target.h"
#include "fuse.h"
#include <string.h>

enum { SHORTEST_ROW = 2, LONGEST_ROW = 6144, MOST_READ = 12, MOST_MADE = 8, MOST_NODES = 32 };

struct group {
    struct node **nodes;         /* stb_ds array, in program order */
    const struct value *like;    /* its rows */
    int at;                      /* the position it takes */
    bool gone;                   /* taken in by another */
};

struct rows {
    struct fusing *w;
    struct region *r;
    struct node **all;           /* the region's nodes, as they stood */
    struct group **of;           /* by node id */
    struct group **groups;
};

static bool floats(const struct value *v)
{
    return v->type == TYPE_F32 || v->type == TYPE_BF16 || v->type == TYPE_F16 || v->type == TYPE_BOOL;
}

static bool is_view(const struct node *n)
{
    return n->op == &op_new_axis || n->op == &op_drop_axis || n->op == &op_expand || n->op == &op_detach;
}

static bool reduces(const struct node *n)
{
    return n->op == &op_sum || n->op == &op_mean || n->op == &op_max || n->op == &op_min;
}

static bool along_last(const struct node *n)
{
    return node_axes(n) == 1u << (n->in[0]->ndim - 1);
}

/* Dims that only have the same size are not the same: at other sizes, as where all ranks are compared with one, they differ. */
static bool same_rows(const struct rows *s, const struct value *a, const struct value *b)
{
    return fuse_same_shape(s->w, a, b) && a->dim[a->ndim - 1] == b->dim[b->ndim - 1];
}

/* Why rows of the shape of v cannot be worked on one by one; NULL when they can. */
static const char *unfit(const struct rows *s, const struct value *v)
{
    const struct mesh *m = s->w->p->mesh;
    const struct dim *last = v->dim[v->ndim - 1];
    if (v->ndim < 2)
        return "it has one row";
    for (int a = 0; a < m->naxis; a++)
        if (m->axis[a].size > 1 && v->lay.ax[a].kind == SBP_S && (v->lay.ax[a].dim == v->ndim - 1 || v->lay.ax[a].dim == DIM_FLAT))
            return mem_printf("its rows are split over %s: a conversion lies inside", m->axis[a].name);
    for (int d = 0; d < v->ndim; d++)
        if (v->dim[d]->size != v->dim[d]->phys)
            return mem_printf("%s has padding, which takes no part", v->dim[d]->name ? v->dim[d]->name : "a dim");
    if (last->size < SHORTEST_ROW)
        return "a row is one element";
    return last->size > LONGEST_ROW ? mem_printf("a row of %lld elements is too long to keep", (long long)last->size) : NULL;
}

/* What starts a group. */
static bool seeds(const struct node *n)
{
    if (n->op->rows)
        return !node_attr(n, "axes") || along_last(n);
    return reduces(n) && n->in[0]->ndim && along_last(n);
}

static bool element_wise(const struct node *n)
{
    return n->op->flags & OP_ELEMENTWISE && arrlen(n->out) == 1 && n->op->expr && n->op != &op_fused;
}

/* Is operand k of n made by a node of g? */
static bool inside(const struct rows *s, const struct group *g, const struct node *n, const struct node *also, int k)
{
    const struct node *def = n->in[k] && n->in[k]->def ? n->in[k]->def : NULL;
    return def && def->region == s->r && (s->of[def->id] == g || def == also);
}

/* Can n work on one row of the group at a time? */
static const char *misfit(const struct rows *s, const struct group *g, const struct node *n, const struct node *also)
{
    const struct value *like = g->like;
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k] && !floats(n->in[k]))
            return mem_printf("it reads %s", type_name[n->in[k]->type]);
    for (int k = 0; k < arrlen(n->out); k++) {
        if (!floats(n->out[k]))
            return mem_printf("it makes %s", type_name[n->out[k]->type]);
        enum rows_shape shape = rows_makes_column(n, k) ? ROWS_WHOLE : rows_shape(n->out[k], like);
        if (shape == ROWS_OTHER || (!rows_makes_column(n, k) && !layout_same(&n->out[k]->lay, &like->lay, s->w->p->mesh->naxis)))
            return "its result has another shape";
    }
    if (n->op->rows || reduces(n)) {
        bool rows = seeds(n) || (n->op == &op_sum && node_axes(n) == (1u << (n->in[0]->ndim - 1)) - 1);
        return rows && same_rows(s, n->in[0], like) ? NULL : "it adds up other dims";
    }
    if (!element_wise(n) && !is_view(n))
        return "it is a kernel of its own";
    const struct value *out = n->out[0];
    bool whole = rows_shape(out, like) == ROWS_WHOLE;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *v = n->in[k];
        enum rows_shape shape = rows_shape(v, like);
        if (shape == ROWS_EACH && inside(s, g, n, also, k) && !is_view(n) && v->ndim != out->ndim)
            return "an operand lies across its rows";
        if (v->ndim == like->ndim && shape == ROWS_WHOLE && (!whole || !same_rows(s, v, like)))
            return "its operand has another shape";
        if (n->op == &op_expand && (!whole || (inside(s, g, n, also, k) && v->ndim != like->ndim)))
            return "it stretches across rows";
        if ((n->op == &op_new_axis || n->op == &op_drop_axis) && (whole || !inside(s, g, n, also, k)))
            return "it is a view";
    }
    return NULL;
}

/* Numbers and parameters, which can stand further up. */
static bool stands_anywhere(const struct node *n)
{
    return n->op == &op_constant || n->op == &op_param;
}

static int place_of(const struct rows *s, const struct node *n)
{
    return s->of[n->id] ? s->of[n->id]->at : s->w->position[n->id];
}

static const struct node *around(const struct rows *s, const struct node *n)
{
    while (n->region != s->r) {
        if (!n->region->owner)
            return NULL;
        n = n->region->owner;
    }
    return n;
}

static bool has(struct node *const *nodes, const struct node *n)
{
    for (int i = 0; i < arrlen(nodes); i++)
        if (nodes[i] == n)
            return true;
    return false;
}

/* Is v read by others than these nodes? */
static bool read_outside(const struct rows *s, struct node *const *nodes, const struct value *v)
{
    struct node **readers = s->w->readers[v->id];
    for (int i = 0; i < arrlen(readers); i++)
        if (!has(nodes, readers[i]))
            return true;
    return s->w->kept[v->id];
}

static bool note_read(const struct value ***list, const struct value *v)
{
    for (int i = 0; i < arrlen(*list); i++)
        if ((*list)[i] == v)
            return false;
    arrput(*list, v);
    return true;
}

/* Is v as long as a row: a row for each, or one that all of them read or add up to? */
static bool row_long(const struct value *v, const struct value *like)
{
    return v->ndim && v->dim[v->ndim - 1]->phys == like->dim[like->ndim - 1]->phys;
}

/* Do so many rows fit the registers of the threads that share one (flow_rows.h)? */
static bool fits_registers(const struct rows *s, int rows, const struct value *like)
{
    int most = target_of(s->w->p->module)->row_registers;
    return !most || rows * FL_ROW_EACH(like->dim[like->ndim - 1]->phys) <= most;
}

/* Why these nodes cannot be one, at position *at; with *at < 0 at any, and *at is where they then can be. */
static const char *apart(const struct rows *s, struct node *const *nodes, const struct value *like, int *at)
{
    int first = s->w->position[nodes[0]->id], last = s->w->position[arrlast(nodes)->id], low = -1, high = (int)arrlen(s->all), made = 0;
    int rows = 0;                        /* that a kernel holds: operands, results, and one on the way for what adds up along it */
    const struct value **read = NULL;
    for (int i = 0; i < arrlen(nodes); i++) {
        rows += nodes[i]->op->rows || reduces(nodes[i]);
        for (int k = 0; k < arrlen(nodes[i]->in); k++) {
            const struct value *v = nodes[i]->in[k];
            const struct node *def = v ? v->def : NULL, *here = def ? around(s, def) : NULL;
            if (def && has(nodes, def) && rows_makes_column(def, v->def_index))
                return "it reads what all rows add up to";
            if (!v || (def && has(nodes, def)) || !note_read(&read, v) || !here || stands_anywhere(def))
                continue;
            int place = place_of(s, here);
            low = place > low ? place : low;
        }
        for (int k = 0; k < arrlen(nodes[i]->out); k++) {
            const struct value *v = nodes[i]->out[k];
            if (!read_outside(s, nodes, v))
                continue;
            made++;
            rows += row_long(v, like);
            if (nodes[i]->op == &op_expand)
                return "what it stretches is read elsewhere";
            for (int j = 0; j < arrlen(s->w->readers[v->id]); j++) {
                const struct node *here = around(s, s->w->readers[v->id][j]);
                if (here && !has(nodes, here)) {
                    int place = place_of(s, here);
                    high = place < high ? place : high;
                }
            }
        }
    }
    if (arrlen(nodes) > MOST_NODES)
        return "with more it would be too long";
    if (arrlen(read) > MOST_READ)
        return "with more it would read too many operands";
    if (made > MOST_MADE)
        return "with more it would write too many results";
    for (int i = 0; i < arrlen(read); i++)
        rows += row_long(read[i], like);
    if (!fits_registers(s, rows, like))
        return "with more it would need too many registers";
    for (int i = first + 1; i < last; i++) {
        const struct node *n = s->all[i];
        bool heavy = n->body || n->op->flags & OP_CONTRACTION || (n->op->flags & OP_BOXING && node_int(n, "comm", -1) >= 0);
        if (heavy && !has(nodes, n))
            return mem_printf("%s lies between", n->op->name);
    }
    for (int i = (int)arrlen(nodes) - 1; i >= 0 && *at < 0; i--) {
        int place = s->w->position[nodes[i]->id];
        *at = place > low && place < high ? place : -1;
    }
    if (*at > low && *at < high)
        return NULL;
    return high <= low ? "its operand is made from what it makes" : "its result is read before it";
}

/* Both lists in program order. */
static struct node **merged(const struct rows *s, struct node *const *a, struct node *const *b)
{
    struct node **all = NULL;
    int i = 0, j = 0;
    while (i < arrlen(a) || j < arrlen(b))
        if (j == arrlen(b) || (i < arrlen(a) && s->w->position[a[i]->id] < s->w->position[b[j]->id]))
            arrput(all, a[i++]);
        else
            arrput(all, b[j++]);
    return all;
}

/* n, and where it stretches something, what reads that; NULL: they do not belong to these rows. */
static struct node **together(const struct rows *s, const struct group *g, struct node *n, const struct node *also, const char **why)
{
    struct node **nodes = NULL;
    arrput(nodes, n);
    *why = misfit(s, g, n, also);
    for (int i = 0; n->op == &op_expand && i < arrlen(s->w->readers[n->out[0]->id]) && !*why; i++) {
        struct node *reader = s->w->readers[n->out[0]->id][i], **one = NULL;
        if (s->of[reader->id] == g || has(nodes, reader))
            continue;
        if (reader->region != s->r || s->of[reader->id] || !element_wise(reader))
            return NULL;
        *why = misfit(s, g, reader, n);
        arrput(one, reader);
        nodes = merged(s, nodes, one);
    }
    return nodes;
}

/* Takes n, or the group it is in, into g; n is a neighbour. */
static bool take(struct rows *s, struct group *g, struct node *n, const struct node *also)
{
    struct group *other = s->of[n->id];
    if (other == g || n->region != s->r)
        return false;
    if (other && !same_rows(s, other->like, g->like))
        return false;
    const char *why = NULL;
    int at = -1;
    struct node **more = other ? other->nodes : together(s, g, n, also, &why), **nodes = more ? merged(s, g->nodes, more) : NULL;
    if (!nodes)
        return false;
    why = why ? why : apart(s, nodes, g->like, &at);
    if (why) {
        if (element_wise(n) || reduces(n) || n->op->rows)
            n->why = mem_printf("not with the rows of %s: %s", g->nodes[0]->path ? g->nodes[0]->path : g->nodes[0]->op->name, why);
        return false;
    }
    g->nodes = nodes;
    g->at = at;
    for (int i = 0; i < arrlen(nodes); i++)
        s->of[nodes[i]->id] = g;
    if (other)
        other->gone = true;
    return true;
}

/* One more neighbour; false when there is none. */
static bool grow(struct rows *s, struct group *g)
{
    for (int i = 0; i < arrlen(g->nodes); i++) {
        struct node *n = g->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] && n->in[k]->def && n->in[k]->def->region == s->r && take(s, g, n->in[k]->def, n->in[k]->def))
                return true;
        for (int k = 0; k < arrlen(n->out); k++)
            for (int j = 0; j < arrlen(s->w->readers[n->out[k]->id]); j++)
                if (take(s, g, s->w->readers[n->out[k]->id][j], NULL))
                    return true;
    }
    return false;
}

/* Does it read or leave whole rows? Those that are stretched and summed up again have no tensor to go by. */
static bool has_rows(const struct rows *s, const struct group *g)
{
    for (int i = 0; i < arrlen(g->nodes); i++) {
        const struct node *n = g->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] && rows_shape(n->in[k], g->like) == ROWS_WHOLE && !(n->in[k]->def && has(g->nodes, n->in[k]->def)))
                return true;
        for (int k = 0; k < arrlen(n->out); k++)
            if (rows_shape(n->out[k], g->like) == ROWS_WHOLE && !rows_makes_column(n, k) && read_outside(s, g->nodes, n->out[k]))
                return true;
    }
    return false;
}

/* A reduction or a dropout with views alone is what it was. */
static bool worth(const struct rows *s, const struct group *g)
{
    int work = 0;
    for (int i = 0; i < arrlen(g->nodes); i++)
        work += g->nodes[i]->op->rows && !(g->nodes[i]->op->flags & OP_RANDOM) ? 2 : !is_view(g->nodes[i]);
    return work > 1 && has_rows(s, g);
}

/* What is not worth it stays as it was, in its own places; and so does what then cannot stand where it was to. */
static void settle(struct rows *s)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < arrlen(s->groups); i++) {
            struct group *g = s->groups[i];
            if (g->gone || (worth(s, g) && !apart(s, g->nodes, g->like, &(int){g->at})))
                continue;
            for (int k = 0; k < arrlen(g->nodes); k++)
                s->of[g->nodes[k]->id] = NULL;
            g->gone = again = true;
        }
    }
}

/* Puts source in front of n, if it stands behind it. */
static void bring_up(struct region *r, struct node *source, const struct node *n)
{
    int at = 0;
    while (r->nodes[at] != n && r->nodes[at] != source)
        at++;
    if (r->nodes[at] == source)
        return;
    fuse_remove(r, source);
    arrins(r->nodes, at, source);
}

static void rewrite_as(struct rows *s, struct group *g)
{
    struct node *n = s->all[g->at], **nodes = NULL;
    struct value **in = NULL, **out = NULL, **hidden = NULL;
    for (int i = 0; i < arrlen(g->nodes); i++) {
        struct node *own = g->nodes[i], *copy = NEW(struct node);
        *copy = *own;
        arrput(nodes, copy);
        for (int k = 0; k < arrlen(own->in); k++)
            if (own->in[k] && !(own->in[k]->def && has(g->nodes, own->in[k]->def)))
                note_read((const struct value ***)&in, own->in[k]);
        for (int k = 0; k < arrlen(own->out); k++)
            if (read_outside(s, g->nodes, own->out[k]))
                arrput(out, own->out[k]);
            else
                arrput(hidden, own->out[k]);
        if (own != n)
            fuse_remove(s->r, own);
    }
    for (int k = 0; k < arrlen(in); k++)
        if (in[k]->def && in[k]->def->region == s->r && stands_anywhere(in[k]->def))
            bring_up(s->r, in[k]->def, n);
    n->op = &op_rows;
    n->in = in;
    n->out = out;
    n->attr = NULL;
    n->need = NEW_ARRAY(struct layout, arrlen(in) + 1);
    for (int k = 0; k < arrlen(in); k++)
        n->need[k] = in[k]->lay;
    node_set_ptr(n, "nodes", nodes);
    node_set_ptr(n, "results", out);
    node_set_ptr(n, "hidden", hidden);
    node_set_ptr(n, "like", (void *)g->like);
    for (int k = 0; k < arrlen(out); k++) {
        out[k]->def = n;
        out[k]->def_index = k;
    }
    const char *names = "";
    for (int i = 0; i < arrlen(nodes); i++)
        names = mem_printf("%s%s%s", names, *names ? ", " : "", nodes[i]->op->name);
    n->why = mem_printf("one kernel, row by row: %s", names);
}

void fuse_rows(struct fusing *w, struct region *r)
{
    struct rows s = {.w = w, .r = r, .of = NEW_ARRAY(struct group *, w->g->nnode + 1)};
    for (int i = 0; i < arrlen(r->nodes); i++)
        arrput(s.all, r->nodes[i]);
    for (int i = 0; i < arrlen(s.all); i++) {
        struct node *n = s.all[i];
        if (n->body)
            fuse_rows(w, n->body);
        if (n->phase == PHASE_UPDATE || !seeds(n))
            continue;
        struct group *g = NEW(struct group);
        g->like = n->in[0];
        const char *why = unfit(&s, g->like);
        why = why ? why : misfit(&s, g, n, NULL);
        if (why) {
            n->why = mem_printf("not row by row: %s", why);
            continue;
        }
        arrput(g->nodes, n);
        g->at = i;
        s.of[n->id] = g;
        arrput(s.groups, g);
    }
    for (int i = 0; i < arrlen(s.groups); i++)
        while (!s.groups[i]->gone && grow(&s, s.groups[i]))
            continue;
    settle(&s);
    for (int i = 0; i < arrlen(s.groups); i++)
        if (!s.groups[i]->gone)
            rewrite_as(&s, s.groups[i]);
    for (int i = 0; i < arrlen(s.all); i++)
        if (s.all[i]->op == &op_sum && !s.all[i]->why && !along_last(s.all[i]))
            s.all[i]->why = "a kernel of its own: no row work here makes or reads what it adds up";
}
