/* Type changes and marks: cast, detach (stops the gradient) and to (a layout the model writes down). */
#include "common.h"

static bool cast_shape(struct graph *g, struct node *n)
{
    enum type t = (enum type)node_int(n, "type", TYPE_F32);
    node_out(g, n, t, n->in[0]->ndim, n->in[0]->dim);
    return true;
}

/* Casts are decided by rounding: widening commutes with a sum, narrowing does not, but both keep the order of numbers. */
static void cast_extra(const struct node *n, int parts, struct sig **sigs)
{
    enum type from = n->in[0]->type, to = n->out[0]->type;
    if (!type_is_float(from) || !type_is_float(to))
        return;
    bool wider = from == to || type_bytes[to] > type_bytes[from];
    for (enum reduce r = wider ? REDUCE_SUM : REDUCE_MAX; r <= REDUCE_MIN; r++) {
        struct sig s = sig_new(n);
        s.in[0] = s.out[0] = sbp_partial(r);
        arrput(*sigs, s);
    }
}

/* x as a float of so many bits of precision and smallest step 2^least, rounded to nearest even. */
static double narrow(double x, int bits, int least, double largest)
{
    int e;
    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &e);
    double step = ldexp(1, e - bits > least ? e - bits : least), y = nearbyint(x / step) * step;
    return fabs(y) > largest ? copysign(INFINITY, x) : y;
}

double type_round(double x, enum type t)
{
    switch (t) {
    case TYPE_BF16: return narrow(x, 8, -133, 3.3895313892515355e38);
    case TYPE_F16: return narrow(x, 11, -24, 65504);
    case TYPE_F32: return (float)x;
    case TYPE_BOOL: return x != 0;
    case TYPE_I32:
    case TYPE_U8: return trunc(x);
    default: return x;
    }
}

static void cast_ref(struct reference *r)
{
    enum type from = r->node->in[0]->type, to = r->node->out[0]->type;
    int64_t count = tensor_count(&r->out[0]);
    bool same = from == to || (r->exact && type_is_float(to) && type_is_float(from));
    for (int64_t i = 0; i < count; i++)
        r->out[0].data[i] = same ? r->in[0].data[i] : type_round(r->in[0].data[i], to);
}

static void cast_grad(struct grad *c)
{
    if (!c->wanted[0] || !type_is_float(c->node->in[0]->type) || !type_is_float(c->node->out[0]->type))
        return;
    struct node *n = node_new(c->g, c->at, &op_cast, c->node->span);
    node_in(n, c->dout[0]);
    node_set_int(n, "type", c->node->in[0]->type);
    if (node_finish(c->g, n))
        c->din[0] = n->out[0];
}

const struct op op_cast = {
    .name = "cast", .doc = "x in another type", .args = "x, type:type", .rule_of = rule_same, .extra = cast_extra,
    .flags = OP_ELEMENTWISE, .expr = "%0", .shape = cast_shape, .grad = cast_grad, .ref = cast_ref,
    .more = "P(sum) passes when the result is no narrower, P(max) and P(min) always",
};

const struct op op_detach = {
    .name = "detach", .doc = "x, and no gradient passes", .args = "x", .rule_of = rule_same,
    .linear = "{a} max{a} min{a}", .flags = OP_VIEW, .shape = shape_same, .ref = ref_view,
    .shapes = "x -> the same",
    .factors = "every dim",
};

static void to_grad(struct grad *c)
{
    if (c->wanted[0])
        c->din[0] = c->dout[0];
}

const struct op op_to = {
    .name = "to", .doc = "x, stored in the layout written", .args = "x, parts:dims", .rule_of = rule_same,
    .linear = "{a} max{a} min{a}", .flags = OP_VIEW, .shape = shape_same, .grad = to_grad, .ref = ref_view,
    .shapes = "x -> the same",
    .factors = "every dim",
};
