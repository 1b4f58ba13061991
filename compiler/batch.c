/* Which values micro-batches cut, and which are counts over them. Most of the former say so themselves: they have
 * the dim of the plan's `microbatches` line. A reshape of [N, T] to [N*T] gives it another name, and what follows from
 * that has a dim that is known by its size alone; so such a size counts only where an operand is cut. */
#include "batch.h"
#include "module.h"
#include "op.h"

struct cutting {
    const struct dim *over;
    const struct dim **renamed;  /* stb_ds array: what reshapes made of it */
    bool *cut;
};

/* A name tells apart what sizes do not: only two dims without one are the same by their size. */
static bool dim_cut(const struct cutting *c, const struct dim *d)
{
    bool found = d == c->over;
    for (int i = 0; i < arrlen(c->renamed) && !found; i++)
        found = d == c->renamed[i] || (!d->name && !c->renamed[i]->name && dim_same(d, c->renamed[i]));
    return found;
}

static const struct dim *cut_dim(const struct cutting *c, const struct value *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (dim_cut(c, v->dim[d]))
            return v->dim[d];
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

/* Of an element-wise op's operands one may name what another has without a name: the result has it by that name. */
static void name_cut(struct cutting *c, const struct node *n)
{
    const struct value *y = n->out[0];
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *x = n->in[k];
        int d = 0, lead = x ? y->ndim - x->ndim : -1;
        if (lead < 0 || !c->cut[x->id])
            continue;
        while (d < x->ndim && !dim_cut(c, x->dim[d]))
            d++;
        if (d < x->ndim && !x->dim[d]->name && !dim_cut(c, y->dim[d + lead]))
            arrput(c->renamed, y->dim[d + lead]);
    }
}

static void visit(struct node *n, void *context)
{
    struct cutting *c = context;
    bool operand = n->body;              /* it may read what is cut without naming it as an operand */
    for (int k = 0; k < arrlen(n->in); k++)
        operand |= n->in[k] && c->cut[n->in[k]->id];
    if (operand && n->op == &op_reshape)
        rename_cut(c, n);
    if (operand && n->op->flags & OP_ELEMENTWISE && arrlen(n->out) == 1)
        name_cut(c, n);
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

static void visit_inputs(struct node *n, void *context)
{
    bool *of = context, fine = !n->body && n->op != &op_param && !(n->op->flags & (OP_RANDOM | OP_EFFECT));
    for (int k = 0; fine && k < arrlen(n->in); k++)
        fine = !n->in[k] || of[n->in[k]->id];
    for (int k = 0; k < arrlen(n->out); k++)
        of[n->out[k]->id] = fine;
}

bool *input_values(struct graph *g)
{
    bool *of = NEW_ARRAY(bool, arrlen(g->values) + 1);
    region_walk(g->root, visit_inputs, of);
    return of;
}

bool *count_values(struct graph *g)
{
    bool *cut = cut_values(g), *of = input_values(g), *count = NEW_ARRAY(bool, arrlen(g->values) + 1);
    for (int i = 0; i < arrlen(g->values); i++) {
        const struct value *v = g->values[i];
        for (int k = 0; v->def && arrlen(v->def->out) == 1 && !cut[i] && of[i] && k < arrlen(v->def->in); k++)
            count[i] |= v->def->in[k] && cut[v->def->in[k]->id];
    }
    return count;
}
