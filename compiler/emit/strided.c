/* Ops that only move data: stack, concat, the gradient of slice, copies of views, the padding of a part. Each is one
 * strided copy per operand into a view of the result. */
#include "emitter.h"

/* The part of `out` that operand `in` goes to: its extents, out's type and strides; dim `axis` of out is left out (-1: none). */
static struct value *part(const struct value *out, const struct value *in, int axis)
{
    struct value *v = NEW(struct value);
    *v = *in;
    v->type = out->type;                 /* a gradient of a parameter, or what `keep f32 on` names, may be wider */
    v->place = NEW(struct place);
    for (int d = 0; d < in->ndim; d++) {
        int from = axis >= 0 && d >= axis ? d + 1 : d;
        v->place->extent[d] = in->place->extent[d];
        v->place->stride[d] = out->place->stride[from];
        v->stride[d] = out->stride[from];
    }
    return v;
}

static void put(struct emitter *e, const struct node *n, const struct value *in, int axis, const char *offset)
{
    const char *to = tensor_name(e, n->out[0]);
    if (offset)
        to = mem_printf("%s + %s", to, offset);
    copy_line(e, n, to, part(n->out[0], in, axis), tensor_name(e, in), in);
}

static const char *plus(const char *offset, struct sym s)
{
    if (!s.c)
        return offset;
    return offset ? mem_printf("%s + %s", offset, sym_text(s)) : sym_text(s);
}

static void fill(struct emitter *e, const struct node *n, const char *number)
{
    const struct value *out = n->out[0];
    line(e, n, "fl_fill%s(%s, %s, %s);", type_is_float(out->type) ? type_suffix(out->type) : "", tensor_name(e, out),
         number, sym_text(sym_range(out->place, 0, out->ndim)));
}

static const char *identity(const struct node *n)
{
    return reduce_c_identity[node_int(n, "reduce", REDUCE_SUM)];
}

bool emit_strided(struct emitter *e, const struct node *n)
{
    const struct value *out = arrlen(n->out) ? n->out[0] : NULL;
    int axis = (int)node_int(n, "axis", 0);
    const char *offset = NULL;
    if (n->op == &op_stack || n->op == &op_concat) {
        for (int k = 0; k < arrlen(n->in); k++) {
            bool stack = n->op == &op_stack;
            if (n->in[k]->buffer != out->buffer)           /* else it was written in its place */
                put(e, n, n->in[k], stack ? axis : -1, offset);
            struct sym step = stack ? out->place->stride[axis]
                                    : sym_mul(out->place->stride[axis], n->in[k]->place->extent[axis]);
            offset = plus(offset, step);
        }
    } else if (n->op == &op_slice_grad) {
        const int64_t *start = node_ints(n, "start");
        for (int d = 0; d < out->ndim; d++)
            offset = plus(offset, sym_mul(sym_int(start[d]), out->place->stride[d]));
        fill(e, n, "0.0f");
        put(e, n, n->in[0], -1, offset);
    } else if (n->op == &op_box_pad) {
        int dim = (int)node_int(n, "dim", 0);
        struct sym from = sym_base(e->p, out, dim), at = sym_base(e->p, n->in[0], dim);
        from.c = -from.c;
        offset = plus(plus(NULL, sym_mul(at, out->place->stride[dim])), sym_mul(from, out->place->stride[dim]));
        fill(e, n, identity(n));
        put(e, n, n->in[0], -1, offset);
    } else if (n->op == &op_copy) {
        put(e, n, n->in[0], -1, NULL);
    } else if (n->op->flags & OP_VIEW && !(n->op->flags & OP_ELEMENTWISE)) {
        if (out->buffer == n->in[0]->buffer)
            return true;                                   /* a view: nothing to do */
        struct value *like = NEW(struct value);            /* the result seen in the operand's shape */
        *like = *n->in[0];
        like->type = out->type;
        like->place = NEW(struct place);
        struct sym s = sym_int(1);
        for (int d = like->ndim - 1; d >= 0; d--) {
            like->place->extent[d] = n->in[0]->place->extent[d];
            like->place->stride[d] = s;
            s = sym_mul(s, like->place->extent[d]);
            like->stride[d] = sym_max(e->p, like->place->stride[d]);
        }
        copy_line(e, n, tensor_name(e, out), like, tensor_name(e, n->in[0]), n->in[0]);
    } else {
        return false;
    }
    return true;
}
