/* A lower bound on what any solution costs, and what it rules out. */
#include "solver.h"
#include <math.h>

/* Moves what the entries with x in table t cost at least into the unary cost of x. */
static void pull(struct solver *s, int var, struct table *t)
{
    struct var *v = &s->vars[var];
    struct slice at = table_slice(s, t, var);
    for (int x = 0; x < v->n; x++) {
        double least = INFINITY;
        if (v->dead[x])
            continue;
        for (int o = 0; o < at.outer; o++)
            for (int i = 0; i < at.inner; i++)
                if (t->cost[(o * at.n + x) * at.inner + i] < least)
                    least = t->cost[(o * at.n + x) * at.inner + i];
        v->unary[x] += least;
        for (int o = 0; !isinf(least) && least != 0 && o < at.outer; o++)
            for (int i = 0; i < at.inner; i++)
                t->cost[(o * at.n + x) * at.inner + i] -= least;
    }
}

static void push(struct solver *s, int var, struct table *t, const double *amount)
{
    struct var *v = &s->vars[var];
    struct slice at = table_slice(s, t, var);
    for (int x = 0; x < v->n; x++) {
        if (v->dead[x] || isinf(v->unary[x]) || amount[x] == 0)
            continue;
        v->unary[x] -= amount[x];
        for (int o = 0; o < at.outer; o++)
            for (int i = 0; i < at.inner; i++)
                t->cost[(o * at.n + x) * at.inner + i] += amount[x];
    }
}

/* Takes the least unary cost out of a variable. */
static double lower(struct var *v)
{
    double least = INFINITY;
    for (int x = 0; x < v->n; x++)
        if (!v->dead[x] && v->unary[x] < least)
            least = v->unary[x];
    for (int x = 0; !isinf(least) && x < v->n; x++)
        v->unary[x] -= least;
    return least;
}

/* Does the table mention a variable that comes later in a sweep up, or down? */
static bool ahead_of(const struct table *t, int var, bool down)
{
    for (int j = 0; j < t->nvar; j++)
        if (down ? t->vars[j] < var : t->vars[j] > var)
            return true;
    return false;
}

/* Sequential message passing, up and down (tree-reweighted). */
double solver_bound(struct solver *s, int sweeps, double least)
{
    double base = 0;
    int n = (int)arrlen(s->vars), widest = 1;
    for (int i = 0; i < n; i++)
        widest = s->vars[i].n > widest ? s->vars[i].n : widest;
    double *amount = NEW_ARRAY(double, widest);
    for (int sweep = 0; sweep < sweeps; sweep++) {
        double before = base;
        bool down = sweep % 2;
        for (int i = 0; i < n; i++) {
            int var = down ? n - 1 - i : i, ahead = 0, behind = 0;
            struct var *v = &s->vars[var];
            for (int k = 0; k < arrlen(v->tables); k++) {
                struct table *t = &s->tables[v->tables[k]];
                pull(s, var, t);
                ahead += ahead_of(t, var, down);
                behind += ahead_of(t, var, !down);
            }
            base += lower(v);
            if (isinf(base))
                return base;
            for (int x = 0; x < v->n; x++)
                amount[x] = isinf(v->unary[x]) ? 0 : v->unary[x] / (ahead > behind ? ahead : behind ? behind : 1);
            for (int k = 0; k < arrlen(v->tables); k++)
                if (ahead_of(&s->tables[v->tables[k]], var, down))
                    push(s, var, &s->tables[v->tables[k]], amount);
        }
        if (sweep > 8 && base - before < least)
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
                struct slice at = table_slice(s, t, i);
                double row = INFINITY;
                for (int o = 0; o < at.outer; o++)
                    for (int j = 0; j < at.inner; j++)
                        if (t->cost[(o * at.n + x) * at.inner + j] < row)
                            row = t->cost[(o * at.n + x) * at.inner + j];
                least[x] += row;
            }
            if (!v->dead[x])
                best = fmin(best, least[x]);
        }
        for (int x = 0; x < v->n; x++)
            if (!v->dead[x] && least[x] - best > spare)
                v->unary[x] = INFINITY;              /* solver_prune drops it */
    }
}
