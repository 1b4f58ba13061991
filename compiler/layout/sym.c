/* Numbers that may differ between ranks, and dense places made of them. */
#include "place.h"
#include <string.h>

struct sym sym_int(int64_t c)
{
    return (struct sym){.c = c};
}

struct sym sym_mul(struct sym a, struct sym b)
{
    if (a.n + b.n > SYM_FACTORS)
        BUG("a product of more than %d uneven extents", SYM_FACTORS);
    struct sym r = {.c = a.c * b.c};
    int i = 0, j = 0;
    while (i < a.n || j < b.n)
        r.k[r.n++] = j == b.n || (i < a.n && a.k[i] <= b.k[j]) ? a.k[i++] : b.k[j++];
    return r;
}

bool sym_same(struct sym a, struct sym b)
{
    return a.c == b.c && a.n == b.n && !memcmp(a.k, b.k, sizeof *a.k * (size_t)a.n);
}

bool sym_is(struct sym a, int64_t c)
{
    return !a.n && a.c == c;
}

int64_t sym_max(const struct physical *p, struct sym a)
{
    int64_t r = a.c;
    for (int i = 0; i < a.n; i++) {
        if (a.k[i] == SYM_MB)
            return 0;
        const struct rank_constant *c = &p->constants[a.k[i]];
        r *= c->base ? 0 : value_extent(c->value, c->dim, p->mesh, NULL);
    }
    return r;
}

int64_t sym_on_rank(const struct physical *p, struct sym a, const int *coord)
{
    int64_t r = a.c;
    for (int i = 0; i < a.n; i++) {
        if (a.k[i] == SYM_MB)
            return 0;
        const struct rank_constant *c = &p->constants[a.k[i]];
        r *= c->base ? value_base(c->value, c->dim, p->mesh, coord) : value_extent(c->value, c->dim, p->mesh, coord);
    }
    return r;
}

static const char *factor_text(int k)
{
    return k == SYM_MB ? "(int64_t)mb" : mem_printf("k[%d]", k);
}

const char *sym_text(struct sym a)
{
    if (!a.n || !a.c)
        return mem_printf("%lld", (long long)a.c);
    const char *s = a.c == 1 ? factor_text(a.k[0]) : mem_printf("%lld * %s", (long long)a.c, factor_text(a.k[0]));
    for (int i = 1; i < a.n; i++)
        s = mem_printf("%s * %s", s, factor_text(a.k[i]));
    return s;
}

static struct sym constant(struct physical *p, const struct value *v, int dim, bool base)
{
    const char *key = mem_printf("%d %lld", base, dim == DIM_FLAT ? 0LL : (long long)v->dim[dim]->phys);
    for (int d = 0; d < v->ndim && dim == DIM_FLAT; d++) {
        key = mem_printf("%s flat %lld", key, (long long)v->dim[d]->phys);
        for (int a = 0; a < p->mesh->naxis; a++)
            if (v->lay.ax[a].kind == SBP_S && v->lay.ax[a].dim == d)
                key = mem_printf("%s %d:%d", key, v->lay.ax[a].order, a);
    }
    for (int order = 0; order < MAX_AXIS; order++)
        for (int a = 0; a < p->mesh->naxis; a++)
            if (v->lay.ax[a].kind == SBP_S && v->lay.ax[a].dim == dim && v->lay.ax[a].order == order)
                key = mem_printf("%s %d:%d", key, order, a);
    key = intern(key);
    struct sym r = {.c = 1, .n = 1};
    for (int i = 0; i < arrlen(p->constants); i++)
        if (p->constants[i].key == key) {
            r.k[0] = (short)i;
            return r;
        }
    r.k[0] = (short)arrlen(p->constants);
    arrput(p->constants, ((struct rank_constant){base, v, dim, key}));
    return r;
}

/* Does every rank use all of its share? */
static bool share_is_full(const struct physical *p, const struct value *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (v->dim[d]->phys % layout_parts(&v->lay, d, p->mesh))
            return false;
    return value_share(v, p->mesh) * layout_parts(&v->lay, DIM_FLAT, p->mesh) == value_piece(v, p->mesh, NULL);
}

struct sym sym_extent(struct physical *p, const struct value *v, int dim)
{
    int64_t parts = layout_parts(&v->lay, dim, p->mesh);
    if (dim == DIM_FLAT)
        return share_is_full(p, v) ? sym_int(value_share(v, p->mesh)) : constant(p, v, dim, false);
    if (v->dim[dim]->phys % parts == 0)
        return sym_int(v->dim[dim]->phys / parts);
    return constant(p, v, dim, false);
}

/* The base counts whole ranks only: a part along the time axis starts where its micro-batch does, which the text adds.
 */
struct sym sym_base(struct physical *p, const struct value *v, int dim)
{
    for (int a = 0; a < p->mesh->naxis; a++) {
        const struct axis *axis = &p->mesh->axis[a];
        if (v->lay.ax[a].kind == SBP_S && v->lay.ax[a].dim == dim && axis->size > 1 && !axis->time)
            return constant(p, v, dim, true);
    }
    return sym_int(0);
}

struct sym sym_range(const struct place *l, int low, int high)
{
    struct sym r = sym_int(1);
    for (int d = low; d < high; d++)
        r = sym_mul(r, l->extent[d]);
    return r;
}

/* A share is one run of elements: the first dim stands for it. */
static void place_flat(struct physical *p, struct value *v)
{
    for (int d = 0; d < v->ndim; d++) {
        v->place->extent[d] = d ? sym_int(1) : sym_extent(p, v, DIM_FLAT);
        v->place->stride[d] = sym_int(1);
    }
    place_numbers(p, v);
}

void place_dense(struct physical *p, struct value *v, const int *perm)
{
    v->place = NEW(struct place);
    struct sym s = sym_int(1);
    if (layout_flat(&v->lay, p->mesh)) {
        place_flat(p, v);
        return;
    }
    for (int d = 0; d < v->ndim; d++)
        v->place->extent[d] = sym_extent(p, v, d);
    for (int i = v->ndim - 1; i >= 0; i--) {
        v->place->stride[perm[i]] = s;
        s = sym_mul(s, v->place->extent[perm[i]]);
    }
    place_numbers(p, v);
}

void place_numbers(struct physical *p, struct value *v)
{
    v->offset = 0;
    for (int i = 0; i < arrlen(v->place->offset); i++)
        v->offset += sym_max(p, v->place->offset[i]);
    for (int d = 0; d < v->ndim; d++)
        v->stride[d] = sym_max(p, v->place->stride[d]);
}

bool place_contiguous(const struct value *v)
{
    struct sym s = sym_int(1);
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (sym_is(v->place->extent[d], 1))
            continue;
        if (!sym_same(v->place->stride[d], s))
            return false;
        s = sym_mul(s, v->place->extent[d]);
    }
    return true;
}

bool place_whole(const struct value *v)
{
    struct sym s = sym_int(1);
    bool taken[MAX_DIM] = {false};
    for (int k = 0; k < v->ndim; k++) {
        int next = -1;
        for (int d = 0; d < v->ndim && next < 0; d++)
            if (!taken[d] && (sym_is(v->place->extent[d], 1) || sym_same(v->place->stride[d], s)))
                next = d;
        if (next < 0)
            return false;
        taken[next] = true;
        s = sym_mul(s, v->place->extent[next]);
    }
    return true;
}
