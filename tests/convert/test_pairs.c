/* Every conversion on one mesh, carried out: from each layout of a matrix to each other one, on meshes of one, two and
 * three axes; axes of one rank, parts that differ, parts that are empty, padding, axes that split one dim in any order.
 * Each pair is run on all ranks in float64, and its steps looked at:
 *   - what box inserted is what cost/convert.h planned, and --emit=comm shows its communication;
 *   - two split axes that swap never make a rank hold the whole matrix;
 *   - axes that are Partial of one kind and become B share one all-reduce;
 *   - what several axes gather or scatter in one call lies in the order of the ranks.
 * Three axes: all single steps and swaps, and a sample of the others; with --long all, with --long N every N-th. */
#include "base/diag.h"
#include "cost/convert.h"
#include "layouts.h"
#include "op.h"
#include "passes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BATCH = 32 };

static int sample;               /* --long N: of three axes every N-th pair more; 0 without --long */

/* ---- what the steps should be ---- */

static bool splits(struct sbp s, int dim)
{
    return s.kind == SBP_S && s.dim == dim;
}

/* Do two axes exchange what they split, or their places on a dim, while the others stay? */
static bool swap(const struct setting *x, const struct written *a, const struct written *b)
{
    int moved = 0;
    bool split = true;
    for (int k = 0; k < x->naxis; k++)
        if (!sbp_same(a->lay.ax[k], b->lay.ax[k])) {
            moved++;
            split &= a->lay.ax[k].kind == SBP_S && b->lay.ax[k].kind == SBP_S;
        }
    if (!split || moved != 2)
        return false;
    for (int d = 0; d < 2; d++) {
        int before = 0, after = 0;
        for (int k = 0; k < x->naxis; k++) {
            before += splits(a->lay.ax[k], d);
            after += splits(b->lay.ax[k], d);
        }
        if (before != after)
            return false;
    }
    return true;
}

static int axes_that_differ(const struct setting *x, const struct written *a, const struct written *b)
{
    int n = 0;
    for (int k = 0; k < x->naxis; k++)
        n += a->code[k] != b->code[k] || a->order[k] != b->order[k];
    return n;
}

/* The axes, if all that differ go from P of one kind to B; else 0. */
static unsigned reduced_together(const struct setting *x, const struct written *a, const struct written *b)
{
    unsigned axes = 0;
    int kind = -1;
    for (int k = 0; k < x->naxis; k++) {
        struct sbp from = a->lay.ax[k], to = b->lay.ax[k];
        if (sbp_same(from, to))
            continue;
        if (from.kind != SBP_P || to.kind != SBP_B || (kind >= 0 && from.dim != kind))
            return 0;
        kind = from.dim;
        axes |= 1u << k;
    }
    return axes;
}

/* ---- what they are ---- */

static const struct node *output_node(const struct module *m, const char *name)
{
    const struct stage *s = &m->physical->stages[0];
    struct root *roots = stage_roots(s, ENTRY_SAMPLE);
    for (int i = 0; i < arrlen(roots); i++)
        for (int k = 0; k < arrlen(roots[i].region->nodes); k++) {
            const struct node *n = roots[i].region->nodes[k];
            if (n->op == &op_output && !strcmp(node_str(n, "name"), name))
                return n;
        }
    fail_msg("there is no output %s", name);
    return NULL;
}

static const char *step_text(const struct value *v, const struct step *s, int n, const struct mesh *mesh)
{
    const char *text = "";
    for (int k = 0; k < n; k++)
        text = mem_printf("%s %s(%s) %s", text, step_name[s[k].kind], mesh_axes_text(mesh, s[k].axes, ", "),
                          layout_text(v, &s[k].after, mesh));
    return text;
}

static bool is_step(const struct node *n, const struct step *s, const struct mesh *mesh)
{
    return !strcmp(n->op->name + strlen("box_"), step_name[s->kind]) && (unsigned)node_int(n, "axes", 0) == s->axes &&
           node_int(n, "dim", s->dim) == s->dim && node_int(n, "dim_to", s->dim_to) == s->dim_to &&
           node_int(n, "reduce", s->reduce) == (int)s->reduce && layout_same(&n->out[0]->lay, &s->after, mesh->naxis);
}

/* Has the text of --emit=comm a line for the node? */
static bool is_shown(const char *text, const struct node *n, const struct mesh *mesh)
{
    const char *axes = mesh_axes_text(mesh, (unsigned)node_int(n, "axes", 0), ",");
    for (const char *line = text; line; line = strchr(line, '\n')) {
        char kind[32], axis[32], tensor[200];
        line += *line == '\n';
        if (sscanf(line, "%*s %*s %*s %31s %31s %*s %*s %199[^:]", kind, axis, tensor) == 3 &&
            !strcmp(kind, n->op->name + strlen("box_")) && !strcmp(axis, axes) && !strcmp(tensor, n->in[0]->path))
            return true;
    }
    return false;
}

/* Ranks of a group are in mesh order, and what they gather or scatter is in theirs: the same, and nothing more minor. A
 * run by global index would not notice. */
static bool in_rank_order(const struct step *s, const struct layout *before, const struct mesh *mesh)
{
    const struct layout *l = s->kind == STEP_ALL_GATHER ? before : &s->after;
    int last = -1;
    for (int a = 0; a < mesh->naxis && (s->kind == STEP_ALL_GATHER || s->kind == STEP_REDUCE_SCATTER); a++)
        if (splits(l->ax[a], s->dim) && (s->axes >> a & 1)) {
            if (l->ax[a].order <= last)
                return false;
            last = l->ax[a].order;
        }
    for (int a = 0; a < mesh->naxis && last >= 0; a++)
        if (splits(l->ax[a], s->dim) && !(s->axes >> a & 1) && l->ax[a].order > last)
            return false;
    return true;
}

static void check_steps(const struct module *m, const struct setting *x, const struct written *from,
                        const struct written *to, int i, const char *comm)
{
    const struct mesh *mesh = &m->plan->mesh;
    const char *pair = mem_printf("[%s], %d x %d: %s -> %s", x->mesh, x->rows, x->columns, from->text, to->text);
    const struct node *chain[4 * MAX_STEP], *n = output_node(m, mem_printf("y%d", i))->in[0]->def;
    int length = 0, start = 0;
    for (; n->op->flags & OP_BOXING; n = n->in[0]->def)
        chain[length++] = n;
    const struct value *source = n->out[0];
    if (n->op == &op_input)
        fail_msg("%s: the reduction is gone", pair);
    for (int k = 0; k < x->naxis; k++)       /* a Partial source comes from real parts, not from a mask */
        if (from->code[k] == kind_of(from) && from->lay.ax[k].kind && !sbp_same(source->lay.ax[k], from->lay.ax[k]))
            fail_msg("%s: starts from %s", pair, layout_text(source, &source->lay, mesh));
    struct step steps[MAX_STEP];
    start = convert_path(source, &source->lay, &from->lay, mesh, steps, MAX_STEP);
    int count = convert_path(source, &from->lay, &to->lay, mesh, steps, MAX_STEP);
    if (count < 0 || start < 0)
        fail_msg("%s is unsupported", pair);
    for (int k = 0; k < count; k++) {
        const struct node *got = length - 1 - start - k >= 0 ? chain[length - 1 - start - k] : NULL;
        if (!got || !is_step(got, &steps[k], mesh))
            fail_msg("%s: planned%s, step %d is %s to %s", pair, step_text(source, steps, count, mesh), k,
                     got ? got->op->name : "nothing", got ? layout_text(source, &got->out[0]->lay, mesh) : "nothing");
        if (step_is_comm(steps[k].kind) && !is_shown(comm, got, mesh))
            fail_msg("%s: --emit=comm does not show %s of %s", pair, got->op->name, got->in[0]->path);
    }
    for (int k = 0; k < count; k++)
        if (!in_rank_order(&steps[k], k ? &steps[k - 1].after : &from->lay, mesh))
            fail_msg("%s mixes the parts:%s", pair, step_text(source, steps, count, mesh));
    double whole = layout_bytes(source, &(struct layout){ 0 }, mesh);
    for (int k = 0; k < count && swap(x, from, to); k++)
        if (layout_bytes(source, &steps[k].after, mesh) >= whole)
            fail_msg("%s gathers the whole:%s", pair, step_text(source, steps, count, mesh));
    unsigned axes = reduced_together(x, from, to);
    if (axes && (count != 1 || steps[0].kind != STEP_ALL_REDUCE || steps[0].axes != axes))
        fail_msg("%s is not one all-reduce:%s", pair, step_text(source, steps, count, mesh));
}

static void run_batch(const struct setting *x, const struct written *from, const struct written *to, int count)
{
    struct module *m = compile_pairs(x, from, to, count);
    char *comm = NULL;
    size_t size;
    FILE *f = open_memstream(&comm, &size);
    comm_dump(f, m, false);
    fclose(f);
    for (int i = 0; i < count; i++)
        check_steps(m, x, &from[i], &to[i], i, comm);
    free(comm);
    run_pairs(m, x, from, to, count);
}

/* Every step-th pair, all swaps, and with `single` all pairs in which at most one axis differs. */
static void run_all(const struct setting *x, int step, bool single)
{
    struct written *list = all_layouts(x);
    int n = (int)arrlen(list), done = 0;
    for (int pair = 0; pair < n * n;) {
        mem_release();
        list = all_layouts(x);
        struct written from[BATCH], to[BATCH];
        int count = 0;
        for (; pair < n * n && count < BATCH; pair++) {
            const struct written *a = &list[pair / n], *b = &list[pair % n];
            if (pair % step == 0 || (single && axes_that_differ(x, a, b) <= 1) || swap(x, a, b)) {
                from[count] = *a;
                to[count++] = *b;
            }
        }
        if (count)
            run_batch(x, from, to, count);
        done += count;
    }
    print_message("[%s], %d x %d%s: %d of %d pairs\n", x->mesh, x->rows, x->columns, x->pad ? " padded" : "", done,
                  n * n);
}

static void one_axis(void **state)
{
    run_all(&(struct setting){ "a: 3", 1, { 3 }, 6, 9, .shares = { 6 } }, 1, true);
    run_all(&(struct setting){ "a: 3", 1, { 3 }, 7, 5, .shares = { 2 } }, 1, true);
    run_all(&(struct setting){ "a: 4", 1, { 4 }, 3, 2, .shares = { 5 } }, 1, true);          /* empty parts */
    run_all(&(struct setting){ "a: 1", 1, { 1 }, 3, 2, .shares = { 2 } }, 1, true);
    run_all(&(struct setting){ "a: 4", 1, { 4 }, 4, 5, .pad = 6, .shares = { 3 } }, 1, true);
}

static void two_axes(void **state)
{
    run_all(&(struct setting){ "a: 2, b: 3", 2, { 2, 3 }, 6, 6, .shares = { 2, 2 } }, 1, true);
    run_all(&(struct setting){ "a: 2, b: 2", 2, { 2, 2 }, 5, 3, .shares = { 3, 1 } }, 1, true);
    run_all(&(struct setting){ "a: 3, b: 2", 2, { 3, 2 }, 6, 5, .shares = { 2, 3 } }, 1, true);
    run_all(&(struct setting){ "a: 2, b: 1", 2, { 2, 1 }, 4, 2, .shares = { 3, 2 } }, 1, true);
    run_all(&(struct setting){ "a: 2, b: 3", 2, { 2, 3 }, 6, 1, .shares = { 2, 2 } }, 1, true);     /* one dim to go through */
    run_all(&(struct setting){ "a: 2, b: 3", 2, { 2, 3 }, 4, 5, .pad = 4, .shares = { 2, 2 } }, 1, true);
}

static void three_axes(void **state)
{
    if (!sample) {
        run_all(&(struct setting){ "a: 2, b: 2, c: 2", 3, { 2, 2, 2 }, 8, 4, .shares = { 2, 1, 1 } }, 97, true);
        run_all(&(struct setting){ "a: 2, b: 1, c: 2", 3, { 2, 1, 2 }, 4, 3, .shares = { 3, 2, 1 } }, 97, false);
        return;
    }
    run_all(&(struct setting){ "a: 2, b: 2, c: 2", 3, { 2, 2, 2 }, 8, 8, .shares = { 2, 3, 1 } }, sample, true);
    run_all(&(struct setting){ "a: 2, b: 1, c: 2", 3, { 2, 1, 2 }, 4, 3, .shares = { 3, 2, 1 } }, sample, true);
    run_all(&(struct setting){ "a: 2, b: 3, c: 2", 3, { 2, 3, 2 }, 6, 5, .pad = 4, .shares = { 2, 2, 1 } }, 5 * sample,
            true);
}

int main(int argc, char **argv)
{
    sample = argc > 1 && !strcmp(argv[1], "--long") ? argc > 2 ? atoi(argv[2]) : 1 : 0;
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_axis), cmocka_unit_test(two_axes),
                                        cmocka_unit_test(three_axes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
