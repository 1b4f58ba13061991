/* Strides and offsets of the local row-major tensors of a float64 reference. Only for ref functions. */
#ifndef FLOWC_TENSOR_INDEX_H
#define FLOWC_TENSOR_INDEX_H
#include "common.h"

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

/* Local elements of the last dim that are logical: the rest is padding. */
static inline int64_t tensor_valid_last(const struct tensor *t)
{
    int d = t->ndim - 1;
    int64_t valid = t->valid[d] - t->base[d];
    return valid < 0 ? 0 : valid < t->n[d] ? valid : t->n[d];
}
#endif
