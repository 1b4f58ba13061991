/* slice and its gradient. A dim taken only in part must be whole on every rank; a dim taken whole stays free. */
#include "nn.h"

static bool whole(const struct node *n, const struct dim *d, int i)
{
    return node_ints(n, "start")[i] == 0 && node_ints(n, "stop")[i] == d->size;
}

static bool shape(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    const int64_t *start = node_ints(n, "start"), *stop = node_ints(n, "stop");
    if (!op_expect(n, 0, arrlen(start) == x->ndim && arrlen(stop) == x->ndim, "%d ranges for %d dims",
                   (int)arrlen(start), x->ndim))
        return false;
    struct dim *dim[MAX_DIM];
    for (int i = 0; i < x->ndim; i++) {
        bool good = start[i] >= 0 && stop[i] <= x->dim[i]->size && (start[i] < stop[i] || !x->dim[i]->size);
        if (!op_expect(n, 0, good, "range %lld..%lld is empty or outside a dim of size %lld", (long long)start[i],
                       (long long)stop[i], (long long)x->dim[i]->size))
            return false;
        dim[i] = whole(n, x->dim[i], i) ? x->dim[i] : dim_anonymous(stop[i] - start[i]);
    }
    node_out(g, n, x->type, x->ndim, dim);
    return true;
}

/* slice_grad carries the dims of the sliced tensor in "dims". */
static bool shape_grad(struct graph *g, struct node *n)
{
    struct dim **dims = node_ptr(n, "dims");
    const struct value *dy = n->in[0];
    const int64_t *start = node_ints(n, "start"), *stop = node_ints(n, "stop");
    bool fits = arrlen(dims) == dy->ndim;
    for (int i = 0; fits && i < dy->ndim; i++)
        fits = dy->dim[i]->size == stop[i] - start[i] && stop[i] <= dims[i]->size;
    if (!op_expect(n, 0, fits, "dy has not the shape of the slice"))
        return false;
    node_out(g, n, dy->type, dy->ndim, dims);
    return true;
}

static const char *rule_for(const struct node *n, struct dim *const *dims, int ndim)
{
    const char *factors = "";
    for (int i = 0; i < ndim; i++)
        factors = mem_printf("%s x%d%s", factors, i, whole(n, dims[i], i) ? "" : "^");
    return mem_printf("%s ->%s", *factors ? factors : "-", factors);
}

static const char *rule_of(const struct node *n)
{
    return rule_for(n, n->in[0]->dim, n->in[0]->ndim);
}

static const char *rule_of_grad(const struct node *n)
{
    return rule_for(n, n->out[0]->dim, n->out[0]->ndim);
}

static struct node *back(struct grad *c, const struct op *op)
{
    const int64_t *start = node_ints(c->node, "start"), *stop = node_ints(c->node, "stop");
    struct node *n = node_new(c->g, c->at, op, c->node->span);
    node_in(n, c->dout[0]);
    node_set_ints(n, "start", start, (int)arrlen(start));
    node_set_ints(n, "stop", stop, (int)arrlen(stop));
    return n;
}

static void grad(struct grad *c)
{
    const struct value *x = c->node->in[0];
    struct node *n = back(c, &op_slice_grad);
    struct dim **dims = NULL;
    for (int i = 0; i < x->ndim; i++)
        arrput(dims, x->dim[i]);
    node_set_ptr(n, "dims", dims);
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void grad_grad(struct grad *c)
{
    struct node *n = back(c, &op_slice);
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

/* Copies between the small tensor and its place in the large one. A whole dim may be split, and then starts at the same
 * place in both; a dim taken in part is whole, so local and logical indices agree. */
static void copy(const struct node *n, const struct tensor *small, const struct tensor *large, bool widen)
{
    const int64_t *start = node_ints(n, "start");
    int64_t stride[MAX_DIM], at[MAX_DIM] = {0}, first = 0, i = 0;
    if (!tensor_count(small))
        return;
    tensor_strides(large, stride);
    for (int d = 0; d < large->ndim; d++)
        first += start[d] * stride[d];
    do {
        int64_t o = first + index_offset(at, stride, large->ndim);
        if (widen)
            large->data[o] = small->data[i++];
        else
            small->data[i++] = large->data[o];
    } while (index_next(at, small->n, small->ndim));
}

static void ref(struct reference *r)
{
    copy(r->node, &r->out[0], &r->in[0], false);
}

static void ref_grad(struct reference *r)
{
    copy(r->node, &r->in[0], &r->out[0], true);
}

const struct op op_slice = {
    .name = "slice",
    .doc = "start..stop of every dim: what x[a..b, :] becomes",
    .args = "x, start:axes, stop:axes",
    .linear = "{a} max{a} min{a}",
    .flags = OP_VIEW | OP_INTERNAL,
    .shape = shape,
    .rule_of = rule_of,
    .grad = grad,
    .ref = ref,
};

const struct op op_slice_grad = {
    .name = "slice_grad",
    .doc = "zeros around dy",
    .args = "dy",
    .linear = "{a} max{a} min{a}",
    .flags = OP_INTERNAL | OP_ZEROES_PADDING | OP_STRIDED,
    .shape = shape_grad,
    .rule_of = rule_of_grad,
    .grad = grad_grad,
    .ref = ref_grad,
};
