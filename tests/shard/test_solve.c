/* The solver against exhaustive search on small random problems, with forbidden choices and ties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "shard/solve.h"

enum { VARS = 7, PAIRS = 10 };

struct problem {
    int n[VARS], a[PAIRS], b[PAIRS];
    double unary[VARS][4], pair[PAIRS][16];
};
static unsigned state;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 12) % below;
}

static double draw_cost(void)
{
    return draw(4) == 0 ? INFINITY : draw(6);
}

static double cost_of(const struct problem *p, const int *x)
{
    double sum = 0;
    for (int i = 0; i < VARS; i++)
        sum += p->unary[i][x[i]];
    for (int k = 0; k < PAIRS; k++)
        sum += p->pair[k][x[p->a[k]] * p->n[p->b[k]] + x[p->b[k]]];
    return sum;
}

static double exhaustive(const struct problem *p)
{
    int x[VARS] = { 0 };
    double best = INFINITY;
    for (;;) {
        best = fmin(best, cost_of(p, x));
        int i = 0;
        while (i < VARS && ++x[i] == p->n[i])
            x[i++] = 0;
        if (i == VARS)
            return best;
    }
}

static void check(double limit, bool want_exact)
{
    int infeasible = 0;
    for (int round = 0; round < 300; round++) {
        struct problem p;
        mem_release();
        struct solver *s = solver_new();
        for (int i = 0; i < VARS; i++) {
            p.n[i] = 1 + (int)draw(4);
            for (int x = 0; x < 4; x++)
                p.unary[i][x] = draw(9) == 0 ? INFINITY : draw(5);
            solver_var(s, p.n[i], p.unary[i]);
        }
        for (int k = 0; k < PAIRS; k++) {
            p.a[k] = (int)draw(VARS);
            p.b[k] = (p.a[k] + 1 + (int)draw(VARS - 1)) % VARS;
            for (int x = 0; x < 16; x++)
                p.pair[k][x] = draw_cost();
            solver_pair(s, p.a[k], p.b[k], p.pair[k]);
        }
        double best = exhaustive(&p);
        struct solution got = solver_run(s, limit);
        if (isinf(best)) {
            assert_false(got.feasible);
            infeasible++;
            continue;
        }
        if (got.exact || want_exact) {
            assert_true(got.feasible);
            assert_true(fabs(got.cost - best) < 1e-9);
        }
        if (got.feasible)
            assert_true(fabs(cost_of(&p, got.choice) - got.cost) < 1e-9);
    }
    assert_true(infeasible > 5 && infeasible < 295);             /* both kinds were tried */
}

static void exact(void **unused)
{
    state = 7;
    check(1e6, true);
}

static void limited(void **unused)
{
    state = 11;
    check(12, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(exact), cmocka_unit_test(limited) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
