/* Reductions over some axes, all where none are given. Reduced axes are dropped, or kept as nameless dims of size 1.
 * Padding never takes part. Splitting a reduced axis gives P(sum), P(max) or P(min). */
#include "../../runtime/fl_rooms.h"
#include "../layout/place.h"
#include "common.h"
#include "target.h"

unsigned node_axes(const struct node *n)
{
    const struct value *x = n->in[0];
    const struct attr *a = node_attr(n, "axes");
    if (!a)
        a = node_attr(n, "axis");
    unsigned all = (1u << x->ndim) - 1, axes = 0;
    if (!a)
        return all;
    if (a->kind == ATTR_INT)
        return 1u << a->i;
    for (int i = 0; i < arrlen(a->ints); i++)
        axes |= 1u << a->ints[i];
    return arrlen(a->ints) ? axes : all;
}

static bool kept(const struct node *n)
{
    return node_int(n, "keep", 0) != 0;
}

static bool reduce_to(struct graph *g, struct node *n, enum type type)
{
    const struct value *x = n->in[0];
    unsigned axes = node_axes(n);
    struct dim *dims[MAX_DIM];
    int ndim = 0;
    for (int d = 0; d < x->ndim; d++)
        if (!(axes >> d & 1))
            dims[ndim++] = x->dim[d];
        else if (kept(n))
            dims[ndim++] = dim_anonymous(1);
    node_out(g, n, type, ndim, dims);
    return true;
}

static bool reduce_shape(struct graph *g, struct node *n)
{
    return expect_float(n, 0) && reduce_to(g, n, n->in[0]->type);
}

/* "d0 d1+ -> d0" with the mark of the reduction; kept axes are written _ on the right. */
static const char *reduce_rule(const struct node *n, const char *mark)
{
    const struct value *x = n->in[0];
    unsigned axes = node_axes(n);
    char *in = "", *out = "";
    for (int d = 0; d < x->ndim; d++) {
        bool reduced = axes >> d & 1;
        in = mem_printf("%sd%d%s ", in, d, reduced ? mark : "");
        if (!reduced)
            out = mem_printf("%s d%d", out, d);
        else if (kept(n))
            out = mem_printf("%s _", out);
    }
    return mem_printf("%s->%s", in, out);
}

static const char *sum_rule(const struct node *n)
{
    return reduce_rule(n, "+");
}

static const char *max_rule(const struct node *n)
{
    return reduce_rule(n, ">");
}

static const char *min_rule(const struct node *n)
{
    return reduce_rule(n, "<");
}

static const char *argmax_rule(const struct node *n)
{
    return reduce_rule(n, "^");
}

static double reduce_flops(const struct node *n)
{
    return (double)value_count(n->in[0]);
}

/* Folds every valid entry of operand 0 into its place of the output; f gets the entry's index along the axes reduced. */
static void ref_reduce(struct reference *r, double start, double (*f)(double so_far, double x))
{
    const struct tensor *in = &r->in[0];
    struct tensor *out = &r->out[0];
    unsigned axes = node_axes(r->node);
    int64_t at[MAX_DIM] = {0}, i = 0, count = tensor_count(out);
    for (int64_t k = 0; k < count; k++)
        out->data[k] = start;
    if (!tensor_count(in))
        return;
    do {
        int64_t place = 0;
        bool valid = true;
        for (int d = 0; d < in->ndim; d++) {
            if (!(axes >> d & 1))
                place = place * in->n[d] + at[d];
            else if (in->base[d] + at[d] >= in->valid[d])
                valid = false;
        }
        if (valid)
            out->data[place] = f(out->data[place], in->data[i]);
        i++;
    } while (index_next(at, in->n, in->ndim));
}

static double fold_sum(double a, double x)
{
    return a + x;
}

static double fold_max(double a, double x)
{
    return x > a ? x : a;
}

static double fold_min(double a, double x)
{
    return x < a ? x : a;
}

static void sum_ref(struct reference *r)
{
    ref_reduce(r, 0, fold_sum);
}

static void sum_grad(struct grad *c)
{
    const struct node *n = c->node;
    if (c->wanted[0])
        c->din[0] = build_unreduce(c->g, c->at, c->dout[0], n->in[0], node_axes(n), kept(n));
}

void memory_order(const struct value *v, int *perm)
{
    for (int d = 0; d < v->ndim; d++)
        perm[d] = d;
    for (int i = 1; i < v->ndim; i++)
        for (int j = i; j && v->stride[perm[j]] > v->stride[perm[j - 1]]; j--) {
            int t = perm[j];
            perm[j] = perm[j - 1];
            perm[j - 1] = t;
        }
}

/* Results on the rank that has the fewest. */
static int64_t fewest(const struct value *v, const struct mesh *m)
{
    int64_t count = 1;
    for (int d = 0; d < v->ndim; d++)
        count *= v->dim[d]->phys / layout_parts(&v->lay, d, m);
    return count;
}

/* What the kernels on a processor sum up first, piece by piece (runtime/cpu/reduce.c), dims in the order in which the call
 * names them (emit_sum), and f32 sums of a short result. */
static int64_t reduce_room(struct node *n, const struct mesh *m, const struct target *t)
{
    const struct value *x = n->in[0], *y = n->out[0];
    if (!t->scratch)
        return 0;
    unsigned axes = node_axes(n);
    int perm[MAX_DIM];
    memory_order(x, perm);
    for (int d = 0; d < x->ndim && place_contiguous(x) && place_contiguous(y); d++)
        perm[d] = d;
    int64_t results = room_count(y, 0, y->ndim, m), few = results, folded = 1, inner = 1;
    for (int d = 0; d < x->ndim; d++)
        folded *= axes >> d & 1 ? value_extent(x, d, m, NULL) : 1;
    for (int i = x->ndim - 1; i >= 0 && axes >> perm[i] & 1; i--) {
        inner *= value_extent(x, perm[i], m, NULL);
        if (x->dim[perm[i]]->size != x->dim[perm[i]]->phys)
            break;                                         /* its rows are not next to each other */
    }
    if (results >= FL_FOLD_FEW && fewest(y, m) < FL_FOLD_FEW)
        few = FL_FOLD_FEW - 1;                             /* another rank's, in more parts */
    int64_t rows = inner ? folded / inner : 0;
    bool last = x->ndim && axes >> perm[x->ndim - 1] & 1;
    int64_t bytes = last ? fl_room_of_fold(results, rows, inner) : fl_room_of_rows(results, folded);
    if (last && few != results && fl_room_of_fold(few, rows, inner) > bytes)
        bytes = fl_room_of_fold(few, rows, inner);
    return room_bytes(bytes) + (y->type != TYPE_F32 && !n->wide ? room_lines(results) : 0);
}

const struct op op_sum = {
    .name = "sum", .flags = OP_SKIPS_PADDING | OP_WIDE | OP_STRIDED,
    .doc = "sum of x over axes", .args = "x, axes:axes?, keep:bool=false", .rule_of = sum_rule,
    .linear = "{a}", .shape = reduce_shape, .grad = sum_grad, .flops = reduce_flops, .ref = sum_ref,
    .room = reduce_room, .call = "fl_sum%mixed()(%o0, %i0%types(o0,i0), %reduce)",
    .shapes = "x [a, b] -> [a] over b; all axes when none are given; keep: [a, 1]",
    .factors = "kept dims; a reduced dim is contracted (+)",
    .work = "elements of x",
};

static void max_ref(struct reference *r)
{
    ref_reduce(r, -INFINITY, fold_max);
}

static void min_ref(struct reference *r)
{
    ref_reduce(r, INFINITY, fold_min);
}

/* Entries that attain the extreme share the gradient. */
static void extreme_grad(struct grad *c)
{
    const struct node *n = c->node;
    if (!c->wanted[0])
        return;
    struct value *x = n->in[0], *one = NUMBER(c, 1);
    unsigned axes = node_axes(n);
    struct value *hit = MAKE(c, equal, x, build_unreduce(c->g, c->at, n->out[0], x, axes, kept(n)));
    struct value *ones = MAKE(c, mask, build_expand(c->g, c->at, one, x), hit);
    struct value *share = MAKE(c, div, c->dout[0], build_reduce(c->g, c->at, &op_sum, ones, axes, kept(n), n->span));
    c->din[0] = MAKE(c, mask, build_unreduce(c->g, c->at, share, x, axes, kept(n)), hit);
}

const struct op op_max = {
    .name = "max", .flags = OP_SKIPS_PADDING | OP_WIDE, .doc = "largest entry over axes", .args = "x, axes:axes?, keep:bool=false", .rule_of = max_rule,
    .linear = "max{a}", .shape = reduce_shape, .grad = extreme_grad, .flops = reduce_flops, .ref = max_ref,
    .room = reduce_room, .call = "fl_max%mixed()(%o0, %i0%types(o0,i0), %reduce)",
    .shapes = "x [a, b] -> [a] over b; all axes when none are given; keep: [a, 1]",
    .factors = "kept dims; a reduced dim gives P(max)",
    .work = "elements of x",
};

const struct op op_min = {
    .name = "min", .flags = OP_SKIPS_PADDING | OP_WIDE, .doc = "smallest entry over axes", .args = "x, axes:axes?, keep:bool=false", .rule_of = min_rule,
    .linear = "min{a}", .shape = reduce_shape, .grad = extreme_grad, .flops = reduce_flops, .ref = min_ref,
    .room = reduce_room, .call = "fl_min%mixed()(%o0, %i0%types(o0,i0), %reduce)",
    .shapes = "x [a, b] -> [a] over b; all axes when none are given; keep: [a, 1]",
    .factors = "kept dims; a reduced dim gives P(min)",
    .work = "elements of x",
};

/* The number of entries a mean divides by: a constant of the program, whatever the layout. */
static double mean_count(const struct node *n)
{
    unsigned axes = node_axes(n);
    double count = 1;
    for (int d = 0; d < n->in[0]->ndim; d++)
        if (axes >> d & 1)
            count *= (double)n->in[0]->dim[d]->size;
    return count;
}

static bool mean_shape(struct graph *g, struct node *n)
{
    if (!node_attr(n, "axes") && !node_attr(n, "axis")) {
        struct diag *d = diag_error(E_ARGUMENTS, n->span, "mean needs its axes");
        diag_label(d, n->in[0]->span, "%s", value_type_text(n->in[0], NULL));
        diag_help(d, "name them, as in mean(x, axis = %s), or divide a sum by a count(..)",
                  n->in[0]->ndim && n->in[0]->dim[0]->name ? n->in[0]->dim[0]->name : "0");
        return false;
    }
    return reduce_shape(g, n);
}

static void mean_ref(struct reference *r)
{
    const struct tensor *in = &r->in[0];
    unsigned axes = node_axes(r->node);
    double entries = 1;
    for (int d = 0; d < in->ndim; d++)
        if (axes >> d & 1)
            entries *= (double)in->valid[d];
    ref_reduce(r, 0, fold_sum);
    int64_t count = tensor_count(&r->out[0]);
    for (int64_t i = 0; i < count; i++)
        r->out[0].data[i] /= entries;
}

static void mean_grad(struct grad *c)
{
    const struct node *n = c->node;
    if (!c->wanted[0])
        return;
    struct value *dy = MAKE(c, mul, c->dout[0], NUMBER(c, 1 / mean_count(n)));
    c->din[0] = build_unreduce(c->g, c->at, dy, n->in[0], node_axes(n), kept(n));
}

const struct op op_mean = {
    .name = "mean", .flags = OP_SKIPS_PADDING | OP_WIDE, .doc = "sum of x over axes, divided by their number of entries",
    .args = "x, axes:axes?, keep:bool=false", .rule_of = sum_rule, .linear = "{a}", .shape = mean_shape,
    .grad = mean_grad, .flops = reduce_flops, .ref = mean_ref, .room = reduce_room, .call = "fl_mean%mixed()(%o0, %i0%types(o0,i0), %reduce)",
    .shapes = "x [a, b] -> [a] over b; keep: [a, 1]",
    .factors = "kept dims; a reduced dim is contracted (+)",
    .work = "elements of x",
};

static bool count_shape(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    if (x->type == TYPE_I32 && !node_attr(n, "ignore")) {
        struct diag *d = diag_error(E_ARGUMENTS, n->span, "count of i32 values that have no ignore value");
        diag_label(d, x->span, "%s", value_type_text(x, NULL));
        diag_help(d, "declare the input with `ignore V`, or count a condition such as x != V");
        return false;
    }
    if (x->type != TYPE_I32 && !expect_type(n, 0, TYPE_BOOL))
        return false;
    return reduce_to(g, n, TYPE_F32);
}

static double fold_true(double a, double x)
{
    return a + (x != 0);
}

static void count_ref(struct reference *r)
{
    const struct attr *ignore = node_attr(r->node, "ignore");
    if (ignore) {
        struct tensor *in = &r->in[0];
        int64_t count = tensor_count(in);
        double *hit = NEW_ARRAY(double, count);
        for (int64_t i = 0; i < count; i++)
            hit[i] = in->data[i] != node_num(r->node, "ignore", 0);
        struct tensor mask = *in;
        mask.data = hit;
        struct reference again = *r;
        again.in = &mask;
        ref_reduce(&again, 0, fold_true);
    } else {
        ref_reduce(r, 0, fold_true);
    }
}

const struct op op_count = {
    .name = "count", .flags = OP_SKIPS_PADDING, .doc = "number of entries that are true, or not the ignore value, as f32",
    .args = "x, axes:axes?, keep:bool=false", .rule_of = sum_rule, .shape = count_shape, .flops = reduce_flops,
    .ref = count_ref, .call = "fl_count(%o0, %i0, %reduce, %ignore)",
    .shapes = "x bool, or i32 with an ignore value, [a, b] -> f32 [a] over b",
    .factors = "kept dims; a reduced dim is contracted (+)",
    .work = "elements of x",
};

static bool argmax_shape(struct graph *g, struct node *n)
{
    return expect_float(n, 0) && reduce_to(g, n, TYPE_I32);
}

/* The first of equal entries wins. */
static void argmax_ref(struct reference *r)
{
    const struct tensor *in = &r->in[0];
    struct tensor *out = &r->out[0];
    int axis = (int)node_int(r->node, "axis", 0);
    int64_t inner = 1, outer = 1, n = in->n[axis];
    for (int d = 0; d < axis; d++)
        outer *= in->n[d];
    for (int d = axis + 1; d < in->ndim; d++)
        inner *= in->n[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t best = 0;
            for (int64_t k = 1; k < n && in->base[axis] + k < in->valid[axis]; k++)
                if (in->data[(o * n + k) * inner + i] > in->data[(o * n + best) * inner + i])
                    best = k;
            out->data[o * inner + i] = (double)best;
        }
}

const struct op op_argmax = {
    .name = "argmax", .flags = OP_SKIPS_PADDING | OP_ANY_FLOAT, .doc = "index of the largest entry along an axis, as i32", .args = "x, axis:axis, keep:bool=false",
    .rule_of = argmax_rule, .shape = argmax_shape, .flops = reduce_flops, .ref = argmax_ref,
    .call = "fl_argmax%as(i0)(%o0, %i0%type(i0), %reduce)",
    .shapes = "x [a, b] -> i32 [a] over b",
    .factors = "kept dims; the axis is whole (^)",
    .work = "elements of x",
};
