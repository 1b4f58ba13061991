/* A chain of element-wise ops joined by fuse: one loop that reads each operand once. Attribute "expr": the C expression
 * of the output over operands %0, %1 ..; further outputs, where there are any, have "expr1", "expr2" ... fuse makes the
 * outputs and keeps the nodes it joined in attribute "nodes" (stb array of struct node *), so that the reference runs
 * them one after the other. Layouts are settled before fuse: no signature is ever asked. */
#include "common.h"

static bool fused_shape(struct graph *g, struct node *n)
{
    return true;
}

/* Operands and results of the chain by value: operands first, then what each joined node makes. */
static const struct tensor *find_tensor(const struct reference *r, const struct value *v, struct tensor *made,
                                        struct node *const *nodes, int done)
{
    for (int i = done - 1; i >= 0; i--)
        if (nodes[i]->out[0] == v)
            return &made[i];
    for (int k = 0; k < arrlen(r->node->in); k++)
        if (r->node->in[k] == v)
            return &r->in[k];
    BUG("a fused chain reads a value that is not one of its operands");
}

static void fused_ref(struct reference *r)
{
    struct node **nodes = node_ptr(r->node, "nodes");
    int count = (int)arrlen(nodes);
    struct tensor *made = NEW_ARRAY(struct tensor, count);
    for (int i = 0; i < count; i++) {
        int nin = (int)arrlen(nodes[i]->in);
        struct tensor *in = NEW_ARRAY(struct tensor, nin + 1);
        for (int k = 0; k < nin; k++)
            in[k] = *find_tensor(r, nodes[i]->in[k], made, nodes, i);
        /* The broadcast of its operands; a chain's widest output bounds them all. */
        made[i] = (struct tensor){0};
        for (int k = 0; k < nin; k++)
            if (in[k].ndim > made[i].ndim)
                made[i].ndim = in[k].ndim;
        for (int d = 0; d < made[i].ndim; d++) {
            bool set = false;
            for (int k = 0; k < nin; k++) {
                int e = d - (made[i].ndim - in[k].ndim);
                if (e < 0 || (set && in[k].n[e] == 1))
                    continue;
                made[i].n[d] = in[k].n[e];
                made[i].base[d] = in[k].base[e];
                made[i].full[d] = in[k].full[e];
                made[i].valid[d] = in[k].valid[e];
                set = true;
            }
        }
        made[i].data = NEW_ARRAY(double, tensor_count(&made[i]));
        struct reference one = {.node = nodes[i], .in = in, .out = &made[i], .step = r->step, .seed = r->seed,
                                .block = r->block, .exact = r->exact};
        nodes[i]->op->ref(&one);
    }
    for (int k = 0; k < arrlen(r->node->out); k++) {
        struct value **results = node_ptr(r->node, "results");
        const struct value *v = results ? results[k] : nodes[count - 1]->out[0];
        const struct tensor *t = find_tensor(r, v, made, nodes, count);
        memcpy(r->out[k].data, t->data, sizeof(double) * (size_t)tensor_count(&r->out[k]));
    }
}

const struct op op_fused = {
    .name = "fused", .doc = "a chain of element-wise ops in one loop", .args = "x..., expr:str",
    .flags = OP_INTERNAL | OP_VARIADIC | OP_ELEMENTWISE, .shape = fused_shape, .ref = fused_ref,
};
