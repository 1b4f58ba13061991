/* Sample nodes made from their description. */
#include "base/diag.h"
#include "checks.h"
#include <stdio.h>
#include <string.h>

void start_anew(void)
{
    diag_reset();
    source_reset();
    mem_release();
}

struct node *instance_node(struct graph *g, const struct instance *i)
{
    struct operand operand[MAX_DIM];
    struct { char letter; struct dim *dim; } known[64];
    int count = operands_read(i->in, operand), nknown = 0;
    struct operand shape[2];
    int shapes = i->out ? operands_read(mem_printf("f %s", i->out), shape) : 0;
    struct node *n = node_new(g, g->root, i->op, (struct span){0});
    struct dim **out = NULL;
    for (int k = 0; k < count + shapes; k++) {
        const struct operand *o = k < count ? &operand[k] : &shape[0];
        struct dim *dims[MAX_DIM];
        for (int d = 0; d < o->ndim; d++) {
            int j = 0;
            while (j < nknown && known[j].letter != o->dim[d])
                j++;
            if (j == nknown || o->dim[d] == '1') {
                const struct letter *l = letter_find(o->dim[d]);
                struct dim *dim = dim_anonymous(l->size);
                dim->phys = l->phys;
                if (l->name != '1')
                    dim->name = intern_n(&l->name, 1);
                j = nknown++;
                known[j].letter = l->name;
                known[j].dim = dim;
            }
            dims[d] = known[j].dim;
            if (k == count)
                arrput(out, dims[d]);
        }
        if (k == count)
            break;
        struct value *v = NULL;
        if (o->type != '-') {
            v = value_new(g, g->root, operand_type(o->type), o->ndim, dims);
            v->path = mem_printf("x%d", k);
        }
        node_in(n, v);
    }
    if (i->attrs)
        i->attrs(n, out);
    return node_finish(g, n) ? n : NULL;
}
