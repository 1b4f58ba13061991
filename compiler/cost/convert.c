/* Conversions between any two layouts. Most are a search of path.c; S(flat) is reached last and left first: it depends on
 * what the other axes leave, and all its axes change in one step. */
#include "path.h"
#include <math.h>

/* Into or out of S(flat) over all the axes at once. */
static struct step flat_step(const struct value *v, const struct layout *before, const struct mesh *m, unsigned axes,
                             enum step_kind kind)
{
    struct step s = { .kind = kind, .axes = axes, .dim = DIM_FLAT, .after = *before, .reduce = REDUCE_SUM };
    double ranks = 1;
    int order = 0;
    for (int a = 0; a < m->naxis; a++)
        if (axes >> a & 1) {
            ranks *= m->axis[a].size;
            s.after.ax[a] = kind == STEP_ALL_GATHER ? (struct sbp){ 0 } : (struct sbp){ SBP_S, DIM_FLAT, (uint8_t)order++ };
        }
    const struct layout *whole = kind == STEP_ALL_GATHER ? &s.after : before;
    s.bytes = step_is_comm(kind) ? (ranks - 1) / ranks * layout_bytes(v, whole, m) : 0;
    s.seconds = step_seconds(kind, s.bytes, m, axes);
    return s;
}

/* Do the same axes split the same dims? Then a share of one is a share of the other. */
static bool same_pieces(const struct layout *a, const struct layout *b, const struct mesh *m)
{
    for (int i = 0; i < m->naxis; i++)
        if ((a->ax[i].kind == SBP_S || b->ax[i].kind == SBP_S) && m->axis[i].size > 1 && !sbp_same(a->ax[i], b->ax[i]))
            return false;
    return true;
}

static struct layout without_idle(const struct layout *l, const struct mesh *m)
{
    struct layout r = *l;
    for (int a = 0; a < m->naxis; a++)
        if (m->axis[a].size == 1 || a == m->pipe)
            r.ax[a] = (struct sbp){ 0 };
    layout_normalise(&r, m);
    return r;
}

/* Adds the steps from *at to `to`; false where there is no way. */
static bool go(const struct value *v, struct layout *at, const struct layout *to, const struct mesh *m, struct step *steps,
               int *n)
{
    int more = path_plain(v, at, to, m, steps + *n, MAX_STEP - *n);
    *n += more > 0 ? more : 0;
    *at = *to;
    return more >= 0;
}

/* Sums that `to` wants complete are completed on shares, which is less to send; whole pieces are made only of what is
 * complete, and become shares as early as can be. */
static int flat_path(const struct value *v, const struct layout *from, const struct layout *to, const struct mesh *m,
                     struct step *steps)
{
    struct layout at = without_idle(from, m), goal = without_idle(to, m), mid;
    unsigned left = layout_flat(&at, m), joined = layout_flat(&goal, m);
    int n = 0;
    if (left && (left != joined || !same_pieces(&at, &goal, m))) {
        mid = at;
        for (int a = 0; a < m->naxis; a++)
            if (at.ax[a].kind == SBP_P && goal.ax[a].kind == SBP_B)
                mid.ax[a] = goal.ax[a];
        if (!go(v, &at, &mid, m, steps, &n))
            return -1;
        steps[n] = flat_step(v, &at, m, left, STEP_ALL_GATHER);
        at = steps[n++].after;
    } else if (left) {
        joined = 0;
    }
    if (joined) {
        bool sums = true;
        for (int a = 0; a < m->naxis; a++)
            if (joined >> a & 1)
                sums &= at.ax[a].kind == SBP_P && at.ax[a].dim == REDUCE_SUM;
        mid = goal;
        for (int a = 0; a < m->naxis; a++)
            if (joined >> a & 1)
                mid.ax[a] = sums ? at.ax[a] : (struct sbp){ 0 };
            else if (at.ax[a].kind == SBP_P && goal.ax[a].kind == SBP_B)
                mid.ax[a] = at.ax[a];
        if (!go(v, &at, &mid, m, steps, &n))
            return -1;
        steps[n] = flat_step(v, &at, m, joined, sums ? STEP_REDUCE_SCATTER : STEP_SLICE);
        at = steps[n++].after;
    }
    return go(v, &at, &goal, m, steps, &n) ? n : -1;
}

int convert_path(const struct value *v, const struct layout *from, const struct layout *to, const struct mesh *m,
                 struct step *steps, int max)
{
    if (!layout_flat(from, m) && !layout_flat(to, m))
        return path_plain(v, from, to, m, steps, max);
    struct step plan[MAX_STEP];
    int n = flat_path(v, from, to, m, plan);
    if (n > max)
        BUG("a conversion of %d steps", n);
    for (int k = 0; k < n; k++)
        steps[k] = plan[k];
    return n;
}

double convert_cost(const struct value *v, const struct layout *from, const struct layout *to, const struct mesh *m)
{
    struct step steps[MAX_STEP];
    int n = convert_path(v, from, to, m, steps, MAX_STEP);
    if (n < 0)
        return INFINITY;
    double total = 0;
    for (int k = 0; k < n; k++)
        total += steps[k].seconds;
    return total;
}
