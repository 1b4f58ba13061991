/* Calls of kernels that compute in f32 alone, where an operand or result is in a short type: the call reads and writes
 * dense f32 copies in the node's own room, and results are rounded once, on the way back. */
#include "contract.h"
#include <string.h>

const char *type_word(enum type t)
{
    static const char *const words[TYPES] = {
#define TYPE(id, name, bytes, c) "FL_" #id,
#include "../types.def"
#undef TYPE
    };
    return words[t];
}

const char *type_suffix(enum type t)
{
    return t == TYPE_F32 ? "" : mem_printf("_%s", type_name[t]);
}

/* v as a dense f32 tensor, *used elements into the node's room. */
static struct value *copy_of(struct emitter *e, const struct node *n, const struct value *v, int64_t *used)
{
    struct value *u = NEW(struct value);
    struct buffer *b = NEW(struct buffer);
    *u = *v;
    u->type = TYPE_F32;
    place_dense(e->p, u, (const int[MAX_DIM]){0, 1, 2, 3, 4, 5, 6, 7});
    *b = *n->wide;
    b->offset += *used * type_bytes[TYPE_F32];
    u->buffer = b;
    *used += wide_elements(e->p, v);
    return u;
}

static void kernel(struct emitter *e, const struct node *n)
{
    if (n->op == &op_einsum)
        emit_einsum(e, n);
    else if (n->op == &op_contraction)
        emit_contraction(e, n);
    else if (n->op == &op_sum)
        emit_sum(e, n);
    else
        emit_call(e, n);
}

void emit_kernel(struct emitter *e, const struct node *n)
{
    if (!n->wide) {
        kernel(e, n);
        return;
    }
    struct node *wide = NEW(struct node);
    int64_t used = 0;
    *wide = *n;
    wide->wide = NULL;
    wide->in = wide->out = NULL;
    for (int k = 0; k < arrlen(n->in); k++) {
        struct value *v = n->in[k], *u = goes_wide(n, v) ? copy_of(e, n, v, &used) : v;
        if (u != v)
            copy_line(e, n, tensor_name(e, u), u, tensor_name(e, v), v);
        arrput(wide->in, u);
    }
    for (int k = 0; k < arrlen(n->out); k++) {
        struct value *v = n->out[k], *u = goes_wide(n, v) ? copy_of(e, n, v, &used) : v;
        if (u != v && node_int(n, "accumulate", 0))
            copy_line(e, n, tensor_name(e, u), u, tensor_name(e, v), v);
        arrput(wide->out, u);
    }
    kernel(e, wide);
    for (int k = 0; k < arrlen(n->out); k++)
        if (wide->out[k] != n->out[k])
            copy_line(e, n, tensor_name(e, n->out[k]), n->out[k], tensor_name(e, wide->out[k]), wide->out[k]);
}
