/* ema: a moving average of a weight, a state beside it that evaluation and export may take in its place. In the first update
 * it is the new weight itself, so that no start value counts (as torch.optim.swa_utils begins). It is made like an update, in
 * its own place and from a part of the weight alone, once the weight is new. */
#include "optimizer.h"

static void ref_ema(struct reference *r)
{
    double keep = r->update > 0 ? node_num(r->node, "decay", 0) : 0;
    if (update_skipped(r, 2))
        return;
    for (int64_t i = 0; i < tensor_count(&r->in[0]); i++)
        r->out[0].data[i] = keep * r->in[0].data[i] + (1 - keep) * r->in[1].data[i];
}

static const struct optimizer average = { .follows = true };

const struct op op_ema = {
    .name = "ema",
    .doc = "e, w -> decay e + (1 - decay) w, in the first update w; w is the new weight",
    .args = "e, w, scale?, decay:num",
    .rule = "b.., b.., - -> b..",
    .flags = OP_INTERNAL | OP_GATHERED,
    .shape = update_shape,
    .ref = ref_ema,
    .call = "fl_ema(%step, %i0, %i1, %i2, %count(i0), %num(decay,0))",
    .optimizer = &average,
};
