/* Arithmetic with trailing broadcasting. P(sum) passes as the linear sets say and nowhere else: P + B is not P. P(max)
 * and P(min) pass through what is monotone in one operand while the other is whole. */
#include "common.h"

ELEMENTWISE_VALUE(add, x[0] + x[1])
ELEMENTWISE_GRAD(add, grad_give(c, 0, dy); grad_give(c, 1, dy);)

const struct op op_add = {
    .name = "add", .doc = "a + b", .args = "a, b", .rule_of = rule_broadcast,
    .linear = "{a, b} max{a} max{b} min{a} min{b}", .flags = OP_ELEMENTWISE, .expr = "%0 + %1",
    .shape = shape_float, .grad = add_grad, .ref = add_ref,
};

ELEMENTWISE_VALUE(sub, x[0] - x[1])
ELEMENTWISE_GRAD(sub, {
    grad_give(c, 0, dy);
    if (c->wanted[1])
        grad_give(c, 1, MAKE(c, neg, dy));
})

const struct op op_sub = {
    .name = "sub", .doc = "a - b", .args = "a, b", .rule_of = rule_broadcast,
    .linear = "{a, b} max{a} min{a} max{b}:min min{b}:max", .flags = OP_ELEMENTWISE, .expr = "%0 - %1",
    .shape = shape_float, .grad = sub_grad, .ref = sub_ref,
};

ELEMENTWISE_VALUE(mul, x[0] * x[1])
ELEMENTWISE_GRAD(mul, {
    if (c->wanted[0])
        grad_give(c, 0, MAKE(c, mul, dy, x[1]));
    if (c->wanted[1])
        grad_give(c, 1, MAKE(c, mul, dy, x[0]));
})

const struct op op_mul = {
    .name = "mul", .doc = "a b", .args = "a, b", .rule_of = rule_broadcast, .linear = "{a} {b}",
    .flags = OP_ELEMENTWISE, .expr = "%0 * %1", .shape = shape_float, .grad = mul_grad, .ref = mul_ref,
};

/* 0/0 is 0 for a denominator that counts: an all-ignored batch has loss 0. The rule is for every division, so that one
 * op means one thing; x/0 with x != 0 stays infinite. */
ELEMENTWISE_VALUE(div, x[0] == 0 && x[1] == 0 ? 0 : x[0] / x[1])
ELEMENTWISE_GRAD(div, {
    if (c->wanted[0])
        grad_give(c, 0, MAKE(c, div, dy, x[1]));
    if (c->wanted[1])
        grad_give(c, 1, MAKE(c, neg, MAKE(c, div, MAKE(c, mul, dy, y), x[1])));
})

const struct op op_div = {
    .name = "div", .doc = "a / b, with 0 / 0 = 0", .args = "a, b", .rule_of = rule_broadcast, .linear = "{a}",
    .flags = OP_ELEMENTWISE, .expr = "fl_div(%0, %1)", .shape = shape_float, .grad = div_grad, .ref = div_ref,
};

ELEMENTWISE_VALUE(neg, -x[0])
ELEMENTWISE_GRAD(neg, grad_give(c, 0, MAKE(c, neg, dy));)

const struct op op_neg = {
    .name = "neg", .doc = "-x", .args = "x", .rule_of = rule_broadcast, .linear = "{a} max{a}:min min{a}:max",
    .flags = OP_ELEMENTWISE, .expr = "-%0", .shape = shape_float, .grad = neg_grad, .ref = neg_ref,
};

/* Where the operands are equal, the first one takes the gradient. */
ELEMENTWISE_VALUE(maximum, x[0] >= x[1] ? x[0] : x[1])
ELEMENTWISE_GRAD(maximum, {
    struct value *first = MAKE(c, greater_equal, x[0], x[1]), *zero = NUMBER(c, 0);
    grad_give(c, 0, MAKE(c, where, first, dy, zero));
    grad_give(c, 1, MAKE(c, where, first, zero, dy));
})

const struct op op_maximum = {
    .name = "max", .doc = "the larger of a and b", .args = "a, b", .rule_of = rule_broadcast,
    .linear = "max{a, b} max{a} max{b} min{a} min{b}", .flags = OP_ELEMENTWISE, .expr = "fmaxf(%0, %1)",
    .shape = shape_float, .grad = maximum_grad, .ref = maximum_ref,
};

ELEMENTWISE_VALUE(minimum, x[0] <= x[1] ? x[0] : x[1])
ELEMENTWISE_GRAD(minimum, {
    struct value *first = MAKE(c, less_equal, x[0], x[1]), *zero = NUMBER(c, 0);
    grad_give(c, 0, MAKE(c, where, first, dy, zero));
    grad_give(c, 1, MAKE(c, where, first, zero, dy));
})

const struct op op_minimum = {
    .name = "min", .doc = "the smaller of a and b", .args = "a, b", .rule_of = rule_broadcast,
    .linear = "min{a, b} min{a} min{b} max{a} max{b}", .flags = OP_ELEMENTWISE, .expr = "fminf(%0, %1)",
    .shape = shape_float, .grad = minimum_grad, .ref = minimum_ref,
};
