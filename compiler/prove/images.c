/* What is run at small sizes stands for the full mesh when every rank of that follows from the same rules: its coordinates
 * from its number, its part of each split dim from its coordinates, its groups and peers from both. The numbers that are
 * written into the rank files are looked at here, rank by rank, and worked out again in another way. */
#include "verify.h"
#include <string.h>

/* Row-major: the last axis of ranks counts fastest. */
static bool coordinates_hold(const struct mesh *m, const struct rank_row *r, int rank)
{
    int left = rank;
    for (int i = m->naxis - 1; i >= 0; i--) {
        if (m->axis[i].time)
            continue;
        if (r->coord[i] != left % m->axis[i].size)
            return false;
        left /= m->axis[i].size;
    }
    return left == 0 && r->stage == (m->pipe >= 0 ? r->coord[m->pipe] : 0);
}

/* The parts of a dim laid side by side, q = 0 to `parts`: where each starts. The first ones get one more each until it is used up.
 * Laid out once for all ranks. */
struct division { int64_t n, parts; };
struct divisions { struct { struct division key; int64_t *value; } *done; };      /* stb_ds map */

static int64_t part_start(struct divisions *d, int64_t n, int64_t parts, int64_t q)
{
    struct division by;
    memset(&by, 0, sizeof by);
    by.n = n;
    by.parts = parts;
    int64_t *start = hmget(d->done, by);
    if (!start) {
        start = NEW_ARRAY(int64_t, parts + 1);
        for (int64_t k = 0; k < parts; k++)
            start[k + 1] = start[k] + (n - start[k] + parts - k - 1) / (parts - k);
        hmput(d->done, by, start);
    }
    return start[q];
}

/* In how many parts the axes cut dim d of v (or its piece), and which of them is this rank's. */
static int64_t part_number(const struct mesh *m, const struct value *v, int d, const struct rank_row *r, int64_t *parts)
{
    int64_t q = 0;
    *parts = 1;
    for (int order = 0; order < MAX_AXIS; order++)
        for (int i = 0; i < m->naxis; i++) {
            struct sbp s = v->lay.ax[i];
            if (s.kind != SBP_S || s.dim != d || s.order != order)
                continue;
            *parts *= m->axis[i].size;
            q = q * m->axis[i].size + (m->axis[i].time ? 0 : r->coord[i]);
        }
    return q;
}

/* Shares: equal runs of the largest piece, the last ones cut off where the rank's own piece ends. */
static bool share_holds(struct divisions *by, const struct mesh *m, const struct rank_constant *c, const struct rank_row *r, int64_t value)
{
    int64_t parts, own = 1, largest = 1;
    for (int d = 0; d < c->value->ndim; d++) {
        int64_t n = c->value->dim[d]->phys, q = part_number(m, c->value, d, r, &parts);
        own *= part_start(by, n, parts, q + 1) - part_start(by, n, parts, q);
        largest *= part_start(by, n, parts, 1);
    }
    int64_t q = part_number(m, c->value, DIM_FLAT, r, &parts);
    int64_t share = (largest + parts * FLAT_ELEMENTS - 1) / (parts * FLAT_ELEMENTS) * FLAT_ELEMENTS;
    int64_t start = q * share, end = start + share < own ? start + share : own;
    return value == (c->base ? start : end > start ? end - start : 0);
}

static bool constant_holds(struct divisions *by, const struct mesh *m, const struct rank_constant *c, const struct rank_row *r, int64_t value)
{
    if (c->dim == DIM_FLAT)
        return share_holds(by, m, c, r, value);
    int64_t parts, q = part_number(m, c->value, c->dim, r, &parts);
    int64_t n = c->value->dim[c->dim]->phys, start = part_start(by, n, parts, q);
    return value == (c->base ? start : part_start(by, n, parts, q + 1) - start);
}

static bool holds(struct divisions *by, const struct physical *p, const struct rank_row *r, int rank, const char **fact)
{
    *fact = "its coordinates are those of another rank";
    if (!coordinates_hold(p->mesh, r, rank))
        return false;
    for (int i = 0; i < arrlen(p->constants); i++)
        if (!constant_holds(by, p->mesh, &p->constants[i], r, r->constants[i])) {
            const struct value *v = p->constants[i].value;
            *fact = mem_printf("its part of '%s' is another rank's", v->path ? v->path : "?");
            return false;
        }
    return true;
}

bool rank_holds(const struct physical *p, const struct rank_row *r, int rank, const char **fact)
{
    struct divisions by = {NULL};
    return holds(&by, p, r, rank, fact);
}

bool images_hold(const struct module *m, const char **fact, int *rank)
{
    const struct physical *p = m->physical;
    struct divisions by = {NULL};
    for (*rank = 0; *rank < p->mesh->nranks; ++*rank) {
        struct rank_row r = rank_row(p, *rank);
        if (!holds(&by, p, &r, *rank, fact))
            return false;
        arrfree(r.constants);
    }
    for (int i = 0; i < arrlen(p->links); i++) {         /* a peer is as many strides away as there are stages between */
        const struct link *l = &p->links[i];
        if (l->from == l->to || l->from < 0 || l->to < 0 || l->from >= p->nstage || l->to >= p->nstage) {
            *fact = mem_printf("'%s' travels between stages that are not there", l->what);
            *rank = 0;
            return false;
        }
    }
    return true;
}
