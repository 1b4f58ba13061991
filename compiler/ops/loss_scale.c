/* loss_scale: the factor S with which the gradient of the loss starts under `precision f16` (runtime/fl_scale.h). It is a
 * number of the step, the same on every rank and in every micro-batch; the update divides by it. */
#include "common.h"

static bool shape(struct graph *g, struct node *n)
{
    node_out(g, n, TYPE_F32, 0, NULL);
    return true;
}

static void ref(struct reference *r)
{
    r->out[0].data[0] = r->loss_scale;
}

const struct op op_loss_scale = {
    .name = "loss_scale",
    .doc = "the factor on the loss in this step",
    .args = "",
    .rule = "->",
    .flags = OP_INTERNAL | OP_SOURCE,
    .shape = shape,
    .ref = ref,
    .call = "fl_loss_scale(%o0, %step)",
};
