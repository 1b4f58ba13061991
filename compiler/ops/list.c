/* --list-ops: the reference of the ops, in Markdown; grammar/ops.md is its output. Everything here stands in the table. */
#include "../op.h"
#include <string.h>

/* "x, weight?, eps:num=1e-5, axis:axis" as one would write it. */
static void print_call(FILE *to, const struct op *op)
{
    fprintf(to, "%s(", op->name);
    for (const char *s = op->args ? op->args : ""; *s;) {
        size_t n = strcspn(s, ",");
        const char *colon = memchr(s, ':', n), *equals = memchr(s, '=', n);
        size_t name = colon ? (size_t)(colon - s) : n;
        bool axis = colon && !strncmp(colon, ":ax", 3);
        if (!colon)
            fprintf(to, "%.*s", (int)name, s);
        else
            fprintf(to, "%.*s%s", (int)(axis ? 4 : name), axis ? "axis" : s, equals ? " = " : "");
        if (equals)
            fprintf(to, "%.*s", (int)(n - (size_t)(equals + 1 - s)), equals + 1);
        else if (colon && memchr(s, '?', n))
            fprintf(to, "?");
        s += n;
        if (*s)
            fprintf(to, ", ");
        while (*s == ',' || *s == ' ')
            s++;
    }
    fprintf(to, ")");
}

static void print_rule(FILE *to, const struct op *op)
{
    bool pointwise = op->flags & OP_ELEMENTWISE;
    fprintf(to, "- shapes: %s\n", op->shapes ? op->shapes : "aligned from the right; a nameless dim of size 1 is stretched");
    if (op->factors)
        fprintf(to, "- factors: %s\n", op->factors);
    else if (op->rule)
        fprintf(to, "- factors: `%s`\n", op->rule);
    else
        fprintf(to, "- factors: %s\n", pointwise ? "every dim of the result" : "none: everything is whole");
    if (op->more)
        fprintf(to, "- also split: %s\n", op->more);
    if (op->linear)
        fprintf(to, "- P passes: `%s`\n", op->linear);
    fprintf(to, "- gradient: %s; FLOPs: %s\n", op->grad ? "yes" : "none", op->work ? op->work : "not counted");
}

void list_ops(FILE *to)
{
    fprintf(to,
            "# The ops\n\n"
            "Printed by `flowc --list-ops`. A call names its tensors first and its settings by name; `?` may be left out,\n"
            "`= v` is the default.\n\n"
            "**Factors** say which dims may be split: a plain one wherever it stands, `k+` is contracted (splitting it\n"
            "leaves the result P(sum)), `t^` must be whole, `_` is never split, `b..` are the dims left over. **P passes**\n"
            "through these operands and no others: `{a}` says that the result is P(sum) when operand a is and the others\n"
            "are whole, `{a, b}` when both are, `{*}` when all are; `max{a}` and `min{a}` say the same of P(max) and\n"
            "P(min), `max{a}:min` turns one into the other. Layouts over several axes are formed axis by axis, but\n"
            "nothing is P(max) over one and P(min) over another. The rule gate (`ctest -R ops`) holds every line of this to\n"
            "what the ops compute.\n");
    for (const struct op *const *p = op_table; *p; p++) {
        const struct op *op = *p;
        if (op->flags & (OP_INTERNAL | OP_BOXING))
            continue;
        fprintf(to, "\n## ");
        print_call(to, op);
        fprintf(to, "\n\n%s\n\n", op->doc);
        print_rule(to, op);
    }
    fprintf(to, "\n## Made by the compiler\n\n"
                "Gradients, updates and the parts of other ops; a program cannot call them.\n\n");
    for (const struct op *const *p = op_table; *p; p++) {
        const struct op *op = *p;
        if (!(op->flags & OP_INTERNAL) || op->flags & (OP_BOXING | OP_SOURCE) || (!op->rule && !op->linear))
            continue;
        fprintf(to, "- **%s**: %s", op->name, op->doc);
        if (op->rule)
            fprintf(to, "; factors `%s`", op->rule);
        if (op->linear)
            fprintf(to, "; P passes `%s`", op->linear);
        fprintf(to, "\n");
    }
}
