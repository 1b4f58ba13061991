/* Every conversion, carried out: programs that turn a matrix product from each layout of a mesh into each other one, run by
 * the interpreter on all ranks and compared with the product. Two dims, so that splits meet; sizes that each split divides,
 * or `uneven`; axes of one rank; both orders of axes that split one dim. */
#include "base/diag.h"
#include "cost/convert.h"
#include "interpret/interpret.h"
#include "passes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 64 };

struct setting {                 /* a mesh and a matrix */
    const char *mesh;
    int naxis, size[3];
    int rows, columns;
    bool uneven, extremes;       /* P(max) and P(min) too */
};

static const char *const axis_name[] = { "a", "b", "c" };

/* The layouts as they are written; code[k] is 0 B, 1 S(N), 2 S(T), 3 P, 4 P(max), 5 P(min). */
static const char *write_layout(const struct setting *x, const int *code, bool reversed)
{
    static const char *const words[] = { "B", "S(N)", "S(T)", "P", "P(max)", "P(min)" };
    const char *text = "";
    for (int c = 0; c < 6; c++) {
        const char *axes = "";
        int count = 0;
        for (int i = 0; i < x->naxis; i++) {
            int k = reversed ? x->naxis - 1 - i : i;
            if (code[k] != c)
                continue;
            axes = mem_printf("%s%s%s", axes, count ? ", " : "", axis_name[k]);
            count++;
        }
        if (count > 1)
            axes = mem_printf("(%s)", axes);
        if (count)
            text = mem_printf("%s%s%s: %s%s", text, *text ? ", " : "", axes, words[c], x->uneven && (c == 1 || c == 2) ? " uneven" : "");
    }
    return mem_printf("{%s}", text);
}

static bool legal(const struct setting *x, const int *code)
{
    for (int c = 1; c <= 2; c++) {
        int parts = 1, count = 0;
        for (int k = 0; k < x->naxis; k++)
            if (code[k] == c) {
                parts *= x->size[k];
                count += x->size[k] > 1;
            }
        if (x->uneven ? count > 1 : (c == 1 ? x->rows : x->columns) % parts)
            return false;
    }
    return true;
}

static const char **all_layouts(const struct setting *x)
{
    const char **list = NULL;
    int codes = x->extremes ? 6 : 4, total = 1;
    for (int k = 0; k < x->naxis; k++)
        total *= codes;
    for (int i = 0; i < total; i++) {
        int code[3] = { 0 }, shared = 0;
        for (int k = 0, rest = i; k < x->naxis; k++, rest /= codes)
            code[k] = rest % codes;
        if (!legal(x, code))
            continue;
        for (int k = 0; k < x->naxis; k++)
            for (int j = 0; j < k; j++)
                shared |= code[k] == code[j] && (code[k] == 1 || code[k] == 2);
        arrput(list, write_layout(x, code, false));
        if (shared)
            arrput(list, write_layout(x, code, true));
    }
    return list;
}

/* One program with the pairs [first, first + count) of the n x n, step apart. */
static void run_batch(const struct setting *x, const char **layouts, int first, int count, int step)
{
    int n = (int)arrlen(layouts);
    const char *body = "";
    for (int i = 0; i < count; i++) {
        int pair = first + i * step;
        body = mem_printf("%s    y%d = to(to(z, %s), %s)\n    output y%d\n", body, i, layouts[pair / n], layouts[pair % n], i);
    }
    const char *text = mem_printf("dim N = %d, T = %d, K = 12\n"
                                  "model M(u: f32[N, K], v: f32[K, T]) {\n"
                                  "    z = u @ v\n%s"
                                  "    return sum(z)\n"
                                  "}\n"
                                  "plan p { mesh m = [%s] }\n", x->rows, x->columns, body, x->mesh);
    struct options *o = NEW(struct options);
    struct module *m = NEW(struct module);
    *o = (struct options){ .file = "pairs.flow", .target = "cpu" };
    m->options = o;
    arrput(m->programs, parse(source_add("pairs.flow", text)));
    void (*const passes[])(struct module *) = { elaborate, rewrite, place, shard, box };
    for (size_t k = 0; k < sizeof passes / sizeof *passes && !diag_errors(); k++) {
        passes[k](m);
        if (k == 0 && m->graph[ENTRY_TRAIN]) {           /* only other entries give tensors out */
            m->graph[ENTRY_SAMPLE] = m->graph[ENTRY_TRAIN];
            m->graph[ENTRY_SAMPLE]->entry = ENTRY_SAMPLE;
            m->graph[ENTRY_TRAIN] = NULL;
        }
    }
    if (diag_errors()) {
        print_message("%s", text);
        diag_print(stderr, false);
        fail();
    }
    double *u = NEW_ARRAY(double, x->rows * 12), *v = NEW_ARRAY(double, x->columns * 12);
    for (int i = 0; i < x->rows * 12; i++)
        u[i] = (double)((i * 37 + 11) % 23) - 11;
    for (int i = 0; i < x->columns * 12; i++)
        v[i] = (double)((i * 29 + 5) % 19) - 9;
    struct run *r = run_physical(m, ENTRY_SAMPLE, weights_new(m, 1));
    run_input(r, "u", u);
    run_input(r, "v", v);
    run_step(r, 0);
    for (int i = 0; i < count; i++) {
        int64_t size;
        double *got = run_output_tensor(r, mem_printf("y%d", i), &size);
        int pair = first + i * step;
        bool same = got && size == (int64_t)x->rows * x->columns;
        for (int row = 0; same && row < x->rows; row++)
            for (int column = 0; column < x->columns; column++) {
                double sum = 0;
                for (int k = 0; k < 12; k++)
                    sum += u[row * 12 + k] * v[k * x->columns + column];
                same &= fabs(got[row * x->columns + column] - sum) < 1e-9;
            }
        if (!same)
            fail_msg("[%s]: %s -> %s gives wrong numbers", x->mesh, layouts[pair / n], layouts[pair % n]);
    }
    run_release(r);
}

static void run_all(const struct setting *x, int step)
{
    const char **layouts = all_layouts(x);
    int n = (int)arrlen(layouts), done = 0;
    for (int first = 0; first < n * n;) {
        mem_release();
        diag_reset();
        source_reset();
        layouts = all_layouts(x);
        int count = (n * n - first + step - 1) / step;
        if (count > BATCH)
            count = BATCH;
        run_batch(x, layouts, first, count, step);
        first += count * step;
        done += count;
    }
    print_message("[%s], %d x %d: %d of %d pairs\n", x->mesh, x->rows, x->columns, done, n * n);
}

static void one_axis(void **state)
{
    run_all(&(struct setting){ "a: 3", 1, { 3 }, 6, 9, .extremes = true }, 1);
    run_all(&(struct setting){ "a: 3", 1, { 3 }, 7, 5, .uneven = true, .extremes = true }, 1);
    run_all(&(struct setting){ "a: 4", 1, { 4 }, 3, 2, .uneven = true }, 1);       /* empty parts */
    run_all(&(struct setting){ "a: 1", 1, { 1 }, 3, 2, .uneven = false }, 1);
}

static void two_axes(void **state)
{
    run_all(&(struct setting){ "a: 2, b: 3", 2, { 2, 3 }, 12, 6, .uneven = false }, 1);
    run_all(&(struct setting){ "a: 2, b: 2", 2, { 2, 2 }, 5, 3, .uneven = true }, 1);
    run_all(&(struct setting){ "a: 2, b: 1", 2, { 2, 1 }, 4, 2, .uneven = false }, 1);
}

static void three_axes(void **state)
{
    run_all(&(struct setting){ "a: 2, b: 1, c: 2", 3, { 2, 1, 2 }, 4, 4, .uneven = false }, 11);
    run_all(&(struct setting){ "a: 2, b: 2, c: 2", 3, { 2, 2, 2 }, 8, 8, .uneven = false }, 23);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_axis), cmocka_unit_test(two_axes), cmocka_unit_test(three_axes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
