/* What every op of the table must have, whatever it computes. */
#include "base/diag.h"
#include "checks.h"
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(bool ok, const struct op *op, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "table: %s: %s\n", op->name, what);
    failures++;
}

/* Ops without a reference of their own: the interpreter's tests run them. */
static bool sampled(const struct op *op)
{
    return !(op->flags & OP_BOXING) && op != &op_output && op != &op_repeat && op != &op_param && op != &op_input &&
           op != &op_fused && op != &op_rows && op != &op_contraction && op != &op_copied;
}

int table_all(const char *only)
{
    for (int i = 0; op_table[i]; i++) {
        const struct op *op = op_table[i];
        if (only && strcmp(only, op->name) != 0)
            continue;
        expect(op->name && op->doc && *op->doc && op->args, op, "needs a name, a line of doc and args");
        expect(op->shape != NULL, op, "needs a shape rule");
        if (!(op->flags & OP_INTERNAL)) {
            expect(op->shapes || op->flags & OP_ELEMENTWISE, op, "the reference page needs its shapes");
            expect(!op->rule_of || op->factors || op->flags & OP_ELEMENTWISE, op, "the reference page needs its factors");
            expect(!op->extra || op->more, op, "the reference page needs what extra adds");
            expect(!op->flops == !op->work, op, "the reference page and the op disagree on FLOPs");
        }
        expect(!(op->flags & OP_ELEMENTWISE) || op->expr || op == &op_fused, op, "element-wise, but has no expression");
        if (sampled(op)) {
            expect(op->ref != NULL, op, "needs a reference");
            bool found = false;
            for (const struct instance *s = instances; s->op; s++)
                found |= s->op == op;
            expect(found, op, "has no sample node in tests/ops/instances.c");
        }
        bool known;
        for (int k = i + 1; op_table[k]; k++)
            if (!strcmp(op->name, op_table[k]->name))
                expect(!((op->flags | op_table[k]->flags) & OP_INTERNAL), op, "an internal op shares its name");
        if (!(op->flags & OP_INTERNAL))
            expect(op_find(op->name, 1, &known) != NULL || op_find(op->name, 2, &known) != NULL ||
                       op_find(op->name, 3, &known) != NULL,
                   op, "cannot be found by its name");
    }
    bool known;
    expect(op_find("max", 1, &known) == &op_max, &op_max, "max(x) is the reduction");
    expect(op_find("max", 2, &known) == &op_maximum, &op_max, "max(a, b) is element-wise");
    expect(!op_find("gelu_grad", 2, &known) && !known, &op_gelu_grad, "internal ops cannot be called");
    /* Every signature of a sample must name dims that exist. */
    for (const struct instance *s = instances; s->op; s++) {
        struct node *n = instance_node(graph_new(NULL, ENTRY_TRAIN), s);
        expect(n != NULL, s->op, mem_printf("sample (%s) is refused", s->in));
        struct sig *sigs = n ? node_signatures(n, 2) : NULL;
        for (int i = 0; i < arrlen(sigs); i++) {
            for (int k = 0; k < arrlen(n->in); k++)
                expect(sigs[i].in[k].kind != SBP_S || (n->in[k] && sigs[i].in[k].dim < n->in[k]->ndim), s->op,
                       "a signature splits a dim that is not there");
            for (int k = 0; k < arrlen(n->out); k++)
                expect(sigs[i].out[k].kind != SBP_S || sigs[i].out[k].dim < n->out[k]->ndim, s->op,
                       "a signature splits a result's dim that is not there");
        }
    }
    diag_print(stderr, false);
    printf("table: %d failed\n", failures);
    return failures;
}
