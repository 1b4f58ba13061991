/* copy: the same tensor once more, dense in logical order. Inserted by layout before a kernel that takes plain pointers
 * where its operand is a view with other strides.
 *
 * to_host, to_device: the same tensor in the other memory, as it lies; layout inserts them for the plan's `offload` lines
 * (layout/offload.c). They run beside the kernels; attribute "event" (int) numbers them. The kernels behind `copied`
 * wait for the copy of its event and all before it; operands: the device's ends of the copies that this is about. */
#include "common.h"

const struct op op_copy = {
    .name = "copy", .doc = "x, contiguous", .args = "x", .rule_of = rule_same, .linear = "{a} max{a} min{a}",
    .flags = OP_INTERNAL | OP_STRIDED, .shape = shape_same, .ref = ref_view,
};

static bool copied_shape(struct graph *g, struct node *n)
{
    return true;
}

static void copied_ref(struct reference *r)
{
}

const struct op op_to_host = {
    .name = "to_host", .doc = "x, in host memory", .args = "x", .rule_of = rule_same, .linear = "{a} max{a} min{a}",
    .flags = OP_INTERNAL | OP_STRIDED, .shape = shape_same, .ref = ref_view,
};

const struct op op_to_device = {
    .name = "to_device", .doc = "x of host memory, in the arena", .args = "x", .rule_of = rule_same,
    .linear = "{a} max{a} min{a}", .flags = OP_INTERNAL | OP_STRIDED, .shape = shape_same, .ref = ref_view,
};

const struct op op_copied = {
    .name = "copied", .doc = "waits for copies between host and device", .args = "x...",
    .flags = OP_INTERNAL | OP_VARIADIC | OP_EFFECT | OP_STRIDED, .shape = copied_shape, .ref = copied_ref,
};
