/* The sample nodes. An op without a row here fails ops.table. */
#include "instances.h"
#include <math.h>
#include <string.h>

static const struct letter letters[] = {
    {'L', 2, 2}, {'M', 5, 5}, {'N', 7, 7}, {'K', 11, 11}, {'T', 4, 4}, {'H', 3, 3}, {'D', 8, 8}, {'V', 7, 9},
    {'a', 6, 6}, {'b', 12, 12}, {'c', 18, 18}, {'d', 24, 24}, {'1', 1, 1},
};

const struct letter *letter_find(char name)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].name == name)
            return &letters[i];
    BUG("no dim is called %c", name);
}

int operands_read(const char *text, struct operand *to)
{
    int n = 0;
    for (const char *s = text; s && *s; n++) {
        struct operand o = {0};
        s += strspn(s, " ,");
        o.type = *s++;
        for (; *s && *s != ','; s++)
            if (*s != ' ')
                o.dim[o.ndim++] = *s;
        to[n] = o;
    }
    return n;
}

double random_value(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    double u = (double)(*state >> 8) / (1 << 24) * 2 - 1;
    return u + (u > 0 ? 0.15 : -0.15);
}

enum type operand_type(char type)
{
    return type == 'b' ? TYPE_BOOL : type == 'i' ? TYPE_I32 : TYPE_F32;
}

double operand_value(char type, uint32_t *state)
{
    double x = random_value(state);
    switch (type) {
    case 'b': return x > 0;
    case 'i': return (double)((int)(x * 1000 + 5000) % 5);
    case 'p': return x * x + 0.3;
    case 'w': return fabs(x) > 0.8 ? 40 * x : 3 * x;
    default: return 2 * x;
    }
}

static void set_axes(struct node *n, int64_t a, int64_t b, bool keep)
{
    int64_t axes[2] = {a, b};
    node_set_ints(n, "axes", axes, b < 0 ? 1 : 2);
    node_set_int(n, "keep", keep);
}

static void axis_0(struct node *n, struct dim **out)
{
    set_axes(n, 0, -1, false);
}

static void axis_1(struct node *n, struct dim **out)
{
    set_axes(n, 1, -1, false);
}

static void axis_1_keep(struct node *n, struct dim **out)
{
    set_axes(n, 1, -1, true);
}

static void axes_0_2(struct node *n, struct dim **out)
{
    set_axes(n, 0, 2, false);
}

static void one_axis(struct node *n, struct dim **out)
{
    node_set_int(n, "axis", 1);
}

static void ignore_3(struct node *n, struct dim **out)
{
    node_set_num(n, "ignore", 3);
}

static void to_dims(struct node *n, struct dim **out)
{
    node_set_ptr(n, "dims", out);
}

static void to_f32(struct node *n, struct dim **out)
{
    node_set_int(n, "type", TYPE_F32);
}

static void to_bf16(struct node *n, struct dim **out)
{
    node_set_int(n, "type", TYPE_BF16);
}

static void to_i32(struct node *n, struct dim **out)
{
    node_set_int(n, "type", TYPE_I32);
}

static void value_half(struct node *n, struct dim **out)
{
    node_set_num(n, "value", 0.5);
}

#define BINARY(id, t)                                                                                                  \
    {&op_##id, t " MN, " t " MN"}, {&op_##id, t " MN, " t " N"}, {&op_##id, t " M1, " t " MN"}, {&op_##id, t " MN, " t}
#define UNARY(id, t) {&op_##id, t " MN"}, {&op_##id, t " V"}

const struct instance instances[] = {
    {&op_constant, "", value_half},
    BINARY(add, "f"), BINARY(sub, "f"), BINARY(mul, "f"), BINARY(div, "f"), BINARY(maximum, "f"), BINARY(minimum, "f"),
    UNARY(neg, "f"),
    BINARY(less, "f"), BINARY(less_equal, "f"), BINARY(greater, "f"), BINARY(greater_equal, "f"), BINARY(equal, "i"),
    BINARY(not_equal, "i"), BINARY(logical_and, "b"), BINARY(logical_or, "b"), UNARY(logical_not, "b"),
    {&op_where, "b MN, f MN, f MN"}, {&op_where, "b M1, f N, f MN"}, {&op_where, "b N, f MN, f"},
    {&op_mask, "f MN, b MN"}, {&op_mask, "f MN, b N"},
    UNARY(gelu, "f"), UNARY(gelu_exact, "f"), UNARY(silu, "f"), UNARY(relu, "f"), UNARY(tanh, "f"), UNARY(sigmoid, "f"),
    {&op_gelu_grad, "w MN, f MN"}, {&op_gelu_exact_grad, "w MN, f MN"}, {&op_silu_grad, "w MN, f MN"},
    {&op_relu_grad, "w MN, f MN"}, {&op_tanh_grad, "w MN, f MN"}, {&op_sigmoid_grad, "w MN, f MN"},
    UNARY(exp, "f"), UNARY(log, "p"), UNARY(sqrt, "p"), UNARY(square, "f"), UNARY(abs, "f"), UNARY(sign, "f"),
    {&op_cast, "f MN", to_f32}, {&op_cast, "f MN", to_bf16, .no_gradient = true}, {&op_cast, "f MN", to_i32},
    {&op_cast, "b MN", to_f32},
    {&op_detach, "f MN"}, {&op_to, "f MN"},
    {&op_expand, "f", to_dims, "MN"}, {&op_expand, "f N", to_dims, "MN"}, {&op_expand, "f M1", to_dims, "MN"},
    {&op_expand, "f", to_dims, "V"},
    {&op_sum, "f MNT"}, {&op_sum, "f MNT", axis_0}, {&op_sum, "f MNT", axis_1_keep}, {&op_sum, "f MNT", axes_0_2},
    {&op_sum, "f MV", axis_1},
    {&op_max, "f MNT"}, {&op_max, "f MNT", axis_1}, {&op_max, "f MNT", axes_0_2}, {&op_max, "f MV", axis_1_keep},
    {&op_min, "f MNT"}, {&op_min, "f MNT", axis_1_keep}, {&op_min, "f MV", axis_1},
    {&op_mean, "f MNT", axis_1}, {&op_mean, "f MNT", axes_0_2}, {&op_mean, "f MV", axis_1_keep},
    {&op_count, "b MN"}, {&op_count, "b MNT", axes_0_2}, {&op_count, "i MN", ignore_3}, {&op_count, "b MV", axis_1},
    {&op_argmax, "f MNT", one_axis}, {&op_argmax, "f MV", one_axis},
    {&op_softmax, "f MNT", axis_1}, {&op_softmax, "f MNT", axes_0_2}, {&op_softmax, "f MV", axis_1},
    {&op_log_softmax, "f MNT", axis_1}, {&op_log_softmax, "f MNT", axes_0_2}, {&op_log_softmax, "f MV", axis_1},
    {&op_softmax_grad, "f MN, f MN", axis_1}, {&op_softmax_grad, "f MV, f MV", axis_1},
    {&op_log_softmax_grad, "f MN, f MN", axis_1}, {&op_log_softmax_grad, "f MV, f MV", axis_1},
    {NULL},
};
const int instance_count = sizeof instances / sizeof *instances - 1;
