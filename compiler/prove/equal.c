/* One rank against all ranks, in float64, on the same data: two steps of training or one of another entry. */
#include "../interpret/machine.h"
#include "verify.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparison ---- */

static bool near(double a, double b, double scale)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (1e-3 + scale) ||
           (!(fabs(a) < 1e12) && !(fabs(b) < 1e12));
}

static double scale_of(const double *x, int64_t count)
{
    double scale = 0;
    for (int64_t i = 0; i < count; i++)
        if (fabs(x[i]) < 1e300)
            scale = fmax(scale, fabs(x[i]));
    return scale;
}

static void place_index(struct difference *d, int ndim, const int64_t *n, int64_t i)
{
    d->ndim = ndim;
    for (int k = ndim - 1; k >= 0; k--) {
        d->index[k] = i % n[k];
        i /= n[k];
    }
}

static bool outputs_equal(const struct module *m, enum entry e, const struct data *t, struct difference *d)
{
    const char **names = NULL;
    arrput(names, "loss");
    arrput(names, "grad_norm");
    for (int i = 0; i < arrlen(m->graph[e]->metrics); i++)
        arrput(names, m->graph[e]->metrics[i].name);
    for (int i = 0; i < arrlen(names); i++) {
        if (!shget(t->one->machines[0].outputs, names[i]))
            continue;
        double x = run_output(t->all, names[i]), y = run_output(t->one, names[i]);
        if (!near(x, y, fabs(y))) {
            d->output = names[i];
            d->is = x;
            d->should = y;
            return false;
        }
    }
    for (int i = 0; e != ENTRY_TRAIN && i < arrlen(m->graph[e]->outputs); i++) {
        bool there = !shget(t->one->machines[0].outputs, m->graph[e]->outputs[i].name);
        for (int k = 0; k < t->all->nmachine && !there; k++)
            there = shget(t->all->machines[k].outputs, m->graph[e]->outputs[i].name);
        if (!there) {
            d->output = m->graph[e]->outputs[i].name;
            d->is = d->should = NAN;
            return false;
        }
    }
    return true;
}

/* Of one rank what it holds; of rank -1 everything. scale: of each parameter, in order. */
static bool weights_equal(const struct weights *all, const struct weights *one, const double *scale, const struct run *run,
                          int rank, struct difference *d)
{
    for (int k = 0; k < hmlen(one->map); k++) {
        struct param *p = one->map[k].key;
        const bool *held = rank < 0 ? NULL : run_weights_held(run, rank, p);
        double *y = one->map[k].value, *x = weights_get(all, p);
        int64_t count = rank < 0 || held ? weights_count(p) : 0, block = weights_block(p), n[MAX_DIM];
        for (int64_t i = 0; i < count; i++) {
            if (held && !held[i / block]) {
                i += block - 1;
                continue;
            }
            if (near(x[i], y[i], scale[k]))
                continue;
            for (int q = 0; q < p->ndim; q++)
                n[q] = p->dim[q]->size;
            place_index(d, p->ndim, n, i % block);
            d->block = i / block;
            d->param = p;
            d->rank = rank;
            d->is = x[i];
            d->should = y[i];
            return false;
        }
    }
    return true;
}

/* ---- where they part ---- */

struct kept { int value; int64_t block; };
struct partial {                 /* shares of one value, until all of them are there */
    const struct value *v;
    int64_t block, microbatch;
    int coord[MAX_AXIS];
    int64_t arrived;
    struct tensor t;
};
struct watch {
    struct data *data;
    struct { struct kept key; double *value; } *one;
    struct partial *partials;    /* stb_ds array */
    struct difference *first;
    int64_t step;
    const struct graph *outputs; /* look at its outputs only, or NULL: at everything */
};

static bool looked_at(const struct watch *w, const struct value *u)
{
    for (int i = 0; w->outputs && i < arrlen(w->outputs->outputs); i++)
        if (w->outputs->outputs[i].value == u)
            return true;
    return !w->outputs;
}

static double *copy_of(const struct tensor *t)
{
    int64_t count = tensor_elements(t);
    double *data = NEW_ARRAY(double, count + 1);
    memcpy(data, t->data, sizeof(double) * (size_t)count);
    return data;
}

static void keep(void *context, const struct value *v, int rank, int64_t block, const struct tensor *t)
{
    struct watch *w = context;
    struct kept key;
    if (!looked_at(w, v))
        return;
    memset(&key, 0, sizeof key);
    key.value = v->id;
    key.block = block;
    hmput(w->one, key, copy_of(t));
}

/* The block of u that a stage's block of v is, and, in *whole, its number in the whole repeat, of which u may be in a piece;
 * -1 when u has none of these blocks. */
static int64_t block_logical(const struct value *v, const struct value *u, int64_t block, int64_t *whole)
{
    int64_t at = 0, width = 1;
    const struct region *l = u->region;
    *whole = 0;
    for (const struct region *r = v->region; r->parent; r = r->parent, l = l->parent) {
        if (!l->parent)
            return -1;
        int64_t here = region_origin((struct region *)r)->first + block % r->count;
        *whole += here * width;
        at += (here - region_origin((struct region *)l)->first) * width;
        block /= r->count;
        width *= l->count;
    }
    return l->parent ? -1 : at;
}

static void compare_tensor(struct watch *w, const struct value *v, int rank, int64_t block, const struct tensor *t)
{
    const struct value *u = v->logical;
    struct kept key;
    memset(&key, 0, sizeof key);
    key.value = u->id;
    int64_t number;
    key.block = block_logical(v, u, block, &number);
    double *whole = key.block < 0 ? NULL : hmget(w->one, key);
    if (!whole)
        return;
    int64_t count = tensor_elements(t);
    double scale = scale_of(whole, value_count(u));
    for (int64_t i = 0; i < count; i++) {
        int64_t at[MAX_DIM], left = i + t->first, flat = 0;      /* a share begins within the piece */
        bool padding = false;
        for (int d = t->ndim - 1; d >= 0; d--) {
            at[d] = t->base[d] + left % t->n[d];
            left /= t->n[d];
            padding |= at[d] >= t->valid[d];
        }
        for (int d = 0; d < t->ndim; d++)
            flat = flat * t->valid[d] + at[d];
        if (padding || near(t->data[i], whole[flat], scale))
            continue;
        struct difference *f = w->first;
        f->found = true;
        f->value = u;
        f->physical = v;
        f->rank = rank;
        f->step = w->step;
        f->microbatch = w->data->all->microbatch;
        f->block = number;
        f->phase = v->def ? v->def->phase : PHASE_FORWARD;
        f->ndim = t->ndim;
        memcpy(f->index, at, sizeof at);
        f->is = t->data[i];
        f->should = whole[flat];
        return;
    }
}

/* What is partial is compared when all shares have come. */
static void look(void *context, const struct value *v, int rank, int64_t block, const struct tensor *t)
{
    struct watch *w = context;
    const struct run *run = w->data->all;
    const struct mesh *m = run->mesh;
    if (w->first->found || !v->logical || v->logical->ndim != v->ndim || !looked_at(w, v->logical))
        return;
    if (v->def && v->def->op == &op_box_accumulate && run->microbatch < m->axis[m->mb].size - 1)
        return;                          /* not complete */
    int64_t shares = 1;
    struct partial key = {.v = v, .block = block, .microbatch = run->microbatch};
    enum reduce reduce = REDUCE_SUM;
    for (int i = 0; i < m->naxis; i++) {
        bool partial = v->lay.ax[i].kind == SBP_P && m->axis[i].size > 1;
        if (partial && shares > 1 && (int)reduce != v->lay.ax[i].dim)
            return;                      /* sums of maxima: seen where one of them is made */
        if (partial)
            reduce = (enum reduce)v->lay.ax[i].dim;
        if (partial && m->axis[i].time)
            key.microbatch = 0;
        shares *= partial ? m->axis[i].size : 1;
        key.coord[i] = partial || m->axis[i].time ? 0 : mesh_coord(m, rank, i);
    }
    if (shares == 1) {
        compare_tensor(w, v, rank, block, t);
        return;
    }
    struct partial *p = NULL;
    for (int i = 0; i < arrlen(w->partials) && !p; i++) {
        struct partial *q = &w->partials[i];
        if (q->v == v && q->block == block && q->microbatch == key.microbatch &&
            !memcmp(q->coord, key.coord, sizeof key.coord))
            p = q;
    }
    if (!p) {
        key.t = *t;
        key.t.data = copy_of(t);
        key.arrived = 1;
        arrput(w->partials, key);
        return;
    }
    tensor_meet(&p->t, t, &reduce);
    if (++p->arrived < shares)
        return;
    struct partial done = *p;
    *p = arrpop(w->partials);
    compare_tensor(w, v, rank, block, &done.t);
}

/* ---- an entry ---- */

bool entry_equal(struct module *m, enum entry e, uint64_t seed, bool where, struct difference *d)
{
    struct data t = data_new(m, e, seed);
    struct weights *one = weights_copy(t.start), *all = weights_copy(t.start);
    struct watch w = {.data = &t, .first = d, .outputs = where ? NULL : m->graph[e]};
    if (where || e != ENTRY_TRAIN) {     /* tensors are handed out micro-batch by micro-batch */
        run_watch(t.one, keep, &w);
        run_watch(t.all, look, &w);
    }
    *d = (struct difference){.entry = e, .rank = -1};
    bool equal = true;
    int steps = entry_steps(e);
    for (w.step = 0; w.step < steps && equal; w.step++) {
        data_step(&t, m->graph[e]);
        run_step(t.one, w.step);
        run_step(t.all, w.step);
        d->step = w.step;
        equal = !d->found && outputs_equal(m, e, &t, d);
    }
    if (equal) {
        run_weights(t.one, one);
        run_weights(t.all, all);
        double *scale = NEW_ARRAY(double, hmlen(one->map) + 1);
        for (int k = 0; k < hmlen(one->map); k++)
            scale[k] = scale_of(one->map[k].value, weights_count(one->map[k].key));
        equal = weights_equal(all, one, scale, t.all, -1, d);
        for (int rank = 0; rank < m->physical->mesh->nranks && equal; rank++) {
            run_weights_rank(t.all, rank, all);              /* and every replica for itself */
            equal = weights_equal(all, one, scale, t.all, rank, d);
        }
    }
    d->found = !equal;
    data_release(&t);
    return equal;
}

struct trace { const struct node *but; uint64_t hash; };

/* Does it only put numbers in other places? Wrong ones count where something is computed or sent with them. */
static bool only_moves(const struct node *n)
{
    return n && (n->op->flags & OP_VIEW || n->op == &op_concat);
}

static void hash_value(void *context, const struct value *v, int rank, int64_t block, const struct tensor *t)
{
    struct trace *s = context;
    for (int64_t i = 0; v->def != s->but && !only_moves(v->def) && type_is_float(v->type) && i < tensor_elements(t); i++) {
        uint64_t bits;
        memcpy(&bits, &t->data[i], sizeof bits);
        s->hash = (s->hash ^ bits) * 1099511628211u;
    }
}

uint64_t entry_trace(struct module *m, enum entry e, uint64_t seed, const struct node *but)
{
    struct trace s = {.but = but};
    struct data t = data_new(m, e, seed);
    run_watch(t.all, hash_value, &s);
    for (int64_t step = 0; step < entry_steps(e); step++) {
        data_step(&t, m->graph[e]);
        run_step(t.all, step);
    }
    data_release(&t);
    return s.hash;
}
