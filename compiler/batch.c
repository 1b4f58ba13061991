/* Which values micro-batches cut. Most say so themselves: they have the dim of the plan's `microbatches` line. A reshape of
 * [N, T] to [N*T] gives it another name, and what follows from that has a dim that is known by its size alone; so such a
 * size counts only where an operand is cut. */
#include "batch.h"
#include "module.h"
#include "op.h"

struct cutting {
    const struct dim *over;
    const struct dim **renamed;  /* stb_ds array: what reshapes made of it */
    bool *cut;
};

static const struct dim *cut_dim(const struct cutting *c, const struct value *v)
{
    for (int d = 0; d < v->ndim; d++) {
        if (v->dim[d] == c->over)
            return c->over;
        for (int i = 0; i < arrlen(c->renamed); i++)
            if (dim_same(v->dim[d], c->renamed[i]))
                return v->dim[d];
    }
    return NULL;
}

static bool is_cut(const struct cutting *c, const struct value *v, bool operand)
{
    const struct dim *d = cut_dim(c, v);
    return d && (operand || d == c->over);
}

/* The dim that is cut, outermost of those that are joined or taken apart, goes where as many elements stand before. */
static void rename_cut(struct cutting *c, const struct node *n)
{
    const struct value *x = n->in[0], *y = n->out[0];
    const struct dim *from = cut_dim(c, x);
    int64_t before = 1, passed = 1;
    for (int d = 0; d < x->ndim && x->dim[d] != from; d++)
        before *= x->dim[d]->size;
    for (int d = 0; d < y->ndim && passed <= before; passed *= y->dim[d++]->size)
        if (passed == before && y->dim[d]->size > 1 && y->dim[d] != from)
            arrput(c->renamed, y->dim[d]);
}

static void visit(struct node *n, void *context)
{
    struct cutting *c = context;
    bool operand = n->body;              /* it may read what is cut without naming it as an operand */
    for (int k = 0; k < arrlen(n->in); k++)
        operand |= n->in[k] && c->cut[n->in[k]->id];
    if (operand && n->op == &op_reshape)
        rename_cut(c, n);
    for (int k = 0; k < arrlen(n->out); k++)
        c->cut[n->out[k]->id] = is_cut(c, n->out[k], operand);
    for (int k = 0; n->body && k < arrlen(n->body->args); k++)
        c->cut[n->body->args[k]->id] = is_cut(c, n->body->args[k], operand);
}

bool *cut_values(struct graph *g)
{
    const struct plan *plan = g->module->plan;
    struct cutting c = {.over = plan ? plan->mb_dim : NULL, .cut = NEW_ARRAY(bool, arrlen(g->values) + 1)};
    if (c.over)
        region_walk(g->root, visit, &c);
    return c.cut;
}
