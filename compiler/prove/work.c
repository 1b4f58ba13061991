/* How long a comparison takes: roughly, from the ops, their elements and their FLOPs on all ranks. */
#include "verify.h"

int entry_steps(enum entry e)
{
    return e == ENTRY_TRAIN ? 2 : 1;
}

struct work { double seconds, times; };

static void add_work(struct node *n, void *context)
{
    struct work *w = context;
    double elements = 0, blocks = (double)region_blocks(n->region);
    for (int k = 0; k < arrlen(n->out); k++)
        elements += (double)value_count(n->out[k]);
    double flops = n->op->flops && arrlen(n->out) ? n->op->flops(n) : 0;
    w->seconds += w->times * blocks * (0.5e-6 + 15e-9 * elements + 10e-9 * flops);
}

double entry_work(const struct module *m, enum entry e)
{
    const struct physical *p = m->physical;
    double steps = entry_steps(e);
    struct work w = {0, steps};
    region_walk(m->graph[e]->root, add_work, &w);
    for (int s = 0; s < p->nstage; s++) {
        struct root *roots = stage_roots(&p->stages[s], e);
        for (int k = 0; k < arrlen(roots); k++) {
            int micro = phase_per_microbatch(roots[k].phase) ? p->mesh->axis[p->mesh->mb].size : 1;
            w.times = steps * micro * p->mesh->nranks / p->nstage;
            region_walk(roots[k].region, add_work, &w);
        }
    }
    return w.seconds;
}
