/* Nodes as the solver sees them: for each its operands, its results and the signatures that are legal along one axis.
 * A carried value of a repeat is an actor of its own: it has one layout at the entry, in each iteration and at the end. */
#include "shard.h"

enum phase node_phase(const struct node *n)
{
    return n->region ? node_at_root(n)->phase : n->phase;
}

enum phase value_phase(const struct value *v)
{
    return v->def ? node_phase(v->def) : v->region && v->region->owner ? node_phase(v->region->owner) : PHASE_FORWARD;
}

int value_fixed(const struct sharding *s, const struct value *v, int axis)
{
    const struct fixed *f = &s->fixed[v->id];
    if (v == s->freed)
        return CODE_NONE;
    return f->axes >> axis & 1 ? sbp_code(f->lay.ax[axis]) : CODE_NONE;
}

bool layout_clashes(const struct layout *l, const struct mesh *m, int *max, int *min)
{
    *max = *min = -1;
    for (int a = 0; a < m->naxis; a++)
        if (l->ax[a].kind == SBP_P && m->axis[a].size > 1 && l->ax[a].dim != REDUCE_SUM)
            *(l->ax[a].dim == REDUCE_MAX ? max : min) = a;
    return *max >= 0 && *min >= 0;
}

bool code_legal(struct sharding *s, const struct value *v, const struct layout *others, int axis, int code)
{
    if (code_is_partial(code)) {
        struct layout l = *others;
        int max, min;
        for (int a = 0; a < s->mesh->naxis; a++)
            if (s->joint >> a & 1)
                l.ax[a] = (struct sbp){ 0 };
        l.ax[axis] = code_sbp(code);
        return !layout_clashes(&l, s->mesh, &max, &min);
    }
    if (!code_is_split(code))
        return true;
    int d = code - CODE_S;
    if (d >= v->ndim)
        return false;
    int64_t parts = s->mesh->axis[axis].size;
    bool alone = true;
    for (int a = 0; a < s->mesh->naxis; a++)
        if (a != axis && !(s->joint >> a & 1) && others->ax[a].kind == SBP_S && others->ax[a].dim == d &&
            s->mesh->axis[a].size > 1) {
            parts *= s->mesh->axis[a].size;
            alone = false;
        }
    if (v->dim[d]->pad > 0 || v->dim[d]->size % parts == 0)
        return true;
    for (int k = 0; alone && k < arrlen(s->uneven); k++)
        if (s->uneven[k].dim == v->dim[d] && s->uneven[k].axis == axis)
            return true;
    return false;
}

/* A signature marked even holds only where the parts are equal, padding included. */
static bool sig_even(struct sharding *s, const struct value *v, const struct layout *others, int axis, int code)
{
    if (!code_is_split(code))
        return true;
    int64_t parts = s->mesh->axis[axis].size;
    for (int a = 0; a < s->mesh->naxis; a++)
        if (a != axis && !(s->joint >> a & 1) && others->ax[a].kind == SBP_S && others->ax[a].dim == code - CODE_S)
            parts *= s->mesh->axis[a].size;
    return v->dim[code - CODE_S]->size % parts == 0;
}

static int64_t split_parts(const struct sharding *s, const struct layout *l, int dim, int *axes, int *only)
{
    int64_t parts = 1;
    *axes = 0;
    for (int a = 0; a < s->mesh->naxis; a++)
        if (l->ax[a].kind == SBP_S && l->ax[a].dim == dim && s->mesh->axis[a].size > 1) {
            parts *= s->mesh->axis[a].size;
            *only = a;
            ++*axes;
        }
    return parts;
}

bool layout_divides(const struct sharding *s, const struct value *v, const struct layout *l)
{
    int max, min;
    if (layout_clashes(l, s->mesh, &max, &min))
        return false;
    for (int d = 0; d < v->ndim; d++) {
        int axes, only = 0;
        int64_t parts = split_parts(s, l, d, &axes, &only);
        bool fine = v->dim[d]->pad > 0 || v->dim[d]->size % parts == 0;
        for (int k = 0; axes == 1 && k < arrlen(s->uneven) && !fine; k++)
            fine = s->uneven[k].dim == v->dim[d] && s->uneven[k].axis == only;
        if (!fine)
            return false;
    }
    return true;
}

bool layout_even(const struct sharding *s, const struct value *v, const struct layout *l)
{
    for (int d = 0; d < v->ndim; d++) {
        int axes, only;
        if (v->dim[d]->size % split_parts(s, l, d, &axes, &only))
            return false;
    }
    return true;
}

bool writes_in_place(const struct node *n, int operand)
{
    return (n->op->optimizer || (n->op == &op_store && operand == 0)) && n->in[operand]->def &&
           n->in[operand]->def->op == &op_param;
}

static void offer(struct sharding *s, struct actor *a, int axis, const struct sig *sig)
{
    struct choice c = { .in = NEW_ARRAY(uint8_t, arrlen(a->in) + 1), .out = NEW_ARRAY(uint8_t, arrlen(a->out) + 1) };
    c.even = sig->even;
    for (int k = 0; k < arrlen(a->in); k++) {
        struct value *v = a->in[k];
        if (!v)
            continue;
        c.in[k] = (uint8_t)sbp_code(sig->in[k]);
        const struct layout *others = a->node->need ? &a->node->need[k] : &v->lay;
        if (!code_legal(s, v, others, axis, c.in[k]) || (sig->even && !sig_even(s, v, others, axis, c.in[k])))
            return;
    }
    for (int k = 0; k < arrlen(a->out); k++) {
        struct value *v = a->out[k];
        int fixed = value_fixed(s, v, axis);
        c.out[k] = (uint8_t)sbp_code(sig->out[k]);
        if (!code_legal(s, v, &v->lay, axis, c.out[k]) || (sig->even && !sig_even(s, v, &v->lay, axis, c.out[k])))
            return;
        if (fixed != CODE_NONE && fixed != c.out[k])
            return;
    }
    arrput(a->choices, c);
}

static void offer_same(struct sharding *s, struct actor *a, int axis, int code)
{
    struct choice c = { .in = NEW_ARRAY(uint8_t, 2), .out = NEW_ARRAY(uint8_t, 2) };
    for (int k = 0; k < arrlen(a->out); k++) {
        int fixed = value_fixed(s, a->out[k], axis);
        if (!code_legal(s, a->out[k], &a->out[k]->lay, axis, code) || (fixed != CODE_NONE && fixed != code))
            return;
        c.out[k] = (uint8_t)code;
    }
    for (int k = 0; k < arrlen(a->in); k++)
        c.in[k] = (uint8_t)code;
    arrput(a->choices, c);
}

/* The same layout before and after: carried values, to(..). */
static void offer_all_same(struct sharding *s, struct actor *a, int axis)
{
    const struct value *v = a->out[0];
    offer_same(s, a, axis, CODE_B);
    for (int d = 0; d < v->ndim; d++)
        offer_same(s, a, axis, CODE_S + d);
    int asked = value_fixed(s, v, axis);
    if (type_is_float(v->type))
        offer_same(s, a, axis, CODE_P + REDUCE_SUM);
    if (code_is_partial(asked) && asked != CODE_P + REDUCE_SUM)
        offer_same(s, a, axis, asked);
}

const struct plan_line *param_line(const struct sharding *s, const struct value *v)
{
    const struct param *p = node_param(value_is_copy(v) ? v->def->in[0]->def : v->def);
    return s->freed && s->freed->def && node_param(s->freed->def) == p ? NULL : p->line;
}

/* Where no line says how a parameter is stored, cost does; but it is never split where an axis splits an input: that
 * would be another kind of data parallelism, which a line asks for. */
static void offer_param(struct sharding *s, struct actor *a, int axis)
{
    const struct param *p = node_param(a->node);
    bool freed = s->freed && s->freed->def && node_param(s->freed->def) == p;
    bool open = (freed || (!p->line && !s->stored)) && !s->mesh->axis[axis].time;
    for (int k = 0; k < arrlen(s->data) && open; k++)
        open = s->data[k].axis != axis;
    offer_same(s, a, axis, open ? CODE_B : sbp_code(p->lay.ax[axis]));
    for (int d = 0; d < p->ndim && open; d++)
        offer_same(s, a, axis, CODE_S + d);
}

/* Gradients of several uses, added outside of the forward: shares and stages read each of them as their sum is laid out,
 * which a maximum and a whole tensor, whose sum is a maximum, would not bear. */
static bool sums_gradients(const struct node *n)
{
    enum phase p = node_phase(n);
    return n->op == &op_add && (p == PHASE_BACKWARD || p == PHASE_WEIGHT || p == PHASE_UPDATE);
}

static bool of_extremes(const struct sbp *x)
{
    return x->kind == SBP_P && x->dim != REDUCE_SUM;
}

static struct sig *signatures(struct sharding *s, const struct node *n, int axis)
{
    ptrdiff_t at = hmgeti(s->sigs[axis], n);
    if (at >= 0)
        return s->sigs[axis][at].value;
    struct sig *sigs = node_signatures(n, s->mesh->axis[axis].size);
    /* a zero is the same as no share of it: sums may start from it in any partial layout */
    if (n->op == &op_constant && node_num(n, "value", 0) == 0) {
        struct sig zero = { .out = NEW(struct sbp) };
        zero.out[0] = (struct sbp){ SBP_P, REDUCE_SUM, 0 };
        arrput(sigs, zero);
    }
    for (int k = (int)arrlen(sigs) - 1; k >= 0 && sums_gradients(n); k--)
        if (of_extremes(&sigs[k].in[0]) || of_extremes(&sigs[k].in[1]))
            arrdel(sigs, k);
    hmput(s->sigs[axis], n, sigs);
    return sigs;
}

static void collect(struct sharding *s, struct region *r, int axis, struct actor **to)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        struct actor a = { .node = n, .carry = -1, .phase = node_phase(n), .var = -1 };
        if (n->body) {
            for (int k = 0; k < arrlen(n->in); k++) {
                struct actor c = { .node = n, .carry = k, .phase = a.phase, .var = -1 };
                arrput(c.in, n->in[k]);
                arrput(c.in, n->body->results[k]);
                arrput(c.out, n->body->args[k]);
                arrput(c.out, n->out[k]);
                offer_all_same(s, &c, axis);
                arrput(*to, c);
            }
            collect(s, n->body, axis, to);
            continue;
        }
        for (int k = 0; k < arrlen(n->in); k++)
            arrput(a.in, n->in[k]);
        for (int k = 0; k < arrlen(n->out); k++)
            arrput(a.out, n->out[k]);
        if (n->op == &op_param) {
            offer_param(s, &a, axis);
        } else if (n->op == &op_input) {
            int fixed = value_fixed(s, a.out[0], axis);
            offer_same(s, &a, axis, fixed == CODE_NONE ? CODE_B : fixed);
        } else if (n->op == &op_to) {
            offer_all_same(s, &a, axis);
        } else {
            struct sig *sigs = signatures(s, n, axis);
            for (int k = 0; k < arrlen(sigs); k++)
                offer(s, &a, axis, &sigs[k]);
        }
        arrput(*to, a);
    }
}

struct actor *actors_of(struct sharding *s, int axis)
{
    struct actor *actors = NULL;
    collect(s, s->g->root, axis, &actors);
    return actors;
}
