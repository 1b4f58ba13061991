/* The choice of layouts as variables and costs; see problem.h.
 *
 * Plan lines say more than where a tensor is stored. An axis that splits a model input keeps its dim split wherever a
 * value has it and a signature allows (data parallelism); a weight that a line splits is used as it is stored, and what it
 * splits is not gathered where an op can do without (tensor parallelism), even where small sizes would make another scheme
 * look cheaper. */
#include "problem.h"
#include <string.h>

/* Preferences, in seconds: far below any collective, in this order. COPY > STORE > PARTIAL. */
static const double copy_rate = 1e13, store_rate = 1e15, partial_price = 1e-11;
static const double astray_price = 1e3;                /* per value that leaves the split of its input */
static const double gather_price = 1e2;              /* per value whose split by a weight is undone */
enum { MAX_ENTRIES = 400000, MAX_PLANNED = 5000 };      /* conversions over four axes and more take long to plan */

/* Does the time axis cut the dim that v would be split along? Then the split cannot change: the axes that split an input
 * are major to the micro-batches, and what is cut within a micro-batch would be minor. */
bool cut_in_time(const struct problem *p, const struct value *v, int code)
{
    int mb = p->s->mesh->mb;
    return code_is_split(code) && mb >= 0 && v->lay.ax[mb].kind == SBP_S && v->lay.ax[mb].dim == code - CODE_S;
}

bool conversion_is_free(const struct problem *p, const struct value *v, int from, int to)
{
    if (from == to)
        return true;
    if (cut_in_time(p, v, from) || cut_in_time(p, v, to))
        return false;
    return from == CODE_B || (code_is_split(from) && to == CODE_P + REDUCE_SUM);
}

static double times(const struct problem *p, const struct value *v, enum phase phase)
{
    const struct mesh *m = p->s->mesh;
    return (double)region_blocks(v->region) * (phase_per_microbatch(phase) && m->mb >= 0 ? m->axis[m->mb].size : 1);
}

/* What the axes outside the problem leave of v, or, optimistically, what any axis may leave of it. */
static struct layout held_layout(const struct problem *p, const struct value *v, enum phase phase)
{
    struct layout l = v->lay;
    for (int a = 0; a < p->s->mesh->naxis && v->keep; a++)       /* what a line of `save` leaves to the backward */
        if ((phase == PHASE_BACKWARD || phase == PHASE_WEIGHT) && !p->s->mesh->axis[a].time)
            l.ax[a] = v->keep->ax[a];
    for (int a = 0; a < p->s->mesh->naxis; a++)
        if (p->s->joint >> a & 1 || (p->optimistic && !p->s->mesh->axis[a].time))
            l.ax[a] = (struct sbp){ 0 };
    return l;
}

static double others(const struct problem *p)
{
    const struct mesh *m = p->s->mesh;
    double parts = 1;
    for (int a = 0; p->optimistic && a < m->naxis; a++)
        if (a != p->part[0].axis && a != m->pipe && a != m->mb)
            parts *= m->axis[a].size;
    return parts;
}

/* What all axes pay together is shared out among them, so that the sum over the axes is no more than the whole. */
static double share(const struct problem *p)
{
    const struct mesh *m = p->s->mesh;
    int axes = 0;
    for (int a = 0; a < m->naxis; a++)
        axes += m->axis[a].size > 1 && a != m->pipe && a != m->mb;
    return p->optimistic && axes > 1 ? 1.0 / axes : 1;
}

/* The split that a data axis gives to v, or CODE_NONE. */
static int data_code(const struct problem *p, const struct part *t, const struct value *v)
{
    for (int k = 0; k < arrlen(p->s->data); k++)
        if (p->s->data[k].axis == t->axis)
            for (int d = 0; d < v->ndim; d++)
                if (v->dim[d] == p->s->data[k].dim && code_legal(p->s, v, &v->lay, t->axis, CODE_S + d))
                    return CODE_S + d;
    return CODE_NONE;
}

static bool is_parameter(const struct value *v)
{
    return value_param(v);               /* or its copy in another type */
}

static bool param_has_line(const struct problem *p, const struct part *t, const struct value *v)
{
    const struct param *w = node_param(value_is_copy(v) ? v->def->in[0]->def : v->def);
    return param_line(p->s, v) && code_is_split(sbp_code(w->lay.ax[t->axis]));
}

static bool split_by_weight(const struct problem *p, const struct part *t, const struct dim *dim)
{
    for (int k = 0; k < arrlen(p->s->m->params); k++) {
        const struct param *w = p->s->m->params[k];
        int code = sbp_code(w->lay.ax[t->axis]);
        bool freed = p->s->freed && p->s->freed->def && node_param(p->s->freed->def) == w;
        if (w->line && !freed && code_is_split(code) && w->dim[code - CODE_S] == dim)
            return true;
    }
    return false;
}

/* ---- what axes cost together ---- */

/* Gradients that backward leaves, and sums of them over several uses, share one collective. */
static bool in_bucket(const struct value *v)
{
    return value_phase(v) != PHASE_UPDATE || (v->def && v->def->op == &op_add);
}

/* A value's shape, as far as conversions see it. */
static int shape_of(struct sharding *s, const struct value *v)
{
    struct shape shape = { .type = v->type, .ndim = v->ndim };
    for (int d = 0; d < v->ndim; d++) {
        shape.size[d] = v->dim[d]->size;
        shape.phys[d] = v->dim[d]->phys;
    }
    ptrdiff_t at = hmgeti(s->shapes, shape);
    if (at >= 0)
        return s->shapes[at].value;
    int number = (int)hmlen(s->shapes);
    hmput(s->shapes, shape, number);
    return number;
}

static uint64_t pack(const struct layout *l)
{
    uint64_t bits = 0;
    for (int a = 0; a < MAX_AXIS; a++)
        bits = bits << 8 | (uint64_t)(l->ax[a].kind << 6 | l->ax[a].dim << 3 | l->ax[a].order);
    return bits;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Conversions of equal shapes between equal layouts are planned once. */
static struct travel travel(struct sharding *s, const struct value *v, const struct layout *from, const struct layout *to)
{
    struct travel t = { .from = pack(from), .to = pack(to), .shape = shape_of(s, v) };
    uint64_t key = mix(mix(t.from) ^ t.to) ^ (uint64_t)t.shape;      /* stb_ds hashes longer keys badly */
    ptrdiff_t at = hmgeti(s->travels, key);
    bool same = at >= 0 && s->travels[at].value.from == t.from && s->travels[at].value.to == t.to &&
                s->travels[at].value.shape == t.shape;
    if (same)
        return s->travels[at].value;
    struct step steps[MAX_STEP];
    struct mem_mark mark = mem_mark();
    int count = convert_path(v, from, to, s->mesh, steps, MAX_STEP);
    for (int k = 0; k < count; k++) {
        double start = step_seconds(steps[k].kind, 0, s->mesh, steps[k].axes);
        *(step_is_comm(steps[k].kind) ? &t.starts : &t.copies) += start;
        t.sent += steps[k].seconds - start;
    }
    mem_rewind(mark);
    hmput(s->travels, key, t);
    return t;
}

/* Seconds of one conversion, with what storing its result counts. In a bucket a start costs nothing of its own. */
static double together(const struct problem *p, const struct value *v, enum phase phase, const int *a, const int *c)
{
    const struct mesh *m = p->s->mesh;
    struct layout from = held_layout(p, v, phase), to;
    bool moves = false, home = phase == value_phase(v);
    for (int k = 0; k < p->nparts; k++)
        from.ax[p->part[k].axis] = code_sbp(a[k]);
    to = from;
    for (int k = 0; k < p->nparts; k++)
        if (c[k] != CODE_NONE) {
            to.ax[p->part[k].axis] = code_sbp(c[k]);
            moves = true;
        }
    layout_normalise(&from, m);
    layout_normalise(&to, m);
    if (!layout_divides(p->s, v, &from))
        return INFINITY;                             /* what readers ask for is checked with them: they may differ */
    double n = times(p, v, phase), cost = home ? layout_bytes(v, &from, m) / others(p) * n / store_rate * share(p) : 0;
    if (!moves)
        return cost;
    struct travel path = travel(p->s, v, &from, &to);        /* 0 where there is none: cut in time, which costs elsewhere */
    double start = path.copies + path.starts * (phase == PHASE_UPDATE && in_bucket(v) ? 0.002 : 1);
    double seconds = path.sent / others(p) + start * share(p);
    return cost + (seconds + layout_bytes(v, &to, m) / others(p) / store_rate * share(p)) * n;
}

/* What one axis adds alone. */
double conversion_price(const struct problem *p, const struct part *t, const struct value *v, enum phase phase, int a, int c)
{
    double cost = 0;
    if (c == CODE_NONE)
        return cost;
    if (cut_in_time(p, v, a) || cut_in_time(p, v, c)) {
        double broken = p->soft ? BROKEN_PRICE : INFINITY;           /* a line that asks for it is to blame first */
        cost += t->asked[v->id] >> c & 1 ? broken / 2 : broken;
    }
    cost += code_is_split(a) && !is_parameter(v) && split_by_weight(p, t, v->dim[a - CODE_S]) ? gather_price : 0;
    /* gradients have no lines of their own: strict is about the forward */
    bool forward = phase == PHASE_FORWARD || (phase == PHASE_BACKWARD && v->with_loss);
    if (p->s->m->plan->strict && forward && !(t->asked[v->id] >> c & 1))
        cost += p->soft ? BROKEN_PRICE : INFINITY;
    return cost;
}

static double pair_price(const struct problem *p, const struct part *t, const struct value *v, enum phase phase, bool home,
                         int a, int c)
{
    double cost = 0;
    if (home) {
        int data = data_code(p, t, v);
        cost += code_is_partial(a) ? partial_price : 0;
        cost += data != CODE_NONE && data != a ? astray_price : 0;
    }
    return cost + conversion_price(p, t, v, phase, a, c);
}

/* Calls cost(choice of each part) for every combination of one variable of each part, and lays the result where the
 * solver can use it. */
struct joint {
    const struct problem *p;
    const struct value *v;       /* a copy of a value */
    enum phase phase;
    int actor;                   /* or an actor */
};
typedef double joint_cost(const struct joint *j, const int *at);

static void add_joint(struct problem *p, const struct joint *j, const int *var, const int *n, joint_cost *cost)
{
    int total = 1, at[MAX_AXIS] = { 0 };
    for (int k = 0; k < p->nparts; k++)
        total *= n[k];
    p->entries += total;
    if (p->entries > MAX_ENTRIES)
        p->large = true;
    if (p->large || p->counting)
        return;
    double *table = NEW_ARRAY(double, total);
    bool any = false;
    for (int i = 0; i < total; i++) {
        for (int k = p->nparts - 1, rest = i; k >= 0; rest /= n[k--])
            at[k] = rest % n[k];
        table[i] = cost(j, at);
        any |= table[i] != 0;
        if (p->nparts > 3 && hmlen(p->s->travels) > p->planned + MAX_PLANNED) {
            p->large = true;
            return;
        }
    }
    if (any && p->nparts == 1)
        solver_add(p->solver, var[0], table);
    else if (any)
        solver_table(p->solver, p->nparts, var, table);
}

static double copy_cost(const struct joint *j, const int *at)
{
    int a[MAX_AXIS], c[MAX_AXIS];
    for (int k = 0; k < j->p->nparts; k++) {
        const struct copy *x = &j->p->part[k].copies[j->v->id][j->phase];
        a[k] = x->a[at[k]];
        c[k] = x->c[at[k]];
    }
    return together(j->p, j->v, j->phase, a, c);
}

static bool splits_work(const struct actor *a, const struct choice *c)
{
    for (int k = 0; k < arrlen(a->in); k++)
        if (a->in[k] && code_is_split(c->in[k]))
            return true;
    return false;
}

/* Work of an op on one rank, and whether its operands and results can be split over all these axes at once. */
static double actor_cost(const struct joint *j, const int *at)
{
    const struct problem *p = j->p;
    const struct mesh *m = p->s->mesh;
    const struct actor *first = &p->part[0].actors[j->actor];
    const struct choice *c[MAX_AXIS] = { 0 };
    for (int k = 0; k < p->nparts; k++)
        c[p->part[k].axis] = &p->part[k].actors[j->actor].choices[at[k]];
    for (int k = 0; k < arrlen(first->in) + arrlen(first->out); k++) {
        int x = k - (int)arrlen(first->in);
        const struct value *v = x < 0 ? first->in[k] : first->out[x];
        if (!v)
            continue;
        struct layout l = x < 0 && first->node->need && first->carry < 0 ? first->node->need[k] : v->lay;
        bool even = false;
        for (int a = 0; a < m->naxis; a++)
            if (c[a]) {
                l.ax[a] = code_sbp(x < 0 ? c[a]->in[k] : c[a]->out[x]);
                even |= c[a]->even;
            }
        if (!p->optimistic && (!layout_divides(p->s, v, &l) || (even && !layout_even(p->s, v, &l))))
            return INFINITY;
    }
    if (first->carry >= 0 || !first->node->op->flops || !(first->node->op->flags & OP_CONTRACTION))
        return 0;
    double flops = first->node->op->flops(first->node) * (double)region_blocks(first->node->region);
    for (int a = 0; a < m->naxis; a++) {
        bool split = c[a] ? splits_work(first, c[a]) : p->optimistic && a != m->mb && a != m->pipe;
        for (int k = 0; k < arrlen(first->in) && !c[a] && !split; k++)
            split = first->in[k] && first->node->need[k].ax[a].kind == SBP_S;
        if (split && !m->axis[a].time)
            flops /= m->axis[a].size;
    }
    return flops / cost_flop_rate(m) * share(p);
}

/* ---- variables ---- */

static void note_reads_and_results(struct problem *p, struct part *t)
{
    for (int i = 0; i < arrlen(t->actors); i++) {
        struct actor *a = &t->actors[i];
        for (int j = 0; j < arrlen(a->choices); j++) {
            for (int k = 0; k < arrlen(a->in); k++)
                if (a->in[k])
                    t->wanted[a->in[k]->id][conversion_phase(value_phase(a->in[k]), a->phase)] |= 1u << a->choices[j].in[k];
            for (int k = 0; k < arrlen(a->out); k++)
                t->made[a->out[k]->id] |= 1u << a->choices[j].out[k];
        }
        if (a->node->op == &op_to && a->carry < 0 && value_fixed(p->s, a->out[0], t->axis) != CODE_NONE)
            t->asked[a->in[0]->id] |= 1u << value_fixed(p->s, a->out[0], t->axis);
    }
}

/* The code a line of `save` gives to v for later phases, or CODE_NONE. */
static int saved_code(const struct part *t, const struct value *v)
{
    return v->keep ? sbp_code(v->keep->ax[t->axis]) : CODE_NONE;
}

/* What a later phase finds of the pair (a, c); CODE_NONE: not what the line wants. */
static int kept_code(const struct part *t, const struct value *v, enum phase phase, int a, int c)
{
    int saved = phase == PHASE_BACKWARD || phase == PHASE_WEIGHT ? saved_code(t, v) : CODE_NONE;
    if (saved != CODE_NONE)
        return a == saved || c == saved ? saved : CODE_NONE;
    return code_is_partial(a) && c != CODE_NONE ? c : a;
}

static void add_copy(struct problem *p, struct part *t, const struct value *v, enum phase phase, bool home)
{
    struct copy *x = &t->copies[v->id][phase];
    double *unary = NULL;
    uint8_t *as = NULL, *cs = NULL;
    uint32_t wanted = t->wanted[v->id][phase], made = t->made[v->id] ? t->made[v->id] : 1u << CODE_B;
    uint32_t here = home ? made : made | t->wanted[v->id][value_phase(v)] | wanted;
    for (int a = 0; a < CODE_NONE; a++)
        for (int c = 0; c <= CODE_NONE; c++) {
            bool idle = c < CODE_NONE && conversion_is_free(p, v, a, c) && !(home && c == saved_code(t, v) && c != a);
            if (!(here >> a & 1) || idle || (c < CODE_NONE && !(wanted >> c & 1)))
                continue;
            arrput(as, (uint8_t)a);
            arrput(cs, (uint8_t)c);
            arrput(unary, pair_price(p, t, v, phase, home, a, c));
        }
    *x = (struct copy){ .var = solver_var(p->solver, (int)arrlen(as), unary), .n = (int)arrlen(as), .a = as, .c = cs };
}

static void add_values(struct problem *p, struct part *t)
{
    for (int i = 0; i < arrlen(p->s->g->values); i++) {
        const struct value *v = p->s->g->values[i];
        bool used = t->made[i];
        for (int j = 0; j < PHASES; j++)
            used |= t->wanted[i][j] != 0;
        for (int j = 0; j < PHASES; j++)
            t->copies[i][j].var = -1;
        if (!used)
            continue;
        enum phase home = value_phase(v);
        if (saved_code(t, v) != CODE_NONE && (t->wanted[i][PHASE_BACKWARD] || t->wanted[i][PHASE_WEIGHT])) {
            t->wanted[i][home] |= 1u << saved_code(t, v);
            t->asked[i] |= 1u << saved_code(t, v);
        }
        add_copy(p, t, v, home, true);
        const struct copy *x = &t->copies[i][home];
        for (int j = 0; j < PHASES; j++) {
            if (!t->wanted[i][j] || j == (int)home)
                continue;
            add_copy(p, t, v, (enum phase)j, false);
            const struct copy *y = &t->copies[i][j];
            double *table = NEW_ARRAY(double, x->n * y->n);
            for (int k = 0; k < x->n; k++) {
                int kept = kept_code(t, v, (enum phase)j, x->a[k], x->c[k]);
                for (int l = 0; l < y->n; l++)
                    table[k * y->n + l] = y->a[l] == kept ? 0 : INFINITY;
            }
            solver_pair(p->solver, x->var, y->var, table);
        }
    }
}

/* ---- factors ---- */

double read_cost(const struct problem *p, const struct part *t, const struct actor *act, int operand, int need, int a, int c,
                 int data)
{
    const struct value *v = act->in[operand];
    if (v != p->s->freed && p->s->fixed[v->id].pin && p->s->fixed[v->id].axes >> t->axis & 1 && act->node->op != &op_output)
        if (need != value_fixed(p->s, v, t->axis) && act->phase == value_phase(v))
            return p->soft ? BROKEN_PRICE : INFINITY;
    if (act->carry < 0 && writes_in_place(act->node, operand))
        return need == a ? 0 : INFINITY;
    double astray = data != CODE_NONE && data != need ? astray_price : 0;
    if (is_parameter(v) && need != a && param_has_line(p, t, v))
        astray = astray_price;                       /* a weight that a line splits is used as it is stored */
    if (need == a || need == c)
        return astray;
    if (conversion_is_free(p, v, a, need) || (c != CODE_NONE && conversion_is_free(p, v, c, need))) {
        struct layout l = held_layout(p, v, act->phase);
        if (code_is_split(a) && a != need && !is_parameter(v) && split_by_weight(p, t, v->dim[a - CODE_S]))
            astray += gather_price;                  /* zeros around a part: the same as gathering it, but for the work */
        return astray + layout_bytes(v, &l, p->s->mesh) / others(p) * times(p, v, act->phase) / copy_rate;
    }
    return INFINITY;
}

static void add_actor(struct problem *p, struct part *t, struct actor *a)
{
    int n = (int)arrlen(a->choices);
    a->var = solver_var(p->solver, n, NULL);
    for (int k = 0; k < arrlen(a->out); k++) {
        const struct copy *x = &t->copies[a->out[k]->id][value_phase(a->out[k])];
        double *table = NEW_ARRAY(double, n * x->n);
        for (int j = 0; j < n; j++)
            for (int l = 0; l < x->n; l++)
                table[j * x->n + l] = x->a[l] == a->choices[j].out[k] ? 0 : INFINITY;
        solver_pair(p->solver, a->var, x->var, table);
    }
    for (int k = 0; k < arrlen(a->in); k++) {
        const struct value *v = a->in[k];
        if (!v)
            continue;
        const struct copy *x = &t->copies[v->id][conversion_phase(value_phase(v), a->phase)];
        double *table = NEW_ARRAY(double, n * x->n);
        int data = a->node->op == &op_output || a->phase == PHASE_UPDATE ? CODE_NONE : data_code(p, t, v);
        for (int j = 0; j < n; j++)
            for (int l = 0; l < x->n; l++)
                table[j * x->n + l] = read_cost(p, t, a, k, a->choices[j].in[k], x->a[l], x->c[l], data);
        solver_pair(p->solver, a->var, x->var, table);
    }
}

/* A parameter is stored once: its node in each phase, and its optimizer states, have the layout of the first of them. */
static void tie_params(struct problem *p, struct part *t)
{
    struct { const struct param *key; int value; } *first = NULL;
    for (int i = 0; i < arrlen(t->actors); i++) {
        const struct actor *a = &t->actors[i];
        if (a->node->op != &op_param)
            continue;
        const struct param *w = node_param(a->node);
        ptrdiff_t at = hmgeti(first, w);
        if (at < 0) {
            hmput(first, w, i);
            continue;
        }
        const struct actor *b = &t->actors[first[at].value];
        int na = (int)arrlen(a->choices), nb = (int)arrlen(b->choices);
        double *table = NEW_ARRAY(double, na * nb);
        for (int x = 0; x < na; x++)
            for (int y = 0; y < nb; y++)
                table[x * nb + y] = a->choices[x].out[0] == b->choices[y].out[0] ? 0 : INFINITY;
        solver_pair(p->solver, a->var, b->var, table);
    }
}

/* What is made again is made as it was: the same signature, so the same bits. */
static void tie_twins(struct problem *p, struct part *t)
{
    struct { const struct node *key; int value; } *first = NULL;
    for (int i = 0; i < arrlen(t->actors); i++)
        if (t->actors[i].carry < 0)
            hmput(first, t->actors[i].node, i);
    for (int i = 0; i < arrlen(t->actors); i++) {
        const struct actor *a = &t->actors[i];
        ptrdiff_t at = a->carry < 0 && a->node->again ? hmgeti(first, a->node->again) : -1;
        if (at < 0)
            continue;
        const struct actor *b = &t->actors[first[at].value];
        int na = (int)arrlen(a->choices), nb = (int)arrlen(b->choices);
        double *table = NEW_ARRAY(double, na * nb);
        for (int x = 0; x < na; x++)
            for (int y = 0; y < nb; y++) {
                bool same = true;
                for (int k = 0; k < arrlen(a->out); k++)
                    same &= a->choices[x].out[k] == b->choices[y].out[k];
                for (int k = 0; k < arrlen(a->in); k++)
                    same &= !a->in[k] || a->choices[x].in[k] == b->choices[y].in[k];
                table[x * nb + y] = same ? 0 : INFINITY;
            }
        solver_pair(p->solver, a->var, b->var, table);
    }
}

/* ---- the whole ---- */

void problem_actors(struct problem *p, unsigned axes)
{
    p->nparts = 0;
    p->s->joint = axes;
    for (int a = 0; a < p->s->mesh->naxis; a++)
        if (axes >> a & 1) {
            struct part *t = &p->part[p->nparts++];
            *t = (struct part){ .axis = a, .actors = actors_of(p->s, a) };
            for (int i = 0; i < arrlen(t->actors); i++)
                if (!arrlen(t->actors[i].choices))
                    BUG("%s has no layout along axis %s", t->actors[i].node->op->name, p->s->mesh->axis[a].name);
        }
}

static void join_values(struct problem *p)
{
    for (int i = 0; i < arrlen(p->s->g->values) && !p->large; i++)
        for (int phase = 0; phase < PHASES; phase++) {
            int var[MAX_AXIS] = {-1}, n[MAX_AXIS];
            struct joint j = { .p = p, .v = p->s->g->values[i], .phase = (enum phase)phase };
            for (int k = 0; k < p->nparts; k++) {
                var[k] = p->part[k].copies[i][phase].var;
                n[k] = p->part[k].copies[i][phase].n;
            }
            if (var[0] >= 0)
                add_joint(p, &j, var, n, copy_cost);
        }
}

static void join_actors(struct problem *p)
{
    for (int i = 0; i < arrlen(p->part[0].actors) && !p->large; i++) {
        int var[MAX_AXIS], n[MAX_AXIS];
        struct joint j = { .p = p, .actor = i };
        for (int k = 0; k < p->nparts; k++) {
            var[k] = p->part[k].actors[i].var;
            n[k] = (int)arrlen(p->part[k].actors[i].choices);
        }
        add_joint(p, &j, var, n, actor_cost);
    }
}

void problem_build(struct problem *p)
{
    size_t n = (size_t)arrlen(p->s->g->values) + 1;
    p->solver = solver_new();
    p->large = false;
    p->planned = hmlen(p->s->travels);
    for (int k = 0; k < p->nparts; k++) {
        struct part *t = &p->part[k];
        t->copies = (struct copy (*)[PHASES])mem_alloc(sizeof *t->copies * n);
        t->wanted = (uint32_t (*)[PHASES])mem_alloc(sizeof *t->wanted * n);
        t->made = NEW_ARRAY(uint32_t, n);
        t->asked = NEW_ARRAY(uint32_t, n);
        note_reads_and_results(p, t);
        add_values(p, t);
        for (int i = 0; i < arrlen(t->actors); i++)
            add_actor(p, t, &t->actors[i]);
        tie_params(p, t);
        tie_twins(p, t);
    }
    for (int turn = 0; turn < 2; turn++) {           /* tables too large in all are not even begun */
        p->counting = turn == 0;
        p->entries = 0;
        join_values(p);
        join_actors(p);
    }
}

void problem_write_back(struct problem *p, const struct solution *answer, bool *changed)
{
    for (int x = 0; x < p->nparts; x++) {
        int axis = p->part[x].axis;
        for (int i = 0; i < arrlen(p->part[x].actors); i++) {
            const struct actor *a = &p->part[x].actors[i];
            const struct choice *c = &a->choices[answer->choice[a->var]];
            for (int k = 0; k < arrlen(a->out); k++) {
                struct sbp y = code_sbp(c->out[k]), *old = &a->out[k]->lay.ax[axis];
                *changed |= y.kind != old->kind || y.dim != old->dim;
                *old = y;
            }
            if (a->carry >= 0) {
                a->node->need[a->carry].ax[axis] = code_sbp(c->in[0]);
                continue;
            }
            for (int k = 0; k < arrlen(a->in); k++) {
                struct sbp y = code_sbp(c->in[k]), *old = &a->node->need[k].ax[axis];
                *changed |= y.kind != old->kind || y.dim != old->dim;
                *old = y;
            }
        }
    }
}
