/* The exact solver behind shard; see solve.h. Everything here is about numbers: it knows no layouts. */
#include "solver.h"
#include <math.h>
#include <string.h>

struct solver *solver_new(void)
{
    return NEW(struct solver);
}

int solver_var(struct solver *s, int n, const double *unary)
{
    struct var v = { .n = n, .unary = NEW_ARRAY(double, n), .dead = NEW_ARRAY(bool, n) };
    for (int k = 0; k < n; k++)
        v.unary[k] = unary ? unary[k] : 0;
    arrput(s->vars, v);
    return (int)arrlen(s->vars) - 1;
}

void solver_add(struct solver *s, int var, const double *unary)
{
    for (int k = 0; k < s->vars[var].n; k++)
        s->vars[var].unary[k] += unary[k];
}

void solver_pair(struct solver *s, int a, int b, const double *cost)
{
    struct pair p = { 0 };
    int na = s->vars[a].n, nb = s->vars[b].n;
    if (a == b) {
        for (int x = 0; x < na; x++)
            s->vars[a].unary[x] += cost[x * nb + x];
        return;
    }
    bool turn = a > b;
    p.key.a = turn ? b : a;
    p.key.b = turn ? a : b;
    ptrdiff_t at = hmgeti(s->pairs, p.key);
    if (at < 0) {
        struct table t = { .nvar = 2, .vars = NEW_ARRAY(int, 2), .cost = NEW_ARRAY(double, na * nb) };
        t.vars[0] = p.key.a;
        t.vars[1] = p.key.b;
        p.value = (int)arrlen(s->tables);
        arrput(s->tables, t);
        hmputs(s->pairs, p);
        at = hmgeti(s->pairs, p.key);
    }
    struct table *t = &s->tables[s->pairs[at].value];
    for (int x = 0; x < na; x++)
        for (int y = 0; y < nb; y++)
            t->cost[turn ? y * na + x : x * nb + y] += cost[x * nb + y];
}

/* ---- elimination ---- */

struct gone {                    /* an eliminated variable: its best value for each choice of its neighbours */
    int var, nvar, *vars;
    uint16_t *best;              /* NULL: fixed to `value` */
    int value;
};
struct run {
    struct var *vars;            /* compacted copies */
    struct table *tables;
    struct gone *gone;
    double cost;
    int largest;
    int *seen, turn;
};

/* A variable's number appears once in the list: `seen` holds the turn in which it was last put in. */
static int *neighbours(struct run *r, int var)
{
    int *list = NULL, kept = 0;
    int *tables = r->vars[var].tables;
    r->turn++;
    for (int k = 0; k < arrlen(tables); k++) {
        const struct table *t = &r->tables[tables[k]];
        if (t->gone)
            continue;
        tables[kept++] = tables[k];
        for (int j = 0; j < t->nvar; j++) {
            int other = t->vars[j];
            if (other == var || r->seen[other] == r->turn)
                continue;
            r->seen[other] = r->turn;
            arrput(list, other);
        }
    }
    if (tables)
        arrsetlen(tables, kept);
    return list;
}

static double span(const struct run *r, const int *list)
{
    double n = 1;
    for (int k = 0; k < arrlen(list); k++)
        n *= r->vars[list[k]].n;
    return n;
}

static int find(const int *vars, int n, int var)
{
    for (int k = 0; k < n; k++)
        if (vars[k] == var)
            return k;
    return -1;
}

struct operand {                 /* a table being summed: its entry at the current place, how far each variable moves it */
    const double *cost;
    int at, step, *stride;
};

static void eliminate(struct run *r, int var, int *list)
{
    struct var *v = &r->vars[var];
    int n = (int)arrlen(list), size = (int)span(r, list), nf = 0;
    struct operand *f = NEW_ARRAY(struct operand, arrlen(v->tables) + 1);

    for (int k = 0; k < arrlen(v->tables); k++) {
        struct table *t = &r->tables[v->tables[k]];
        if (t->gone)
            continue;
        f[nf].cost = t->cost;
        f[nf].stride = NEW_ARRAY(int, n + 1);
        int stride = 1;
        for (int j = t->nvar - 1; j >= 0; j--) {
            if (t->vars[j] == var)
                f[nf].step = stride;
            else
                f[nf].stride[find(list, n, t->vars[j])] = stride;
            stride *= r->vars[t->vars[j]].n;
        }
        t->gone = true;
        nf++;
    }
    struct table out = { .nvar = n, .vars = list, .cost = NEW_ARRAY(double, size) };
    struct gone g = { .var = var, .nvar = n, .vars = list, .best = NEW_ARRAY(uint16_t, size) };
    int *at = NEW_ARRAY(int, n + 1);
    for (int i = 0; i < size; i++) {
        double best = INFINITY;
        for (int x = 0; x < v->n; x++) {
            double sum = v->unary[x];
            for (int k = 0; k < nf && sum < best; k++)
                sum += f[k].cost[f[k].at + x * f[k].step];
            if (sum < best) {
                best = sum;
                g.best[i] = (uint16_t)x;
            }
        }
        out.cost[i] = best;
        for (int j = n - 1; j >= 0; j--) {
            int back = at[j] + 1 < r->vars[list[j]].n ? 1 : -at[j];
            at[j] += back;
            for (int k = 0; k < nf; k++)
                f[k].at += back * f[k].stride[j];
            if (back == 1)
                break;
        }
    }
    if (size > r->largest)
        r->largest = size;
    arrput(r->gone, g);
    if (n == 0) {
        r->cost += out.cost[0];
        return;
    }
    for (int j = 0; j < n; j++)
        arrput(r->vars[list[j]].tables, (int)arrlen(r->tables));
    arrput(r->tables, out);
}

/* Fixes a variable: its tables lose a dimension. */
static void fix(struct run *r, int var, int value)
{
    struct var *v = &r->vars[var];
    r->cost += v->unary[value];
    for (int k = 0; k < arrlen(v->tables); k++) {
        struct table *t = &r->tables[v->tables[k]];
        if (t->gone)
            continue;
        int place = find(t->vars, t->nvar, var), inner = 1, outer = 1;
        for (int j = 0; j < t->nvar; j++)
            *(j < place ? &outer : &inner) *= j == place ? 1 : r->vars[t->vars[j]].n;
        struct table cut = { .nvar = t->nvar - 1, .vars = NEW_ARRAY(int, t->nvar), .cost = NEW_ARRAY(double, outer * inner) };
        for (int j = 0, w = 0; j < t->nvar; j++)
            if (j != place)
                cut.vars[w++] = t->vars[j];
        for (int o = 0; o < outer; o++)
            memcpy(cut.cost + o * inner, t->cost + ((size_t)o * (size_t)v->n + (size_t)value) * (size_t)inner,
                   sizeof(double) * (size_t)inner);
        if (cut.nvar == 0) {
            r->cost += cut.cost[0];
            t->gone = true;
        } else {
            *t = cut;
        }
    }
    struct gone g = { .var = var, .value = value };
    arrput(r->gone, g);
}

static int best_guess(const struct run *r, int var)
{
    const struct var *v = &r->vars[var];
    int best = 0;
    double least = INFINITY;
    for (int x = 0; x < v->n; x++) {
        double sum = v->unary[x];
        for (int k = 0; k < arrlen(v->tables); k++) {
            const struct table *t = &r->tables[v->tables[k]];
            if (t->gone || t->nvar != 2)
                continue;
            const struct var *w = &r->vars[table_other(t, var)];
            double low = INFINITY;
            for (int y = 0; y < w->n; y++)
                low = fmin(low, t->vars[0] == var ? t->cost[x * w->n + y] : t->cost[y * v->n + x]);
            sum += low;
        }
        if (sum < least) {
            least = sum;
            best = x;
        }
    }
    return best;
}

/* One pass over a pruned problem. known: a solution to fix variables at, or NULL. seed varies which are fixed. */
static bool run_once(const struct solver *s, double limit, const int *known, unsigned seed, int *choice, double *cost,
                     int *largest)
{
    struct run r = { 0 };
    int n = (int)arrlen(s->vars);
    int **old = NEW_ARRAY(int *, n);
    r.seen = NEW_ARRAY(int, n);
    for (int i = 0; i < n; i++) {
        struct var v = { 0 };
        for (int x = 0; x < s->vars[i].n; x++)
            if (!s->vars[i].dead[x])
                arrput(old[i], x);
        v.n = (int)arrlen(old[i]);
        v.unary = NEW_ARRAY(double, v.n);
        for (int x = 0; x < v.n; x++)
            v.unary[x] = s->vars[i].unary[old[i][x]];
        arrput(r.vars, v);
    }
    for (int k = 0; k < arrlen(s->tables); k++) {
        int a = s->tables[k].vars[0], b = s->tables[k].vars[1], na = r.vars[a].n, nb = r.vars[b].n;
        struct table t = { .nvar = 2, .vars = s->tables[k].vars, .cost = NEW_ARRAY(double, na * nb) };
        for (int x = 0; x < na; x++)
            for (int y = 0; y < nb; y++)
                t.cost[x * nb + y] = s->tables[k].cost[old[a][x] * s->vars[b].n + old[b][y]];
        arrput(r.vars[a].tables, k);
        arrput(r.vars[b].tables, k);
        arrput(r.tables, t);
    }
    bool exact = true, *done = NEW_ARRAY(bool, n);
    double *size = NEW_ARRAY(double, n);
    int **list = NEW_ARRAY(int *, n);
    for (int i = 0; i < n; i++) {
        list[i] = neighbours(&r, i);
        size[i] = span(&r, list[i]);
    }
    for (int left = n; left > 0; left--) {
        int pick = -1;
        for (int i = 0; i < n; i++)
            if (!done[i] && (pick < 0 || size[i] < size[pick]))
                pick = i;
        if (size[pick] * r.vars[pick].n > limit) {           /* fix the busiest variable instead */
            double most = -1;
            exact = false;
            for (int i = 0; i < n; i++) {
                double weight = done[i] || r.vars[i].n < 2 ? -1 : (double)arrlen(list[i]) * r.vars[i].n;
                if (seed && weight > 0) {
                    seed = seed * 1664525u + 1013904223u;
                    weight *= 1 + (double)(seed >> 16) / 65536;
                }
                if (weight > most) {
                    most = weight;
                    pick = i;
                }
            }
            int value = -1;
            for (int x = 0; known && x < r.vars[pick].n; x++)
                if (old[pick][x] == known[pick])
                    value = x;
            fix(&r, pick, value >= 0 ? value : best_guess(&r, pick));
        } else {
            eliminate(&r, pick, list[pick]);
        }
        done[pick] = true;
        int *around = list[pick];
        for (int k = 0; k < arrlen(around); k++) {
            list[around[k]] = neighbours(&r, around[k]);
            size[around[k]] = span(&r, list[around[k]]);
        }
    }
    for (int k = (int)arrlen(r.gone) - 1; k >= 0; k--) {
        struct gone *g = &r.gone[k];
        int at = 0, x = g->value;
        if (g->best) {
            for (int j = 0; j < g->nvar; j++) {
                const int *o = old[g->vars[j]];
                int here = 0;
                while (o[here] != choice[g->vars[j]])
                    here++;
                at = at * r.vars[g->vars[j]].n + here;
            }
            x = g->best[at];
        }
        choice[g->var] = old[g->var][x];
    }
    *cost = r.cost;
    if (r.largest > *largest)
        *largest = r.largest;
    return exact;
}

static void keep_better(struct solution *best, const int *choice, double cost, int n)
{
    if (!(cost < best->cost))
        return;
    best->cost = cost;
    memcpy(best->choice, choice, sizeof(int) * (size_t)n);
}

/* Supposes that the optimum is within `spare` of the lower bound, drops what then cannot be part of it and solves the
 * rest. A solution found within the supposed gap is the optimum; else the supposition was wrong and widens. `taken`: what
 * is already taken out of the costs. */
static void close_gap(struct solver *s, double limit, double taken, struct solution *best)
{
    int n = (int)arrlen(s->vars), *choice = NEW_ARRAY(int, n);
    bool **dead = NEW_ARRAY(bool *, n), small = true;
    double base = best->bound = taken + solver_bound(s, 60);
    for (int i = 0; i < n; i++) {
        dead[i] = NEW_ARRAY(bool, s->vars[i].n);
        memcpy(dead[i], s->vars[i].dead, sizeof(bool) * (size_t)s->vars[i].n);
    }
    for (double spare = 0.02 * base + 1e-12; small && spare < 1e3 * base + 1e6; spare *= 4) {
        double cost;
        solver_rule_out(s, spare);
        if (solver_prune(s, true)) {
            small = run_once(s, limit, NULL, 0, choice, &cost, &best->largest);
            keep_better(best, choice, cost + base, n);
            if (small && cost <= spare) {
                best->exact = true;
                best->bound = best->cost;
                return;
            }
        }
        for (int i = 0; i < n; i++)
            memcpy(s->vars[i].dead, dead[i], sizeof(bool) * (size_t)s->vars[i].n);
    }
    /* too big at any rate: vary what is fixed around the best solution known */
    for (unsigned round = 1, idle = 0; idle < 3 && round < 12; round++, idle++) {
        double cost, before = best->cost;
        run_once(s, limit, isinf(best->cost) ? NULL : best->choice, round * 77777u, choice, &cost, &best->largest);
        keep_better(best, choice, cost + base, n);
        if (best->cost < before)
            idle = 0;
    }
}

static void link_tables(struct solver *s)
{
    for (int k = 0; k < arrlen(s->tables) && !s->linked; k++)
        for (int j = 0; j < 2; j++)
            arrput(s->vars[s->tables[k].vars[j]].tables, k);
    s->linked = true;
}

struct solution solver_run(struct solver *s, double limit)
{
    int n = (int)arrlen(s->vars);
    struct solution best = { .choice = NEW_ARRAY(int, n), .cost = INFINITY };

    link_tables(s);
    if (!solver_prune(s, true))
        return best;
    best.exact = run_once(s, limit / 200, NULL, 0, best.choice, &best.cost, &best.largest);
    best.bound = best.cost;
    if (!best.exact)
        close_gap(s, limit, 0, &best);
    best.feasible = !isinf(best.cost);
    return best;
}

struct solution solver_improve(struct solver *s, double limit, double upper)
{
    int n = (int)arrlen(s->vars);
    struct solution best = { .choice = NEW_ARRAY(int, n), .cost = INFINITY, .bound = upper };

    link_tables(s);
    if (!solver_prune(s, true))
        return best;
    double base = solver_bound(s, 60);
    if (base > upper)
        return best;
    solver_rule_out(s, upper - base);
    if (!solver_prune(s, true))
        return best;
    best.exact = run_once(s, limit / 200, NULL, 0, best.choice, &best.cost, &best.largest);
    best.cost += base;
    best.bound = best.cost;
    if (!best.exact)
        close_gap(s, limit, base, &best);
    best.feasible = !isinf(best.cost);
    return best;
}

double solver_tighten(struct solver *s, double spare)
{
    if (!s->linked) {
        link_tables(s);
        s->base = solver_prune(s, false) ? solver_bound(s, 60) : INFINITY;
    }
    if (!isinf(spare)) {
        solver_rule_out(s, spare);
        solver_prune(s, false);
    }
    return s->base;
}

bool solver_dead(const struct solver *s, int var, int value)
{
    return s->vars[var].dead[value];
}
