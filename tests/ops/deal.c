#include "deal.h"
#include "instances.h"
#include <math.h>
#include <string.h>

int64_t tensor_entries(const struct tensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        count *= t->n[d];
    return count;
}

bool lay_same(const struct grid *g, struct lay a, struct lay b)
{
    for (int x = 0; x < g->naxis; x++)
        if (!sbp_same(a.ax[x], b.ax[x]))
            return false;
    return true;
}

static bool splits(struct sbp s, int d)
{
    return s.kind == SBP_S && s.dim == d;
}

int lay_parts(const struct grid *g, struct lay l, int d)
{
    int parts = 1;
    for (int x = 0; x < g->naxis; x++)
        parts *= splits(l.ax[x], d) ? g->size[x] : 1;
    return parts;
}

const char *lay_text(const struct grid *g, struct lay l)
{
    static const char *const reduce[] = {"P", "P(max)", "P(min)"};
    char *text = "";
    for (int x = 0; x < g->naxis; x++) {
        struct sbp s = l.ax[x];
        const char *one = s.kind == SBP_B ? "B" : s.kind == SBP_S ? mem_printf("S%d", s.dim) : reduce[s.dim];
        text = mem_printf("%s%s%s", text, x ? "," : "", one);
    }
    return g->naxis > 1 ? mem_printf("(%s)", text) : text;
}

static int coord(const struct grid *g, int rank, int axis)
{
    return g->naxis == 1 ? rank : axis == 0 ? rank / g->size[1] : rank % g->size[1];
}

/* Which part of dim d the rank holds. */
static int part_number(const struct grid *g, struct lay l, int d, int rank)
{
    int number = 0;
    for (int i = 0; i < g->naxis; i++) {
        int x = g->naxis == 2 ? (i ? !g->major : g->major) : 0;
        if (splits(l.ax[x], d))
            number = number * g->size[x] + coord(g, rank, x);
    }
    return number;
}

struct tensor part_of(const struct grid *g, const struct tensor *whole, struct lay l, int rank)
{
    struct tensor p = *whole;
    p.data = NULL;
    for (int d = 0; d < p.ndim; d++) {
        int64_t n = whole->n[d], k = lay_parts(g, l, d), i = part_number(g, l, d, rank), more = n % k;
        p.n[d] = n / k + (i < more);
        p.base[d] = i * (n / k) + (i < more ? i : more);
    }
    return p;
}

static int64_t place_in(const struct tensor *whole, const struct tensor *part, int64_t i)
{
    int64_t at[MAX_DIM], place = 0;
    for (int d = part->ndim - 1; d >= 0; d--) {
        at[d] = part->base[d] + i % part->n[d];
        i /= part->n[d];
    }
    for (int d = 0; d < whole->ndim; d++)
        place = place * whole->n[d] + at[d];
    return place;
}

/* x as shares of k ranks. */
static void share(const double *x, int64_t count, enum reduce r, int k, int idle, uint32_t *random, double **to)
{
    for (int j = 0; j < k; j++)
        to[j] = NEW_ARRAY(double, count + 1);
    for (int64_t i = 0; i < count; i++) {
        double left = x[i];
        int holder = (int)((random_value(random) + 2) * 1e6) % k;
        if (holder == idle)
            holder = (holder + 1) % k;
        for (int j = 0; j < k; j++) {
            double z = random_value(random) * 2, sign = r == REDUCE_MAX ? -1 : 1;
            if (r == REDUCE_SUM) {
                to[j][i] = j == idle || j == holder ? 0 : z;
                left -= to[j][i];
            } else {
                to[j][i] = j == idle ? sign * INFINITY : j == holder ? x[i] : x[i] + sign * fabs(z);
            }
        }
        if (r == REDUCE_SUM)
            to[holder][i] = left;
    }
}

/* Shares first, each as long as the whole; then every rank's part of its own is cut out. */
void deal(const struct grid *g, const struct tensor *whole, struct lay l, int idle, uint32_t *random, struct tensor *parts)
{
    int64_t count = tensor_entries(whole);
    double *full[MAX_RANKS] = {whole->data}, *next[MAX_RANKS];
    int have = 1;
    for (int x = 0; x < g->naxis; x++) {
        int k = g->size[x];
        for (int i = 0; i < have; i++)
            if (l.ax[x].kind == SBP_P)
                share(full[i], count, (enum reduce)l.ax[x].dim, k, idle < 0 ? -1 : idle % k, random, &next[i * k]);
            else
                for (int j = 0; j < k; j++)
                    next[i * k + j] = full[i];
        have *= k;
        memcpy(full, next, sizeof full);
    }
    for (int r = 0; r < g->nranks; r++) {
        parts[r] = part_of(g, whole, l, r);
        int64_t n = tensor_entries(&parts[r]);
        parts[r].data = NEW_ARRAY(double, n + 1);
        for (int64_t i = 0; i < n; i++)
            parts[r].data[i] = full[r][place_in(whole, &parts[r], i)];
    }
}

double deal_tolerance = 1e-9;

static bool close_to(double a, double b)
{
    return a == b || (isfinite(a) && isfinite(b) && fabs(a - b) <= deal_tolerance * (1 + fabs(a) + fabs(b)));
}

static bool valid_at(const struct tensor *whole, int64_t w)
{
    for (int d = whole->ndim - 1; d >= 0; d--) {
        if (w % whole->n[d] >= whole->valid[d])
            return false;
        w /= whole->n[d];
    }
    return true;
}

struct piece { double *x; bool *have; };     /* entries of the whole that some ranks hold together */

static bool join(struct piece *a, const struct piece *b, struct sbp s, const struct tensor *whole)
{
    int64_t count = tensor_entries(whole);
    for (int64_t w = 0; w < count; w++) {
        bool valid = valid_at(whole, w);
        double *x = &a->x[w], y = b->x[w];
        if (s.kind == SBP_S) {
            if (a->have[w] && b->have[w])
                return false;
            *x = b->have[w] ? y : *x;
            a->have[w] |= b->have[w];
        } else if (a->have[w] != b->have[w]) {
            return false;
        } else if (!a->have[w] || !valid) {
            continue;
        } else if (s.kind == SBP_B) {
            if (!close_to(*x, y))
                return false;
        } else {
            if (isnan(*x) || isnan(y))
                return false;
            *x = s.dim == REDUCE_SUM ? *x + y : s.dim == REDUCE_MAX ? fmax(*x, y) : fmin(*x, y);
        }
    }
    return true;
}

bool together(const struct grid *g, const struct tensor *whole, struct lay l, const struct tensor *const *parts)
{
    int64_t count = tensor_entries(whole);
    struct piece piece[MAX_RANKS];
    for (int r = 0; r < g->nranks; r++) {
        struct tensor expected = part_of(g, whole, l, r);
        for (int d = 0; d < whole->ndim; d++)
            if (parts[r]->n[d] != expected.n[d])
                return false;
    }
    for (int r = 0; r < g->nranks; r++) {
        struct tensor p = part_of(g, whole, l, r);
        piece[r] = (struct piece){NEW_ARRAY(double, count + 1), NEW_ARRAY(bool, count + 1)};
        for (int64_t i = 0; i < tensor_entries(&p); i++) {
            int64_t w = place_in(whole, &p, i);
            piece[r].x[w] = parts[r]->data[i];
            piece[r].have[w] = true;
        }
    }
    int have = g->nranks;
    for (int x = g->naxis - 1; x >= 0; x--) {
        int k = g->size[x];
        have /= k;
        for (int i = 0; i < have; i++) {
            for (int j = 1; j < k; j++)
                if (!join(&piece[i * k], &piece[i * k + j], l.ax[x], whole))
                    return false;
            piece[i] = piece[i * k];
        }
    }
    for (int64_t w = 0; w < count; w++)
        if (!piece[0].have[w] || (valid_at(whole, w) && !close_to(piece[0].x[w], whole->data[w])))
            return false;
    return true;
}
