/* Activations. Each f has f_grad(x, dy) = f'(x) dy, linear in dy alone, as a fusable op of its own; the reference of
 * both is written once, as f and its derivative. None passes P(sum); the monotone ones pass P(max) and P(min).
 * The slope is taken at x, but that of relu at its result, which has the same sign: x need not be kept then. */
#include "common.h"

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double k = sqrt(2 / M_PI), t = tanh(k * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

static double gelu_exact(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double gelu_exact_slope(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double sigmoid_slope(double x)
{
    return sigmoid(x) * (1 - sigmoid(x));
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double relu_slope(double x)
{
    return x > 0;
}

static double tanh_slope(double x)
{
    return 1 - tanh(x) * tanh(x);
}

#define ACTIVATION(id, at, f, slope, text, text_grad, c_expr, c_expr_grad, pass)                                      \
    ELEMENTWISE_VALUE(id, f(x[0]))                                                                                    \
    ELEMENTWISE_GRAD(id, grad_give(c, 0, MAKE(c, id##_grad, at, dy));)                                                \
    const struct op op_##id = {                                                                                       \
        .name = #id, .doc = text, .args = "x", .rule_of = rule_broadcast, .linear = pass, .flags = OP_ELEMENTWISE,    \
        .expr = c_expr, .shape = shape_float, .grad = id##_grad, .ref = id##_ref,                                     \
    };                                                                                                                \
    ELEMENTWISE_VALUE(id##_grad, slope(x[0]) * x[1])                                                                  \
    const struct op op_##id##_grad = {                                                                                \
        .name = #id "_grad", .doc = text_grad, .args = "x, dy", .rule_of = rule_broadcast, .linear = "{b}",           \
        .flags = OP_ELEMENTWISE | OP_INTERNAL, .expr = c_expr_grad, .shape = shape_float, .ref = id##_grad_ref,       \
    };

ACTIVATION(gelu, x[0], gelu, gelu_slope, "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2", "gelu'(x) dy",
           "fl_gelu(%0)", "fl_gelu_grad(%0, %1)", NULL)
ACTIVATION(gelu_exact, x[0], gelu_exact, gelu_exact_slope, "x (1 + erf(x / sqrt 2)) / 2", "gelu_exact'(x) dy",
           "fl_gelu_exact(%0)", "fl_gelu_exact_grad(%0, %1)", NULL)
ACTIVATION(silu, x[0], silu, silu_slope, "x / (1 + exp(-x))", "silu'(x) dy", "fl_silu(%0)", "fl_silu_grad(%0, %1)",
           NULL)
ACTIVATION(relu, y, relu, relu_slope, "max(x, 0)", "dy where x > 0, else 0", "fmaxf(%0, 0.0f)", "%0 > 0.0f ? %1 : 0.0f",
           "max{a} min{a}")
ACTIVATION(tanh, x[0], tanh, tanh_slope, "tanh(x)", "(1 - tanh(x)^2) dy", "tanhf(%0)", "fl_tanh_grad(%0, %1)",
           "max{a} min{a}")
ACTIVATION(sigmoid, x[0], sigmoid, sigmoid_slope, "1 / (1 + exp(-x))", "s (1 - s) dy, s = sigmoid(x)", "fl_sigmoid(%0)",
           "fl_sigmoid_grad(%0, %1)", "max{a} min{a}")
