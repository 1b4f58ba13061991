/* All ranks against one imagined rank, in float64: two steps of training, then one of evaluation. */
#include "compare.h"
#include "interpret/interpret.h"
#include "interpret/machine.h"
#include "passes.h"
#include <math.h>
#include <stdio.h>

enum { STEPS = 2 };

/* ---- data ---- */

bool compare_all_ignored;

struct data { struct run *one, *all; uint64_t state; };

static double uniform(struct data *d)
{
    d->state = d->state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(d->state >> 33) / (double)(1u << 31);
}

/* f32: numbers of both signs; i32: small, 0 .. 3, so that they are legal as indices of every table here; bool. */
static void give_input(struct node *n, void *context)
{
    struct data *d = context;
    if (n->op != &op_input)
        return;
    const struct value *v = n->out[0];
    int64_t count = value_count(v);
    double *data = NEW_ARRAY(double, count + 1);
    for (int64_t i = 0; i < count; i++) {
        double u = uniform(d);
        data[i] = compare_all_ignored && v->has_ignore ? v->ignore : type_is_float(v->type) ? 2 * u - 1 : v->type == TYPE_BOOL ? u < 0.6 : floor(u * u * 4);
    }
    run_input(d->one, node_str(n, "name"), data);
    run_input(d->all, node_str(n, "name"), data);
}

/* ---- comparison ---- */

static int differences;
static bool degenerate;

/* What was largest on the way to the results. After a step that was too large that may be 1e9 where the loss is 1, and
 * sums in another order then agree to 7 digits, not to 16. */
static double largest;

static void note_largest(void *context, const struct value *v, int rank, int64_t block, const struct tensor *t)
{
    int64_t count = type_is_float(v->type) ? tensor_elements(t) : 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(t->data[i]))
            largest = fmax(largest, fabs(t->data[i]));
}

static bool near(double a, double b, double scale)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (1 + scale) + 2e-15 * largest;
}

static bool huge(double x) { return !(fabs(x) < 1e9); }

static void differ(const char *what, double all, double one)
{
    fprintf(stderr, "%s: %.12g on all ranks, %.12g on one\n", what, all, one);
    differences++;
}

static void compare_outputs(struct module *m, enum entry e, const struct data *d, int64_t step)
{
    static const char *const scalars[] = {"loss", "grad_norm"};
    const struct graph *g = m->graph[e];
    for (int i = 0; i < 2; i++) {
        double x = run_output(d->all, scalars[i]), y = run_output(d->one, scalars[i]);
        degenerate |= huge(y) && (i == 0 || e == ENTRY_TRAIN);
        if (!near(x, y, fabs(y)) && !(huge(x) && huge(y)))
            differ(mem_printf("%s %s of step %d", entry_name[e], scalars[i], (int)step), x, y);
    }
    for (int i = 0; i < arrlen(g->metrics) && e == ENTRY_EVALUATE; i++) {
        double x = run_output(d->all, g->metrics[i].name), y = run_output(d->one, g->metrics[i].name);
        if (!near(x, y, fabs(y)) && !(huge(x) && huge(y)))
            differ(mem_printf("metric %s", g->metrics[i].name), x, y);
    }
}

static void compare_weights(const struct weights *all, const struct weights *one, const char *who)
{
    for (int k = 0; k < hmlen(one->map); k++) {
        struct param *p = one->map[k].key;
        double *y = one->map[k].value, *x = weights_get(all, p), scale = 0;
        int64_t count = weights_count(p);
        for (int64_t i = 0; i < count; i++)
            scale = fmax(scale, fabs(y[i]));
        for (int64_t i = 0; i < count; i++)
            if (!near(x[i], y[i], scale) && !(huge(x[i]) && huge(y[i]))) {
                differ(mem_printf("%s%s[%lld] of %lld", who, p->path, (long long)i, (long long)count), x[i], y[i]);
                break;
            }
    }
}

bool compare_numbers(const char *what, double x, double y, double scale)
{
    if (near(x, y, scale) || (huge(x) && huge(y)))
        return false;
    differ(what, x, y);
    return true;
}

void compare_give(struct graph *g, struct run *a, struct run *b)
{
    struct data d = {b, a, 77};
    region_walk(g->root, give_input, &d);
}

/* Runs an entry both ways. */
static void compare(struct module *m, enum entry e)
{
    if (!m->graph[e])
        return;
    struct weights *start = weights_new(m, 5);
    /* Biases start at zero and gains at one: from there some faults cannot be seen. */
    for (int k = 0; k < hmlen(start->map); k++)
        for (int64_t i = 0; i < weights_count(start->map[k].key) && !start->map[k].key->is_state; i++)
            start->map[k].value[i] += 0.05 * (double)((i * 7 + k) % 5 - 2);
    struct weights *one = weights_copy(start), *all = weights_copy(start);
    struct data d = {run_logical(m, e, start), run_physical(m, e, start), 77};
    largest = 0;
    run_watch(d.one, note_largest, NULL);
    for (int64_t step = 0; step < (e == ENTRY_TRAIN ? STEPS : 1); step++) {
        region_walk(m->graph[e]->root, give_input, &d);
        run_step(d.one, step);
        run_step(d.all, step);
        compare_outputs(m, e, &d, step);
    }
    run_weights(d.one, one);
    run_weights(d.all, all);
    compare_weights(all, one, "");
    for (int rank = 0; rank < m->plan->mesh.nranks; rank++) {    /* and every replica for itself */
        run_weights_rank(d.all, rank, all);
        compare_weights(all, one, mem_printf("rank %d: ", rank));
    }
    run_release(d.one);
    run_release(d.all);
}

int compare_program(struct module *m, bool *huge_numbers)
{
    differences = 0;
    degenerate = false;
    compare(m, ENTRY_TRAIN);
    compare(m, ENTRY_EVALUATE);
    if (!differences)
        compare_undivided(m);
    *huge_numbers = degenerate;
    return differences;
}
