/* The two walks of a reduction over a set of dims: over what is kept and over what goes, each a small index arithmetic
 * from a running number to an offset. Padding entries of reduced dims are not walked. */
#ifndef FLOW_WALK_H
#define FLOW_WALK_H
#include "../flow_rt.h"

struct walk {
    int ndim;
    int64_t n[FL_MAX_DIM], stride[FL_MAX_DIM], count;
};

static __device__ __forceinline__ int64_t walk_offset(const walk &w, int64_t i)
{
    int64_t at = 0;
    for (int d = w.ndim - 1; d >= 0; d--) {
        at += i % w.n[d] * w.stride[d];
        i /= w.n[d];
    }
    return at;
}

/* kept: the results; gone: the valid entries of one; all: those with padding. */
static inline void walk_split(const struct fl_dims *d, walk *kept, walk *gone, walk *all)
{
    int64_t stride[FL_MAX_DIM], running = 1;
    for (int i = d->ndim - 1; i >= 0; i--) {
        stride[i] = running;
        running *= d->n[i];
    }
    *kept = *gone = *all = walk{0, {0}, {0}, 1};
    for (int i = 0; i < d->ndim; i++) {
        bool reduced = d->reduced >> i & 1;
        walk *w = reduced ? gone : kept;
        w->n[w->ndim] = reduced ? d->valid[i] : d->n[i];
        w->stride[w->ndim] = stride[i];
        w->count *= w->n[w->ndim++];
        if (reduced) {
            all->n[all->ndim] = d->n[i];
            all->stride[all->ndim] = stride[i];
            all->count *= all->n[all->ndim++];
        }
    }
}
#endif
