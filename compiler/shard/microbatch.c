/* The time axis. Inputs that have the micro-batch dim are split over it, parameters are B, and each value is what its op
 * makes of that; the only conversion is the accumulation P -> B, after which a value is LATE: there for what runs once
 * per step. What a micro-batch itself needs of all the others must come from inputs alone (a count of targets): it is
 * computed by copies of its nodes in phase COUNT, before the first micro-batch.
 *
 * So phases become final here: LATE nodes run in UPDATE, what follows from counts alone in SETUP. */
#include "microbatch.h"
#include "batch.h"

static const double slice_price = 1e-3, accumulate_price = 1, count_price = 1e3, whole_price = 1e2;

static bool countable(const struct timing *t, const struct value *v)
{
    return t->of_inputs[v->id] && v->region == t->s->g->root && node_phase(v->def) <= PHASE_FORWARD;
}

/* Sums of a parameter's gradients over its uses: each use accumulates on its own, the sum is taken once. */
static void mark_sums(const struct value *g, bool *once)
{
    struct node *n = g->def;
    if (!n || n->op != &op_add || n->region->owner || (n->phase != PHASE_BACKWARD && n->phase != PHASE_WEIGHT) || once[n->id])
        return;
    once[n->id] = true;
    for (int k = 0; k < arrlen(n->in); k++)
        mark_sums(n->in[k], once);
}

static void find_sums(struct region *r, bool *once)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->body)
            find_sums(n->body, once);
        else if (n->phase == PHASE_UPDATE || node_phase(n) == PHASE_UPDATE)
            for (int k = 0; k < arrlen(n->in); k++)
                if (n->in[k])
                    mark_sums(n->in[k], once);
    }
}

/* A sum that the backward pass reads as well is needed at once. From last to first: a reader's own mark is final. */
static void unmark_read_sooner(struct region *r, bool *once)
{
    for (int i = (int)arrlen(r->nodes) - 1; i >= 0; i--) {
        struct node *n = r->nodes[i];
        if (once[n->id] || node_phase(n) == PHASE_UPDATE)
            continue;
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] && n->in[k]->def)
                once[n->in[k]->def->id] = false;
        for (int k = 0; n->body && k < arrlen(n->body->results); k++)
            if (n->body->results[k]->def)
                once[n->body->results[k]->def->id] = false;
        if (n->body)
            unmark_read_sooner(n->body, once);
    }
}

/* ---- choices ---- */

static bool all_whole(const struct choice *c, int nin, int nout)
{
    for (int k = 0; k < nin; k++)
        if (c->in[k] != CODE_B)
            return false;
    for (int k = 0; k < nout; k++)
        if (c->out[k] != CODE_B)
            return false;
    return true;
}

/* A parameter's copy in a short type is made once, before the first micro-batch: whole. */
static void copy_whole(struct actor *a)
{
    struct choice *kept = NULL;
    for (int j = 0; j < arrlen(a->choices); j++)
        if (all_whole(&a->choices[j], (int)arrlen(a->in), (int)arrlen(a->out)))
            arrput(kept, a->choices[j]);
    a->choices = kept;
}

/* Which nodes may run once per step, and which must. */
static void add_late(struct timing *t, struct actor *a, const bool *once)
{
    int nin = (int)arrlen(a->in), nout = (int)arrlen(a->out);
    bool update = a->phase == PHASE_UPDATE, root = !a->node->region->owner && a->carry < 0;
    bool source = a->node->op->flags & OP_SOURCE && !nin;
    bool output = a->node->op == &op_output;
    if (arrlen(a->out) == 1 && value_is_copy(a->out[0])) {
        copy_whole(a);
        return;
    }
    if (source || !(update || root))
        return;
    struct choice late = { .in = NEW_ARRAY(uint8_t, nin + 1), .out = NEW_ARRAY(uint8_t, nout + 1), .late = true };
    for (int k = 0; k < nin; k++)
        late.in[k] = CODE_LATE;
    for (int k = 0; k < nout; k++)
        late.out[k] = CODE_LATE;
    struct choice *kept = NULL;
    for (int j = 0; j < arrlen(a->choices); j++) {
        bool whole = all_whole(&a->choices[j], nin, nout);
        if (output ? !whole : !(update || (a->carry < 0 && once[a->node->id])))
            arrput(kept, a->choices[j]);
    }
    arrput(kept, late);
    a->choices = kept;
}

static int batch_code(const struct timing *t, const struct value *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (v->dim[d] == t->s->m->plan->mb_dim)
            return CODE_S + d;
    return CODE_NONE;
}

double timing_price(struct timing *t, const struct value *v, int at, int need)
{
    if (at == need || (at == CODE_B && need == CODE_LATE))
        return 0;
    if (at == CODE_B && code_is_split(need))
        return slice_price;
    if (code_is_partial(at) && need == CODE_LATE)
        return accumulate_price;
    if (code_is_partial(at) && need == CODE_B && countable(t, v))
        return count_price;
    return !t->soft ? INFINITY : code_is_partial(at) ? TIMING_BROKEN : 2 * TIMING_BROKEN;
}

/* Could the actor have taken its operand k as it is, all else as in choice j? Then it is not what needs another; nor is a
 * repeat, which only hands on. */
static bool takes(const struct actor *a, int j, int k, int at)
{
    for (int i = 0; i < arrlen(a->choices); i++) {
        bool same = a->choices[i].in[k] == at;
        for (int q = 0; q < arrlen(a->in) && same; q++)
            same = q == k || a->choices[i].in[q] == a->choices[j].in[q];
        if (same)
            return true;
    }
    return false;
}

struct solution timing_attempt(struct timing *t)
{
    struct graph *g = t->s->g;
    uint32_t *made = NEW_ARRAY(uint32_t, arrlen(g->values) + 1);
    t->solver = solver_new();
    t->values = NEW_ARRAY(struct time_value, arrlen(g->values) + 1);
    for (int i = 0; i < arrlen(t->actors); i++) {
        struct actor *a = &t->actors[i];
        if (timing_skips(t, a))
            continue;
        for (int k = 0; k < arrlen(a->out); k++)
            for (int j = 0; j < arrlen(a->choices); j++)
                made[a->out[k]->id] |= 1u << a->choices[j].out[k];
        for (int k = 0; k < arrlen(a->in); k++)
            if (a->in[k] && !made[a->in[k]->id] && !a->in[k]->def)
                made[a->in[k]->id] |= 1u << CODE_B;              /* an index */
    }
    for (int i = 0; i < arrlen(g->values); i++) {
        struct time_value *x = &t->values[i];
        double *unary = NULL;
        int batch = batch_code(t, g->values[i]);
        for (int c = 0; c < 32; c++)
            if (made[i] >> c & 1) {
                arrput(x->codes, (uint8_t)c);
                arrput(unary, batch != CODE_NONE && c != batch ? whole_price : 0);
            }
        x->n = (int)arrlen(x->codes);
        x->var = x->n ? solver_var(t->solver, x->n, unary) : -1;
    }
    for (int i = 0; i < arrlen(t->actors); i++) {
        struct actor *a = &t->actors[i];
        int n = (int)arrlen(a->choices);
        if (timing_skips(t, a))
            continue;
        a->var = solver_var(t->solver, n, NULL);
        for (int k = 0; k < arrlen(a->out); k++) {
            const struct time_value *x = &t->values[a->out[k]->id];
            double *table = NEW_ARRAY(double, n * x->n);
            for (int j = 0; j < n; j++)
                for (int l = 0; l < x->n; l++)
                    table[j * x->n + l] = x->codes[l] == a->choices[j].out[k] ? 0 : INFINITY;
            solver_pair(t->solver, a->var, x->var, table);
        }
        for (int k = 0; k < arrlen(a->in); k++) {
            if (!a->in[k])
                continue;
            const struct time_value *x = &t->values[a->in[k]->id];
            double *table = NEW_ARRAY(double, n * x->n);
            for (int j = 0; j < n; j++)
                for (int l = 0; l < x->n; l++) {
                    double price = timing_price(t, a->in[k], x->codes[l], a->choices[j].in[k]);
                    bool aside = t->soft && price >= TIMING_BROKEN && (a->carry >= 0 || takes(a, j, k, x->codes[l]));
                    table[j * x->n + l] = aside ? 20 * price : price;
                }
            solver_pair(t->solver, a->var, x->var, table);
        }
    }
    return solver_run(t->solver, 4e6);
}

/* ---- results ---- */

struct twin { struct value *key, *value; };

/* The counts of a step are made in one go over its micro-batches. So none may need another one whole on its way, as a sum
 * of squared differences from the mean does. */
static bool counts_once(const struct timing *t, const struct value *v, const struct value *count, bool *seen)
{
    const struct node *n = v->def;
    if (seen[v->id] || n->op->flags & OP_SOURCE)
        return true;
    seen[v->id] = true;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *x = n->in[k];
        if (x && n->need[k].ax[t->axis].kind == SBP_B && x->lay.ax[t->axis].kind == SBP_P) {
            timing_blame_count(t, count, x);
            return false;
        }
        if (x && !counts_once(t, x, count, seen))
            return false;
    }
    return true;
}

/* A copy of the nodes that make v, in phase COUNT, each right behind its original. Sources are shared. */
static struct value *copy_for_count(struct sharding *s, struct value *v, struct twin **done)
{
    if (v->def->op->flags & OP_SOURCE)
        return v;
    ptrdiff_t at = hmgeti(*done, v);
    if (at >= 0)
        return (*done)[at].value;
    struct node *old = v->def, *n = node_new(s->g, s->g->root, old->op, old->span);
    for (int k = 0; k < arrlen(old->in); k++)
        node_in(n, old->in[k] ? copy_for_count(s, old->in[k], done) : NULL);
    n->attr = old->attr;
    n->path = old->path;
    n->phase = PHASE_COUNT;
    n->stage = old->stage;
    if (!node_finish(s->g, n))
        BUG("%s cannot be built twice", old->op->name);
    for (int k = 0; k < arrlen(n->in); k++)
        arrput(n->need, old->need[k]);
    for (int k = 0; k < arrlen(n->out); k++) {
        n->out[k]->path = old->out[k]->path;
        n->out[k]->span = old->out[k]->span;
        n->out[k]->lay = old->out[k]->lay;
        hmput(*done, old->out[k], n->out[k]);
        arrput(s->fixed, (struct fixed){ 0 });
    }
    arrpop(s->g->root->nodes);
    for (int i = 0; i < arrlen(s->g->root->nodes); i++)
        if (s->g->root->nodes[i] == old) {
            arrins(s->g->root->nodes, i + 1, n);
            break;
        }
    return n->out[v->def_index];
}

/* False where a count would need another first (reported). */
static bool write_back(struct timing *t, const struct solution *answer)
{
    struct twin *done = NULL;
    bool *seen = NEW_ARRAY(bool, arrlen(t->s->g->values) + 1);
    for (int i = 0; i < arrlen(t->actors); i++) {
        struct actor *a = &t->actors[i];
        const struct choice *c = &a->choices[answer->choice[a->var]];
        for (int k = 0; k < arrlen(a->out); k++)
            a->out[k]->lay.ax[t->axis] = code_sbp(c->out[k] == CODE_LATE ? CODE_B : c->out[k]);
        if (a->carry >= 0) {
            a->node->need[a->carry].ax[t->axis] = code_sbp(c->in[0] == CODE_LATE ? CODE_B : c->in[0]);
            continue;
        }
        for (int k = 0; k < arrlen(a->in); k++)
            a->node->need[k].ax[t->axis] = code_sbp(c->in[k] == CODE_LATE ? CODE_B : c->in[k]);
        if (c->late)
            a->node->phase = a->node->region->owner ? a->node->phase : PHASE_UPDATE;
        else if (a->node->op == &op_output)
            a->node->phase = PHASE_FORWARD;
    }
    for (int i = 0; i < arrlen(t->actors); i++) {
        struct actor *a = &t->actors[i];
        const struct choice *c = &a->choices[answer->choice[a->var]];
        for (int k = 0; k < arrlen(a->in); k++) {
            const struct value *v = a->in[k];
            if (!v || c->in[k] != CODE_B || !code_is_partial(sbp_code(v->lay.ax[t->axis])))
                continue;
            if (!counts_once(t, v, v, seen))
                return false;
            struct value *counted = copy_for_count(t->s, a->in[k], &done);
            if (a->carry < 0)
                a->node->in[k] = counted;
            else if (k == 0)
                a->node->in[a->carry] = counted;
        }
    }
    /* what is counted ahead is not counted a second time for those who read it after the last micro-batch */
    for (int i = 0; i < arrlen(t->actors); i++) {
        struct node *n = t->actors[i].node;
        for (int k = 0; t->actors[i].carry < 0 && n->phase == PHASE_UPDATE && k < arrlen(n->in); k++)
            if (n->in[k] && n->need[k].ax[t->axis].kind == SBP_B && hmgeti(done, n->in[k]) >= 0)
                n->in[k] = hmget(done, n->in[k]);
    }
    return true;
}

static bool in_every_phase(const struct value *v)
{
    return v->def && v->def->op->flags & OP_SOURCE && v->def->op != &op_input;
}

/* What follows from counts and constants alone runs once, before the first micro-batch. */
static void find_setup(struct sharding *s, int axis)
{
    for (int i = 0; i < arrlen(s->g->root->nodes); i++) {
        struct node *n = s->g->root->nodes[i];
        bool counts = false, once = !n->body && n->phase != PHASE_COUNT && phase_per_microbatch(n->phase);
        for (int k = 0; once && k < arrlen(n->in); k++) {
            const struct value *v = n->in[k];
            if (!v)
                continue;
            enum phase home = value_phase(v);
            counts |= home == PHASE_COUNT || home == PHASE_SETUP;
            once = n->need[k].ax[axis].kind == SBP_B && (home == PHASE_COUNT || home == PHASE_SETUP || in_every_phase(v));
        }
        for (int k = 0; once && k < arrlen(n->out); k++)
            once = n->out[k]->lay.ax[axis].kind == SBP_B;
        if (once && counts)
            n->phase = PHASE_SETUP;
    }
}

/* One micro-batch: nothing is ever open, but sums and results still run once per step. */
static void settle_phases(struct sharding *s, const bool *once)
{
    for (int i = 0; i < arrlen(s->g->root->nodes); i++) {
        struct node *n = s->g->root->nodes[i];
        if (once[n->id])
            n->phase = PHASE_UPDATE;
        else if (n->op == &op_output)
            n->phase = n->in[0]->ndim ? PHASE_FORWARD : PHASE_UPDATE;
    }
}

static void count_readers(const struct region *r, int *readers)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                readers[n->in[k]->id]++;
        if (!n->body)
            continue;
        for (int k = 0; k < arrlen(n->body->results); k++)
            readers[n->body->results[k]->id]++;
        count_readers(n->body, readers);
    }
}

/* Copies left the nodes they replaced unread. */
static void drop_unread(struct graph *g)
{
    int *readers = NEW_ARRAY(int, arrlen(g->values) + 1);
    for (bool dropped = true; dropped;) {
        dropped = false;
        for (int i = 0; i < arrlen(g->values); i++)
            readers[i] = 0;
        count_readers(g->root, readers);
        for (int i = (int)arrlen(g->root->nodes) - 1; i >= 0; i--) {
            struct node *n = g->root->nodes[i];
            bool read = n->op->flags & OP_EFFECT || n->body;
            for (int k = 0; k < arrlen(n->out); k++)
                read |= readers[n->out[k]->id] > 0;
            if (read)
                continue;
            arrdel(g->root->nodes, i);
            dropped = true;
        }
    }
}

void microbatch_solve(struct sharding *s)
{
    bool *once = NEW_ARRAY(bool, s->g->nnode + 1);
    int mb = s->mesh->mb;
    find_sums(s->g->root, once);
    unmark_read_sooner(s->g->root, once);
    if (mb < 0 || s->mesh->axis[mb].size == 1) {
        settle_phases(s, once);
        return;
    }
    struct timing t = { .s = s, .axis = mb, .actors = actors_of(s, mb) };
    t.of_inputs = input_values(s->g);
    for (int i = 0; i < arrlen(t.actors); i++)
        add_late(&t, &t.actors[i], once);
    struct solution answer = timing_attempt(&t);
    if (!answer.feasible) {
        timing_blame(&t);
        return;
    }
    if (!write_back(&t, &answer))
        return;
    find_setup(s, mb);
    drop_unread(s->g);
}
