/* Ops on indices along one axis: gather reads entries, scatter adds them up where it puts them, top_k finds the largest
 * ones, one_hot marks one. An index outside the dim reads 0 and changes nothing, so a rank that holds a part of the dim
 * does its share of gather and scatter: what it does not hold adds 0. */
#include "nn.h"

static int axis_of_node(const struct node *n)
{
    return (int)node_int(n, "axis", 0);
}

/* "d0 a^ d2, d0 k d2 -> d0 k d2" and the like: the axis has a factor of its own in each term. */
static char *term(const struct node *n, int ndim, const char *factor)
{
    char *text = "";
    for (int d = 0; d < ndim; d++)
        text = d == axis_of_node(n) ? mem_printf("%s %s", text, factor) : mem_printf("%s d%d", text, d);
    return text;
}

/* Extents before, along and behind the axis. */
struct lines { int64_t outer, n, inner; };

static struct lines lines_of(const struct tensor *t, int axis)
{
    struct lines l = {1, t->n[axis], 1};
    for (int d = 0; d < t->ndim; d++)
        *(d < axis ? &l.outer : &l.inner) *= d == axis ? 1 : t->n[d];
    return l;
}

/* each: every entry of x has an index of its own; else x may be longer or shorter along the axis. */
static bool expect_indices(const struct node *n, bool each)
{
    const struct value *x = n->in[0], *i = n->in[1];
    bool same = x->ndim == i->ndim && x->ndim > 0;
    for (int d = 0; same && d < x->ndim; d++)
        same = (!each && d == axis_of_node(n)) || dim_same(x->dim[d], i->dim[d]);
    return expect_float(n, 0) && expect_type(n, 1, TYPE_I32) &&
           op_expect(n, 1, same, each ? "%s and its indices %s differ" : "%s and its indices %s differ in another dim than the axis",
                     value_type_text(x, NULL), value_type_text(i, NULL));
}

static struct value *along(struct grad *c, const struct op *op, struct value *x, struct value *indices, struct dim *dim)
{
    struct node *n = node_new(c->g, c->at, op, c->node->span);
    node_in(n, x);
    node_in(n, indices);
    node_set_int(n, "axis", axis_of_node(c->node));
    node_set_ptr(n, "dim", dim);
    return node_finish(c->g, n) ? n->out[0] : NULL;
}

/* ---- gather ---- */

static bool gather_shape(struct graph *g, struct node *n)
{
    if (!expect_indices(n, false))
        return false;
    node_out(g, n, n->in[0]->type, n->in[1]->ndim, n->in[1]->dim);
    return true;
}

static const char *gather_rule(const struct node *n)
{
    int ndim = n->in[0]->ndim;
    return mem_printf("%s,%s ->%s", term(n, ndim, "a^"), term(n, ndim, "k"), term(n, ndim, "k"));
}

static void gather_extra(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.in[0] = sbp_split(axis_of_node(n));
    s.out[0] = sbp_partial(REDUCE_SUM);
    s.coords = true;
    arrput(*sigs, s);
}

static void gather_grad(struct grad *c)
{
    if (c->wanted[0])
        c->din[0] = along(c, &op_scatter, c->dout[0], c->node->in[1], c->node->in[0]->dim[axis_of_node(c->node)]);
}

/* Visits every index with its line of the dim: f(entry of indices, entry of the dim's tensor, or -1 when outside). */
static void each_index(const struct tensor *indices, const struct tensor *dim, int axis,
                       void (*f)(struct reference *r, int64_t i, int64_t at), struct reference *r)
{
    struct lines k = lines_of(indices, axis), x = lines_of(dim, axis);
    for (int64_t o = 0; o < k.outer; o++)
        for (int64_t j = 0; j < k.n; j++)
            for (int64_t i = 0; i < k.inner; i++) {
                int64_t entry = (o * k.n + j) * k.inner + i, index = (int64_t)indices->data[entry] - dim->base[axis];
                f(r, entry, index >= 0 && index < x.n ? (o * x.n + index) * x.inner + i : -1);
            }
}

static void gather_one(struct reference *r, int64_t i, int64_t at)
{
    r->out[0].data[i] = at < 0 ? 0 : r->in[0].data[at];
}

static void gather_ref(struct reference *r)
{
    each_index(&r->in[1], &r->in[0], axis_of_node(r->node), gather_one, r);
}

static int64_t gather_limit(const struct node *n, int k)
{
    return k == 1 ? n->in[0]->dim[node_int(n, "axis", 0)]->size : 0;
}

const struct op op_gather = {
    .name = "gather", .doc = "entries of x along axis: y[.., j, ..] = x[.., indices[.., j, ..], ..]",
    .args = "x, indices, axis:axis", .rule_of = gather_rule, .linear = "{a} max{a} min{a}", .shape = gather_shape,
    .index_limit = gather_limit, .extra = gather_extra, .grad = gather_grad, .ref = gather_ref,
    .call = "fl_gather%as(o0,i0)(%o0, %i0%type(i0), %i1, %reduce, %extent(i1,axis), %base(i0,axis))",
    .shapes = "x [a, n, b], indices i32 [a, k, b] -> [a, k, b]",
    .factors = "every dim of the indices; n is whole (^)",
    .more = "n: the result is P(sum); a rank knows where its part begins",
};

/* ---- scatter ---- */

static bool scatter_shape(struct graph *g, struct node *n)
{
    if (!expect_indices(n, true))
        return false;
    struct dim *dims[MAX_DIM];
    for (int d = 0; d < n->in[0]->ndim; d++)
        dims[d] = d == axis_of_node(n) ? node_ptr(n, "dim") : n->in[0]->dim[d];
    node_out(g, n, n->in[0]->type, n->in[0]->ndim, dims);
    return true;
}

static const char *scatter_rule(const struct node *n)
{
    int ndim = n->in[0]->ndim;
    return mem_printf("%s,%s ->%s", term(n, ndim, "k+"), term(n, ndim, "k+"), term(n, ndim, "_"));
}

static void scatter_extra(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.out[0] = sbp_split(axis_of_node(n));
    s.coords = true;
    arrput(*sigs, s);
}

static void scatter_grad(struct grad *c)
{
    if (c->wanted[0])
        c->din[0] = along(c, &op_gather, c->dout[0], c->node->in[1], NULL);
}

static void scatter_one(struct reference *r, int64_t i, int64_t at)
{
    if (at >= 0)
        r->out[0].data[at] += r->in[0].data[i];
}

static void scatter_ref(struct reference *r)
{
    each_index(&r->in[1], &r->out[0], axis_of_node(r->node), scatter_one, r);
}

static int64_t scatter_limit(const struct node *n, int k)
{
    return k == 1 ? ((struct dim *)node_ptr(n, "dim"))->size : 0;
}

const struct op op_scatter = {
    .name = "scatter", .doc = "x added up by index along axis: y[.., indices[.., j, ..], ..] += x[.., j, ..]",
    .args = "x, indices, axis:axis, dim:dim", .rule_of = scatter_rule, .linear = "{a}", .flags = OP_ZEROES_PADDING,
    .index_limit = scatter_limit, .shape = scatter_shape, .extra = scatter_extra, .grad = scatter_grad, .ref = scatter_ref,
    .call = "fl_scatter%as(i0)(%o0, %i0%type(i0), %i1, %reduce, %extent(o0,axis), %base(o0,axis))",
    .shapes = "x [a, k, b], indices i32 [a, k, b] -> [a, dim, b]",
    .factors = "the other dims; k is contracted (+)",
    .more = "dim: a rank makes its part and knows where it begins",
};

/* ---- top_k ---- */

static bool top_k_shape(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    int64_t k = node_int(n, "k", 0), size = x->ndim ? x->dim[axis_of_node(n)]->size : 0;
    if (!expect_float(n, 0) || !op_expect(n, 0, k >= 1 && k <= size, "k = %lld is not between 1 and the size %lld of "
                                          "the axis", (long long)k, (long long)size))
        return false;
    struct dim *dims[MAX_DIM], *made = dim_anonymous(k);
    for (int d = 0; d < x->ndim; d++)
        dims[d] = d == axis_of_node(n) ? made : x->dim[d];
    node_out(g, n, x->type, x->ndim, dims);
    node_out(g, n, TYPE_I32, x->ndim, dims);
    return true;
}

static const char *top_k_rule(const struct node *n)
{
    int ndim = n->in[0]->ndim;
    return mem_printf("%s ->%s,%s", term(n, ndim, "a^"), term(n, ndim, "_"), term(n, ndim, "_"));
}

static double top_k_flops(const struct node *n)
{
    return (double)value_count(n->in[0]);
}

static void top_k_grad(struct grad *c)
{
    if (c->wanted[0] && c->dout[0])
        c->din[0] = along(c, &op_scatter, c->dout[0], c->node->out[1], c->node->in[0]->dim[axis_of_node(c->node)]);
}

/* Largest first; of equal ones the first. */
static void top_k_ref(struct reference *r)
{
    int axis = axis_of_node(r->node);
    const struct tensor *x = &r->in[0];
    struct lines l = lines_of(x, axis), y = lines_of(&r->out[0], axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            const double *from = x->data + o * l.n * l.inner + i;
            bool *taken = NEW_ARRAY(bool, l.n + 1);
            for (int64_t j = 0; j < y.n; j++) {
                int64_t best = -1;
                for (int64_t k = 0; k < l.n && k < x->valid[axis]; k++)
                    if (!taken[k] && (best < 0 || from[k * l.inner] > from[best * l.inner]))
                        best = k;
                if (best < 0)
                    break;
                taken[best] = true;
                r->out[0].data[(o * y.n + j) * l.inner + i] = from[best * l.inner];
                r->out[1].data[(o * y.n + j) * l.inner + i] = (double)best;
            }
        }
}

const struct op op_top_k = {
    .name = "top_k", .doc = "the k largest entries along axis, largest first, and their indices as i32",
    .args = "x, k:int, axis:axis", .rule_of = top_k_rule, .flags = OP_SKIPS_PADDING, .shape = top_k_shape,
    .grad = top_k_grad, .flops = top_k_flops, .ref = top_k_ref,
    .call = "fl_top_k%as(i0,o0)(%o0, %o1, %i0%type(i0), %reduce, %int(k))",
    .shapes = "x [a, n, b] -> values [a, k, b], indices i32 [a, k, b]",
    .factors = "every dim but the axis, which is whole (^)",
    .work = "elements of x",
};

/* ---- one_hot ---- */

static bool one_hot_shape(struct graph *g, struct node *n)
{
    const struct value *ids = n->in[0];
    if (!expect_type(n, 0, TYPE_I32) || !op_expect(n, 0, ids->ndim < MAX_DIM, "a tensor has at most %d dims", MAX_DIM))
        return false;
    struct dim *dims[MAX_DIM];
    memcpy(dims, ids->dim, sizeof dims);
    dims[ids->ndim] = node_ptr(n, "dim");
    node_out(g, n, TYPE_F32, ids->ndim + 1, dims);
    return true;
}

static void one_hot_extra(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.out[0] = sbp_split(n->in[0]->ndim);
    s.coords = true;
    arrput(*sigs, s);
}

/* ids[.., _] == positions(dim), as numbers. */
static void one_hot_lower(struct graph *g, struct region *at, struct node *n, struct value **out)
{
    struct node *p = node_new(g, at, &op_positions, n->span), *axis, *number;
    node_set_ptr(p, "dim", node_ptr(n, "dim"));
    bool fine = node_finish(g, p);
    axis = node_new(g, at, &op_new_axis, n->span);
    node_in(axis, n->in[0]);
    node_set_int(axis, "axis", n->in[0]->ndim);
    fine &= node_finish(g, axis);
    struct value *hit = build(g, at, &op_equal, n->span, 2, axis->out[0], p->out[0]);
    number = node_new(g, at, &op_cast, n->span);
    node_in(number, hit);
    node_set_int(number, "type", TYPE_F32);
    if (!fine || !node_finish(g, number))
        BUG("one_hot cannot be taken apart");
    out[0] = number->out[0];
}

static void one_hot_ref(struct reference *r)
{
    const struct tensor *y = &r->out[0];
    int last = y->ndim - 1;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++)
        for (int64_t c = 0; c < y->n[last]; c++)
            y->data[i * y->n[last] + c] = r->in[0].data[i] == (double)(y->base[last] + c);
}

const struct op op_one_hot = {
    .name = "one_hot", .doc = "ids [..] -> [.., C]: 1 at the place ids[..], else 0", .args = "ids, dim:dim",
    .rule = "b.. -> b.. _", .shape = one_hot_shape, .extra = one_hot_extra, .lower = one_hot_lower, .ref = one_hot_ref,
    .shapes = "ids i32 [..] -> f32 [.., dim]",
    .more = "dim: a rank makes its part and knows where it begins",
};
