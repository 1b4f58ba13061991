/* contraction: an einsum of two operands and what follows it, in one call of the library that makes the product. Made by
 * fuse/epilogue.c:
 *
 *     operands  a, b, bias?, residual?, aux?     left out ones are NULL; attribute "spec" is that of the einsum
 *     results   y, and for "then" = "aux" or "bias_grad" a second one
 *
 * y = f(a b + bias) + residual, where attribute "activation" is f: gelu, relu, gelu_grad (of aux times the product) or absent.
 * "aux": the second result is what f was applied to, kept for the backward. "bias_grad": it is the sum of operand "summed" over
 * the contracted letters. The joined nodes stay in attribute "nodes", so that the reference runs them one after the other.
 * Layouts are settled before: no signature is ever asked. */
#include "joined.h"

static bool shape(struct graph *g, struct node *n)
{
    return true;
}

/* Everything on the way has the shape of the first result, but for results themselves. */
static struct tensor shape_of(const struct reference *r, const struct node *n, int k)
{
    struct value **results = node_ptr(r->node, "results");
    for (int i = 0; i < arrlen(results); i++)
        if (results[i] == n->out[k])
            return r->out[i];
    return r->out[0];
}

static void ref(struct reference *r) { joined_reference(r, shape_of); }

const struct op op_contraction = {
    .name = "contraction", .doc = "an einsum, and what follows it in the same call", .args = "x..., spec:str",
    .flags = OP_INTERNAL | OP_VARIADIC | OP_CONTRACTION | OP_STRIDED, .adds = 1, .shape = shape, .flops = joined_flops, .ref = ref,
};
