/* The reference and the cost of nodes that became one: what the nodes are by themselves. */
#include "joined.h"
#include <string.h>

struct made { const struct value *v; struct tensor t; };

static const struct tensor *find(const struct reference *r, const struct value *v, const struct made *made)
{
    for (int i = 0; i < arrlen(made); i++)
        if (made[i].v == v)
            return &made[i].t;
    for (int k = 0; k < arrlen(r->node->in); k++)
        if (r->node->in[k] && r->node->in[k] == v)
            return &r->in[k];
    BUG("joined work reads a value that is not one of its operands");
}

void joined_reference(struct reference *r, joined_shape *shape)
{
    struct node **nodes = node_ptr(r->node, "nodes");
    struct made *made = NULL;
    for (int i = 0; i < arrlen(nodes); i++) {
        const struct node *n = nodes[i];
        struct tensor *in = NEW_ARRAY(struct tensor, arrlen(n->in) + 1), *out = NEW_ARRAY(struct tensor, arrlen(n->out) + 1);
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                in[k] = *find(r, n->in[k], made);
        for (int k = 0; k < arrlen(n->out); k++) {
            out[k] = shape(r, n, k);
            out[k].data = NEW_ARRAY(double, tensor_count(&out[k]));
        }
        struct reference one = *r;
        one.node = n;
        one.in = in;
        one.out = out;
        n->op->ref(&one);
        for (int k = 0; k < arrlen(n->out); k++)
            arrput(made, ((struct made){n->out[k], out[k]}));
    }
    struct value **results = node_ptr(r->node, "results");
    for (int k = 0; k < arrlen(results); k++)
        memcpy(r->out[k].data, find(r, results[k], made)->data, sizeof(double) * (size_t)tensor_count(&r->out[k]));
}

double joined_flops(const struct node *n)
{
    struct node **nodes = node_ptr(n, "nodes");
    double sum = 0;
    for (int i = 0; i < arrlen(nodes); i++)
        sum += nodes[i]->op->flops ? nodes[i]->op->flops(nodes[i]) : 0;
    return sum;
}
