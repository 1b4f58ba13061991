/* Products take along what follows them, where the target's library can: cuBLASLt's epilogues, which work on a product before it
 * is stored. Three patterns, each made one node `contraction` (ops/contraction.c) where its last node stood:
 *
 *     einsum + bias, + residual        the bias along the columns, which is all letters of one operand
 *     f(einsum + bias)                 gelu, whose operand is kept where the backward reads it, and relu
 *     gelu_grad(x, einsum)             in the backward
 *     einsum beside sum                the gradients of a weight and of its bias, which read the same gradient of a result
 *
 * A value on the way must be read by the next node alone. In f32 only bias and residual go along: the library's activation need
 * not be right to the last bits of f32, and its sum along the columns is not compensated. Whether strides allow one call is known
 * after layout; where they do not, emit/epilogue.c makes the parts one after the other. */
#include "../ops/common.h"
#include "fuse.h"
#include <string.h>

enum { BIAS = 2, RESIDUAL, AUX, OPERANDS };      /* of a contraction, behind the two of its product */

struct letters { char in[2][MAX_DIM + 1], out[MAX_DIM + 1]; };

struct match {
    struct node *product, **nodes;       /* what is joined; the last one is where it stands */
    struct value *in[OPERANDS], *out, *second;
    const char *activation, *why;
    int summed;                          /* the operand whose sum is the second result, or -1 */
};

static bool letters_of(const struct node *n, struct letters *l)
{
    const char *spec = n->op == &op_einsum && n->out[0]->def == n ? node_str(n, "spec") : NULL, *comma = spec ? strchr(spec, ',') : NULL;
    const char *arrow = comma ? strstr(spec, "->") : NULL;
    if (!comma || arrlen(n->in) != 2 || n->in[0]->type != n->in[1]->type || !type_is_float(n->out[0]->type))
        return false;
    snprintf(l->in[0], sizeof l->in[0], "%.*s", (int)(comma - spec), spec);
    snprintf(l->in[1], sizeof l->in[1], "%.*s", (int)(arrow - comma - 1), comma + 1);
    snprintf(l->out, sizeof l->out, "%s", arrow + 2);
    return true;
}

/* The only reader of v anywhere, in its own region; NULL otherwise. */
static struct node *sole_reader(const struct fusing *w, const struct value *v)
{
    struct node **readers = w->readers[v->id];
    return arrlen(readers) == 1 && readers[0]->region == v->region && !w->kept[v->id] ? readers[0] : NULL;
}

/* Is b, added to the result of product n by trailing broadcast, a vector along its columns: the letters of one operand, all of
 * them and no others? */
static bool along_columns(const struct node *n, const struct value *b)
{
    const struct value *v = n->out[0];
    struct letters l;
    int side = -1;
    if (!letters_of(n, &l) || b->type != v->type || b->ndim > v->ndim)
        return false;
    for (int d = 0; d < v->ndim; d++) {
        int own = d - (v->ndim - b->ndim);
        if (own >= 0 && b->dim[own]->phys == v->dim[d]->phys && v->dim[d]->phys > 1 && side < 0)
            side = strchr(l.in[1], l.out[d]) != NULL;
    }
    for (int d = 0; d < v->ndim && side >= 0; d++) {
        int own = d - (v->ndim - b->ndim);
        bool there = own >= 0 && b->dim[own]->phys == v->dim[d]->phys && v->dim[d]->phys > 1;
        bool mine = strchr(l.in[side], l.out[d]) != NULL, others = strchr(l.in[!side], l.out[d]) != NULL;
        if (v->dim[d]->phys > 1 && ((mine && others) || mine != there))
            return false;
    }
    return side >= 0;
}

/* The other operand of an addition of v that has v's shape; NULL when it is none. */
static struct value *added(const struct fusing *w, const struct node *n, const struct value *v)
{
    bool adds = n && n->op == &op_add && n->in[0] != n->in[1] && fuse_same_shape(w, v, n->out[0]) && n->out[0]->type == v->type;
    return adds ? n->in[n->in[0] == v] : NULL;
}

static struct node *activation_of(const struct fusing *w, const struct value *v)
{
    for (int i = 0; i < arrlen(w->readers[v->id]); i++) {
        struct node *n = w->readers[v->id][i];
        if (n->region == v->region && (n->op == &op_gelu || n->op == &op_relu) && n->out[0]->type == v->type)
            return n;
    }
    return NULL;
}

/* What node gone read, node by reads now. */
static void read_by(struct fusing *w, const struct node *gone, struct node *by)
{
    for (int k = 0; k < arrlen(gone->in); k++)
        for (int i = 0; gone->in[k] && i < arrlen(w->readers[gone->in[k]->id]); i++)
            if (w->readers[gone->in[k]->id][i] == gone)
                w->readers[gone->in[k]->id][i] = by;
}

/* The contraction stands where the last of its nodes did. */
static void rewrite_as(struct fusing *w, struct match *m)
{
    struct node *last = arrlast(m->nodes);
    for (int i = 0; i < arrlen(m->nodes); i++) {
        struct node *alone = NEW(struct node);
        *alone = *m->nodes[i];
        if (m->nodes[i] != last) {
            fuse_remove(last->region, m->nodes[i]);
            read_by(w, m->nodes[i], last);
        }
        m->nodes[i] = alone;
    }
    const char *spec = node_str(m->product, "spec");
    last->op = &op_contraction;
    last->in = last->out = NULL;
    last->attr = NULL;
    last->need = NEW_ARRAY(struct layout, OPERANDS);
    for (int k = 0; k < OPERANDS; k++) {
        arrput(last->in, m->in[k]);
        if (m->in[k])
            last->need[k] = m->in[k]->lay;
    }
    struct value **results = NULL;
    arrput(results, m->out);
    if (m->second)
        arrput(results, m->second);
    for (int k = 0; k < arrlen(results); k++) {
        arrput(last->out, results[k]);
        results[k]->def = last;
        results[k]->def_index = k;
    }
    node_set_str(last, "spec", spec);
    if (m->activation)
        node_set_str(last, "activation", m->activation);
    if (m->summed >= 0)
        node_set_int(last, "summed", m->summed);
    node_set_ptr(last, "nodes", m->nodes);
    node_set_ptr(last, "results", results);
    last->why = m->why;
}

static struct match start(struct node *n)
{
    struct match m = {.product = n, .in = {n->in[0], n->in[1]}, .out = n->out[0], .summed = -1};
    arrput(m.nodes, n);
    return m;
}

/* einsum, + bias, then an activation or a residual. */
static bool follow(struct fusing *w, struct node *n)
{
    struct match m = start(n);
    struct letters l;
    const char *apart = NULL;            /* why the activation is not taken along */
    if (!letters_of(n, &l) || n->out[0]->type != n->in[0]->type)
        return false;
    struct node *next = sole_reader(w, m.out);
    struct value *other = added(w, next, m.out);
    if (other && along_columns(n, other)) {
        m.in[BIAS] = other;
        m.out = next->out[0];
        arrput(m.nodes, next);
    }
    struct node *f = activation_of(w, m.out);
    if (f && type_is_short(m.out->type)) {
        bool others = arrlen(w->readers[m.out->id]) > 1 || w->kept[m.out->id];
        if ((others && f->op == &op_relu) || fuse_read_before(w, m.out, f->region, w->position[f->id]))
            f = NULL;
        else
            m.second = others ? m.out : NULL;
    } else if (f) {
        apart = "in f32 the activation is computed by a kernel of its own, to the last bits";
        f = NULL;
    }
    next = f ? NULL : sole_reader(w, m.out);
    other = added(w, next, m.out);
    if (f) {
        m.activation = f->op->name;
        m.out = f->out[0];
        arrput(m.nodes, f);
    } else if (other && fuse_same_shape(w, other, m.out) && other->type == m.out->type) {
        m.in[RESIDUAL] = other;
        m.out = next->out[0];
        arrput(m.nodes, next);
    }
    n->why = apart ? apart : n->why;
    if (arrlen(m.nodes) == 1)
        return false;
    m.why = mem_printf("one call: product%s%s%s%s%s%s", m.in[BIAS] ? " + bias" : "", m.in[RESIDUAL] ? " + residual" : "",
                       f ? mem_printf(", %s", f->op->name) : "", m.second ? ", whose operand is kept" : "",
                       apart ? "; " : "", apart ? apart : "");
    rewrite_as(w, &m);
    return true;
}

/* gelu_grad(x, einsum) */
static bool follow_back(struct fusing *w, struct node *n)
{
    struct match m = start(n);
    struct letters l;
    struct node *next = sole_reader(w, m.out);
    if (!letters_of(n, &l) || !next || next->op != &op_gelu_grad || next->in[1] != m.out || next->in[0] == m.out ||
        !type_is_short(m.out->type) || n->in[0]->type != m.out->type || next->in[0]->type != m.out->type ||
        next->out[0]->type != m.out->type || !fuse_same_shape(w, m.out, next->out[0]) || !fuse_same_shape(w, next->in[0], m.out))
        return false;
    m.in[AUX] = next->in[0];
    m.out = next->out[0];
    m.activation = next->op->name;
    arrput(m.nodes, next);
    m.why = "one call: product, gelu_grad";
    rewrite_as(w, &m);
    return true;
}

/* Does the sum add up exactly what product n contracts of its operand k, and is what is left that operand's alone? */
static bool sums_contracted(const struct node *sum, const struct node *n, int k, const struct letters *l)
{
    unsigned axes = node_axes(sum);
    for (int d = 0; l->in[k][d]; d++) {
        bool contracted = !strchr(l->out, l->in[k][d]);
        if (contracted && n->in[k]->dim[d]->size != n->in[k]->dim[d]->phys)
            return false;
        if (contracted != (axes >> d & 1) || contracted != (strchr(l->in[!k], l->in[k][d]) != NULL))
            return false;
    }
    return sum->in[0] == n->in[k];
}

static bool made_before(const struct fusing *w, const struct value *v, const struct node *n)
{
    return v->region != n->region || !v->def || w->position[v->def->id] < w->position[n->id];
}

/* The gradients of a weight and of its bias: where the first of them is made, or the last. */
static bool beside(struct fusing *w, struct node *sum)
{
    struct value *v = sum->in[0];
    for (int i = 0; type_is_short(v->type) && i < arrlen(w->readers[v->id]); i++) {
        struct node *n = w->readers[v->id][i];
        struct letters l;
        if (n->region != sum->region || !letters_of(n, &l) || n->in[0] == n->in[1] || n->out[0]->type != sum->out[0]->type)
            continue;
        int k = n->in[1] == v;
        struct node *last = w->position[n->id] > w->position[sum->id] ? n : sum, *first = last == n ? sum : n, *at = NULL;
        if (!sums_contracted(sum, n, k, &l))
            continue;
        if (made_before(w, n->in[!k], first))
            at = first;
        else if (!fuse_read_before(w, first->out[0], last->region, w->position[last->id]))
            at = last;
        if (!at)
            continue;
        struct match m = start(n);
        m.second = sum->out[0];
        m.summed = k;
        if (at == sum)
            arrput(m.nodes, sum);
        else
            arrins(m.nodes, 0, sum);
        m.why = "one call: the gradients of a weight and of its bias";
        rewrite_as(w, &m);
        return true;
    }
    return false;
}

void fuse_epilogues(struct fusing *w, struct region *r)
{
    struct node **nodes = NULL;
    for (int i = 0; i < arrlen(r->nodes); i++)
        arrput(nodes, r->nodes[i]);
    for (int i = 0; i < arrlen(nodes); i++)
        if (nodes[i]->op == &op_sum)
            beside(w, nodes[i]);
    for (int i = 0; i < arrlen(nodes); i++) {
        if (nodes[i]->body)
            fuse_epilogues(w, nodes[i]->body);
        else if (nodes[i]->op == &op_einsum && !follow(w, nodes[i]))
            follow_back(w, nodes[i]);
    }
}
