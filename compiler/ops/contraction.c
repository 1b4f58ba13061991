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
#include "common.h"

static bool shape(struct graph *g, struct node *n)
{
    return true;
}

static const struct tensor *find(const struct reference *r, const struct value *v, struct tensor *made, struct node *const *nodes,
                                 int done)
{
    for (int i = 0; i < done; i++)
        if (nodes[i]->out[0] == v)
            return &made[i];
    for (int k = 0; k < arrlen(r->node->in); k++)
        if (r->node->in[k] && r->node->in[k] == v)
            return &r->in[k];
    BUG("a contraction reads a value that is not one of its operands");
}

/* Everything on the way has the shape of the first result, but for results themselves. */
static void ref(struct reference *r)
{
    struct node **nodes = node_ptr(r->node, "nodes");
    struct value **results = node_ptr(r->node, "results");
    int count = (int)arrlen(nodes);
    struct tensor *made = NEW_ARRAY(struct tensor, count);
    for (int i = 0; i < count; i++) {
        made[i] = r->out[0];
        for (int k = 0; k < arrlen(results); k++)
            if (results[k] == nodes[i]->out[0])
                made[i] = r->out[k];
        made[i].data = NEW_ARRAY(double, tensor_count(&made[i]));
        struct tensor *in = NEW_ARRAY(struct tensor, arrlen(nodes[i]->in) + 1);
        for (int k = 0; k < arrlen(nodes[i]->in); k++)
            in[k] = *find(r, nodes[i]->in[k], made, nodes, i);
        struct reference one = *r;
        one.node = nodes[i];
        one.in = in;
        one.out = &made[i];
        nodes[i]->op->ref(&one);
    }
    for (int k = 0; k < arrlen(results); k++)
        memcpy(r->out[k].data, find(r, results[k], made, nodes, count)->data, sizeof(double) * (size_t)tensor_count(&r->out[k]));
}

static double flops(const struct node *n)
{
    struct node **nodes = node_ptr(n, "nodes");
    double sum = 0;
    for (int i = 0; i < arrlen(nodes); i++)
        sum += nodes[i]->op->flops ? nodes[i]->op->flops(nodes[i]) : 0;
    return sum;
}

const struct op op_contraction = {
    .name = "contraction", .doc = "an einsum, and what follows it in the same call", .args = "x..., spec:str",
    .flags = OP_INTERNAL | OP_VARIADIC | OP_CONTRACTION, .shape = shape, .flops = flops, .ref = ref,
};
