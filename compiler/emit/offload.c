/* Copies between host memory and the arena, and the places where kernels wait for them. */
#include "emitter.h"

bool emit_offload(struct emitter *e, const struct node *n)
{
    int event = (int)node_int(n, "event", 0);
    if (n->op == &op_copied) {
        line(e, n, "fl_copied(run, %d);", event);
        return true;
    }
    if (n->op != &op_to_host && n->op != &op_to_device)
        return false;
    const struct value *v = n->out[0];
    struct sym bytes = sym_mul(sym_int(type_bytes[v->type]), sym_range(v->place, 0, v->ndim));
    line(e, n, "fl_%s(run, %d, %s, %s, %s);", n->op->name, event, tensor_name(e, v), tensor_name(e, n->in[0]),
         sym_text(bytes));
    return true;
}
