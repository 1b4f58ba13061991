/* What the rooms of contraction, shape, attention, loss and update share beyond common.h: operand checks of gradient ops
 * and places in the local row-major tensors of a reference. */
#ifndef FLOWC_OPS_NN_H
#define FLOWC_OPS_NN_H
#include "common.h"

/* Operand k has exactly these dims. */
static inline bool expect_dims(const struct node *n, int k, int ndim, struct dim *const *dims)
{
    const struct value *v = n->in[k];
    bool same = v->ndim == ndim;
    for (int d = 0; same && d < ndim; d++)
        same = dim_same(v->dim[d], dims[d]);
    struct value like = {.type = v->type, .ndim = ndim};
    for (int d = 0; d < ndim; d++)
        like.dim[d] = dims[d];
    return op_expect(n, k, same, "operand %d is %s, expected %s", k + 1, value_type_text(v, NULL),
                     value_type_text(&like, NULL));
}

static inline bool expect_like(const struct node *n, int k, const struct value *like)
{
    return expect_dims(n, k, like->ndim, (struct dim *const *)like->dim);
}

static inline void tensor_strides(const struct tensor *t, int64_t *stride)
{
    int64_t s = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        stride[d] = s;
        s *= t->n[d];
    }
}

static inline int64_t index_offset(const int64_t *at, const int64_t *stride, int ndim)
{
    int64_t offset = 0;
    for (int d = 0; d < ndim; d++)
        offset += at[d] * stride[d];
    return offset;
}

/* Local elements of dim d that are logical: the rest is padding. */
static inline int64_t tensor_valid(const struct tensor *t, int d)
{
    int64_t valid = t->valid[d] - t->base[d];
    return valid < 0 ? 0 : valid < t->n[d] ? valid : t->n[d];
}
#endif
