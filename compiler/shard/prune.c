/* What the solver knows before it eliminates: values that no solution needs. */
#include "solver.h"
#include <math.h>
#include <string.h>

struct slice table_slice(const struct solver *s, const struct table *t, int var)
{
    struct slice x = { 1, s->vars[var].n, 1 };
    bool past = false;
    for (int j = 0; j < t->nvar; j++) {
        if (t->vars[j] == var)
            past = true;
        else
            *(past ? &x.inner : &x.outer) *= s->vars[t->vars[j]].n;
    }
    return x;
}

static void kill(struct solver *s, int var, int x)
{
    struct var *v = &s->vars[var];
    v->dead[x] = true;
    for (int k = 0; k < arrlen(v->tables); k++) {
        struct table *t = &s->tables[v->tables[k]];
        struct slice at = table_slice(s, t, var);
        for (int o = 0; o < at.outer; o++)
            for (int i = 0; i < at.inner; i++)
                t->cost[(o * at.n + x) * at.inner + i] = INFINITY;
    }
}

static bool supported(const struct solver *s, int var, int x)
{
    const struct var *v = &s->vars[var];
    if (isinf(v->unary[x]))
        return false;
    for (int k = 0; k < arrlen(v->tables); k++) {
        const struct table *t = &s->tables[v->tables[k]];
        struct slice at = table_slice(s, t, var);
        bool some = false;
        for (int o = 0; o < at.outer && !some; o++)
            for (int i = 0; i < at.inner && !some; i++)
                some = !isinf(t->cost[(o * at.n + x) * at.inner + i]);
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
        struct slice at = table_slice(s, t, var);
        double least = INFINITY;
        for (int o = 0; o < at.outer; o++) {
            const double *at_x = t->cost + (o * at.n + x) * at.inner, *at_keep = t->cost + (o * at.n + keep) * at.inner;
            for (int i = 0; i < at.inner; i++) {
                if (isinf(at_x[i]))
                    continue;
                if (isinf(at_keep[i]))
                    return false;
                if (at_x[i] - at_keep[i] < least)
                    least = at_x[i] - at_keep[i];
            }
        }
        gain += least;
    }
    return gain >= 0;
}

static void touch(const struct solver *s, int var, bool *dirty)
{
    for (int k = 0; k < arrlen(s->vars[var].tables); k++) {
        const struct table *t = &s->tables[s->vars[var].tables[k]];
        for (int j = 0; j < t->nvar; j++)
            dirty[t->vars[j]] |= t->vars[j] != var;
    }
}

/* Values that no choice of the others supports; false when none is left. */
static bool prune_unsupported(struct solver *s, int var, int *alive, bool *lost)
{
    struct var *v = &s->vars[var];
    *alive = 0;
    for (int x = 0; x < v->n; x++) {
        if (v->dead[x])
            continue;
        if (supported(s, var, x)) {
            ++*alive;
        } else {
            kill(s, var, x);
            *lost = true;
        }
    }
    return *alive > 0;
}

/* A variable is looked at again only when a neighbour lost a value. Dominance, which is dear, waits until nothing more
 * is unsupported. */
bool solver_prune(struct solver *s, bool dominance)
{
    int n = (int)arrlen(s->vars), alive;
    bool *dirty = NEW_ARRAY(bool, n), *compare = NEW_ARRAY(bool, n);
    memset(dirty, true, sizeof(bool) * (size_t)n);
    memset(compare, true, sizeof(bool) * (size_t)n);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < n; i++) {
            bool lost = false;
            if (!dirty[i])
                continue;
            dirty[i] = false;
            compare[i] = true;
            if (!prune_unsupported(s, i, &alive, &lost))
                return false;
            if (lost) {
                touch(s, i, dirty);
                changed = true;
            }
        }
        for (int i = 0; i < n && dominance && !changed; i++) {
            struct var *v = &s->vars[i];
            bool lost = false;
            if (!compare[i])
                continue;
            compare[i] = false;
            for (int x = v->n - 1; x >= 0; x--)
                for (int keep = 0; keep < v->n && !v->dead[x]; keep++)
                    if (keep != x && !v->dead[keep] && dominated(s, i, x, keep)) {
                        kill(s, i, x);
                        lost = true;
                    }
            if (lost) {
                touch(s, i, dirty);
                changed = true;
            }
        }
    }
    return true;
}

/* ---- what is left ---- */

static void compact_table(const struct solver *s, const struct solver *to, const struct table *old, struct table *t)
{
    int at[16] = { 0 };
    *t = (struct table){ .nvar = old->nvar, .vars = old->vars, .size = 1 };
    for (int j = 0; j < t->nvar; j++)
        t->size *= to->vars[t->vars[j]].n;
    t->cost = NEW_ARRAY(double, t->size);
    for (int i = 0; i < t->size; i++) {
        int from = 0;
        for (int j = 0; j < t->nvar; j++)
            from = from * s->vars[t->vars[j]].n + to->vars[t->vars[j]].name[at[j]];
        t->cost[i] = old->cost[from];
        for (int j = t->nvar - 1; j >= 0 && ++at[j] == to->vars[t->vars[j]].n; j--)
            at[j] = 0;
    }
}

struct solver *solver_compact(const struct solver *s)
{
    struct solver *c = solver_new();
    for (int i = 0; i < arrlen(s->vars); i++) {
        const struct var *old = &s->vars[i];
        struct var v = { .unary = NEW_ARRAY(double, old->n), .dead = NEW_ARRAY(bool, old->n), .name = NEW_ARRAY(int, old->n) };
        for (int x = 0; x < old->n; x++) {
            if (old->dead[x])
                continue;
            v.unary[v.n] = old->unary[x];
            v.name[v.n++] = x;
        }
        arrput(c->vars, v);
    }
    for (int k = 0; k < arrlen(s->tables); k++) {
        struct table t;
        compact_table(s, c, &s->tables[k], &t);
        int open = 0, var = t.vars[0];
        for (int j = 0; j < t.nvar; j++)
            if (c->vars[t.vars[j]].n > 1) {
                open++;
                var = t.vars[j];
            }
        if (open > 1)
            arrput(c->tables, t);
        else                                         /* says something about one variable only */
            solver_add(c, var, t.cost);
    }
    solver_link(c);
    return c;
}
