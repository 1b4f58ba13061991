/* run_plan FILE [--plan P] [--set NAME=VALUE]... [--steps N] [--golden DIR | --make DIR] [--fuse]
 *          [--dump NAME] [--round] [--same PLAN]
 *
 * Trains in float64 on one imagined rank and on all ranks of the plan's physical graph, and compares loss, gradient norm
 * and all weights and states at every step: whatever a pass did to the program, the numbers may not move by more than
 * rounding. With --golden the run starts from a golden run's weights and tokens and is compared with its run.json too;
 * --make writes a golden run. --round has the ranks round every result to its type; the losses may then differ by 1 %.
 * --same PLAN: one rank under that plan gives the same numbers, but for the order of the norm's sums. */
#include "base/diag.h"
#include "golden.h"
#include "passes.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 1000 };

struct log { struct train_report step[MAX_STEPS]; int count; };

static int failures;

static void keep(void *context, const struct train_report *t)
{
    struct log *l = context;
    l->step[l->count++] = *t;
}

static bool near(double a, double b, double tolerance)
{
    return a == b || fabs(a - b) <= tolerance * (1 + fabs(a) + fabs(b));
}

static void check(bool ok, const char *fact)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", fact);
    failures++;
}

static bool compile(struct module *m, bool fused)
{
    int file = source_open(m->options->file);
    if (!file) {
        fprintf(stderr, "cannot read %s\n", m->options->file);
        return false;
    }
    arrput(m->programs, parse(file));
    bool fine = passes_run(m, elaborate, fused ? fuse : box);
    if (!fine)
        diag_print(stderr, false);
    return fine;
}

static int64_t dim_size(const struct module *m, const char *name)
{
    for (int i = 0; i < arrlen(m->dims); i++)
        if (!strcmp(m->dims[i]->name, name))
            return m->dims[i]->size;
    return 0;
}

static double *random_tokens(int64_t count, int64_t vocabulary)
{
    double *tokens = NEW_ARRAY(double, count);
    uint32_t state = 17;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        /* Uneven, so that there is something to learn. */
        double u = (double)(state >> 8) / (1 << 24);
        tokens[i] = floor(u * u * (double)vocabulary);
    }
    return tokens;
}

static void compare_logs(const struct log *a, const struct log *b, double tolerance, const char *what)
{
    for (int i = 0; i < a->count && i < b->count; i++) {
        const struct train_report *x = &a->step[i], *y = &b->step[i];
        check(near(x->loss, y->loss, tolerance), mem_printf("%s: step %d: loss %.12g against %.12g", what, i + 1, x->loss,
                                                          y->loss));
        check(near(x->grad_norm, y->grad_norm, tolerance) || (isnan(x->grad_norm) && isnan(y->grad_norm)),
              mem_printf("%s: step %d: norm %.12g against %.12g", what, i + 1, x->grad_norm, y->grad_norm));
        check(near(x->lr, y->lr, 1e-12), mem_printf("%s: step %d: lr %.12g against %.12g", what, i + 1, x->lr, y->lr));
    }
}

static struct param *second_moment(const struct weights *w, const struct param *p)
{
    for (int k = 0; k < hmlen(w->map); k++)
        if (w->map[k].key->of == p && strstr(w->map[k].key->path, "#v"))
            return w->map[k].key;
    return NULL;
}

/* How many steps have gone by does not matter for Adam's sake: a gradient of zero in truth is rounding in both runs, and
 * Adam makes steps of size lr of it. Parameters are compared where their second moment is not mere rounding. */
static void compare_weights(const struct weights *a, const struct weights *b)
{
    for (int k = 0; k < hmlen(a->map); k++) {
        struct param *p = a->map[k].key;
        double *x = a->map[k].value, *y = weights_get(b, p);
        struct param *second = second_moment(a, p);
        double *v = second ? weights_get(a, second) : NULL, worst = 0;
        int64_t at = -1;
        for (int64_t i = 0; i < weights_count(p); i++) {
            double d = fabs(x[i] - y[i]);
            if (d > worst && (!v || v[i] > 1e-24))
                worst = d, at = i;
        }
        check(worst <= 1e-7, mem_printf("%s: element %lld: %.9g against %.9g", p->path, (long long)at, at < 0 ? 0 : x[at],
                                        at < 0 ? 0 : y[at]));
    }
}

static void read_run(const char *path, struct log *to)
{
    json_error_t error;
    json_t *run = json_load_file(path, 0, &error), *steps = json_object_get(run, "steps"), *s;
    size_t i;
    json_array_foreach(steps, i, s) {
        struct train_report t = {(int64_t)i, json_real_value(json_object_get(s, "loss")),
                                 json_real_value(json_object_get(s, "grad_norm")),
                                 json_real_value(json_object_get(s, "lr"))};
        keep(to, &t);
    }
    json_decref(run);
}

static bool write_run(const char *path, const struct log *l)
{
    json_t *steps = json_array(), *run = json_pack("{s:o}", "steps", steps);
    for (int i = 0; i < l->count; i++)
        json_array_append_new(steps, json_pack("{s:i, s:f, s:f, s:f}", "step", i + 1, "lr", l->step[i].lr, "loss",
                                               l->step[i].loss, "grad_norm", l->step[i].grad_norm));
    bool ok = json_dump_file(run, path, JSON_INDENT(1)) == 0;
    json_decref(run);
    return ok;
}

/* --dump NAME: every value whose path holds NAME, as both runs compute it. */
static const char *dumped;

static void dump_value(void *context, const struct value *v, int rank, int64_t block, const struct tensor *t)
{
    if (!v->path || !strstr(v->path, dumped))
        return;
    int64_t count = 1;
    double sum = 0, squares = 0;
    for (int d = 0; d < t->ndim; d++)
        count *= t->n[d];
    for (int64_t i = 0; i < count; i++) {
        sum += t->data[i];
        squares += t->data[i] * t->data[i];
    }
    printf("%s rank %d block %lld %s %d %s: %lld entries, sum %.12g, squares %.12g\n", (const char *)context, rank,
           (long long)block, v->path, v->id, v->def ? v->def->op->name : "-", (long long)count, sum, squares);
}

/* The program under another plan, on one rank. */
static void check_same(const struct options *o, const char *plan, const double *tokens, int64_t ntoken, int64_t steps,
                       const struct log *one)
{
    static struct log log;
    struct module *m = NEW(struct module);
    struct options *other = NEW(struct options);
    *other = *o;
    other->plan = plan;
    m->options = other;
    if (!compile(m, false)) {
        failures++;
        return;
    }
    struct run *r = run_logical(m, ENTRY_TRAIN, weights_new(m, m->train.seed));
    run_train(r, m, tokens, ntoken, steps, keep, &log);
    run_release(r);
    compare_logs(&log, one, 1e-14, mem_printf("one rank under %s", plan));
}

int main(int argc, char **argv)
{
    struct options o = {.target = "cpu"};
    const char *golden = NULL, *made = NULL, *same = NULL;
    int64_t steps = 3;
    bool fused = false, rounded = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(a, "--plan")) {
            o.plan = argv[++i];
        } else if (!strcmp(a, "--steps")) {
            steps = atoi(argv[++i]);
        } else if (!strcmp(a, "--golden")) {
            golden = argv[++i];
        } else if (!strcmp(a, "--make")) {
            made = argv[++i];
        } else if (!strcmp(a, "--dump")) {
            dumped = argv[++i];
        } else if (!strcmp(a, "--round")) {
            rounded = true;
        } else if (!strcmp(a, "--same")) {
            same = argv[++i];
        } else if (!strcmp(a, "--fuse")) {
            fused = true;
        } else if (!strcmp(a, "--set") && strchr(next, '=')) {
            const char *equals = strchr(next, '=');
            arrput(o.set, ((typeof(*o.set)){intern_n(next, (size_t)(equals - next)), equals + 1, false}));
            i++;
        } else {
            o.file = a;
        }
    }
    struct module *m = NEW(struct module);
    m->options = &o;
    if (!o.file || steps > MAX_STEPS || !compile(m, fused))
        return 1;
    struct weights *start = weights_new(m, m->train.seed);
    int64_t ntoken = dim_size(m, "N") * dim_size(m, "T") * (steps < 4 ? steps : 4) + 1;
    double *tokens = golden ? golden_tokens(mem_printf("%s/tokens.bin", golden), &ntoken)
                            : random_tokens(ntoken, dim_size(m, "V"));
    if (!tokens || (golden && !golden_load(mem_printf("%s/init.safetensors", golden), start)))
        return 1;

    static struct log one, all, want;
    struct run *logical = run_logical(m, ENTRY_TRAIN, start);
    if (dumped)
        run_watch(logical, dump_value, "logical ");
    run_train(logical, m, tokens, ntoken, steps, keep, &one);
    struct weights *after = weights_copy(start);
    run_weights(logical, after);
    if (golden) {
        read_run(mem_printf("%s/run.json", golden), &want);
        compare_logs(&one, &want, 1e-8, "one rank against the golden run");
    }
    if (made) {
        check(golden_save(mem_printf("%s/init.safetensors", made), start) &&
                  golden_save(mem_printf("%s/final.safetensors", made), after) &&
                  golden_save_tokens(mem_printf("%s/tokens.bin", made), tokens, ntoken) &&
                  write_run(mem_printf("%s/run.json", made), &one), mem_printf("cannot write into %s", made));
    } else {
        struct run *physical = run_physical(m, ENTRY_TRAIN, start);
        if (dumped)
            run_watch(physical, dump_value, "physical");
        if (rounded)
            run_round(physical);
        run_train(physical, m, tokens, ntoken, steps, keep, &all);
        for (int i = 0; rounded && i < all.count; i++) {
            check(fabs(all.step[i].loss / one.step[i].loss - 1) < 0.01,
                  mem_printf("step %d: loss %.6f rounded, %.6f exact", i + 1, all.step[i].loss, one.step[i].loss));
            check(all.step[i].loss != (float)one.step[i].loss || i > 0, "rounding changes nothing");
        }
        if (rounded)
            printf("rounded: loss %.12g, norm %.12g\n", all.step[all.count - 1].loss, all.step[all.count - 1].grad_norm);
        if (!rounded) {
            struct weights *split = weights_copy(start);
            run_weights(physical, split);
            compare_logs(&all, &one, 1e-10, "all ranks against one");
            compare_weights(after, split);
        }
        run_release(physical);
    }
    run_release(logical);
    if (same)
        check_same(&o, same, tokens, ntoken, steps, &one);
    printf("loss %.12g, norm %.12g after %lld steps; %d differences\n", one.step[one.count - 1].loss,
           one.step[one.count - 1].grad_norm, (long long)steps, failures);
    return failures != 0;
}
