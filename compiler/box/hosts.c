/* An axis whose ranks are on several hosts pays the slow link for all it sends. Where another order of the mesh's axes
 * keeps the busy ones inside hosts, the order written is warned of, with bytes per step. */
#include "survey.h"
#include "../base/diag.h"
#include "../cost/cluster.h"
#include "../module.h"
#include <math.h>
#include <string.h>

struct ordering {
    const struct mesh *mesh;
    const struct record *records;
    int best[MAX_AXIS];
    double least, now;
};

/* Seconds a step spends on links with the axes in this order, outer first. */
static double seconds(const struct ordering *o, const int *order, int n)
{
    struct mesh m = *o->mesh;
    double sum = 0;
    for (int k = n - 1, stride = 1; k >= 0; k--) {
        m.axis[order[k]].stride = stride;
        stride *= m.axis[order[k]].size;
    }
    cluster_cross(&m);
    for (int i = 0; i < arrlen(o->records); i++) {
        const struct record *r = &o->records[i];
        bool crosses = false;
        if (r->entry != ENTRY_TRAIN)
            continue;
        for (int a = 0; a < m.naxis; a++)
            crosses |= r->axes >> a & 1 && m.axis[a].crosses;
        const struct cluster *c = m.cluster;
        sum += (double)r->times * ((double)r->bytes / (crosses ? c->between : c->inside) +
                                   (crosses ? c->between_latency : c->inside_latency));
    }
    return sum;
}

static void try_orders(struct ordering *o, int *order, int fixed, int n)
{
    if (fixed == n) {
        double s = seconds(o, order, n);
        if (s < o->least) {
            o->least = s;
            memcpy(o->best, order, sizeof *order * (size_t)n);
        }
        return;
    }
    for (int k = fixed; k < n; k++) {
        int here = order[fixed];
        order[fixed] = order[k];
        order[k] = here;
        try_orders(o, order, fixed + 1, n);
        order[k] = order[fixed];
        order[fixed] = here;
    }
}

static const char *order_text(const struct mesh *m, const int *order, int n)
{
    const char *text = "";
    for (int k = 0; k < n; k++)
        text = mem_printf("%s%s%s: %d", text, k ? ", " : "", m->axis[order[k]].name, m->axis[order[k]].size);
    return text;
}

void check_hosts(struct module *m)
{
    const struct mesh *mesh = &m->plan->mesh;
    struct ordering o = { .mesh = mesh, .records = comm_survey(m->physical), .least = INFINITY };
    int order[MAX_AXIS], n = 0, worst = -1;
    double bytes[MAX_AXIS] = { 0 };
    for (int a = 0; a < mesh->naxis; a++)
        if (!mesh->axis[a].time)
            order[n++] = a;
    for (int i = 0; i < arrlen(o.records); i++)
        for (int a = 0; a < mesh->naxis; a++)
            if (o.records[i].entry == ENTRY_TRAIN && o.records[i].axes >> a & 1)
                bytes[a] += (double)(o.records[i].bytes * o.records[i].times);
    for (int a = 0; a < mesh->naxis; a++)
        if (mesh->axis[a].crosses && (worst < 0 || bytes[a] > bytes[worst]))
            worst = a;
    if (worst < 0 || n < 2 || n > 6)
        return;
    o.now = seconds(&o, order, n);
    try_orders(&o, order, 0, n);
    if (!(o.least < 0.9 * o.now))
        return;
    struct diag *d = diag_warning(W_HOSTS, mesh->axis[worst].span, "axis '%s' crosses hosts and sends %.4g MiB a step over them",
                                  mesh->axis[worst].name, bytes[worst] / (1 << 20));
    diag_note(d, "links take %.4g ms of a step in this order, %.4g ms in the best one", o.now * 1e3, o.least * 1e3);
    diag_help(d, "write the axes as [%s]", order_text(mesh, o.best, n));
}
