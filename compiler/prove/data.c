/* What the comparisons run on: the same weights and inputs for one rank and for all. Weights and states start away from
 * zeros and ones, inputs have both signs, ignored targets come in uneven numbers: from special values some faults cannot
 * be seen. */
#include "../interpret/machine.h"
#include "verify.h"
#include <math.h>
#include <string.h>

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(*state >> 33) / (double)(1u << 31);
}

/* The smallest table that any index may meet. */
static void bound_indices(struct node *n, void *context)
{
    int64_t *most = context;
    for (int k = 0; n->op->index_limit && k < arrlen(n->in); k++) {
        int64_t limit = n->op->index_limit(n, k);
        if (limit && limit < *most)
            *most = limit;
    }
}

static void give_input(struct node *n, void *context)
{
    struct data *d = context;
    if (n->op != &op_input)
        return;
    const struct value *v = n->out[0];
    int64_t count = value_count(v);
    double *data = NEW_ARRAY(double, count + 1);
    for (int64_t i = 0; i < count; i++) {
        double u = uniform(&d->state), w = uniform(&d->state);
        data[i] = type_is_float(v->type) ? 2 * u - 1 : v->type == TYPE_BOOL ? u < 0.6 : floor(u * (double)d->indices);
        if (v->has_ignore && w < (2 * i < count ? 0.4 : 0.1))
            data[i] = v->ignore;
    }
    run_input(d->one, node_str(n, "name"), data);
    run_input(d->all, node_str(n, "name"), data);
}

static struct weights *some_weights(const struct module *m, uint64_t seed)
{
    struct weights *w = weights_new(m, seed);
    uint64_t state = seed;
    for (int k = 0; k < hmlen(w->map); k++) {
        const struct param *p = w->map[k].key;
        const char *hash = strrchr(p->path, '#');
        bool square = hash && !strcmp(hash, "#v");
        for (int64_t i = 0; i < weights_count(p); i++) {
            double u = 2 * uniform(&state) - 1;
            w->map[k].value[i] = square ? 0.01 + 0.02 * fabs(u) : w->map[k].value[i] + (p->is_state ? 0.05 : 0.4) * u;
        }
    }
    return w;
}

struct data data_new(struct module *m, enum entry e, uint64_t seed)
{
    struct weights *start = some_weights(m, seed);
    struct data t = {start, run_logical(m, e, start), run_physical(m, e, start), seed + 77, 64};
    for (int k = 0; k < ENTRIES; k++)
        if (m->graph[k])
            region_walk(m->graph[k]->root, bound_indices, &t.indices);
    return t;
}

void data_step(struct data *d, const struct graph *g)
{
    region_walk(g->root, give_input, d);
}

void data_release(struct data *d)
{
    run_release(d->one);
    run_release(d->all);
}
