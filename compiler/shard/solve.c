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
        double *none = NEW_ARRAY(double, na * nb);
        p.value = (int)arrlen(s->tables);
        solver_table(s, 2, (int[]){ p.key.a, p.key.b }, none);
        hmputs(s->pairs, p);
        at = hmgeti(s->pairs, p.key);
    }
    struct table *t = &s->tables[s->pairs[at].value];
    for (int x = 0; x < na; x++)
        for (int y = 0; y < nb; y++)
            t->cost[turn ? y * na + x : x * nb + y] += cost[x * nb + y];
}

void solver_table(struct solver *s, int n, const int *vars, double *cost)
{
    struct table t = { .nvar = n, .vars = NEW_ARRAY(int, n), .size = 1 };
    for (int j = 0; j < n; j++) {
        t.vars[j] = vars[j];
        t.size *= s->vars[vars[j]].n;
    }
    t.cost = cost;
    arrput(s->tables, t);
}

void solver_link(struct solver *s)
{
    for (int k = 0; k < arrlen(s->tables) && !s->linked; k++)
        for (int j = 0; j < s->tables[k].nvar; j++)
            arrput(s->vars[s->tables[k].vars[j]].tables, k);
    s->linked = true;
}

/* ---- elimination ---- */

struct gone {                    /* an eliminated variable: its best value for each choice of its neighbours */
    int var, nvar, *vars;
    uint16_t *best;              /* NULL: fixed to `value` */
    int value;
};
struct run {
    struct var *vars;            /* copies */
    struct table *tables;
    struct gone *gone;
    double cost;
    int largest;
    int *seen, turn;
};
struct effort {                  /* what may still be spent, in table entries */
    double table;                /* on one table */
    double work;                 /* in all */
    int largest;
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
    struct table out = { .nvar = n, .vars = list, .size = size, .cost = NEW_ARRAY(double, size) };
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
        struct table cut = { .nvar = t->nvar - 1, .vars = NEW_ARRAY(int, t->nvar), .size = outer * inner };
        cut.cost = NEW_ARRAY(double, cut.size);
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
            int other = t->vars[0] == var ? 1 : 0, nw = r->vars[t->vars[other]].n;
            double low = INFINITY;
            for (int y = 0; y < nw; y++)
                low = fmin(low, other ? t->cost[x * nw + y] : t->cost[y * v->n + x]);
            sum += low;
        }
        if (sum < least) {
            least = sum;
            best = x;
        }
    }
    return best;
}

/* Variables that wait for their elimination, the one with the smallest table first, of equals the first of all: a heap. A
 * variable whose table changes is put in again; what no longer fits its size is passed over when it comes up. */
struct waiting { double size; int var; };

static bool before(const struct waiting *a, const struct waiting *b)
{
    return a->size != b->size ? a->size < b->size : a->var < b->var;
}

static void put(struct waiting **heap, struct waiting w)
{
    arrput(*heap, w);
    int i = (int)arrlen(*heap) - 1;
    for (; i > 0 && before(&w, &(*heap)[(i - 1) / 2]); i = (i - 1) / 2)
        (*heap)[i] = (*heap)[(i - 1) / 2];
    (*heap)[i] = w;
}

static struct waiting take(struct waiting **heap)
{
    struct waiting first = (*heap)[0], w = arrpop(*heap);
    int n = (int)arrlen(*heap), i = 0;
    for (int down; n && (down = 2 * i + 1) < n; i = down) {
        down += down + 1 < n && before(&(*heap)[down + 1], &(*heap)[down]);
        if (!before(&(*heap)[down], &w))
            break;
        (*heap)[i] = (*heap)[down];
    }
    if (n)
        (*heap)[i] = w;
    return first;
}

/* One pass over a compacted problem. known: a solution to fix variables at, or NULL. seed varies which are fixed. */
static bool run_once(const struct solver *s, struct effort *effort, const int *known, unsigned seed, int *choice, double *cost)
{
    struct run r = { 0 };
    int n = (int)arrlen(s->vars);
    r.seen = NEW_ARRAY(int, n);
    for (int i = 0; i < n; i++) {
        struct var v = s->vars[i];
        v.tables = NULL;
        for (int k = 0; k < arrlen(s->vars[i].tables); k++)
            arrput(v.tables, s->vars[i].tables[k]);
        arrput(r.vars, v);
    }
    for (int k = 0; k < arrlen(s->tables); k++)
        arrput(r.tables, s->tables[k]);
    bool exact = true, *done = NEW_ARRAY(bool, n);
    double *size = NEW_ARRAY(double, n);
    int **list = NEW_ARRAY(int *, n);
    struct waiting *heap = NULL;
    for (int i = 0; i < n; i++) {
        list[i] = neighbours(&r, i);
        size[i] = span(&r, list[i]);
        put(&heap, (struct waiting){size[i], i});
    }
    for (int left = n; left > 0; left--) {
        while (done[heap[0].var] || heap[0].size != size[heap[0].var])
            take(&heap);
        int pick = heap[0].var;
        double entries = size[pick] * r.vars[pick].n;
        if (entries > effort->table || (entries > effort->work && entries > 64)) {   /* fix the busiest variable instead */
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
            fix(&r, pick, known ? known[pick] : best_guess(&r, pick));
        } else {
            eliminate(&r, pick, list[pick]);
            effort->work -= entries;
        }
        done[pick] = true;
        int *around = list[pick];
        for (int k = 0; k < arrlen(around); k++) {
            list[around[k]] = neighbours(&r, around[k]);
            double now = span(&r, list[around[k]]);
            if (now != size[around[k]])
                put(&heap, (struct waiting){now, around[k]});
            size[around[k]] = now;
        }
    }
    for (int k = (int)arrlen(r.gone) - 1; k >= 0; k--) {
        struct gone *g = &r.gone[k];
        int at = 0;
        for (int j = 0; g->best && j < g->nvar; j++)
            at = at * r.vars[g->vars[j]].n + choice[g->vars[j]];
        choice[g->var] = g->best ? g->best[at] : g->value;
    }
    *cost = r.cost;
    if (r.largest > effort->largest)
        effort->largest = r.largest;
    return exact;
}

/* What is known of a problem while it is being solved: a bound, and the best solution in terms of the values it began
 * with. A solution is only worth having below `upper`. */
struct quest {
    struct effort effort;
    double upper, cost, bound;
    int *choice;
    bool exact;
};

static void keep_better(struct quest *q, const struct solver *s, const int *choice, double cost)
{
    if (!(cost < q->cost))
        return;
    q->cost = cost;
    q->upper = fmin(q->upper, cost);
    for (int i = 0; i < arrlen(s->vars); i++)
        q->choice[i] = s->vars[i].name[choice[i]];
}

/* The best solution known in the values of s, or NULL when one of them is gone. */
static int *known_in(const struct quest *q, const struct solver *s)
{
    int *known = NEW_ARRAY(int, arrlen(s->vars));
    if (isinf(q->cost))
        return NULL;
    for (int i = 0; i < arrlen(s->vars); i++) {
        int x = 0;
        while (x < s->vars[i].n && s->vars[i].name[x] != q->choice[i])
            x++;
        if (x == s->vars[i].n)
            return NULL;
        known[i] = x;
    }
    return known;
}

/* Names by the values of the problem that `of` was made from. */
static struct solver *compact_again(const struct solver *of)
{
    struct solver *s = solver_compact(of);
    for (int i = 0; i < arrlen(s->vars); i++)
        for (int x = 0; x < s->vars[i].n; x++)
            s->vars[i].name[x] = of->vars[i].name[s->vars[i].name[x]];
    return s;
}

/* One attempt on s, whose costs lack `taken`, supposing that the optimum is within `spare` of that. False: too big. */
static bool attempt(struct quest *q, const struct solver *of, double taken, double spare, double table)
{
    struct solver *s = compact_again(of);
    struct effort limited = q->effort;
    solver_rule_out(s, spare);
    if (!solver_prune(s, true)) {
        q->bound = fmax(q->bound, fmin(q->upper, taken + spare));
        q->exact = taken + spare >= q->upper;
        return true;
    }
    s = compact_again(s);
    int *choice = NEW_ARRAY(int, arrlen(s->vars));
    double cost;
    limited.table = table;
    bool whole = run_once(s, &limited, NULL, 0, choice, &cost);
    q->effort.work = limited.work;
    q->effort.largest = limited.largest;
    keep_better(q, s, choice, cost + taken);
    if (!whole)
        return false;
    q->bound = fmax(q->bound, fmin(q->upper, taken + fmin(spare, cost)));
    q->exact = q->bound >= q->upper;
    return true;
}

/* Some solution, where fixing variables one by one found none: each time the variable with the fewest values takes its
 * cheapest, and what that leaves without support goes. A value that led nowhere is not taken again. */
static void dive(struct quest *q, const struct solver *of, double taken)
{
    struct solver *start = compact_again(of), *s = start;
    int n = (int)arrlen(of->vars), *choice = NEW_ARRAY(int, n);
    for (int tries = 0; tries < 20; tries++) {
        int pick = 0, value = 0;
        bool fine = true;
        s = compact_again(start);
        while (fine && pick >= 0) {
            int fewest = 0;
            pick = -1;
            for (int i = 0; i < n; i++) {
                int alive = 0;
                for (int x = 0; x < s->vars[i].n; x++)
                    alive += !s->vars[i].dead[x];
                if (alive > 1 && (pick < 0 || alive < fewest)) {
                    pick = i;
                    fewest = alive;
                }
            }
            if (pick < 0)
                break;
            struct var *v = &s->vars[pick];
            for (int x = value = 0; x < v->n; x++)
                if (v->dead[value] || (!v->dead[x] && v->unary[x] < v->unary[value]))
                    value = x;
            for (int x = 0; x < v->n; x++)
                v->unary[x] = x == value ? v->unary[x] : INFINITY;
            fine = solver_prune(s, false);
        }
        if (fine) {
            double cost;
            s = compact_again(s);
            run_once(s, &(struct effort){ 1e3, 1e6, 0 }, NULL, 0, choice, &cost);
            keep_better(q, s, choice, cost + taken);
            return;
        }
        start->vars[pick].unary[value] = INFINITY;
        if (!solver_prune(start, false))
            return;
    }
}

/* Supposes that the optimum is near the lower bound, drops what then cannot be part of it and solves the rest. A solution
 * found within the supposed gap is the optimum; else the supposition was wrong and widens. */
static void close_gap(struct quest *q, const struct solver *pruned)
{
    struct solver *s = compact_again(pruned);
    double least = isinf(q->upper) ? 1e-12 : 1e-4 * (q->upper - q->bound);
    double taken = solver_bound(s, 60, least), table = q->effort.table;
    q->bound = fmax(q->bound, fmin(q->upper, taken));
    if (taken >= q->upper) {
        q->exact = true;
        return;
    }
    if (isinf(q->cost))
        dive(q, s, taken);
    bool small = true;
    double most = isinf(q->upper) ? 1e3 * taken + 1e6 : q->upper - taken;
    double first = isinf(q->upper) ? 0.02 * taken + 1e-12 : most / 64;
    for (double spare = first; small && !q->exact && q->bound < q->upper; spare = fmin(spare * 4, most)) {
        small = attempt(q, s, taken, spare, table);
        if (spare >= most)
            break;
        most = fmin(most, q->upper - taken);
    }
    if (q->exact || q->bound >= q->upper) {
        q->exact = true;
        return;
    }
    /* too big at any rate: vary what is fixed around the best solution known */
    int *choice = NEW_ARRAY(int, arrlen(s->vars));
    for (unsigned round = 1, idle = 0; idle < 3 && round < 12 && q->effort.work > 0; round++, idle++) {
        double cost, before = q->cost;
        run_once(s, &q->effort, known_in(q, s), round * 77777u, choice, &cost);
        keep_better(q, s, choice, cost + taken);
        if (q->cost < before)
            idle = 0;
    }
}

static struct solution solve(struct solver *s, double limit, double work, double upper)
{
    int n = (int)arrlen(s->vars);
    struct solution answer = { .choice = NEW_ARRAY(int, n), .cost = INFINITY, .bound = isinf(upper) ? 0 : upper };
    struct quest q = { .effort = { .table = limit, .work = work }, .upper = upper, .cost = INFINITY,
                       .choice = answer.choice };
    solver_link(s);
    struct mem_mark mark = mem_mark();
    if (solver_prune(s, true)) {
        struct solver *c = solver_compact(s);
        double cost;
        int *choice = NEW_ARRAY(int, n);
        struct effort quick = { limit / 200, limit, 0 };
        q.exact = run_once(c, &quick, NULL, 0, choice, &cost);
        q.effort.largest = quick.largest;
        keep_better(&q, c, choice, cost);
        q.bound = q.exact ? q.upper : 0;
        if (!q.exact)
            close_gap(&q, c);
        answer.exact = q.exact;
        answer.cost = q.cost;
        answer.bound = q.bound;
        answer.feasible = !isinf(q.cost);
    }
    answer.largest = q.effort.largest;
    mem_rewind(mark);
    return answer;
}

struct solution solver_run(struct solver *s, double limit)
{
    return solve(s, limit, 50 * limit, INFINITY);
}

struct solution solver_improve(struct solver *s, double limit, double upper)
{
    return solve(s, limit, 10 * limit, upper);
}

double solver_tighten(struct solver *s, double spare)
{
    if (!s->linked) {
        solver_link(s);
        s->base = solver_prune(s, false) ? solver_bound(s, 60, 1e-12) : INFINITY;
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
