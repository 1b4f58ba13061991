/* --list-ops: the table for people, one paragraph an op: how it is called, what it computes, its rule. */
#include "../op.h"

void list_ops(FILE *to)
{
    for (const struct op *const *p = op_table; *p; p++) {
        const struct op *op = *p;
        if (op->flags & (OP_INTERNAL | OP_BOXING))
            continue;
        fprintf(to, "%s(%s)\n    %s\n", op->name, op->args ? op->args : "", op->doc ? op->doc : "");
        if (op->rule)
            fprintf(to, "    factors   %s\n", op->rule);
        else if (op->rule_of)
            fprintf(to, "    factors   follow from the operands%s\n", op->flags & OP_ELEMENTWISE ? ": every dim may be split" : "");
        if (op->linear)
            fprintf(to, "    partial   %s\n", op->linear);
        fprintf(to, "    gradient  %s%s\n", op->grad ? "yes" : "none", op->flops ? "; counted in FLOPs" : "");
    }
}
