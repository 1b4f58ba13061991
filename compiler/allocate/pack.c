/* Depth-first search for a placement below a capacity, in canonical order: items are placed by non-decreasing offset,
 * each on top of what is placed already (or at 0), which loses no solution. The ideas are those of M. D. Moffitt,
 * "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023:
 * - time is cut into sections, the maximal sets of items alive at once; in each section the free room above the lowest
 *   place any item of it could still take must hold all its unplaced items;
 * - an item is not placed so high that another one would fit whole below it: lowering that one gives a solution too;
 * - where no unplaced item spans a boundary, the two sides are independent problems.
 * The order in which equal candidates are tried decides much; several are run with growing node limits. */
#include "pack.h"
#include "../base/mem.h"
#include <stdlib.h>
#include <string.h>

struct box {                     /* an item in the search */
    int from, to;                /* sections [from, to) */
    int64_t size, low;           /* lowest offset that what is placed allows */
    int64_t offset;              /* -1: not placed */
    int rank;                    /* place in the order in which candidates are tried */
    int *near;                   /* stb_ds array: boxes that share a section */
};
struct undo { int box; int64_t low; };
struct packer {
    int n, nsection;
    struct box *boxes;
    int64_t capacity, nodes;     /* nodes left */
    struct undo *undo;           /* stb_ds array */
    int64_t *rest, *floor;       /* scratch per section */
    int *across;                 /* scratch: unplaced boxes that span the boundary before a section */
    int *pool;                   /* stack of box lists */
    int64_t pool_used, pool_size;
};

static int compare_long(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Cuts time at every start that follows an end: between two cuts the set of living items only grows, then only shrinks,
 * so its largest set stands for all of it. */
static void make_sections(struct packer *p, const struct item *items)
{
    int64_t *starts = NEW_ARRAY(int64_t, p->n + 1), *ends = NEW_ARRAY(int64_t, p->n + 1), *cuts = NULL;
    for (int i = 0; i < p->n; i++) {
        starts[i] = items[i].lower;
        ends[i] = items[i].upper;
    }
    qsort(starts, (size_t)p->n, sizeof *starts, compare_long);
    qsort(ends, (size_t)p->n, sizeof *ends, compare_long);
    int64_t last = INT64_MIN;                        /* newest start taken into a section */
    for (int s = 0, e = 0; s < p->n; s++) {
        while (e < p->n && ends[e] <= starts[s])
            e++;
        if (s && e && ends[e - 1] > last)            /* something ended since: the set so far was maximal */
            arrput(cuts, last);
        last = starts[s];
    }
    arrput(cuts, last);
    p->nsection = (int)arrlen(cuts);                 /* section k is the moment cuts[k] */
    for (int i = 0; i < p->n; i++) {
        struct box *b = &p->boxes[i];
        b->size = items[i].size;
        b->offset = -1;
        b->from = 0;
        while (b->from < p->nsection && cuts[b->from] < items[i].lower)
            b->from++;
        b->to = b->from;
        while (b->to < p->nsection && cuts[b->to] < items[i].upper)
            b->to++;
    }
    for (int i = 0; i < p->n; i++)
        for (int j = 0; j < p->n; j++)
            if (i != j && p->boxes[i].from < p->boxes[j].to && p->boxes[j].from < p->boxes[i].to)
                arrput(p->boxes[i].near, j);
}

static bool search(struct packer *p, const int *list, int count, int from, int to, int64_t level, int after);

/* Splits the unplaced boxes where none spans a boundary and solves the parts one by one. */
static bool search_parts(struct packer *p, const int *list, int count, int from, int to, int64_t level, int after)
{
    memset(p->across + from, 0, sizeof *p->across * (size_t)(to - from + 1));
    for (int k = 0; k < count; k++)
        for (int s = p->boxes[list[k]].from + 1; s < p->boxes[list[k]].to; s++)
            p->across[s]++;
    int cuts = 0;
    for (int s = from + 1; s < to; s++)
        cuts += p->across[s] == 0;
    if (!cuts)
        return search(p, list, count, from, to, level, after);
    int64_t mark = p->pool_used;
    if (mark + count + to - from + 1 > p->pool_size)
        return false;
    int *bounds = p->pool + p->pool_used, parts = 0;
    p->pool_used += cuts + 2;
    bounds[parts++] = from;
    for (int s = from + 1; s < to; s++)
        if (p->across[s] == 0)
            bounds[parts++] = s;
    bounds[parts] = to;
    bool fine = true;
    for (int q = 0; q < parts && fine; q++) {
        int *mine = p->pool + p->pool_used, m = 0;
        for (int k = 0; k < count; k++)
            if (p->boxes[list[k]].from >= bounds[q] && p->boxes[list[k]].from < bounds[q + 1])
                mine[m++] = list[k];
        p->pool_used += m;
        fine = !m || search(p, mine, m, bounds[q], bounds[q + 1], level, after);
    }
    p->pool_used = mark;
    return fine;
}

static int64_t effective(const struct box *b, int64_t level)
{
    return b->low > level ? b->low : level;
}

/* Places the boxes of list, which live in sections [from, to), at `level` or above; on false nothing of it stays placed. */
static bool search(struct packer *p, const int *list, int count, int from, int to, int64_t level, int after)
{
    if (--p->nodes < 0)
        return false;
    for (int s = from; s < to; s++) {
        p->rest[s] = 0;
        p->floor[s] = INT64_MAX;
    }
    int64_t lowest_top = INT64_MAX;
    for (int k = 0; k < count; k++) {
        const struct box *b = &p->boxes[list[k]];
        int64_t low = effective(b, level);
        if (low + b->size > p->capacity)
            return false;
        if (low + b->size < lowest_top)
            lowest_top = low + b->size;
        for (int s = b->from; s < b->to; s++) {
            p->rest[s] += b->size;
            if (low < p->floor[s])
                p->floor[s] = low;
        }
    }
    for (int s = from; s < to; s++)
        if (p->rest[s] && p->floor[s] + p->rest[s] > p->capacity)
            return false;

    /* candidates by offset, then by rank */
    int64_t mark = p->pool_used;
    if (mark + 2 * count > p->pool_size)
        return false;
    int *candidates = p->pool + mark, m = 0;
    for (int k = 0; k < count; k++) {
        const struct box *b = &p->boxes[list[k]];
        if (b->low < level || (b->low == level && b->rank < after) || b->low >= lowest_top)
            continue;
        int at = m++;
        for (; at; at--) {
            const struct box *o = &p->boxes[candidates[at - 1]];
            if (o->low < b->low || (o->low == b->low && o->rank < b->rank))
                break;
            candidates[at] = candidates[at - 1];
        }
        candidates[at] = list[k];
    }
    int *rest = candidates + m;
    p->pool_used = mark + m + count;
    for (int c = 0; c < m; c++) {
        struct box *b = &p->boxes[candidates[c]];
        ptrdiff_t undone = arrlen(p->undo);
        int64_t top = b->low + b->size;
        b->offset = b->low;
        for (int k = 0; k < arrlen(b->near); k++) {
            struct box *o = &p->boxes[b->near[k]];
            if (o->offset < 0 && o->low < top) {
                arrput(p->undo, ((struct undo){b->near[k], o->low}));
                o->low = top;
            }
        }
        int left = 0;
        for (int k = 0; k < count; k++)
            if (list[k] != candidates[c])
                rest[left++] = list[k];
        if (!left || search_parts(p, rest, left, from, to, b->offset, b->rank))
            return true;                             /* the pool is given up with the whole search */
        while (arrlen(p->undo) > undone) {
            struct undo u = arrpop(p->undo);
            p->boxes[u.box].low = u.low;
        }
        for (int k = 0; k < left; k++)
            p->boxes[rest[k]].offset = -1;           /* parts solved before one failed */
        b->offset = -1;
        if (p->nodes < 0)
            break;
    }
    p->pool_used = mark;
    return false;
}

struct order_key { double a, b, c; int box; };

static int by_key(const void *x, const void *y)
{
    const struct order_key *k = x, *l = y;
    if (k->a != l->a)
        return k->a > l->a ? -1 : 1;
    if (k->b != l->b)
        return k->b > l->b ? -1 : 1;
    if (k->c != l->c)
        return k->c > l->c ? -1 : 1;
    return k->box - l->box;
}

/* Orders of trial: by how crowded an item's sections are, by its length, by its area, in three combinations; later
 * rounds shake them with a fixed sequence of random factors. */
static void rank_boxes(struct packer *p, int rule, uint64_t *random)
{
    struct order_key *keys = NEW_ARRAY(struct order_key, p->n);
    int64_t *load = NEW_ARRAY(int64_t, p->nsection);
    for (int i = 0; i < p->n; i++)
        for (int s = p->boxes[i].from; s < p->boxes[i].to; s++)
            load[s] += p->boxes[i].size;
    for (int i = 0; i < p->n; i++) {
        const struct box *b = &p->boxes[i];
        double crowd = 0, length = b->to - b->from, area = length * (double)b->size, shake = 1;
        for (int s = b->from; s < b->to; s++)
            if ((double)load[s] > crowd)
                crowd = (double)load[s];
        if (rule >= 3) {
            *random = *random * 6364136223846793005u + 1442695040888963407u;
            shake = 0.7 + 0.6 * (double)(*random >> 40) / (1 << 24);
        }
        switch (rule % 3) {
        case 0: keys[i] = (struct order_key){length * shake, area, crowd, i}; break;
        case 1: keys[i] = (struct order_key){crowd * shake, area, length, i}; break;
        default: keys[i] = (struct order_key){crowd * shake, length, area, i}; break;
        }
    }
    qsort(keys, (size_t)p->n, sizeof *keys, by_key);
    for (int i = 0; i < p->n; i++)
        p->boxes[keys[i].box].rank = i;
}

bool pack(struct item *items, int n, int64_t capacity, int64_t nodes)
{
    if (n == 0)
        return true;
    struct packer p = {.n = n, .capacity = capacity, .boxes = NEW_ARRAY(struct box, n)};
    make_sections(&p, items);
    p.rest = NEW_ARRAY(int64_t, p.nsection + 1);
    p.floor = NEW_ARRAY(int64_t, p.nsection + 1);
    p.across = NEW_ARRAY(int, p.nsection + 2);
    p.pool_size = 4 * (int64_t)n * n + 4 * ((int64_t)n + p.nsection + 2) * 4;
    p.pool = NEW_ARRAY(int, p.pool_size);
    int *all = NEW_ARRAY(int, n);
    for (int i = 0; i < n; i++)
        all[i] = i;
    uint64_t random = 1;
    int64_t share = 2000;
    for (int rule = 0; nodes > 0; rule++) {
        rank_boxes(&p, rule, &random);
        for (int i = 0; i < n; i++) {
            p.boxes[i].low = 0;
            p.boxes[i].offset = -1;
        }
        p.nodes = share < nodes ? share : nodes;
        int64_t given = p.nodes;
        p.pool_used = 0;
        arrsetlen(p.undo, 0);
        bool found = search_parts(&p, all, n, 0, p.nsection, 0, -1);
        nodes -= given - (p.nodes > 0 ? p.nodes : 0);
        if (found) {
            for (int i = 0; i < n; i++)
                items[i].offset = p.boxes[i].offset;
            return true;
        }
        if (p.nodes >= 0)
            return false;                            /* the whole tree was searched */
        if (rule % 3 == 2)
            share = share * 5 / 4;
    }
    return false;
}
