/* copy: the same tensor once more, dense in logical order. Inserted by layout before a kernel that takes plain pointers
 * where its operand is a view with other strides. */
#include "common.h"

const struct op op_copy = {
    .name = "copy", .doc = "x, contiguous", .args = "x", .rule_of = rule_same, .linear = "{a} max{a} min{a}",
    .flags = OP_INTERNAL, .shape = shape_same, .ref = ref_view,
};
