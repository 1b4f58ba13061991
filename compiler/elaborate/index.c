/* x[..]: ranges become a slice, a number a slice of one that is dropped, _ a new dim. `..` alone stands for the dims
 * between. */
#include "elaborate.h"
#include <string.h>

enum step { STEP_KEEP, STEP_DROP, STEP_NEW };

struct cut {
    int64_t start[MAX_DIM], stop[MAX_DIM];
    enum step step[3 * MAX_DIM];
    int nstep, dim;
    bool partial;
};

/* A bound counted from the end when negative. */
static bool bound(struct frame *f, struct ast *a, const struct dim *d, int64_t *to)
{
    if (!dim_eval(f, a, to))
        return false;
    if (*to < 0)
        *to += d->size;
    return true;
}

static bool cut_outside(struct ast *a, const struct value *v, int dim)
{
    const struct dim *d = v->dim[dim];
    bool range = a->kind == AST_RANGE;
    struct diag *g = diag_error(E_SHAPE, a->span, "%s is %soutside %s%s%lld", span_text(a->span), range ? "empty or " : "",
                                d->name ? d->name : "", d->name ? " = " : "a dim of ", (long long)d->size);
    diag_note(g, "the tensor is %s", value_type_text(v, NULL));
    if (!range && d->size)
        diag_help(g, "the last one is %lld, or -1", (long long)d->size - 1);
    return false;
}

static bool cut_add(struct frame *f, struct cut *c, struct ast *a, const struct value *v, int fill)
{
    if (a->kind == AST_NEW_AXIS) {
        c->step[c->nstep++] = STEP_NEW;
        return true;
    }
    if (a->kind == AST_RANGE && !ast_kid(a, 0) && !ast_kid(a, 1)) {
        for (; fill > 0; fill--) {
            c->step[c->nstep++] = STEP_KEEP;
            c->dim++;
        }
        return true;
    }
    int d = c->dim++;
    if (a->kind == AST_ALL) {
        c->step[c->nstep++] = STEP_KEEP;
        return true;
    }
    c->partial = true;
    if (a->kind == AST_RANGE) {
        c->step[c->nstep++] = STEP_KEEP;
        if ((ast_kid(a, 0) && !bound(f, ast_kid(a, 0), v->dim[d], &c->start[d])) ||
            (ast_kid(a, 1) && !bound(f, ast_kid(a, 1), v->dim[d], &c->stop[d])))
            return false;
    } else {
        c->step[c->nstep++] = STEP_DROP;
        if (!bound(f, a, v->dim[d], &c->start[d]))
            return false;
        c->stop[d] = c->start[d] + 1;
    }
    if (c->start[d] < 0 || c->stop[d] <= c->start[d] || c->stop[d] > v->dim[d]->size)
        return cut_outside(a, v, d);
    return true;
}

static struct value *axis_node(struct frame *f, const struct op *op, struct value *v, int axis, struct ast *a)
{
    struct node *n = emit_node(f, op, a->span);
    node_in(n, v);
    node_set_int(n, "axis", axis);
    return emit_finish(f, n) ? n->out[0] : NULL;
}

static struct value *cut_apply(struct frame *f, const struct cut *c, struct value *v, struct ast *a)
{
    if (c->partial) {
        struct node *n = emit_node(f, &op_slice, a->span);
        node_in(n, v);
        node_set_ints(n, "start", c->start, v->ndim);
        node_set_ints(n, "stop", c->stop, v->ndim);
        if (!emit_finish(f, n))
            return NULL;
        v = n->out[0];
    }
    int at = 0;
    for (int i = 0; v && i < c->nstep; i++) {
        if (c->step[i] == STEP_DROP)
            v = axis_node(f, &op_drop_axis, v, at, a);
        else if (c->step[i] == STEP_NEW)
            v = axis_node(f, &op_new_axis, v, at++, a);
        else
            at++;
    }
    return v;
}

/* h[i]: the label itself; no block can see another. */
static struct item own_block(struct frame *f, struct item of, struct ast *a)
{
    struct ast *index = ast_kid(a, 1);
    struct binding *b = index && index->kind == AST_NAME ? scope_find(f, index->name) : NULL;
    if (of.inst->index && ast_count(a) == 2 && b && b->kind == BIND_INDEX && !strcmp(b->name, of.inst->index)) {
        of.ast = a;
        return of;
    }
    struct diag *d = diag_error(E_UNKNOWN_NAME, a->span, of.inst->index ?
                                "'%s' can be seen only in its own block, as %s[%s]" : "the label '%s' has no index",
                                span_text(a->span), of.inst->label, of.inst->index);
    diag_label(d, of.inst->span, "labelled here");
    return POISON;
}

struct item expr_index(struct frame *f, struct ast *a)
{
    struct ast *left = ast_kid(a, 0);
    struct item of = expr(f, left);
    if (of.kind == ITEM_LABEL && (of.inst->index || of.inst->output.kind != ITEM_VALUE))
        return own_block(f, of, a);
    struct value *v = item_tensor(f, of, left);
    if (!v)
        return POISON;
    struct cut c = {.dim = 0};
    int takes = 0;
    for (int i = 1; i < ast_count(a); i++) {
        struct ast *k = a->kids[i];
        bool dots = k->kind == AST_RANGE && !ast_kid(k, 0) && !ast_kid(k, 1);
        takes += k->kind != AST_NEW_AXIS && !dots;
    }
    if (takes > v->ndim || ast_count(a) - 1 - takes > MAX_DIM) {
        struct diag *d = diag_error(E_SHAPE, a->span, "%d indices for the %d dims of %s", takes, v->ndim,
                                    value_type_text(v, NULL));
        diag_label(d, left->span, "this tensor");
        return POISON;
    }
    for (int i = 0; i < v->ndim; i++)
        c.stop[i] = v->dim[i]->size;
    int fill = v->ndim - takes;
    for (int i = 1; i < ast_count(a); i++) {
        struct ast *k = a->kids[i];
        if (!cut_add(f, &c, k, v, fill))
            return POISON;
        if (k->kind == AST_RANGE && !ast_kid(k, 0) && !ast_kid(k, 1))
            fill = 0;
    }
    return item_value(cut_apply(f, &c, v, a), a);
}
