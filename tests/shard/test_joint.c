/* The layouts that shard chooses over all axes against exhaustive search: every combination of signatures and conversions
 * that could still be cheaper is tried, by the original costs and nothing of the solver but its tables. And the case in
 * which one axis at a time stops short of the best. Programs: joint/NAME.flow with sizes set. */
#include "shard/problem.h"
#include "shard/solver.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const char *folder;

static struct module *compile(const char *name, const char *sizes)
{
    struct options *o = NEW(struct options);
    struct module *m = NEW(struct module);
    *o = (struct options){ .file = mem_printf("%s/%s.flow", folder, name), .target = "cpu" };
    m->options = o;
    char *text = mem_strdup(sizes);
    for (char *s = strtok(text, " "); s; s = strtok(NULL, " ")) {
        char *equals = strchr(s, '=');
        *equals = 0;
        arrpush(o->set, ((typeof(*o->set)){ intern(s), equals + 1, false }));
    }
    diag_reset();
    arrput(m->programs, parse(source_open(o->file)));
    if (!diag_errors() && !passes_run(m, elaborate, place))
        diag_print(stderr, false);
    assert_int_equal(diag_errors(), 0);
    return m;
}

/* ---- exhaustive search ---- */

struct search {
    const struct solver *s;
    int n;
    double **cost;               /* by variable and value: with what is decided so far */
    bool *decided;
    int *value;
    double best;                 /* nothing that costs this much is followed */
    long visited;
};

static const struct table *table_at(const struct search *x, int var, int k)
{
    return &x->s->tables[x->s->vars[var].tables[k]];
}

/* The only variable of the table that is still open, or -1. */
static int last_open(const struct search *x, const struct table *t)
{
    int open = -1;
    for (int j = 0; j < t->nvar; j++)
        if (!x->decided[t->vars[j]]) {
            if (open >= 0)
                return -1;
            open = t->vars[j];
        }
    return open;
}

static double entry(const struct search *x, const struct table *t, int open, int y)
{
    int at = 0;
    for (int j = 0; j < t->nvar; j++)
        at = at * x->s->vars[t->vars[j]].n + (t->vars[j] == open ? y : x->value[t->vars[j]]);
    return t->cost[at];
}

static void try_all(struct search *x, double sum)
{
    double bound = sum;
    int pick = -1, fewest = 1 << 30;
    x->visited++;
    double *least = NEW_ARRAY(double, x->n);
    for (int i = 0; i < x->n; i++) {
        least[i] = INFINITY;
        for (int v = 0; v < x->s->vars[i].n && !x->decided[i]; v++)
            least[i] = x->s->vars[i].dead[v] ? least[i] : fmin(least[i], x->cost[i][v]);
        bound += x->decided[i] ? 0 : least[i];
    }
    for (int i = 0; i < x->n; i++) {
        int open = 0;
        for (int v = 0; v < x->s->vars[i].n && !x->decided[i]; v++)
            open += !x->s->vars[i].dead[v] && bound - least[i] + x->cost[i][v] < x->best;
        if (!x->decided[i] && open < fewest) {
            fewest = open;
            pick = i;
        }
    }
    if (pick < 0) {
        x->best = fmin(x->best, sum);
        return;
    }
    x->decided[pick] = true;
    const struct var *var = &x->s->vars[pick];
    for (int v = 0; v < var->n && fewest; v++) {
        double here = x->cost[pick][v];
        if (var->dead[v] || !(bound - least[pick] + here < x->best))
            continue;
        double **saved = NEW_ARRAY(double *, arrlen(var->tables) + 1);
        x->value[pick] = v;
        for (int k = 0; k < arrlen(var->tables); k++) {
            const struct table *t = table_at(x, pick, k);
            int other = last_open(x, t);
            if (other < 0)
                continue;
            saved[k] = x->cost[other];
            double *now = NEW_ARRAY(double, x->s->vars[other].n);
            for (int y = 0; y < x->s->vars[other].n; y++)
                now[y] = saved[k][y] + entry(x, t, other, y);
            x->cost[other] = now;
        }
        try_all(x, sum + here);
        for (int k = (int)arrlen(var->tables) - 1; k >= 0; k--)
            if (saved[k])
                x->cost[last_open(x, table_at(x, pick, k))] = saved[k];
    }
    x->decided[pick] = false;
}

/* Is there anything cheaper than `cost`? The search runs on costs that are shifted between variables and tables, which
 * leaves every sum as it is and lets it see earlier where nothing can come of a start. */
static double exhaustive(struct sharding *s, unsigned axes, double cost, long *visited)
{
    struct problem p = { .s = s };
    problem_actors(&p, axes);
    if (p.nparts > 2)
        problem_rule_out(&p, cost * (1 + 1e-9));     /* else too big to write down */
    problem_build(&p);
    assert_false(p.large);
    double base = solver_tighten(p.solver, INFINITY);
    struct search x = { .s = p.solver, .n = (int)arrlen(p.solver->vars), .best = cost * (1 - 1e-9) - base };
    x.cost = NEW_ARRAY(double *, x.n);
    x.decided = NEW_ARRAY(bool, x.n);
    x.value = NEW_ARRAY(int, x.n);
    for (int i = 0; i < x.n; i++)
        x.cost[i] = p.solver->vars[i].unary;
    try_all(&x, 0);
    *visited = x.visited;
    return x.best + base;
}

struct outcome { double turns, together, best, gap; struct module *m; struct sharding s; };

static struct outcome solve(const char *name, const char *sizes, bool search)
{
    struct outcome o = { .m = compile(name, sizes) };
    int order[MAX_AXIS];
    unsigned axes = 0;
    long visited = 0;
    assert_true(shard_begin(&o.s, o.m));
    int n = shard_entry(&o.s, o.m->graph[ENTRY_TRAIN], order);
    for (int k = 0; k < n; k++)
        axes |= 1u << order[k];
    assert_true(axes_in_turn(&o.s, order, n));
    o.turns = layouts_cost(&o.s, axes);
    assert_true(axes_solve(&o.s, order, n));
    o.together = layouts_cost(&o.s, axes);
    o.gap = o.s.choice.gap;
    if (search)
        o.best = exhaustive(&o.s, axes, o.together, &visited);
    print_message("%s %s: in turn %.3f us, together %.3f us, gap %.3f, exhaustive %.3f us (%ld places)\n", name, sizes,
                  o.turns * 1e6, o.together * 1e6, o.gap * 1e6, o.best * 1e6, visited);
    return o;
}

static void expect_best(const char *name, const char *sizes)
{
    struct outcome o = solve(name, sizes, true);
    assert_true(fabs(o.together - o.best) <= 1e-8 * o.best);
    assert_true(o.gap == 0);
}

static void two_axes(void **state)
{
    expect_best("net", "N=64 D=256 F=256");
    expect_best("net", "N=4096 D=256 F=256");
    expect_best("net", "N=2 D=4096 F=4096");
    expect_best("net", "N=16 D=4096 F=4096");
}

static void three_axes(void **state)
{
    expect_best("net", "N=64 D=256 F=256 c=2");
    expect_best("net", "N=8 D=512 F=512 c=2");
}

/* S7. One axis at a time splits the rows over both axes; together one of them had better split the weights. */
static void one_axis_at_a_time(void **state)
{
    struct outcome o = solve("net", "N=512 D=1024 F=4096 a=4", true);
    assert_true(o.turns > 1.2 * o.together);
    assert_true(fabs(o.together - o.best) <= 1e-8 * o.best && o.gap == 0);
}

int main(int argc, char **argv)
{
    folder = argv[1];
    const struct CMUnitTest tests[] = { cmocka_unit_test(two_axes), cmocka_unit_test(three_axes),
                                         cmocka_unit_test(one_axis_at_a_time) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
