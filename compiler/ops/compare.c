/* Comparisons and logic: results are bool, no gradient passes, and no partial value either: a bool is never P. */
#include "common.h"

#define COMPARE(id, text, c_operator)                                                                                 \
    ELEMENTWISE_VALUE(id, x[0] c_operator x[1])                                                                       \
    const struct op op_##id = {                                                                                       \
        .name = #id, .doc = text, .args = "a, b", .rule_of = rule_broadcast,                                          \
        .flags = OP_ELEMENTWISE | OP_BOOL_RESULT, .expr = "%0 " #c_operator " %1", .shape = shape_compare,            \
        .ref = id##_ref,                                                                                              \
    };

COMPARE(less, "a < b", <)
COMPARE(less_equal, "a <= b", <=)
COMPARE(greater, "a > b", >)
COMPARE(greater_equal, "a >= b", >=)
COMPARE(equal, "a == b", ==)
COMPARE(not_equal, "a != b", !=)

ELEMENTWISE_VALUE(logical_and, x[0] && x[1])
const struct op op_logical_and = {
    .name = "logical_and", .doc = "a and b", .args = "a, b", .rule_of = rule_broadcast,
    .flags = OP_ELEMENTWISE | OP_BOOL_RESULT, .expr = "%0 && %1", .shape = shape_logical, .ref = logical_and_ref,
};

ELEMENTWISE_VALUE(logical_or, x[0] || x[1])
const struct op op_logical_or = {
    .name = "logical_or", .doc = "a or b", .args = "a, b", .rule_of = rule_broadcast,
    .flags = OP_ELEMENTWISE | OP_BOOL_RESULT, .expr = "%0 || %1", .shape = shape_logical, .ref = logical_or_ref,
};

ELEMENTWISE_VALUE(logical_not, !x[0])
const struct op op_logical_not = {
    .name = "logical_not", .doc = "not x", .args = "x", .rule_of = rule_broadcast,
    .flags = OP_ELEMENTWISE | OP_BOOL_RESULT, .expr = "!%0", .shape = shape_logical, .ref = logical_not_ref,
};
