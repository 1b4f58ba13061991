/* The backward walk. Each node hands the gradients of its outputs to its op, which builds the gradients of its
 * operands. A value used several times gets the sum of what its uses contribute, added in the order of the uses in the program.
 *
 * The backward of a repeat is a repeat in reverse whose body mirrors the forward body. It carries the gradients of the
 * carried values first, then one accumulator for each outer value that the body uses, which starts at zero. The
 * gradient of a parameter declared inside is just a value of the backward body, one per block. */
#include "../base/diag.h"
#include "../module.h"
#include "tape.h"
#include <stdlib.h>
#include <string.h>

struct tape {
    struct region *at;                                   /* the backward region */
    struct region *forward;                              /* what it mirrors (root: the root itself) */
    struct { int key; struct value **value; } *given;    /* stb_ds map: id of a forward value -> contributions */
};

static const char *grad_path(const struct value *v)
{
    return mem_printf("%s#grad", v->path ? v->path : "");
}

static bool is_named(const struct value *grad)
{
    size_t n = grad->path ? strlen(grad->path) : 0;
    return n >= 5 && !strcmp(grad->path + n - 5, "#grad");
}

static void name_gradient(struct value *grad, const struct value *of)
{
    if (!is_named(grad) && of->path)
        grad->path = grad_path(of);
}

/* Everything the walk appends is backward work of the forward node it came from. */
static void mark_new(struct region *at, int from, struct node *forward)
{
    for (int i = from; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i];
        n->phase = PHASE_BACKWARD;
        if (!n->forward)
            n->forward = forward;
        if (!forward || n->path)
            continue;
        n->path = forward->path;
        for (int k = 0; k < arrlen(n->out); k++)
            if (forward->path && !is_named(n->out[k]))
                n->out[k]->path = mem_printf("%s.%s", forward->path, n->op->name);
    }
}

static void give(struct differentiation *d, struct tape *t, const struct value *v, struct value *grad)
{
    if (!grad || !d->needs[v->id])
        return;
    struct value **list = hmget(t->given, v->id);
    arrput(list, grad);
    hmput(t->given, v->id, list);
}

/* The whole gradient of v, or NULL. Contributions came in against the order of the program. */
static struct value *take(struct differentiation *d, struct tape *t, const struct value *v)
{
    struct value **list = hmget(t->given, v->id);
    if (!arrlen(list))
        return NULL;
    int from = (int)arrlen(t->at->nodes);
    struct value *sum = arrlast(list);
    for (int i = (int)arrlen(list) - 2; i >= 0; i--)
        sum = build(d->g, t->at, &op_add, v->span, 2, sum, list[i]);
    mark_new(t->at, from, v->def);
    name_gradient(sum, v);
    arrsetlen(list, 0);
    arrput(list, sum);
    hmput(t->given, v->id, list);
    return sum;
}

static void walk(struct differentiation *d, struct tape *t);

static void through_node(struct differentiation *d, struct tape *t, struct node *n)
{
    int nin = (int)arrlen(n->in), nout = (int)arrlen(n->out);
    struct grad c = {.g = d->g, .at = t->at, .node = n, .dout = NEW_ARRAY(struct value *, nout + 1),
                     .din = NEW_ARRAY(struct value *, nin + 1)};
    bool *wanted = NEW_ARRAY(bool, nin + 1), any_wanted = false, any_given = false;
    for (int k = 0; k < nout; k++)
        any_given |= (c.dout[k] = take(d, t, n->out[k])) != NULL;
    for (int k = 0; k < nin; k++)
        any_wanted |= wanted[k] = n->in[k] && d->needs[n->in[k]->id];
    if (!any_given || !any_wanted || !n->op->grad)
        return;
    c.wanted = wanted;
    int from = (int)arrlen(t->at->nodes);
    n->op->grad(&c);
    mark_new(t->at, from, n);
    for (int k = nin - 1; k >= 0; k--)
        if (wanted[k])
            give(d, t, n->in[k], c.din[k]);
}

static int by_id(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Ids of the values from outside the body that got contributions, in program order. */
static int *captured(const struct differentiation *d, const struct tape *t)
{
    int *ids = NULL;
    for (int i = 0; i < hmlen(t->given); i++)
        if (d->g->values[t->given[i].key]->region != t->forward && arrlen(t->given[i].value))
            arrput(ids, t->given[i].key);
    if (ids)
        qsort(ids, (size_t)arrlen(ids), sizeof *ids, by_id);
    return ids;
}

static struct value *carry(struct differentiation *d, struct region *body, const struct value *like)
{
    struct value *arg = value_new(d->g, body, like->type, like->ndim, (struct dim *const *)like->dim);
    arg->def_index = (int)arrlen(body->args);
    if (like->path)
        arg->path = grad_path(like);
    arg->span = like->span;
    arrput(body->args, arg);
    return arg;
}

/* Where the sum over blocks for an outer value starts: the piece behind this one has it so far, so that the blocks of a
 * repeat are added in one order, whatever its pieces. */
static struct value *sum_so_far(struct differentiation *d, struct tape *t, const struct region *forward, struct value *v)
{
    struct value **list = hmget(t->given, v->id);
    struct node *last = arrlen(list) ? arrlast(list)->def : NULL;
    if (!forward->next || !last || !last->body || last->body->mirror != forward->next)
        return build_zeros_like(d->g, t->at, v);
    struct value *sum = arrpop(list);
    hmput(t->given, v->id, list);
    return sum;
}

static void through_repeat(struct differentiation *d, struct tape *t, struct node *n)
{
    struct region *forward = n->body;
    struct value **start = NULL;                 /* of the backward repeat */
    int *carried = NULL, from = (int)arrlen(t->at->nodes);
    bool any_given = false;
    for (int k = 0; k < arrlen(n->out); k++)
        any_given |= arrlen(hmget(t->given, n->out[k]->id)) > 0;
    if (!any_given)
        return;

    struct region *body = region_mirror(t->at, forward);
    body->reverse = true;
    struct tape inner = {.at = body, .forward = forward};
    for (int k = 0; k < arrlen(n->out); k++)
        if (d->needs[n->out[k]->id]) {
            struct value *grad = take(d, t, n->out[k]);
            arrput(start, grad ? grad : build_zeros_like(d->g, t->at, n->out[k]));
            arrput(carried, k);
            give(d, &inner, forward->results[k], carry(d, body, forward->args[k]));
        }
    walk(d, &inner);
    for (int i = 0; i < arrlen(carried); i++) {
        struct value *arg = forward->args[carried[i]], *grad = take(d, &inner, arg);
        arrput(body->results, grad ? grad : build_zeros_like(d->g, body, arg));
    }
    int *outer = captured(d, &inner);
    for (int i = 0; i < arrlen(outer); i++) {
        struct value *v = d->g->values[outer[i]], *grad = take(d, &inner, v), *sum = carry(d, body, v);
        arrput(start, sum_so_far(d, t, forward, v));
        arrput(body->results, build(d->g, body, &op_add, v->span, 2, sum, grad));
        name_gradient(arrlast(body->results), v);
    }
    mark_new(body, 0, n);

    struct node *back = node_new(d->g, t->at, &op_repeat, n->span);
    back->body = body;
    back->path = n->path;
    body->owner = back;
    for (int i = 0; i < arrlen(start); i++)
        node_in(back, start[i]);
    if (!node_finish(d->g, back))
        BUG("a backward repeat was refused");
    mark_new(t->at, from, n);
    for (int i = (int)arrlen(start) - 1; i >= 0; i--) {
        int k = i - (int)arrlen(carried);
        const struct value *of = k >= 0 ? d->g->values[outer[k]] : n->in[carried[i]];
        back->out[i]->path = grad_path(of);
        give(d, t, of, back->out[i]);
    }
}

static bool is_read(const struct region *r, const struct value *v)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        for (int k = 0; k < arrlen(r->nodes[i]->in); k++)
            if (r->nodes[i]->in[k] == v)
                return true;
    return false;
}

/* The gradient with the parameter's own dims: on the way a dim without a name may have become another of its size, and
 * lines about the parameter's dims would not hold for it. */
static struct value *as_param(struct differentiation *d, struct tape *t, struct value *grad, const struct value *param)
{
    struct dim **dims = NULL;
    bool same = true, free = grad && grad->def && grad->region == t->at && !is_read(t->at, grad);
    for (int i = 0; grad && i < param->ndim; i++) {
        arrput(dims, param->dim[i]);
        same &= grad->dim[i] == param->dim[i];
        free &= grad->dim[i] == param->dim[i] || !grad->dim[i]->name;
    }
    if (!grad || same)
        return grad;
    for (int i = 0; free && i < param->ndim; i++)
        grad->dim[i] = param->dim[i];
    if (free)
        return grad;
    int from = (int)arrlen(t->at->nodes);
    struct node *n = node_new(d->g, t->at, &op_reshape, param->span);
    node_in(n, grad);
    node_set_ptr(n, "dims", dims);
    if (!node_finish(d->g, n))
        BUG("the gradient of %s has another shape", param->path);
    mark_new(t->at, from, param->def);
    n->out[0]->path = grad_path(param);
    return n->out[0];
}

static void walk(struct differentiation *d, struct tape *t)
{
    for (int i = (int)arrlen(t->forward->nodes) - 1; i >= 0; i--) {
        struct node *n = t->forward->nodes[i];
        if (n->phase == PHASE_BACKWARD)
            continue;                            /* the root holds both */
        if (n->body) {
            through_repeat(d, t, n);
        } else if (n->op == &op_param) {
            struct trained *p = trained_find(d, node_ptr(n, "param"));
            if (p)
                p->grad = as_param(d, t, take(d, t, n->out[0]), n->out[0]);
        } else {
            through_node(d, t, n);
        }
    }
}

bool backward(struct differentiation *d)
{
    struct graph *g = d->g;
    if (!d->needs[g->loss->id]) {
        struct diag *x = diag_error(E_NO_GRADIENT, g->loss->span, "the loss depends on no parameter that is trained");
        if (arrlen(d->trained))
            diag_label(x, d->trained[0].param->span, "no gradient reaches %s", d->trained[0].param->path);
        diag_help(x, "look for detach, argmax or comparisons between the parameters and the loss, and at `frozen`");
        return false;
    }
    struct tape t = {.at = g->root, .forward = g->root};
    int from = (int)arrlen(g->root->nodes);
    bool scaled = g->module->plan->precision.loss_scale > 0;
    give(d, &t, g->loss, scaled ? build(g, g->root, &op_loss_scale, g->loss->span, 0) : build_constant(g, g->root, 1, g->loss->span));
    mark_new(g->root, from, NULL);
    walk(d, &t);
    return true;
}
