/* The invariants of physical.h, checked after every pass that changes the physical graph. */
#include "box/boxer.h"

static bool visible(struct region *r, const struct value *v)
{
    for (; r; r = r->parent)
        if (v->region == r || (!v->region->parent && !r->parent) ||
            (v->region->parent && r->parent && region_origin(v->region) == region_origin(r)))
            return true;
    return false;
}

static void define(bool *defined, struct value **values)
{
    for (int k = 0; k < arrlen(values); k++)
        defined[values[k]->id] = true;
}

/* A count that came with each micro-batch is a sum so far: each would read what those up to it have counted. Whole over
 * micro-batches, it crosses in SETUP. (In float64 the last one that comes is what is read, so a comparison of
 * results does not show it.) */
static bool counted_so_far(const struct physical *p, const struct value *v, const struct node *reader)
{
    int mb = p->mesh->mb;
    enum phase read = node_at_root(reader)->phase;
    bool counting = v->def && v->def->op == &op_box_recv && v->def->phase == PHASE_COUNT;
    return counting && mb >= 0 && p->mesh->axis[mb].size > 1 && v->lay.ax[mb].kind == SBP_B &&
           phase_per_microbatch(read) && read != PHASE_COUNT;
}

static void verify_region(const struct physical *p, const struct stage *s, struct region *r, bool *defined,
                          const char *after)
{
    define(defined, r->args);
    if (r->index)
        defined[r->index->id] = true;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->region != r)
            BUG("after %s, stage %d: node %d (%s) is listed in another region", after, s->index, n->id, n->op->name);
        for (int k = 0; k < arrlen(n->in); k++) {
            struct value *v = n->in[k];
            bool stacks = (n->op->flags & OP_STACKED) || ((n->op->flags & OP_BOXING) && !r->parent);
            if (v && !stacks && !visible(r, v))
                BUG("after %s, stage %d: node %d (%s) reads %s, which it cannot see", after, s->index, n->id, n->op->name, v->path);
            if (v && !defined[v->id])
                BUG("after %s, stage %d: node %d (%s) reads %s before it is there", after, s->index, n->id, n->op->name, v->path);
            if (v && n->need && !layout_agrees(p->mesh, &v->lay, &n->need[k]))
                BUG("after %s, stage %d: node %d (%s) reads %s in another layout", after, s->index, n->id, n->op->name, v->path);
        }
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] && counted_so_far(p, n->in[k], n))
                BUG("after %s, stage %d: node %d (%s) reads %s, which came before it was complete", after, s->index,
                    n->id, n->op->name, n->in[k]->path);
        const struct node *of = node_ptr(n, "of");
        for (int k = 0; n->op == &op_box_post && k < arrlen(n->in); k++)
            if (of->in[node_ints(n, "operands")[k]] != n->in[k])
                BUG("after %s, stage %d: a post starts %s, which its collective does not read", after, s->index, n->in[k]->path);
        for (int k = 0; n->body && k < arrlen(n->out); k++)
            if (!layout_agrees(p->mesh, &n->body->args[k]->lay, &n->body->results[k]->lay) ||
                !layout_agrees(p->mesh, &n->body->args[k]->lay, &n->in[k]->lay) ||
                !layout_agrees(p->mesh, &n->body->args[k]->lay, &n->out[k]->lay))
                BUG("after %s, stage %d: repeat %d carries %s in several layouts", after, s->index, n->id, n->body->args[k]->path);
        if (n->body)
            verify_region(p, s, n->body, defined, after);
        define(defined, n->out);
    }
}

static void verify_stage(const struct physical *p, const struct stage *s, const char *after)
{
    bool *defined = NEW_ARRAY(bool, arrlen(s->graph->values));
    for (int e = 0; e < ENTRIES; e++) {
        struct root *roots = stage_roots(s, (enum entry)e);
        for (int i = 0; i < arrlen(roots); i++)
            verify_region(p, s, roots[i].region, defined, after);
    }
}

/* What is alive at the same time lies apart. */
static void verify_memory(const struct stage *s, const char *after)
{
    int n = (int)arrlen(s->buffers);
    for (int i = 0; i < n; i++) {
        const struct buffer *a = s->buffers[i];
        if (a->offset < 0 || a->offset + a->bytes > (a->host ? s->host_bytes : s->arena_bytes))
            BUG("after %s, stage %d: %s ends outside the arena", after, s->index, a->name);
        for (int k = i + 1; k < n && a->bytes; k++) {
            const struct buffer *b = s->buffers[k];
            bool together = a->first <= b->last && b->first <= a->last;
            if (b->bytes && together && a->host == b->host && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                BUG("after %s, stage %d: %s and %s overlap", after, s->index, a->name, b->name);
        }
    }
}

void physical_verify(const struct physical *p, const char *after)
{
    for (int s = 0; s < p->nstage; s++) {
        verify_stage(p, &p->stages[s], after);
        if (p->stages[s].arena_bytes)
            verify_memory(&p->stages[s], after);
    }
}
