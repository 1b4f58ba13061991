/* Every conversion between stages, carried out: a matrix in each layout on one stage is read in each other one on a
 * later stage, next to it or further on, in float64 on all ranks. The stages are disjoint sets of ranks; what crosses
 * goes from rank to rank of equal place in its stage, and is converted before or after by the steps that cost/convert.h
 * plans: never partial where the reader wants sums, and never more than the smaller of the two layouts.
 *
 * And a parameter used on two stages: stored in one layout, read in any other on each of them, its gradients summed
 * over both; two steps of training against one rank. */
#include "base/diag.h"
#include "cost/convert.h"
#include "interpret/interpret.h"
#include "layouts.h"
#include "op.h"
#include "passes.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 32, PARAMS = 24, STEPS = 2 };

#define TO(stage) .stages = (stage) + 1, .target = (stage)

static int sample;               /* --long N: every N-th where a quick run has fewer; 0 without --long */

/* ---- what crosses ---- */

static const struct node *output_node(const struct module *m, int stage, const char *name)
{
    struct root *roots = stage_roots(&m->physical->stages[stage], ENTRY_SAMPLE);
    for (int i = 0; i < arrlen(roots); i++)
        for (int k = 0; k < arrlen(roots[i].region->nodes); k++) {
            const struct node *n = roots[i].region->nodes[k];
            if (n->op == &op_output && !strcmp(node_str(n, "name"), name))
                return n;
        }
    fail_msg("there is no output %s on stage %d", name, stage);
    return NULL;
}

static bool partial(const struct setting *x, const struct layout *from, const struct layout *to)
{
    for (int k = 0; k < x->naxis; k++)
        if (from->ax[k + 1].kind == SBP_P && to->ax[k + 1].kind != SBP_P)
            return true;
    return false;
}

static void check_link(const struct module *m, const struct setting *x, const struct written *a,
                       const struct written *b, int i)
{
    const struct mesh *mesh = &m->plan->mesh;
    const char *pair = mem_printf("[%s], %d x %d: %s on stage 0 -> %s on stage %d", x->mesh, x->rows, x->columns,
                                  a->text, b->text, x->target);
    struct layout from = on_mesh(x, &a->lay), to = on_mesh(x, &b->lay);
    const struct link *link = NULL;
    int between = 0;
    const struct node *n = output_node(m, x->target, mem_printf("y%d", i))->in[0]->def, *chain[4 * MAX_STEP];
    for (; n->op->flags & OP_BOXING; n = n->in[0]->def) {
        if (n->op == &op_box_recv) {
            if (link)
                fail_msg("%s: crosses twice", pair);
            link = &m->physical->links[node_int(n, "link", -1)];
            n = link->sent->def;
            if (!(n->op->flags & OP_BOXING))
                break;
        }
        chain[between++] = n;
    }
    if (!link || link->from != 0 || link->to != x->target)
        fail_msg("%s: crosses not at all, or elsewhere", pair);
    const struct value *v = n->out[0];
    double sent = layout_bytes(v, &link->sent->lay, mesh);
    if (partial(x, &link->sent->lay, &to))
        fail_msg("%s: partial sums cross: %s", pair, layout_text(v, &link->sent->lay, mesh));
    if (sent > fmin(partial(x, &from, &to) ? INFINITY : layout_bytes(v, &from, mesh), layout_bytes(v, &to, mesh)))
        fail_msg("%s: %s crosses", pair, layout_text(v, &link->sent->lay, mesh));
    struct step steps[MAX_STEP];
    int before = convert_path(v, &v->lay, &from, mesh, steps, MAX_STEP);
    int count = convert_path(v, &from, &to, mesh, steps, MAX_STEP);
    if (before < 0 || count < 0 || between < before + count)
        fail_msg("%s: %d steps planned, %d made", pair, before + count, between);
    for (int k = 0; k < count; k++) {
        const struct node *got = chain[between - 1 - before - k];
        if (strcmp(got->op->name + strlen("box_"), step_name[steps[k].kind]) ||
            node_int(got, "axes", 0) != steps[k].axes || !layout_same(&got->out[0]->lay, &steps[k].after, mesh->naxis))
            fail_msg("%s: step %d is %s to %s", pair, k, got->op->name, layout_text(v, &got->out[0]->lay, mesh));
    }
}

static void run_all(const struct setting *x, int step)
{
    int n = (int)arrlen(all_layouts(x)), done = 0;
    for (int pair = 0; pair < n * n;) {
        mem_release();
        struct written *list = all_layouts(x), from[BATCH], to[BATCH];
        int count = 0;
        for (; pair < n * n && count < BATCH; pair += sample ? (sample < step ? sample : step) : step) {
            from[count] = list[pair / n];
            to[count++] = list[pair % n];
        }
        struct module *m = compile_pairs(x, from, to, count);
        for (int i = 0; i < count; i++)
            check_link(m, x, &from[i], &to[i], i);
        run_pairs(m, x, from, to, count);
        done += count;
    }
    print_message("[%s], %d x %d, to stage %d: %d of %d pairs\n", x->mesh, x->rows, x->columns, x->target, done, n * n);
}

static void one_axis(void **state)
{
    run_all(&(struct setting){ "pp: 2, a: 3", 1, { 3 }, 6, 9, .shares = { 6 }, TO(1) }, 1);
    run_all(&(struct setting){ "pp: 3, a: 4", 1, { 4 }, 3, 6, .shares = { 2 }, TO(2) }, 1);
    run_all(&(struct setting){ "pp: 2, a: 1", 1, { 1 }, 3, 2, .shares = { 2 }, TO(1) }, 1);
    run_all(&(struct setting){ "pp: 2, a: 4", 1, { 4 }, 3, 5, .pad = 3, .shares = { 2 }, TO(1) }, 1);
}

static void two_axes(void **state)
{
    run_all(&(struct setting){ "pp: 2, a: 2, b: 3", 2, { 2, 3 }, 6, 6, .shares = { 2, 2 }, TO(1) }, 1);
    run_all(&(struct setting){ "pp: 3, a: 2, b: 2", 2, { 2, 2 }, 5, 4, .shares = { 3, 1 }, TO(2) }, 5);
    run_all(&(struct setting){ "pp: 2, a: 2, b: 1", 2, { 2, 1 }, 4, 3, .shares = { 3, 2 }, TO(1) }, 5);
    run_all(&(struct setting){ "pp: 2, a: 2, b: 3", 2, { 2, 3 }, 4, 5, .pad = 4, .shares = { 2, 1 }, TO(1) }, 5);
}

static void three_axes(void **state)
{
    run_all(&(struct setting){ "pp: 2, a: 2, b: 2, c: 2", 3, { 2, 2, 2 }, 8, 4, .shares = { 1, 2, 1 }, TO(1) }, 257);
}

/* ---- one parameter, two stages ---- */

static struct module *compile_shared(const struct setting *x, const struct written *(*use)[3], int count)
{
    const char *params = "", *first = "", *second = "", *loss = "", *lines = "";
    for (int i = 0; i < count; i++) {
        params = mem_printf("%s    param w%d: f32[N, T] = normal(std = 0.5)\n", params, i);
        first = mem_printf("%s    e%d = x * to(w%d, %s)\n", first, i, i, use[i][1]->text);
        second = mem_printf("%s    s%d = r%d: square(x + to(w%d, %s))\n", second, i, i, i, use[i][2]->text);
        loss = mem_printf("%s + sum(square(e%d) * s%d)", loss, i, i);
        lines = mem_printf("%s; sbp w%d = %s", lines, i, use[i][0]->text);
    }
    const char *text = mem_printf("dim N = %d, T = %d%s\nmodel M(x: f32[N, T]) {\n%s%s%s    return (%s) / N\n}\n"
                                  "plan p { mesh m = [%s]; pipeline over pp { schedule = gpipe }\n"
                                  "         place r* on m.pp[%d]%s }\n"
                                  "train { data { x = raw(\"x.bin\", f32) }; steps 4; optimizer sgd { lr = 0.05 }\n"
                                  "        clip_norm 1.0 }\n",
                                  x->rows, x->columns, x->pad ? mem_printf(" pad %d", x->pad) : "", params, first,
                                  second, loss + 3, x->mesh, x->target, lines);
    diag_reset();
    source_reset();
    struct options *o = NEW(struct options);
    struct module *m = NEW(struct module);
    *o = (struct options){ .file = "shared.flow", .target = "cpu" };
    m->options = o;
    arrput(m->programs, parse(source_add("shared.flow", text)));
    if (!passes_run(m, elaborate, box)) {
        print_message("%s", text);
        diag_print(stderr, false);
        fail();
    }
    return m;
}

static void train_shared(const struct setting *x, const struct written *(*use)[3], int count)
{
    struct module *m = compile_shared(x, use, count);
    for (int i = 0; i < count; i++)          /* on both stages, each of which reduces */
        for (int s = 0; s <= x->target; s += x->target) {
            struct region *update = m->physical->stages[s].phase[ENTRY_TRAIN][PHASE_UPDATE][0];
            int reduces = 0;
            for (int k = 0; k < arrlen(update->nodes); k++)
                reduces += update->nodes[k]->op == &op_box_stage_reduce;
            assert_true(reduces >= count);
        }
    double *data = NEW_ARRAY(double, x->rows * x->columns);
    for (int i = 0; i < x->rows * x->columns; i++)
        data[i] = ((i * 37 + 11) % 23 - 11) / 11.0;
    struct weights *w = weights_new(m, 1), *got = weights_copy(w), *want = weights_copy(w);
    struct run *one = run_logical(m, ENTRY_TRAIN, w), *ranks = run_physical(m, ENTRY_TRAIN, w);
    run_input(one, "x", data);
    run_input(ranks, "x", data);
    for (int step = 0; step < STEPS; step++) {
        run_step(one, step);
        run_step(ranks, step);
        static const char *const scalars[] = { "loss", "grad_norm" };
        for (int k = 0; k < 2; k++) {
            double a = run_output(one, scalars[k]), b = run_output(ranks, scalars[k]);
            if (!(fabs(a - b) < 1e-9 * fabs(a)))
                fail_msg("[%s], %d x %d: %s is %g, not %g", x->mesh, x->rows, x->columns, scalars[k], b, a);
        }
    }
    run_weights(one, want);
    run_weights(ranks, got);
    for (int i = 0; i < arrlen(m->params); i++) {
        const double *a = weights_get(want, m->params[i]), *b = weights_get(got, m->params[i]);
        for (int64_t k = 0; k < weights_count(m->params[i]); k++)
            if (!(fabs(a[k] - b[k]) < 1e-9))
                fail_msg("[%s], %d x %d: %s kept as %s, read as %s and %s is wrong", x->mesh, x->rows, x->columns,
                         m->params[i]->path, use[i][0]->text, use[i][1]->text, use[i][2]->text);
    }
    run_release(one);
    run_release(ranks);
}

/* Every step-th way to keep a parameter and read it on both stages; it is not kept Partial. */
static void run_shared(const struct setting *x, int step)
{
    int n = 0, done = 0;
    for (int64_t at = 0, total = 1; at < total;) {
        mem_release();
        struct written *list = all_layouts(x);
        const struct written **keep = NULL, *use[PARAMS][3];
        for (int k = 0; k < arrlen(list); k++) {
            bool complete = true;
            for (int i = 0; i < x->naxis; i++)
                complete &= list[k].code[i] < CODE_SUM;
            if (complete)
                arrput(keep, &list[k]);
        }
        n = (int)arrlen(keep);
        total = (int64_t)n * n * n;
        int count = 0;
        for (; at < total && count < PARAMS; at += sample ? (sample < step ? sample : step) : step, count++) {
            use[count][0] = keep[at / n / n];
            use[count][1] = keep[at / n % n];
            use[count][2] = keep[at % n];
        }
        train_shared(x, use, count);
        done += count;
    }
    print_message("[%s], %d x %d, on stages 0 and %d: %d of %d ways\n", x->mesh, x->rows, x->columns, x->target, done,
                  n * n * n);
}

static void shared_parameter(void **state)
{
    run_shared(&(struct setting){ "pp: 2, a: 3", 1, { 3 }, 7, 5, TO(1) }, 1);
    run_shared(&(struct setting){ "pp: 3, a: 4", 1, { 4 }, 3, 6, TO(2) }, 1);
    run_shared(&(struct setting){ "pp: 2, a: 2, b: 2", 2, { 2, 2 }, 4, 4, TO(1) }, 23);
    run_shared(&(struct setting){ "pp: 2, a: 2, b: 1", 2, { 2, 1 }, 4, 3, TO(1) }, 41);
    run_shared(&(struct setting){ "pp: 2, a: 2, b: 3", 2, { 2, 3 }, 6, 5, .pad = 4, TO(1) }, 61);
}

int main(int argc, char **argv)
{
    sample = argc > 1 && !strcmp(argv[1], "--long") ? argc > 2 ? atoi(argv[2]) : 1 : 0;
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_axis), cmocka_unit_test(two_axes),
                                        cmocka_unit_test(three_axes), cmocka_unit_test(shared_parameter) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
