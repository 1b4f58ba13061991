/* update NAME = expr, what a state holds from the next step on; and in_train(a, b), by which a model computes one thing while it
 * is trained and another when it is used. Only the train entry updates: there a node `next` stands behind the expression, and
 * differentiate makes a store of it that runs once a step. */
#include "elaborate.h"
#include <string.h>

static bool alike(const struct value *a, const struct value *b)
{
    bool same = a->type == b->type && a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++)
        same = dim_same(a->dim[d], b->dim[d]);
    return same;
}

static const struct param *state_of(const struct binding *b)
{
    const struct value *v = b && b->item.kind == ITEM_VALUE ? b->item.v : NULL;
    const struct param *p = v && v->def && v->def->op == &op_param ? node_ptr(v->def, "param") : NULL;
    return p && p->is_state ? p : NULL;
}

void update_run(struct frame *f, struct ast *a)
{
    struct binding *b = scope_find(f, a->name);
    if (!b) {                            /* one message: what reads it here is poison */
        scope_unknown(f, "state", a->name, a->name_span);
        scope_bind(f, BIND_LOCAL, a->name, POISON, a->name_span);
        expr_value(f, ast_kid(a, 0));
        return;
    }
    struct value *x = expr_value(f, ast_kid(a, 0));
    const struct param *p = state_of(b);
    if (!p) {
        if (b->item.kind == ITEM_POISON)
            return;
        struct diag *d = diag_error(E_TYPE, a->name_span, "'%s' is no state", a->name);
        diag_label(d, b->span, "declared here");
        diag_help(d, "what a step updates is declared by `state NAME: TYPE = START`; parameters are trained");
        return;
    }
    struct value *state = b->item.v;
    if (!x)
        return;
    if (state->region != f->at) {
        struct diag *d = diag_error(E_BLOCK_LINE, a->span, "a state is updated once a step, but this runs for each block of a repeat");
        diag_label(d, p->span, "one for all blocks");
        diag_help(d, "declare and update it in a layer whose label has an index, as in `h[i]: Block(x)`, or update it outside");
        return;
    }
    ptrdiff_t old = hmgeti(f->e->updates, state->id);
    if (old >= 0) {
        diag_label(diag_error(E_DUPLICATE, a->span, "state '%s' is updated twice", a->name), f->e->updates[old].value, "first here");
        return;
    }
    hmput(f->e->updates, state->id, a->span);
    if (!alike(x, state)) {
        struct diag *d = diag_error(E_SHAPE, a->span, "'%s' is %s, but what it is to hold is %s", a->name,
                                    value_type_text(state, NULL), value_type_text(x, NULL));
        diag_label(d, p->span, "declared here");
        if (x->ndim > state->ndim)
            diag_help(d, "reduce it, as mean(.., axis = ..) does, or declare `state %s: %s = ..`", a->name, value_type_text(x, NULL));
        else
            diag_help(d, "declare `state %s: %s = ..`", a->name, value_type_text(x, NULL));
        return;
    }
    if (f->e->g->entry != ENTRY_TRAIN || !f->e->m->train.present)
        return;
    struct node *n = node_new(f->e->g, f->at, &op_next, a->span);
    n->path = *f->inst->path ? f->inst->path : NULL;
    node_in(n, state);
    node_in(n, x);
    node_finish(f->e->g, n);
}

struct item in_train(struct frame *f, struct ast *a)
{
    struct value *v[2] = {NULL, NULL};
    bool plain = ast_count(a) == 3;
    for (int k = 0; k < 2 && plain; k++)
        plain = a->kids[1 + k]->kind != AST_KEYWORD;
    if (!plain) {
        diag_help(diag_error(E_ARGUMENTS, a->span, "in_train takes two tensors"),
                  "in_train(a, b) is a in the steps of training, and b in evaluation and sampling");
        return POISON;
    }
    for (int k = 0; k < 2; k++)
        v[k] = expr_value(f, a->kids[1 + k]);
    if (!v[0] || !v[1])
        return POISON;
    if (!alike(v[0], v[1])) {
        struct diag *d = diag_error(E_SHAPE, a->span, "in_train: %s and %s are not alike", value_type_text(v[0], NULL),
                                    value_type_text(v[1], NULL));
        diag_label(d, v[0]->span, "%s", value_type_text(v[0], NULL));
        diag_label(d, v[1]->span, "%s", value_type_text(v[1], NULL));
        return POISON;
    }
    return item_value(v[f->e->g->entry == ENTRY_TRAIN ? 0 : 1], a);
}
