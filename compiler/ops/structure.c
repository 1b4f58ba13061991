/* The ops that give a graph its structure: sources, results and repeat. They compute nothing; whoever runs a graph
 * treats them specially. */
#include "common.h"

/* Outputs are like the operands: a body keeps the types of what it carries (graph.h). */
static bool repeat_shape(struct graph *g, struct node *n)
{
    for (int k = 0; k < arrlen(n->in); k++)
        node_out(g, n, n->in[k]->type, n->in[k]->ndim, n->in[k]->dim);
    return true;
}

const struct op op_repeat = {
    .name = "repeat", .doc = "runs its body count times, carrying operands to results", .args = "x...",
    .flags = OP_INTERNAL | OP_VARIADIC | OP_STRIDED, .shape = repeat_shape,
};

static bool param_shape(struct graph *g, struct node *n)
{
    struct param *p = node_ptr(n, "param");
    if (!p)
        BUG("a param node without its parameter");
    struct value *v = node_out(g, n, p->type, p->ndim, p->dim);
    v->path = p->path;
    return true;
}

const struct op op_param = {
    .name = "param", .doc = "a stored parameter or state; inside a repeat: that of this block", .args = "param:dims",
    .rule_of = rule_source, .flags = OP_INTERNAL | OP_SOURCE | OP_ZEROES_PADDING, .shape = param_shape,
};

/* The builder knows the type: it gives attributes "type" (int) and "dims" (stb array of struct dim *). */
static bool input_shape(struct graph *g, struct node *n)
{
    if (arrlen(n->out))
        return true;
    struct dim **dims = node_ptr(n, "dims");
    struct value *v = node_out(g, n, (enum type)node_int(n, "type", TYPE_F32), (int)arrlen(dims), dims);
    v->path = node_str(n, "name");
    return true;
}

const struct op op_input = {
    .name = "input", .doc = "a model input of one step", .args = "name:str, type:type, dims:dims",
    .rule_of = rule_source, .flags = OP_INTERNAL | OP_SOURCE, .shape = input_shape,
};

static bool constant_shape(struct graph *g, struct node *n)
{
    node_out(g, n, TYPE_F32, 0, NULL);
    return true;
}

static void constant_ref(struct reference *r)
{
    r->out[0].data[0] = node_num(r->node, "value", 0);
}

const struct op op_constant = {
    .name = "constant", .doc = "a number", .args = "value:num", .rule = "->",
    .flags = OP_INTERNAL | OP_SOURCE, .shape = constant_shape, .ref = constant_ref,
};

static bool output_shape(struct graph *g, struct node *n)
{
    return true;
}

/* Any layout but P may leave: what is printed or saved must be numbers of the model, not shares of them. */
static void output_extra(const struct node *n, int parts, struct sig **sigs)
{
    for (int d = 0; d < n->in[0]->ndim; d++) {
        struct sig s = sig_new(n);
        s.in[0] = sbp_split(d);
        arrput(*sigs, s);
    }
}

const struct op op_output = {
    .name = "output", .doc = "hands a value to the host", .args = "x, name:str, metric:int=0",
    .flags = OP_INTERNAL | OP_EFFECT | OP_SKIPS_PADDING, .shape = output_shape, .extra = output_extra,
};
