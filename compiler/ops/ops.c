/* The table of all ops, made from ops.def, and the way from a name in the language to an op. */
#include "op.h"
#include <ctype.h>
#include <string.h>

const struct op *const op_table[] = {
#define OP(name) &op_##name,
#include "ops/ops.def"
#undef OP
    NULL
};

/* Number of tensor operands that args allows: "x, weight, bias?, eps:num=1e-5" takes 2 to 3. */
static void operand_range(const struct op *op, int *low, int *high)
{
    *low = *high = 0;
    if (op->flags & OP_VARIADIC) {
        *high = 1 << 20;
        return;
    }
    for (const char *s = op->args ? op->args : ""; *s;) {
        size_t n = strcspn(s, ",");
        if (!memchr(s, ':', n)) {
            ++*high;
            if (!memchr(s, '?', n))
                ++*low;
        }
        s += n;
        while (*s == ',' || isspace((unsigned char)*s))
            s++;
    }
}

const struct op *op_find(const char *name, int operands, bool *known)
{
    const struct op *fits = NULL, *only = NULL;
    int same_name = 0;
    for (int i = 0; op_table[i]; i++) {
        const struct op *op = op_table[i];
        if (op->flags & OP_INTERNAL || strcmp(op->name, name) != 0)
            continue;
        int low, high;
        operand_range(op, &low, &high);
        same_name++;
        only = op;
        if (operands >= low && operands <= high && !fits)
            fits = op;
    }
    if (known)
        *known = same_name > 0;
    /* A name of one op alone is that op whatever the count: operands may also be given by keyword, and who binds them
     * says best what is wrong with their number. */
    return same_name == 1 ? only : fits;
}
