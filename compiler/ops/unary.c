/* Unary mathematics. None is linear; exp and sign are monotone. So are log and sqrt where they are defined, but the parts
 * of a P(max) may lie below that, where the result is no number: they pass P(min) only. */
#include "common.h"

#define UNARY(id, text, value, c_expr, pass, ...)                                                                     \
    ELEMENTWISE_VALUE(id, value)                                                                                      \
    ELEMENTWISE_GRAD(id, __VA_ARGS__)                                                                                 \
    const struct op op_##id = {                                                                                       \
        .name = #id, .doc = text, .args = "x", .rule_of = rule_broadcast, .linear = pass, .flags = OP_ELEMENTWISE,    \
        .expr = c_expr, .shape = shape_float, .grad = id##_grad, .ref = id##_ref,                                     \
    };

UNARY(exp, "e^x", exp(x[0]), "expf(%0)", "max{a} min{a}", grad_give(c, 0, MAKE(c, mul, dy, y));)
UNARY(log, "natural logarithm of x", log(x[0]), "logf(%0)", "min{a}", grad_give(c, 0, MAKE(c, div, dy, x[0]));)
UNARY(sqrt, "square root of x", sqrt(x[0]), "sqrtf(%0)", "min{a}",
      grad_give(c, 0, MAKE(c, div, MAKE(c, mul, dy, NUMBER(c, 0.5)), y));)
UNARY(square, "x^2", x[0] * x[0], "%0 * %0", NULL,
      grad_give(c, 0, MAKE(c, mul, MAKE(c, mul, dy, NUMBER(c, 2)), x[0]));)
UNARY(abs, "|x|", fabs(x[0]), "fabsf(%0)", NULL, grad_give(c, 0, MAKE(c, mul, dy, MAKE(c, sign, x[0])));)

/* For `norm inf`: a maximum passes over what is no number, so that it stands as the largest of all. */
ELEMENTWISE_VALUE(magnitude, isnan(x[0]) ? INFINITY : fabs(x[0]))
const struct op op_magnitude = {
    .name = "magnitude", .doc = "|x|, infinite where x is no number", .args = "x", .rule_of = rule_broadcast,
    .flags = OP_ELEMENTWISE | OP_INTERNAL, .expr = "%0 == %0 ? fabsf(%0) : INFINITY", .shape = shape_float, .ref = magnitude_ref,
};

ELEMENTWISE_VALUE(sign, (x[0] > 0) - (x[0] < 0))
const struct op op_sign = {
    .name = "sign", .doc = "-1, 0 or 1", .args = "x", .rule_of = rule_broadcast, .linear = "max{a} min{a}",
    .flags = OP_ELEMENTWISE, .expr = "fl_sign(%0)", .shape = shape_float, .ref = sign_ref,
};
