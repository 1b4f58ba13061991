/* layout: gives every value of a stage program a buffer and a place in it. Sources, results of kernels and carried
 * values own their buffers; a view shares its operand's where strides can say it. Kernels that take plain pointers get
 * contiguous operands, if need be through an explicit copy node.
 *
 * A value that another region walking the same blocks reads (a saved activation, a gradient) is stacked: its buffer has
 * one copy per block of every repeat around it. */
#include "../base/diag.h"
#include "../op.h"
#include "../passes.h"
#include "buffers.h"

static void note_readers(struct work *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                arrput(w->readers[n->in[k]->id], n);
        if (n->body)
            note_readers(w, n->body);
    }
    for (int k = 0; k < arrlen(r->results); k++)
        w->result[r->results[k]->id] = true;
}

/* What a value that was offloaded is copied in for counts as a reader of it, so that it lies as it would without. */
static void note_far_readers(struct work *w)
{
    for (int i = 0; i < arrlen(w->readers); i++)
        for (int k = 0; k < arrlen(w->readers[i]); k++) {
            const struct node *out = w->readers[i][k];
            struct node **in = out->op == &op_to_host ? w->readers[out->out[0]->id] : NULL;
            for (int j = 0; j < arrlen(in); j++)
                for (int q = 0; in[j]->op == &op_to_device && q < arrlen(w->readers[in[j]->out[0]->id]); q++)
                    arrput(w->readers[i], w->readers[in[j]->out[0]->id][q]);
        }
}

static void note_stacked(struct work *w)
{
    for (int i = 0; i < arrlen(w->readers); i++) {
        struct value *v = w->s->graph->values[i];
        for (int k = 0; k < arrlen(w->readers[i]) && region_depth(v->region); k++)
            if (!region_within(w->readers[i][k]->region, v->region))
                v->stacked = true;
    }
}

/* What a post starts its collective ends: both have the same operands. So the collective reads the copy too. */
static void give_to_collective(struct work *w, const struct node *post, const struct value *v, struct value *copy)
{
    struct node *of = node_ptr(post, "of");
    for (int i = 0; i < arrlen(post->in); i++)
        if (post->in[i] == v)
            of->in[node_ints(post, "operands")[i]] = copy;
    arrput(w->readers[copy->id], of);
    copy->stacked = region_depth(copy->region) && !region_within(of->region, copy->region);
}

/* Puts a copy of v, contiguous, before node n (index `at` of its region); the other operands of n share it. */
static struct value *insert_copy(struct work *w, struct node *n, int at, struct value *v)
{
    struct region *r = n->region;
    struct node *c = node_new(w->s->graph, r, &op_copy, n->span);
    node_in(c, v);
    if (!node_finish(w->s->graph, c))
        BUG("a copy of %%%d has no shape", v->id);
    c->phase = n->phase;
    c->stage = n->stage;
    c->path = n->path;
    c->why = mem_printf("%s takes contiguous operands", n->op->name);
    for (int i = (int)arrlen(r->nodes) - 1; i > at; i--)
        r->nodes[i] = r->nodes[i - 1];
    r->nodes[at] = c;
    struct value *copy = c->out[0];
    copy->lay = v->lay;
    copy->path = mem_printf("%s.copy", v->path ? v->path : "value");
    while (arrlen(w->readers) <= copy->id)
        arrput(w->readers, NULL);
    bool *grown = NEW_ARRAY(bool, arrlen(w->readers));
    for (int i = 0; i < copy->id; i++)
        grown[i] = w->result[i];
    w->result = grown;
    arrput(w->readers[copy->id], n);
    if (n->op == &op_box_post)
        give_to_collective(w, n, v, copy);
    buffer_own_as(w, copy, MEM_LOCAL, true);
    return copy;
}

/* A number that only element-wise kernels read stands in their text and needs no memory. */
static bool written_out(const struct work *w, const struct value *v)
{
    for (int i = 0; i < arrlen(w->readers[v->id]); i++)
        if (!(w->readers[v->id][i]->op->flags & OP_ELEMENTWISE) && w->readers[v->id][i]->op != &op_rows)
            return false;
    return !w->result[v->id];
}

/* One of several results, which nobody reads: its kernel is told not to make it. */
static bool unwanted(const struct work *w, const struct node *n, const struct value *v)
{
    return arrlen(n->out) > 1 && n->op->call && (!(n->op->flags & OP_CONTRACTION) || n->op->flags & OP_SPARES) &&
           !arrlen(w->readers[v->id]) && !w->result[v->id];
}

static void place_region(struct work *w, struct region *r);

static void place_node(struct work *w, struct node *n)
{
    if (n->body) {
        for (int k = 0; k < arrlen(n->body->args); k++)
            buffer_own(w, n->body->args[k], MEM_LOCAL);
        if (n->body->index)
            buffer_own(w, n->body->index, MEM_LOCAL);
        place_region(w, n->body);
        for (int k = 0; k < arrlen(n->out); k++)
            buffer_own(w, n->out[k], MEM_LOCAL);
        return;
    }
    if (n->op == &op_to_host || n->op == &op_to_device) {
        place_copy(w, n);
        return;
    }
    for (int k = 0; k < arrlen(n->out); k++) {
        struct value *v = n->out[k];
        if (v->place || place_within(w, n, k))
            continue;
        if (n->op == &op_param) {
            buffer_of_param(w, v);
        } else if (n->op->optimizer) {
            place_updated(w, n, k);
        } else if (n->op == &op_constant) {
            v->stacked = false;
            if (written_out(w, v))
                place_dense(w->p, v, NULL);
            else
                buffer_own(w, v, MEM_LOCAL)->constant = true;
        } else if (unwanted(w, n, v)) {
            place_dense(w->p, v, (const int[MAX_DIM]){0, 1, 2, 3, 4, 5, 6, 7});
        } else if (n->op->flags & OP_VIEW) {
            if (view_place(w->p, n, k))
                buffer_enter(w, n->in[0]->buffer, v);
            else
                buffer_own_as(w, v, MEM_LOCAL, true);
        } else {
            buffer_own(w, v, n->op == &op_input ? MEM_INPUT : buffer_class(w, n))->persistent = false;
        }
    }
}

static void place_region(struct work *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in) && n->op != &op_repeat && !(n->op->flags & OP_STACKED); k++) {
            struct value *v = n->in[k];
            if (!v || place_readable(w, n, v))
                continue;
            struct value *copy = insert_copy(w, n, i++, v);
            for (int j = k; j < arrlen(n->in); j++)
                if (n->in[j] == v)
                    n->in[j] = copy;
            node_rename_joined(n, v, copy);
        }
        place_node(w, n);
        buffers_beside(w, n);
    }
}

bool carry_through_out(const struct region *body, int k)
{
    for (int j = 0; j < arrlen(body->args); j++)
        if (j != k && body->results[k]->buffer == body->args[j]->buffer)
            return true;
    return false;
}

/* Views of a value may need it stacked although only they are read elsewhere. */
static void stack_views(struct stage *s)
{
    for (int i = 0; i < arrlen(s->buffers); i++) {
        struct buffer *b = s->buffers[i];
        for (int k = 0; k < arrlen(b->values); k++)
            if (b->values[k]->stacked && b->values[0]->region == b->values[k]->region)
                b->values[0]->stacked = true;
        for (int k = 0; k < arrlen(b->values); k++)
            if (b->depth && b->values[k]->region == b->values[0]->region)
                b->values[k]->stacked = true;
    }
}

/* Parameters are read from files and inputs from data as f32 and integers: a short type is what a plan computes in. */
static bool has_kernels(const struct graph *g)
{
    for (int i = 0; i < arrlen(g->values); i++) {
        const struct value *v = g->values[i];
        if ((v->type != TYPE_BF16 && v->type != TYPE_F16) || !v->def || (v->def->op != &op_param && v->def->op != &op_input))
            continue;
        struct diag *d = diag_error(E_TYPE, v->span, "%s '%s' is stored as %s", v->def->op->name, v->path ? v->path : "",
                                    type_name[v->type]);
        diag_mark(d, "this is %s", value_type_text(v, NULL));
        diag_help(d, "declare it f32 and write `precision %s` in the plan", type_name[v->type]);
        return false;
    }
    return true;
}

void layout(struct module *m)
{
    struct physical *p = m->physical;
    for (int i = 0; i < p->nstage; i++)
        if (!has_kernels(p->stages[i].graph))
            return;
    for (int i = 0; i < p->nstage; i++) {
        struct work w = {.p = p, .s = &p->stages[i]};
        offload(p, w.s);
        for (int v = 0; v < arrlen(w.s->graph->values); v++)
            arrput(w.readers, NULL);
        w.result = NEW_ARRAY(bool, arrlen(w.readers) + 1);
        struct root *roots = NULL;
        for (int e = 0; e < ENTRIES; e++) {
            struct root *more = stage_roots(w.s, (enum entry)e);
            for (int k = 0; k < arrlen(more); k++)
                arrput(roots, more[k]);
        }
        for (int k = 0; k < arrlen(roots); k++)
            note_readers(&w, roots[k].region);
        note_stacked(&w);
        note_far_readers(&w);
        for (int k = 0; k < arrlen(roots); k++)
            place_region(&w, roots[k].region);
        stack_views(w.s);
        for (int k = 0; k < arrlen(roots) && m->plan->shard.prefetch; k++)
            blocks_overlap(roots[k].region);
    }
}
