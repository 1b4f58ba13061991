/* Which kernels know the short float types. What moves elements, element-wise loops, contractions, conversions and calls
 * that name a type (emit/call.h) do; the others compute in f32 alone, so their call reads and writes dense f32 copies, made for the call in room of its own. */
#include "../op.h"
#include "place.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNED = 16 };                   /* elements: copies start on 64 bytes */

static bool is_short(const struct value *v)
{
    return v->type == TYPE_BF16 || v->type == TYPE_F16;
}

/* A product whose operands are f32 is made in f32. */
static bool product_in_f32(const struct node *n)
{
    return n->in[0]->type == TYPE_F32;
}

static bool in_f32_alone(const struct node *n)
{
    if (n->body || n->op->flags & (OP_ELEMENTWISE | OP_VIEW | OP_BOXING | OP_SOURCE | OP_STACKED))
        return false;
    if (n->op == &op_einsum)
        return product_in_f32(n);
    return n->op->call || n->op == &op_sum;
}

/* Does the call know v in its type? Its format lists such tensors, "%as(i0,o0)", which must all be of one type. */
static bool known(const struct node *n, const struct value *v)
{
    const char *at = n->op->call ? strstr(n->op->call, "%as(") : NULL;
    bool listed = false;
    for (at = at ? at + strlen("%as(") : NULL; at; at = *at == ',' ? at + 1 : NULL) {
        char *end;
        long k = strtol(at + 1, &end, 10);
        const struct value *u = *at == 'i' ? n->in[k] : n->out[k];
        listed |= u == v;
        if (u->type != v->type)
            return false;
        at = end;
    }
    return listed;
}

bool goes_wide(const struct node *n, const struct value *v)
{
    return v && v->buffer && is_short(v) && in_f32_alone(n) && !known(n, v);
}

int64_t wide_elements(const struct physical *p, const struct value *v)
{
    int64_t count = 1;
    for (int d = 0; d < v->ndim; d++)
        count *= sym_max(p, v->place->extent[d]);
    return (count + ALIGNED - 1) / ALIGNED * ALIGNED;
}
