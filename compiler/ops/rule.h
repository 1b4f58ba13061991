/* A node's factor rule taken apart, for the passes over rules: signatures (rule.c) and padding (padding.c). Private to
 * compiler/ops. */
#ifndef FLOWC_OPS_RULE_H
#define FLOWC_OPS_RULE_H
#include "common.h"

enum { MAX_FACTOR = 64 };

struct factor {
    const char *name;            /* interned; the dims of an ellipsis b.. are "b..0", "b..1", counted from the right */
    char mark;                   /* 0, or one of + ^ > < */
};
struct term {                    /* one operand or output */
    int ndim;
    int factor[MAX_DIM];         /* -1: a dim that no signature splits */
};
struct rule {
    const struct node *node;
    const char *text;
    struct factor factor[MAX_FACTOR];
    int nfactor;
    struct term *in, *out;       /* arrlen(node->in), arrlen(node->out) */
};
struct linear_set {              /* "{a, b}": P passes when exactly these operands are P */
    unsigned operands;
    enum reduce in, out;
};

struct rule *rule_of_node(const struct node *n);         /* NULL: the op has none */
/* Where factor f stands in the term: the dim, -1 when absent, -2 when it occurs twice (then it cannot be split). */
int term_place(const struct term *t, int f);
/* "{a} {b}", "{a, b}", "{*}", "max{a}", "max{a}:min" (P(max) in, P(min) out): those that fit the node. stb_ds array. */
struct linear_set *linear_sets(const struct node *n);
#endif
