/* Which kernels know the short float types. What moves elements, element-wise loops, contractions, conversions and calls
 * that name a type (emit/call.h) do; the others compute in f32 alone, so their call reads and writes dense f32 copies, made for the call in room of its own. */
#include "../op.h"
#include "place.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNED = 16 };                   /* elements: copies start on 64 bytes */

static bool is_short(const struct value *v)
{
    return type_is_short(v->type);
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

/* The tensor that "i0" or "o1" at `at` names, or NULL where it is left out. */
static const struct value *named(const struct node *n, const char *at, char **end)
{
    long k = strtol(at + 1, end, 10);
    struct value **list = *at == 'i' ? n->in : n->out;
    return k < arrlen(list) ? list[k] : NULL;
}

/* Does the call know v in its type? Its format lists such tensors: "%as(i0,o0)", which must all be of one type, or
 * "%types(i0,i1)" and "%typed(i1)", which may each have their own. */
static bool known(const struct node *n, const struct value *v)
{
    static const char *const words[] = {"%as(", "%types(", "%typed("};
    for (int w = 0; w < 3; w++) {
        const char *at = n->op->call ? strstr(n->op->call, words[w]) : NULL;
        bool listed = false, same = true;
        for (at = at ? at + strlen(words[w]) - 1 : NULL; at && *at != ')'; ) {
            char *end;
            const struct value *u = named(n, at + 1, &end);
            listed |= u == v;
            same &= w > 0 || !u || u->type == v->type;
            at = end;
        }
        if (listed)
            return same;
    }
    return false;
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
