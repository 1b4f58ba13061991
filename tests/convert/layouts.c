/* See layouts.h. */
#include "layouts.h"
#include "base/diag.h"
#include "interpret/interpret.h"
#include "passes.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const char *const axis_name[] = { "a", "b", "c" }, *const share_name[] = { "I", "J", "K" };

/* ---- layouts ---- */

static int parts_of(const struct setting *x, const int *code, enum code c, int *count)
{
    int parts = 1;
    *count = 0;
    for (int k = 0; k < x->naxis; k++)
        if (code[k] == (int)c && x->size[k] > 1) {
            parts *= x->size[k];
            ++*count;
        }
    return parts;
}

/* Several axes may split a dim only into equal parts, or where it is padded. */
static bool legal(const struct setting *x, const int *code)
{
    int extremes = 0;                    /* a maximum over one axis is no minimum over another */
    for (int k = 0; k < x->naxis; k++)
        extremes |= x->size[k] > 1 && code[k] > CODE_SUM ? 1 << (code[k] - CODE_SUM) : 0;
    if (extremes & (extremes - 1))
        return false;
    int count, parts = parts_of(x, code, CODE_ROWS, &count);
    if (count > 1 && x->rows % parts)
        return false;
    parts = parts_of(x, code, CODE_COLUMNS, &count);
    return count <= 1 || x->columns % parts == 0 || x->pad;
}

static const char *word(const struct setting *x, const int *code, enum code c)
{
    static const char *const words[] = { "B", "S(N)", "S(T)", "P", "P(max)", "P(min)" };
    int count, parts = parts_of(x, code, c, &count);
    bool uneven = (c == CODE_ROWS && x->rows % parts) || (c == CODE_COLUMNS && !x->pad && x->columns % parts);
    return uneven ? mem_printf("%s uneven", words[c]) : words[c];
}

/* Axes in the order of the permutation, which is the order along a dim that several of them split. */
static struct written write_layout(const struct setting *x, const int *code, const int *permutation)
{
    struct written w = { .text = "" };
    int place[3] = { 0 };
    for (int i = 0; i < x->naxis; i++) {
        int k = permutation[i];
        w.code[k] = code[k];
        bool split = code[k] == CODE_ROWS || code[k] == CODE_COLUMNS;
        w.order[k] = split ? place[code[k]]++ : 0;
        if (x->size[k] == 1)
            continue;
        int before = 0;
        for (int j = 0; j < i; j++)
            before += x->size[permutation[j]] > 1 && code[permutation[j]] == code[k];
        if (split)
            w.lay.ax[k] = (struct sbp){ SBP_S, (uint8_t)(code[k] - CODE_ROWS), (uint8_t)before };
        else if (code[k] >= CODE_SUM)
            w.lay.ax[k] = (struct sbp){ SBP_P, (uint8_t)(REDUCE_SUM + code[k] - CODE_SUM), 0 };
    }
    for (enum code c = CODE_B; c < CODES; c++) {
        const char *axes = "";
        int count = 0;
        for (int i = 0; i < x->naxis; i++)
            if (code[permutation[i]] == (int)c)
                axes = mem_printf("%s%s%s", axes, count++ ? ", " : "", axis_name[permutation[i]]);
        axes = count > 1 ? mem_printf("(%s)", axes) : axes;
        if (count)
            w.text = mem_printf("%s%s%s: %s", w.text, *w.text ? ", " : "", axes, word(x, code, c));
    }
    w.text = mem_printf("{%s}", w.text);
    return w;
}

static bool same_written(const struct written *a, const struct written *b)
{
    return !memcmp(a->code, b->code, sizeof a->code) && !memcmp(a->order, b->order, sizeof a->order);
}

struct written *all_layouts(const struct setting *x)
{
    static const int permutations[6][3] = { { 0, 1, 2 }, { 1, 0, 2 }, { 2, 1, 0 }, { 0, 2, 1 }, { 1, 2, 0 },
                                             { 2, 0, 1 } };
    static const int number[] = { 0, 1, 2, 6 };
    struct written *list = NULL;
    int total = 1;
    for (int k = 0; k < x->naxis; k++)
        total *= CODES;
    for (int i = 0; i < total; i++) {
        int code[3] = { 0 }, first = (int)arrlen(list);
        for (int k = 0, rest = i; k < x->naxis; k++, rest /= CODES)
            code[k] = rest % CODES;
        for (int p = 0; p < number[x->naxis] && legal(x, code); p++) {
            int permutation[3], n = 0;
            for (int k = 0; k < 3; k++)
                if (permutations[p][k] < x->naxis)
                    permutation[n++] = permutations[p][k];
            struct written w = write_layout(x, code, permutation);
            bool known = false;
            for (int k = first; k < arrlen(list); k++)
                known |= same_written(&list[k], &w);
            if (!known)
                arrput(list, w);
        }
    }
    return list;
}

struct layout on_mesh(const struct setting *x, const struct layout *l)
{
    struct layout moved = { 0 };
    for (int k = 0; k < x->naxis; k++)
        moved.ax[k + (x->stages > 0)] = l->ax[k];
    return moved;
}

int kind_of(const struct written *w)
{
    for (int k = 0; k < 3; k++)
        if (w->code[k] >= CODE_SUM)
            return w->code[k];
    return CODE_SUM;
}

/* ---- programs ---- */

/* The layout of the input from which the reduction comes out in layout `w`. */
static const char *source_layout(const struct setting *x, const struct written *w)
{
    const char *text = "";
    int code[3], permutation[3], n = 0;
    for (int k = 0; k < x->naxis; k++) {
        code[k] = w->code[k] < CODE_SUM ? w->code[k] : CODE_B;
        if (w->code[k] < CODE_SUM || w->code[k] != kind_of(w))
            continue;
        code[k] = -1;
        text = mem_printf("%s%s: S(%s)%s, ", text, axis_name[k], share_name[k],
                          x->shares[k] % x->size[k] ? " uneven" : "");
    }
    for (int place = 0; place < 3; place++)
        for (int k = 0; k < x->naxis; k++)
            if (w->order[k] == place)
                permutation[n++] = k;
    const char *rest = write_layout(x, code, permutation).text + 1;
    return *rest == '}' ? mem_printf("{%.*s}", (int)strlen(text) - 2, text) : mem_printf("{%s%s", text, rest);
}

struct module *compile_pairs(const struct setting *x, const struct written *from, const struct written *to, int count)
{
    const char *body = "", *header = "", *dims = "", *names = "";
    static const char *const reduction[] = { [CODE_SUM] = "sum", [CODE_MAX] = "max", [CODE_MIN] = "min" };
    for (int k = 0; k < x->naxis; k++) {
        dims = mem_printf("%s, %s = %d", dims, share_name[k], x->shares[k]);
        names = mem_printf("%s%s%s", names, k ? ", " : "", share_name[k]);
    }
    for (int i = 0; i < count; i++) {
        header = mem_printf("%s%sw%d: f32[N, T, %s]", header, i ? ", " : "", i, names);
        body = mem_printf("%s    z%d = %s(to(w%d, %s), axis = [%s])\n", body, i, reduction[kind_of(&from[i])], i,
                          source_layout(x, &from[i]), names);
        body = mem_printf("%s    y%d = r%d: to(to(z%d, %s), %s)\n    output y%d\n", body, i, i, i, from[i].text,
                          to[i].text, i);
    }
    const char *pipeline = "";
    if (x->stages)
        pipeline = mem_printf("; pipeline over pp { schedule = gpipe }; place r* on m.pp[%d]", x->target);
    const char *text = mem_printf("dim N = %d, T = %d%s%s\nmodel M(%s) {\n%s    return sum(square(y0))\n}\n"
                                  "plan p { mesh m = [%s]%s }\n", x->rows, x->columns,
                                  x->pad ? mem_printf(" pad %d", x->pad) : "", dims, header, body, x->mesh, pipeline);
    diag_reset();
    source_reset();
    struct options *o = NEW(struct options);
    struct module *m = NEW(struct module);
    *o = (struct options){ .file = "pairs.flow", .target = "cpu" };
    m->options = o;
    arrput(m->programs, parse(source_add("pairs.flow", text)));
    bool fine = passes_run(m, elaborate, elaborate);
    if (fine && m->graph[ENTRY_TRAIN]) {                 /* only other entries give tensors out */
        m->graph[ENTRY_SAMPLE] = m->graph[ENTRY_TRAIN];
        m->graph[ENTRY_SAMPLE]->entry = ENTRY_SAMPLE;
        m->graph[ENTRY_TRAIN] = NULL;
    }
    if (!fine || !passes_run(m, rewrite, box)) {
        print_message("%s", text);
        diag_print(stderr, false);
        fail();
    }
    return m;
}

static double meet(int kind, double a, double b)
{
    return kind == CODE_SUM ? a + b : kind == CODE_MAX ? fmax(a, b) : fmin(a, b);
}

void run_pairs(struct module *m, const struct setting *x, const struct written *from, const struct written *to,
               int count)
{
    int shares = 1, cells = x->rows * x->columns;
    for (int k = 0; k < x->naxis; k++)
        shares *= x->shares[k];
    double *w = NEW_ARRAY(double, cells * shares);
    for (int i = 0; i < cells * shares; i++)
        w[i] = (double)((i * 37 + 11) % 23) - 11;
    double *want[CODES] = { 0 };
    for (int kind = CODE_SUM; kind < CODES; kind++) {
        want[kind] = NEW_ARRAY(double, cells);
        for (int i = 0; i < cells; i++) {
            want[kind][i] = w[i * shares];
            for (int k = 1; k < shares; k++)
                want[kind][i] = meet(kind, want[kind][i], w[i * shares + k]);
        }
    }
    struct run *r = run_physical(m, ENTRY_SAMPLE, weights_new(m, 1));
    for (int i = 0; i < count; i++)
        run_input(r, mem_printf("w%d", i), w);
    run_step(r, 0);
    for (int i = 0; i < count; i++) {
        int64_t size;
        double *got = run_output_tensor(r, mem_printf("y%d", i), &size);
        if (!got || size != cells || memcmp(got, want[kind_of(&from[i])], sizeof *got * (size_t)cells))
            fail_msg("[%s], %d x %d: %s -> %s gives wrong numbers", x->mesh, x->rows, x->columns, from[i].text,
                     to[i].text);
    }
    run_release(r);
}
