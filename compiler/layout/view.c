/* The views: how the strides and the offset of a view op's output follow from those of its operand. One row per op; an
 * op without a row, or a shape that no strides say, is copied instead. */
#include "op.h"
#include "place.h"

struct view {
    struct physical *p;
    const struct node *n;
    int out;
    const struct value *from, *to;
    struct place *l;             /* being built: extents are set, strides are all 0 */
};

static int axis_of(const struct view *v)
{
    return (int)node_int(v->n, "axis", 0);
}

static bool same(struct view *v)
{
    for (int d = 0; d < v->to->ndim; d++)
        v->l->stride[d] = v->from->place->stride[d];
    return v->from->ndim == v->to->ndim;
}

static bool transposed(struct view *v)
{
    const int64_t *axes = node_ints(v->n, "axes");
    for (int d = 0; d < v->to->ndim; d++)
        v->l->stride[d] = v->from->place->stride[axes ? axes[d] : v->to->ndim - 1 - d];
    return true;
}

/* Removes dim `axis` of the operand, reading index `at` of it. */
static bool dropped(struct view *v, int axis, int64_t at)
{
    for (int d = 0; d < v->to->ndim; d++)
        v->l->stride[d] = v->from->place->stride[d + (d >= axis)];
    if (at)
        arrput(v->l->offset, sym_mul(sym_int(at), v->from->place->stride[axis]));
    return true;
}

static bool drop_axis(struct view *v)
{
    return dropped(v, axis_of(v), 0);
}

static bool unstacked(struct view *v)
{
    return dropped(v, axis_of(v), v->out);
}

static bool new_axis(struct view *v)
{
    int axis = axis_of(v);
    for (int d = 0; d < v->to->ndim; d++)
        if (d != axis)
            v->l->stride[d] = v->from->place->stride[d - (d > axis)];
    return true;
}

static bool sliced(struct view *v)
{
    const int64_t *start = node_ints(v->n, "start");
    for (int d = 0; d < v->to->ndim; d++)
        if (start[d])
            arrput(v->l->offset, sym_mul(sym_int(start[d]), v->from->place->stride[d]));
    return same(v);
}

/* Trailing broadcast: dims that the operand lacks, or has with one element, get stride 0. */
static bool expanded(struct view *v)
{
    int lead = v->to->ndim - v->from->ndim;
    for (int d = lead; d < v->to->ndim; d++)
        if (!sym_is(v->from->place->extent[d - lead], 1))
            v->l->stride[d] = v->from->place->stride[d - lead];
    return true;
}

/* Each group of operand dims with the product of a group of result dims must be dense in itself. */
static bool reshaped(struct view *v)
{
    const struct place *f = v->from->place;
    int nf = v->from->ndim, nt = v->to->ndim, i = 0, j = 0;
    while (i < nf || j < nt) {
        int i0 = i, j0 = j;
        struct sym a = sym_int(1), b = sym_int(1);
        do {
            if (i < nf && (j == nt || i == i0 || sym_max(v->p, a) <= sym_max(v->p, b)))
                a = sym_mul(a, f->extent[i++]);
            else if (j < nt)
                b = sym_mul(b, v->l->extent[j++]);
            else
                return false;
        } while (!sym_same(a, b));
        struct sym inner = sym_int(1);
        bool first = true;
        for (int d = i - 1; d >= i0; d--) {
            if (sym_is(f->extent[d], 1))
                continue;
            if (first)
                inner = f->stride[d];
            else if (!sym_same(f->stride[d], inner))
                return false;
            inner = sym_mul(f->stride[d], f->extent[d]);
            first = false;
        }
        struct sym s = sym_int(1);
        for (int d = i - 1; d >= i0; d--)
            if (!sym_is(f->extent[d], 1)) {
                s = f->stride[d];
                break;
            }
        for (int d = j - 1; d >= j0; d--) {
            v->l->stride[d] = s;
            s = sym_mul(s, v->l->extent[d]);
        }
    }
    return true;
}

/* The rank's part of a whole dim, and within it the running micro-batch's where the axis is the one in time. */
static bool part(struct view *v)
{
    if (layout_flat(&v->to->lay, v->p->mesh)) {
        struct sym at = sym_base(v->p, v->to, DIM_FLAT);
        if (!place_contiguous(v->from))
            return false;
        arrput(v->l->offset, at);
        for (int d = 0; d < v->to->ndim; d++)
            v->l->stride[d] = sym_int(1);
        return true;
    }
    int dim = (int)node_int(v->n, "dim", 0);
    struct sym s = v->from->place->stride[dim], b = sym_mul(sym_base(v->p, v->to, dim), s);
    struct sym from = sym_mul(sym_base(v->p, v->from, dim), s);
    if (b.c)
        arrput(v->l->offset, b);
    from.c = -from.c;
    if (from.c)
        arrput(v->l->offset, from);
    int mb = v->p->mesh->mb;
    struct sbp time_to = v->to->lay.ax[mb], time_from = v->from->lay.ax[mb];
    if (v->p->mesh->axis[mb].size > 1 && time_to.kind == SBP_S && time_to.dim == dim && time_from.kind != SBP_S) {
        struct sym step = sym_mul(s, v->l->extent[dim]);
        step = sym_mul(step, (struct sym){.c = 1, .n = 1, .k = {SYM_MB}});
        arrput(v->l->offset, step);
    }
    return same(v);
}

static const struct {
    const struct op *op;
    bool (*place)(struct view *v);
} rows[] = {
    {&op_detach, same}, {&op_to, same}, {&op_reshape, reshaped}, {&op_transpose, transposed}, {&op_slice, sliced},
    {&op_unstack, unstacked}, {&op_new_axis, new_axis}, {&op_drop_axis, drop_axis}, {&op_expand, expanded},
    {&op_box_slice, part},
};

bool view_place(struct physical *p, const struct node *n, int out)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].op != n->op)
            continue;
        struct view v = {p, n, out, n->in[0], n->out[out], NEW(struct place)};
        for (int d = 0; d < v.to->ndim; d++)
            v.l->extent[d] = !layout_flat(&v.to->lay, p->mesh) ? sym_extent(p, v.to, d)
                             : d ? sym_int(1) : sym_extent(p, v.to, DIM_FLAT);
        for (int t = 0; t < arrlen(v.from->place->offset); t++)
            arrput(v.l->offset, v.from->place->offset[t]);
        if (!rows[i].place(&v))
            return false;
        n->out[out]->place = v.l;
        place_numbers(p, n->out[out]);
        return true;
    }
    return false;
}
