/* What the solver knows before it eliminates: values that no solution needs, and a lower bound. */
#include "solver.h"
#include <math.h>
#include <string.h>

static double entry(const struct solver *s, const struct table *t, int var, int x, int y)
{
    int n1 = s->vars[t->vars[1]].n;
    return t->vars[0] == var ? t->cost[x * n1 + y] : t->cost[y * n1 + x];
}

static bool supported(const struct solver *s, int var, int x)
{
    const struct var *v = &s->vars[var];
    if (isinf(v->unary[x]))
        return false;
    for (int k = 0; k < arrlen(v->tables); k++) {
        const struct table *t = &s->tables[v->tables[k]];
        const struct var *w = &s->vars[table_other(t, var)];
        bool some = false;
        for (int y = 0; y < w->n && !some; y++)
            some = !w->dead[y] && !isinf(entry(s, t, var, x, y));
        if (!some)
            return false;
    }
    return true;
}

/* Whatever the others choose, keep is no worse than x. */
static bool dominated(const struct solver *s, int var, int x, int keep)
{
    const struct var *v = &s->vars[var];
    double gain = v->unary[x] - v->unary[keep];
    for (int k = 0; k < arrlen(v->tables); k++) {
        const struct table *t = &s->tables[v->tables[k]];
        const struct var *w = &s->vars[table_other(t, var)];
        double least = INFINITY;
        for (int y = 0; y < w->n; y++) {
            if (w->dead[y])
                continue;
            double at_x = entry(s, t, var, x, y), at_keep = entry(s, t, var, keep, y);
            if (isinf(at_x))
                continue;
            if (isinf(at_keep))
                return false;
            if (at_x - at_keep < least)
                least = at_x - at_keep;
        }
        gain += least;
    }
    return gain >= 0;
}

static void touch(const struct solver *s, int var, bool *dirty)
{
    for (int k = 0; k < arrlen(s->vars[var].tables); k++)
        dirty[table_other(&s->tables[s->vars[var].tables[k]], var)] = true;
}

/* A variable is looked at again only when a neighbour lost a value. */
bool solver_prune(struct solver *s, bool dominance)
{
    int n = (int)arrlen(s->vars);
    bool *dirty = NEW_ARRAY(bool, n);
    memset(dirty, true, sizeof(bool) * (size_t)n);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < n; i++) {
            struct var *v = &s->vars[i];
            int alive = 0, before = 0;
            if (!dirty[i])
                continue;
            dirty[i] = false;
            for (int x = 0; x < v->n; x++) {
                before += !v->dead[x];
                if (!v->dead[x] && !supported(s, i, x))
                    v->dead[x] = true;
                alive += !v->dead[x];
            }
            if (!alive)
                return false;
            for (int x = v->n - 1; x >= 0 && alive > 1 && dominance; x--)
                for (int keep = 0; keep < v->n && !v->dead[x]; keep++)
                    if (keep != x && !v->dead[keep] && dominated(s, i, x, keep)) {
                        v->dead[x] = true;
                        alive--;
                    }
            if (alive < before) {
                touch(s, i, dirty);
                changed = true;
            }
        }
    }
    return true;
}

/* ---- a lower bound, and what it rules out ---- */

/* Moves what row x of table t costs at least into the unary cost of x. */
static void pull(struct solver *s, int var, struct table *t)
{
    struct var *v = &s->vars[var];
    const struct var *w = &s->vars[table_other(t, var)];
    bool first = t->vars[0] == var;
    for (int x = 0; x < v->n; x++) {
        double least = INFINITY;
        if (v->dead[x])
            continue;
        for (int y = 0; y < w->n; y++)
            if (!w->dead[y] && entry(s, t, var, x, y) < least)
                least = entry(s, t, var, x, y);
        v->unary[x] += least;
        for (int y = 0; !isinf(least) && y < w->n; y++)
            t->cost[first ? x * w->n + y : y * v->n + x] -= least;
    }
}

static void push(struct solver *s, int var, struct table *t, const double *amount)
{
    struct var *v = &s->vars[var];
    const struct var *w = &s->vars[table_other(t, var)];
    bool first = t->vars[0] == var;
    for (int x = 0; x < v->n; x++) {
        if (v->dead[x] || isinf(v->unary[x]))
            continue;
        v->unary[x] -= amount[x];
        for (int y = 0; y < w->n; y++)
            t->cost[first ? x * w->n + y : y * v->n + x] += amount[x];
    }
}

/* Takes the least unary cost out of a variable. */
static double lower(struct var *v)
{
    double least = INFINITY;
    for (int x = 0; x < v->n; x++)
        if (!v->dead[x])
            least = fmin(least, v->unary[x]);
    for (int x = 0; !isinf(least) && x < v->n; x++)
        v->unary[x] -= least;
    return least;
}

/* Sequential message passing, forth and back (tree-reweighted). */
double solver_bound(struct solver *s, int sweeps)
{
    double base = 0;
    int n = (int)arrlen(s->vars);
    for (int sweep = 0; sweep < sweeps; sweep++) {
        double before = base;
        for (int i = 0; i < n; i++) {
            int var = sweep % 2 ? n - 1 - i : i, ahead = 0, behind = 0;
            struct var *v = &s->vars[var];
            for (int k = 0; k < arrlen(v->tables); k++) {
                struct table *t = &s->tables[v->tables[k]];
                pull(s, var, t);
                (table_other(t, var) > var) == !(sweep % 2) ? ahead++ : behind++;
            }
            base += lower(v);
            if (isinf(base))
                return base;
            double *amount = NEW_ARRAY(double, v->n);
            for (int x = 0; x < v->n; x++)
                amount[x] = isinf(v->unary[x]) ? 0 : v->unary[x] / (ahead > behind ? ahead : behind ? behind : 1);
            for (int k = 0; k < arrlen(v->tables); k++)
                if ((table_other(&s->tables[v->tables[k]], var) > var) == !(sweep % 2))
                    push(s, var, &s->tables[v->tables[k]], amount);
        }
        if (sweep > 8 && base - before < 1e-4 * base)
            break;
    }
    return base;
}

void solver_rule_out(struct solver *s, double spare)
{
    for (int i = 0; i < arrlen(s->vars); i++) {
        struct var *v = &s->vars[i];
        double *least = NEW_ARRAY(double, v->n), best = INFINITY;
        for (int x = 0; x < v->n; x++) {
            least[x] = v->unary[x];
            for (int k = 0; k < arrlen(v->tables) && !v->dead[x]; k++) {
                const struct table *t = &s->tables[v->tables[k]];
                const struct var *w = &s->vars[table_other(t, i)];
                double row = INFINITY;
                for (int y = 0; y < w->n; y++)
                    if (!w->dead[y] && entry(s, t, i, x, y) < row)
                        row = entry(s, t, i, x, y);
                least[x] += row;
            }
            if (!v->dead[x])
                best = fmin(best, least[x]);
        }
        for (int x = 0; x < v->n; x++)
            if (least[x] - best > spare)
                v->dead[x] = true;
    }
}
