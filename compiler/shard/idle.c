/* A mesh axis along which nothing is split: its ranks all compute the same, which is legal and a waste of all but one.
 * A forgotten `sbp` of the inputs, or a pipeline axis without `pipeline`, shows here and nowhere else. */
#include "problem.h"
#include "base/diag.h"
#include <string.h>

static bool splits(const struct graph *g, int a)
{
    for (int i = 0; i < arrlen(g->values); i++)
        if (g->values[i]->lay.ax[a].kind != SBP_B)
            return true;
    return false;
}

/* "x, y" and the dim that they share as their first one: what a line would split. */
static const char *batch_inputs(const struct graph *g, struct dim **dim)
{
    const char *names = "";
    *dim = NULL;
    for (int i = 0; i < arrlen(g->root->nodes); i++) {
        const struct value *v = g->root->nodes[i]->op == &op_input ? g->root->nodes[i]->out[0] : NULL;
        if (!v || !v->ndim || !v->dim[0]->name || (*dim && !dim_same(*dim, v->dim[0])))
            continue;
        *dim = v->dim[0];
        names = mem_printf("%s%s%s", names, *names ? ", " : "", v->path);
    }
    return names;
}

void warn_idle_axes(const struct module *m)
{
    const struct mesh *mesh = &m->plan->mesh;
    const struct graph *first = NULL;
    for (int e = ENTRIES - 1; e >= 0; e--)
        first = m->graph[e] ? m->graph[e] : first;
    for (int a = 0; a < mesh->naxis && first; a++) {
        bool busy = mesh->axis[a].size < 2 || mesh->axis[a].time || a == mesh->pipe;
        for (int e = 0; e < ENTRIES && !busy; e++)
            busy = m->graph[e] && splits(m->graph[e], a);
        if (busy)
            continue;
        const struct axis *axis = &mesh->axis[a];
        struct diag *d = diag_warning(W_IDLE_AXIS, axis->span, "nothing is split over '%s': its %d ranks all do the same work",
                                      axis->name, axis->size);
        struct dim *dim;
        const char *inputs = batch_inputs(first, &dim);
        if (axis->name[0] == 'p' && mesh->pipe < 0)
            diag_help(d, "a pipeline is cut by a line: `pipeline over %s { schedule = one_f_one_b; split h }`", axis->name);
        else if (dim)
            diag_help(d, "split the data over it, `sbp %s = {%s: S(%s)%s}`, or leave it out", inputs, axis->name, dim->name,
                      dim->size % axis->size ? " uneven" : "");
        else
            diag_help(d, "split a parameter over it with an `sbp` line, or leave it out");
    }
}
