/* The boxing ops: they change how a tensor is stored and not what it is, so every output is like its operand. Their
 * attributes are described in physical.h. They work over several ranks (or micro-batches) at once, so they have no
 * reference here: the interpreter and the runtime carry them out. Box writes the layouts of their values itself and no
 * signature is ever asked of them. */
#include "common.h"

static bool box_shape(struct graph *g, struct node *n)
{
    for (int k = 0; k < arrlen(n->in); k++)
        node_out(g, n, n->in[k]->type, n->in[k]->ndim, n->in[k]->dim);
    return true;
}

static bool send_shape(struct graph *g, struct node *n)
{
    return true;
}

/* The type is that of the value sent: attribute "value" (struct value * of the other stage), or an output made before. */
static bool recv_shape(struct graph *g, struct node *n)
{
    const struct value *v = node_ptr(n, "value");
    if (!arrlen(n->out) && v)
        node_out(g, n, v->type, v->ndim, (struct dim *const *)v->dim);
    return true;
}

#define BOX_AS(id, more, text)                                                                                                 \
    const struct op op_##id = {                                                                                                \
        .name = #id, .doc = text, .args = "x...", .flags = OP_BOXING | OP_INTERNAL | OP_VARIADIC | more, .shape = box_shape,   \
    };
#define BOX(id, text) BOX_AS(id, 0, text)

BOX_AS(box_slice, OP_VIEW, "B -> S: keeps this rank's part")
BOX(box_mask, "B -> P: the first rank keeps its values, others hold the identity")
BOX_AS(box_pad, OP_STRIDED, "S -> P: the identity around this rank's part")
BOX(box_all_gather, "S -> B: gathers the parts of all ranks")
BOX(box_all_reduce, "P -> B: adds (or takes the max or min of) the values of all ranks")
BOX(box_reduce_scatter, "P -> S: reduces, and each rank keeps its part")
BOX(box_all_to_all, "S(i) -> S(j): exchanges parts")
BOX(box_permute, "S -> S with the axes in another order: each rank's part goes to one other")
BOX(box_accumulate, "P -> B over micro-batches: adds in micro-batch order")
BOX(box_stage_reduce, "P -> B over stages: adds the values of the stages that take part")

const struct op op_box_post = {
    .name = "box_post", .doc = "starts a later collective for x, which then only waits", .args = "x...",
    .flags = OP_BOXING | OP_INTERNAL | OP_EFFECT | OP_VARIADIC, .shape = send_shape,
};

const struct op op_box_send = {
    .name = "box_send", .doc = "sends x to the same rank of another stage", .args = "x, link:int",
    .flags = OP_BOXING | OP_INTERNAL | OP_EFFECT, .shape = send_shape,
};

const struct op op_box_recv = {
    .name = "box_recv", .doc = "receives what the same rank of another stage sends", .args = "link:int",
    .flags = OP_BOXING | OP_INTERNAL, .shape = recv_shape,
};
