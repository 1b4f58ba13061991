/* What one step of a conversion is and costs: an axis that goes from one layout to another. Alpha-beta, with the rates of
 * the mesh's cluster. */
#include "cluster.h"
#include "path.h"
#include <math.h>

const char *const step_name[] = {
    [STEP_SLICE] = "slice", [STEP_MASK] = "mask", [STEP_PAD] = "pad", [STEP_ACCUMULATE] = "accumulate",
    [STEP_ALL_GATHER] = "all_gather", [STEP_ALL_REDUCE] = "all_reduce", [STEP_REDUCE_SCATTER] = "reduce_scatter",
    [STEP_ALL_TO_ALL] = "all_to_all", [STEP_PERMUTE] = "permute",
};

bool step_is_comm(enum step_kind k)
{
    return k >= STEP_ALL_GATHER;
}

static const struct cluster *cluster_of(const struct mesh *m)
{
    return m->cluster ? m->cluster : cluster_default();
}

double axis_bandwidth(const struct mesh *m, int axis)
{
    const struct cluster *c = cluster_of(m);
    return (m->axis[axis].crosses ? c->between : c->inside) / (1 + 0.01 * log2((double)m->axis[axis].stride + 1));
}

double axis_latency(const struct mesh *m, int axis)
{
    const struct cluster *c = cluster_of(m);
    return m->axis[axis].crosses ? c->between_latency : c->inside_latency;
}

double cost_flop_rate(const struct mesh *m)
{
    return cluster_of(m)->flops;
}

double step_seconds(enum step_kind kind, double bytes, const struct mesh *m, unsigned axes)
{
    if (!step_is_comm(kind))
        return 1e-9;
    double bandwidth = INFINITY, latency = 0;
    for (int a = 0; a < m->naxis; a++)
        if (axes >> a & 1) {
            bandwidth = fmin(bandwidth, axis_bandwidth(m, a));
            latency = fmax(latency, axis_latency(m, a));
        }
    /* an all-reduce is both halves in one start: fewer collectives win where bytes are equal */
    return bytes / bandwidth + latency * (kind == STEP_ALL_REDUCE ? 1.5 : 1);
}

enum phase conversion_phase(enum phase home, enum phase reader)
{
    bool once = home == PHASE_SETUP || (home == PHASE_COUNT && reader != PHASE_COUNT);
    return once ? PHASE_SETUP : reader;
}

void layout_normalise(struct layout *l, const struct mesh *m)
{
    struct layout old = *l;
    for (int a = 0; a < m->naxis; a++) {
        int before = 0;
        if (old.ax[a].kind == SBP_S)
            for (int b = 0; b < m->naxis; b++)
                if (b != a && old.ax[b].kind == SBP_S && old.ax[b].dim == old.ax[a].dim &&
                    (old.ax[b].order < old.ax[a].order || (old.ax[b].order == old.ax[a].order && b < a)))
                    before++;
        l->ax[a].order = (uint8_t)before;
        if (old.ax[a].kind == SBP_B)
            l->ax[a].dim = 0;
    }
    for (int a = m->naxis; a < MAX_AXIS; a++)
        l->ax[a] = (struct sbp){ 0 };
}

double layout_bytes(const struct value *v, const struct layout *l, const struct mesh *m)
{
    double bytes = type_bytes[v->type];
    for (int d = 0; d < v->ndim; d++) {
        double parts = 1;
        for (int a = 0; a < m->naxis; a++)
            if (l->ax[a].kind == SBP_S && l->ax[a].dim == d)
                parts *= m->axis[a].size;
        int64_t n = v->dim[d]->phys > 0 ? v->dim[d]->phys : v->dim[d]->size;
        bytes *= ceil((double)n / parts);
    }
    unsigned flat = layout_flat(l, m);
    for (int a = 0; a < m->naxis; a++)
        if (flat >> a & 1)
            bytes /= m->axis[a].size;
    return flat ? ceil(bytes / (FLAT_ELEMENTS * 4)) * FLAT_ELEMENTS * 4 : bytes;
}

struct step step_make(const struct value *v, const struct layout *before, const struct mesh *m, int axis, struct sbp to)
{
    struct sbp from = before->ax[axis];
    struct step s = { .axes = 1u << axis, .after = *before };
    double k = m->axis[axis].size, part = (k - 1) / k;

    if (to.kind == SBP_S) {                          /* joins the dim as its minor axis */
        to.order = 0;
        for (int b = 0; b < m->naxis; b++)
            if (b != axis && before->ax[b].kind == SBP_S && before->ax[b].dim == to.dim)
                to.order++;
    }
    s.after.ax[axis] = to;
    if (from.kind == SBP_B) {
        s.kind = to.kind == SBP_S ? STEP_SLICE : STEP_MASK;
        s.dim = to.dim;
    } else if (from.kind == SBP_S) {
        s.kind = to.kind == SBP_B ? STEP_ALL_GATHER : to.kind == SBP_S ? STEP_ALL_TO_ALL : STEP_PAD;
        s.dim = from.dim;
        s.dim_to = to.kind == SBP_S ? to.dim : 0;
        s.bytes = to.kind == SBP_B ? part * layout_bytes(v, &s.after, m)
                : to.kind == SBP_S ? part * layout_bytes(v, before, m) : 0;
    } else {
        s.kind = to.kind == SBP_B ? STEP_ALL_REDUCE : STEP_REDUCE_SCATTER;
        s.dim = to.kind == SBP_S ? to.dim : 0;
        s.bytes = (to.kind == SBP_B ? 2 : 1) * part * layout_bytes(v, before, m);
    }
    if (from.kind == SBP_P || to.kind == SBP_P)
        s.reduce = (enum reduce)(from.kind == SBP_P ? from.dim : to.dim);
    if (m->axis[axis].time) {
        s.bytes = 0;
        if (s.kind == STEP_ALL_REDUCE)
            s.kind = STEP_ACCUMULATE;
    }
    if (s.kind == STEP_MASK)
        s.dim = 0;
    s.seconds = step_seconds(s.kind, s.bytes, m, s.axes);
    return s;
}

bool axis_minor(const struct layout *l, const struct mesh *m, int axis)
{
    if (l->ax[axis].kind != SBP_S)
        return true;
    for (int b = 0; b < m->naxis; b++)
        if (b != axis && l->ax[b].kind == SBP_S && l->ax[b].dim == l->ax[axis].dim &&
            l->ax[b].order > l->ax[axis].order)
            return false;
    return true;
}
