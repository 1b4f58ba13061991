/* rope: rotary positions. Pairs of the last dim are turned by an angle that grows with the position, which is the index
 * along "axis" (a rank that holds a part starts at its own place). Style "half" pairs i with i + K/2, "interleaved"
 * pairs 2i with 2i + 1. The gradient turns back: attribute "inverse". */
#include "nn.h"
#include "target.h"

static bool shape(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    int64_t axis = node_int(n, "axis", x->ndim - 2);
    const char *style = node_str(n, "style");
    if (!expect_float(n, 0) ||
        !op_expect(n, 0, x->ndim >= 2 && x->dim[x->ndim - 1]->size % 2 == 0, "needs positions and an even last dim") ||
        !op_expect(n, 0, axis >= 0 && axis < x->ndim - 1, "positions cannot lie along dim %lld", (long long)axis) ||
        !op_expect(n, 0, !x->dim[x->ndim - 1]->pad, "the last dim cannot be a padded dim"))
        return false;
    if (style && strcmp(style, "half") && strcmp(style, "interleaved")) {
        struct diag *d = diag_error(E_ARGUMENTS, n->span, "rope has no style '%s'", style);
        diag_help(d, "styles are \"half\" and \"interleaved\"");
        return false;
    }
    node_set_int(n, "axis", axis);
    node_out(g, n, x->type, x->ndim, (struct dim *const *)x->dim);
    return true;
}

static const char *rule_of(const struct node *n)
{
    const char *dims = "";
    int64_t axis = node_int(n, "axis", 0);
    for (int i = 0; i < n->in[0]->ndim; i++)
        dims = i == axis || i == n->in[0]->ndim - 1 ? mem_printf("%s _", dims) : mem_printf("%s x%d", dims, i);
    return mem_printf("%s ->%s", dims, dims);
}

static void extra(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.in[0] = s.out[0] = sbp_split((int)node_int(n, "axis", 0));
    s.coords = true;
    arrput(*sigs, s);
}

static void grad(struct grad *c)
{
    const struct node *f = c->node;
    struct node *n = node_new(c->g, c->at, &op_rope, f->span);
    node_in(n, c->dout[0]);
    node_set_num(n, "base", node_num(f, "base", 10000));
    if (node_str(f, "style"))
        node_set_str(n, "style", node_str(f, "style"));
    node_set_int(n, "axis", node_int(f, "axis", 0));
    node_set_int(n, "inverse", !node_int(f, "inverse", 0));
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void ref(struct reference *r)
{
    const struct tensor *x = &r->in[0];
    const char *style = node_str(r->node, "style");
    bool interleaved = style && !strcmp(style, "interleaved");
    int64_t axis = node_int(r->node, "axis", 0), width = x->n[x->ndim - 1], half = width / 2, at[MAX_DIM] = {0}, o = 0;
    double base = node_num(r->node, "base", 10000), sign = node_int(r->node, "inverse", 0) ? -1 : 1;
    if (!tensor_count(x))
        return;
    do {
        double position = (double)(x->base[axis] + at[axis]);
        for (int64_t i = 0; i < half; i++) {
            int64_t a = o + (interleaved ? 2 * i : i), b = o + (interleaved ? 2 * i + 1 : i + half);
            double angle = sign * position * pow(base, -2.0 * (double)i / (double)width);
            r->out[0].data[a] = x->data[a] * cos(angle) - x->data[b] * sin(angle);
            r->out[0].data[b] = x->data[a] * sin(angle) + x->data[b] * cos(angle);
        }
        o += width;
    } while (index_next(at, x->n, x->ndim - 1));
}

/* Its kernel on a processor keeps cosine and sine of each position and pair. */
static int64_t room(struct node *n, const struct mesh *m, const struct target *t)
{
    const struct value *x = n->in[0];
    int64_t table = value_extent(x, (int)node_int(n, "axis", 0), m, NULL) * value_extent(x, x->ndim - 1, m, NULL);
    return t->scratch ? room_lines(table) : 0;
}

const struct op op_rope = {
    .name = "rope",
    .doc = "pairs of the last dim of [.., T, K] turned by position * base^(-2i/K)",
    .args = "x, base:num=10000, style:str=half, axis:axis=-2",
    .linear = "{a}",
    .shape = shape,
    .rule_of = rule_of,
    .extra = extra,
    .grad = grad,
    .ref = ref,
    .room = room,
    .call = "fl_rope%as(o0,i0)(%o0, %i0%type(i0), %range(i0,0,axis), %extent(i0,axis), %range(i0,axis+1,-1), %last(i0), "
            "%base(i0,axis), %num(base,10000), %is(style,half), %bool(inverse))",
    .shapes = "x -> the same; the last dim holds the pairs that are turned",
    .factors = "every dim but the positions and the last, which are whole (^)",
    .more = "positions: a rank knows where its part begins",
};
