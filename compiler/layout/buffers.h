/* What the files of layout/ that give values their memory share: the stage at work, buffers, and places in them. */
#ifndef FLOWC_LAYOUT_BUFFERS_H
#define FLOWC_LAYOUT_BUFFERS_H
#include "../op.h"
#include "place.h"

/* A range of blocks of a parameter that lies together: that of one chunk, for one in the repeat that is cut. */
struct held { struct param *param; int64_t first; };

struct work {
    struct physical *p;
    struct stage *s;
    struct node ***readers;      /* by value id */
    bool *result;                /* by value id: read at the end of its body */
    struct { struct held key; struct buffer *value; } *params;     /* hash map */
};

/* Kernels that take plain pointers need contiguous operands and results; these take strides. */
static inline bool op_takes_strides(const struct op *op)
{
    return op->flags & (OP_STRIDED | OP_ELEMENTWISE | OP_VIEW);
}

/* buffers.c. `own`: v gets a buffer that it owns, dense in the best order of its dims for those that read it (_as: in logical
 * order where that is plain). */
struct buffer *buffer_new(struct work *w, struct value *v, enum memory_class class);
struct buffer *buffer_own(struct work *w, struct value *v, enum memory_class class);
struct buffer *buffer_own_as(struct work *w, struct value *v, enum memory_class class, bool plain);
void buffer_enter(const struct work *w, struct buffer *b, struct value *v);     /* v lies in b, at its place */
void buffer_of_param(struct work *w, struct value *v);
enum memory_class buffer_class(const struct work *w, const struct node *n);     /* of a result of n */
void buffers_beside(struct work *w, struct node *n);       /* what n needs besides its operands and results; buckets */

/* within.c: values in buffers of others. */
bool place_readable(const struct work *w, const struct node *n, const struct value *v);    /* may n's kernel read v as it lies? */
bool place_within(struct work *w, struct node *n, int k);  /* gives result k of n a place in another's buffer, where it can */
void place_copy(struct work *w, struct node *n);           /* result of a copy between device and host memory */
void place_updated(struct work *w, struct node *n, int k); /* result k of an optimizer */
#endif
