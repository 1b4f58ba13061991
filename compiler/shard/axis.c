/* The cheapest layouts along one mesh axis, forward, backward and update together, with the other axes held.
 *
 * Variables of the solver: the signature of each actor, and for each value and each phase that reads it a pair (a, c): it
 * is stored as `a` and, where a reader cannot have that for free, converted once to `c` for all its readers of that phase.
 * What a later phase finds is `a`, or `c` where `a` is Partial: a gather for the forward is not kept for the backward but
 * done again, a reduction is kept. Box inserts conversions by the same rule.
 *
 * Plan lines say more than where a tensor is stored. An axis that splits a model input keeps its dim split wherever a
 * value has it and a signature allows (data parallelism); a weight that a line splits is used as it is stored, and what it
 * splits is not gathered where an op can do without (tensor parallelism), even where small sizes would make another scheme
 * look cheaper. */
#include "shard.h"

/* Preferences, in seconds: far below any collective, in this order. COPY > STORE > PARTIAL. */
static const double copy_rate = 1e13, store_rate = 1e15, partial_price = 1e-11;
static const double astray_price = 1;                /* per value that leaves the split of its input */
static const double gather_price = 0.1;              /* per value whose split by a weight is undone */
static const double broken_price = 1e6;              /* a pin or strict line not kept: only to find out which */

struct copy {                    /* a value as one phase finds it */
    int var, n;
    uint8_t *a, *c;              /* the pairs */
};
struct problem {
    struct sharding *s;
    int axis;
    bool soft;                   /* broken lines cost instead of being forbidden */
    struct solver *solver;
    struct actor *actors;
    struct copy (*copies)[PHASES];       /* by value id */
    uint32_t (*wanted)[PHASES];          /* by value id: codes that some reader of the phase can take */
    uint32_t *made;                      /* by value id: codes that the definition can give */
    uint32_t *asked;                     /* by value id: conversions a line asks for (strict) */
};

/* Does the time axis cut the dim that v would be split along? Then the split cannot change: the axes that split an input
 * are major to the micro-batches, and what is cut within a micro-batch would be minor. */
static bool cut_in_time(const struct problem *p, const struct value *v, int code)
{
    int mb = p->s->mesh->mb;
    return code_is_split(code) && mb >= 0 && v->lay.ax[mb].kind == SBP_S && v->lay.ax[mb].dim == code - CODE_S;
}

static bool is_free(const struct problem *p, const struct value *v, int from, int to)
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
    return region_times(v->region) * (phase_per_microbatch(phase) && m->mb >= 0 ? m->axis[m->mb].size : 1);
}

/* Bytes of v on a rank, were it not split along this axis. */
static double whole_bytes(const struct problem *p, const struct value *v)
{
    struct layout l = v->lay;
    l.ax[p->axis] = (struct sbp){ 0 };
    return layout_bytes(v, &l, p->s->mesh);
}

static double convert_seconds(const struct problem *p, const struct value *v, int from, int to)
{
    const struct mesh *m = p->s->mesh;
    double k = m->axis[p->axis].size, bytes = whole_bytes(p, v) * (k - 1) / k;
    unsigned axes = 1u << p->axis;
    if (cut_in_time(p, v, from) || cut_in_time(p, v, to))
        return p->soft ? broken_price : INFINITY;        /* a line that asks for it is to blame first, see pair_cost */
    if (from == CODE_B)
        return step_seconds(STEP_SLICE, 0, m, axes);
    if (code_is_split(from) && code_is_split(to))
        return step_seconds(STEP_ALL_TO_ALL, bytes / k, m, axes);
    if (code_is_split(from))
        return step_seconds(STEP_ALL_GATHER, bytes, m, axes) +
               (code_is_partial(to) ? step_seconds(STEP_MASK, 0, m, axes) : 0);
    if (code_is_split(to))
        return step_seconds(STEP_REDUCE_SCATTER, bytes, m, axes);
    return step_seconds(STEP_ALL_REDUCE, 2 * bytes, m, axes);
}

/* The split that a data axis gives to v, or CODE_NONE. */
static int data_code(const struct problem *p, const struct value *v)
{
    for (int k = 0; k < arrlen(p->s->data); k++)
        if (p->s->data[k].axis == p->axis)
            for (int d = 0; d < v->ndim; d++)
                if (v->dim[d] == p->s->data[k].dim && code_legal(p->s, v, &v->lay, p->axis, CODE_S + d))
                    return CODE_S + d;
    return CODE_NONE;
}

static bool is_parameter(const struct value *v)
{
    return v->def && v->def->op == &op_param;
}

static bool param_has_line(const struct problem *p, const struct value *v)
{
    return node_param(p->s, v->def)->line && code_is_split(sbp_code(v->lay.ax[p->axis]));
}

static bool split_by_weight(const struct problem *p, const struct dim *dim)
{
    for (int k = 0; k < arrlen(p->s->m->params); k++) {
        const struct param *w = p->s->m->params[k];
        int code = sbp_code(w->lay.ax[p->axis]);
        if (w->line && code_is_split(code) && w->dim[code - CODE_S] == dim)
            return true;
    }
    return false;
}

/* ---- variables ---- */

static void note_reads_and_results(struct problem *p)
{
    for (int i = 0; i < arrlen(p->actors); i++) {
        struct actor *a = &p->actors[i];
        for (int j = 0; j < arrlen(a->choices); j++) {
            for (int k = 0; k < arrlen(a->in); k++)
                if (a->in[k])
                    p->wanted[a->in[k]->id][conversion_phase(value_phase(a->in[k]), a->phase)] |= 1u << a->choices[j].in[k];
            for (int k = 0; k < arrlen(a->out); k++)
                p->made[a->out[k]->id] |= 1u << a->choices[j].out[k];
        }
        if (a->node->op == &op_to && a->carry < 0 && value_fixed(p->s, a->out[0], p->axis) != CODE_NONE)
            p->asked[a->in[0]->id] |= 1u << value_fixed(p->s, a->out[0], p->axis);
    }
}

static double pair_cost(const struct problem *p, const struct value *v, enum phase phase, bool home, int a, int c)
{
    double cost = 0, bytes = whole_bytes(p, v) * times(p, v, phase), k = p->s->mesh->axis[p->axis].size;
    if (home) {
        int data = data_code(p, v);
        cost += (code_is_split(a) ? bytes / k : bytes) / store_rate;
        cost += code_is_partial(a) ? partial_price : 0;
        cost += data != CODE_NONE && data != a ? astray_price : 0;
    }
    if (c == CODE_NONE)
        return cost;
    double seconds = convert_seconds(p, v, a, c);
    if (phase == PHASE_UPDATE && seconds < broken_price / 2)         /* gradients share one collective: no start of their own */
        seconds -= 0.98 * axis_latency(p->s->mesh, p->axis) * (code_is_partial(a) && !code_is_split(c) ? 1.5 : 1);
    if (seconds >= broken_price && p->asked[v->id] >> c & 1)
        seconds /= 2;
    cost += seconds * (seconds < broken_price / 2 ? times(p, v, phase) : 1) + bytes / store_rate;
    cost += code_is_split(a) && !is_parameter(v) && split_by_weight(p, v->dim[a - CODE_S]) ? gather_price : 0;
    /* gradients have no lines of their own: strict is about the forward */
    if (p->s->m->plan->strict && phase == PHASE_FORWARD && !(p->asked[v->id] >> c & 1))
        cost += p->soft ? broken_price : INFINITY;
    return cost;
}

static void add_copy(struct problem *p, const struct value *v, enum phase phase, bool home)
{
    struct copy *x = &p->copies[v->id][phase];
    double *unary = NULL;
    uint8_t *as = NULL, *cs = NULL;
    uint32_t wanted = p->wanted[v->id][phase], made = p->made[v->id] ? p->made[v->id] : 1u << CODE_B;
    uint32_t here = home ? made : made | p->wanted[v->id][value_phase(v)] | wanted;
    for (int a = 0; a < CODE_NONE; a++)
        for (int c = 0; c <= CODE_NONE; c++) {
            if (!(here >> a & 1) || (c < CODE_NONE && (is_free(p, v, a, c) || !(wanted >> c & 1))))
                continue;
            arrput(as, (uint8_t)a);
            arrput(cs, (uint8_t)c);
            arrput(unary, pair_cost(p, v, phase, home, a, c));
        }
    *x = (struct copy){ .var = solver_var(p->solver, (int)arrlen(as), unary), .n = (int)arrlen(as), .a = as, .c = cs };
}

static void add_values(struct problem *p)
{
    for (int i = 0; i < arrlen(p->s->g->values); i++) {
        const struct value *v = p->s->g->values[i];
        bool used = p->made[i];
        for (int j = 0; j < PHASES; j++)
            used |= p->wanted[i][j] != 0;
        for (int j = 0; j < PHASES; j++)
            p->copies[i][j].var = -1;
        if (!used)
            continue;
        enum phase home = value_phase(v);
        add_copy(p, v, home, true);
        const struct copy *x = &p->copies[i][home];
        for (int j = 0; j < PHASES; j++) {
            if (!p->wanted[i][j] || j == (int)home)
                continue;
            add_copy(p, v, (enum phase)j, false);
            const struct copy *y = &p->copies[i][j];
            double *table = NEW_ARRAY(double, x->n * y->n);
            for (int k = 0; k < x->n; k++) {
                int kept = code_is_partial(x->a[k]) && x->c[k] != CODE_NONE ? x->c[k] : x->a[k];
                for (int l = 0; l < y->n; l++)
                    table[k * y->n + l] = y->a[l] == kept ? 0 : INFINITY;
            }
            solver_pair(p->solver, x->var, y->var, table);
        }
    }
}

/* ---- factors ---- */

static bool splits_work(const struct actor *a, const struct choice *c)
{
    for (int k = 0; k < arrlen(a->in); k++)
        if (a->in[k] && code_is_split(c->in[k]))
            return true;
    return false;
}

static double work_seconds(const struct problem *p, const struct actor *a, const struct choice *c)
{
    const struct mesh *m = p->s->mesh;
    if (a->carry >= 0 || !a->node->op->flops || !(a->node->op->flags & OP_CONTRACTION))
        return 0;
    double flops = a->node->op->flops(a->node) * region_times(a->node->region);
    for (int x = 0; x < m->naxis; x++) {
        bool split = x == p->axis && splits_work(a, c);
        for (int k = 0; k < arrlen(a->in) && !split && x != p->axis; k++)
            split = a->in[k] && a->node->need[k].ax[x].kind == SBP_S;
        if (split)
            flops /= m->axis[x].size;
    }
    return flops / cost_flop_rate();
}

static double read_cost(const struct problem *p, const struct actor *act, const struct value *v, int need, int a, int c,
                        int data)
{
    if (p->s->fixed[v->id].pin && p->s->fixed[v->id].axes >> p->axis & 1 && act->node->op != &op_output)
        if (need != value_fixed(p->s, v, p->axis) && act->phase == value_phase(v))
            return p->soft ? broken_price : INFINITY;
    double astray = data != CODE_NONE && data != need ? astray_price : 0;
    if (is_parameter(v) && need != a && param_has_line(p, v))
        astray = astray_price;                       /* a weight that a line splits is used as it is stored */
    if (need == a || need == c)
        return astray;
    if (is_free(p, v, a, need) || (c != CODE_NONE && is_free(p, v, c, need)))
        return astray + whole_bytes(p, v) * times(p, v, act->phase) / copy_rate;
    return INFINITY;
}

static void add_actor(struct problem *p, struct actor *a)
{
    int n = (int)arrlen(a->choices);
    double *unary = NEW_ARRAY(double, n + 1);
    for (int j = 0; j < n; j++)
        unary[j] = work_seconds(p, a, &a->choices[j]);
    a->var = solver_var(p->solver, n, unary);
    for (int k = 0; k < arrlen(a->out); k++) {
        const struct copy *x = &p->copies[a->out[k]->id][value_phase(a->out[k])];
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
        const struct copy *x = &p->copies[v->id][conversion_phase(value_phase(v), a->phase)];
        double *table = NEW_ARRAY(double, n * x->n);
        int data = a->node->op == &op_output || a->phase == PHASE_UPDATE ? CODE_NONE : data_code(p, v);
        for (int j = 0; j < n; j++)
            for (int l = 0; l < x->n; l++)
                table[j * x->n + l] = read_cost(p, a, v, a->choices[j].in[k], x->a[l], x->c[l], data);
        solver_pair(p->solver, a->var, x->var, table);
    }
}

/* ---- answers ---- */

static bool write_back(struct problem *p, const struct solution *answer)
{
    bool changed = false;
    for (int i = 0; i < arrlen(p->actors); i++) {
        const struct actor *a = &p->actors[i];
        const struct choice *c = &a->choices[answer->choice[a->var]];
        for (int k = 0; k < arrlen(a->out); k++) {
            struct sbp x = code_sbp(c->out[k]), *old = &a->out[k]->lay.ax[p->axis];
            changed |= x.kind != old->kind || x.dim != old->dim;
            *old = x;
        }
        if (a->carry >= 0) {
            a->node->need[a->carry].ax[p->axis] = code_sbp(c->in[0]);
            continue;
        }
        for (int k = 0; k < arrlen(a->in); k++) {
            struct sbp x = code_sbp(c->in[k]), *old = &a->node->need[k].ax[p->axis];
            changed |= x.kind != old->kind || x.dim != old->dim;
            *old = x;
        }
    }
    return changed;
}

static struct solution attempt(struct problem *p)
{
    int n = (int)arrlen(p->s->g->values);
    p->solver = solver_new();
    p->copies = (struct copy (*)[PHASES])mem_alloc(sizeof *p->copies * (size_t)(n + 1));
    p->wanted = (uint32_t (*)[PHASES])mem_alloc(sizeof *p->wanted * (size_t)(n + 1));
    p->made = NEW_ARRAY(uint32_t, n + 1);
    p->asked = NEW_ARRAY(uint32_t, n + 1);
    note_reads_and_results(p);
    add_values(p);
    for (int i = 0; i < arrlen(p->actors); i++)
        add_actor(p, &p->actors[i]);
    return solver_run(p->solver, 4e6);
}

/* Says where actor a breaks a line, if it does; how many places it found. */
static int blame_actor(struct problem *p, const struct solution *answer, const struct actor *a)
{
    int shown = 0;
    for (int k = 0; k < arrlen(a->in); k++) {
        const struct value *v = a->in[k];
        if (!v)
            continue;
        enum phase phase = conversion_phase(value_phase(v), a->phase);
        const struct copy *x = &p->copies[v->id][phase];
        int need = a->choices[answer->choice[a->var]].in[k], at = answer->choice[x->var];
        if (read_cost(p, a, v, need, x->a[at], x->c[at], CODE_NONE) >= broken_price) {
            explain_pin(p->s, p->axis, a, k, need);
        } else if (x->c[at] != CODE_NONE && !is_free(p, v, x->a[at], need) &&
                   pair_cost(p, v, phase, false, x->a[at], x->c[at]) >= broken_price / 2) {
            if (cut_in_time(p, v, x->a[at]) || cut_in_time(p, v, need))
                explain_cut(p->s, p->axis, a, k, x->a[at], need);
            else
                explain_strict(p->s, p->axis, a, k, need);
        } else {
            continue;
        }
        shown++;
    }
    return shown;
}

/* Finds the lines that stand in the way: the cheapest choice when breaking one costs, and where it does. A line that asks
 * for a conversion itself comes first; what follows from it is not reported. */
static void blame(struct problem *p)
{
    int shown = 0;
    p->soft = true;
    struct solution answer = attempt(p);
    if (!answer.feasible)
        BUG("no layouts along axis %s even without pins", p->s->mesh->axis[p->axis].name);
    write_back(p, &answer);
    for (int turn = 0; turn < 2 && !shown; turn++)
        for (int i = 0; i < arrlen(p->actors) && shown < 2; i++)
            if ((p->actors[i].node->op == &op_to) == !turn)
                shown += blame_actor(p, &answer, &p->actors[i]);
    if (!shown)
        BUG("no layouts along axis %s, and no line to blame", p->s->mesh->axis[p->axis].name);
}

bool axis_solve(struct sharding *s, int axis, bool *changed)
{
    struct problem p = { .s = s, .axis = axis, .actors = actors_of(s, axis) };
    for (int i = 0; i < arrlen(p.actors); i++)
        if (!arrlen(p.actors[i].choices))
            BUG("%s has no layout along axis %s", p.actors[i].node->op->name, s->mesh->axis[axis].name);
    struct solution answer = attempt(&p);
    if (!answer.feasible) {
        blame(&p);
        return false;
    }
    s->exact &= answer.exact;
    *changed |= write_back(&p, &answer);
    return true;
}
