/* Sets the packing search up: sections of time, items that need no search, and a portfolio of orders by turns. */
#include "pack.h"
#include "search.h"
#include <stdlib.h>

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
    p->sections = NEW_ARRAY(struct section, p->nsection + 1);
    for (int i = 0; i < p->n; i++) {
        struct box *b = &p->boxes[i];
        b->size = items[i].size;
        b->length = (double)(items[i].upper - items[i].lower);
        b->from = 0;
        while (b->from < p->nsection && cuts[b->from] < items[i].lower)
            b->from++;
        b->to = b->from;
        for (; b->to < p->nsection && cuts[b->to] < items[i].upper; b->to++)
            arrput(p->sections[b->to].boxes, i);
    }
    for (int i = 0; i < p->n; i++)
        for (int j = 0; j < p->n; j++)
            if (i != j && p->boxes[i].from < p->boxes[j].to && p->boxes[j].from < p->boxes[i].to)
                arrput(p->boxes[i].near, j);
}

static void find_twins(struct packer *p)
{
    for (int i = 0; i < p->n; i++) {
        struct box *b = &p->boxes[i];
        b->twin = -1;
        for (int k = 0; k < arrlen(b->near); k++) {
            const struct box *o = &p->boxes[b->near[k]];
            if (o->size == b->size && o->from == b->from && o->to == b->to && o->length == b->length && b->near[k] < i)
                b->twin = b->near[k];
        }
    }
}

static void clear(struct packer *p)
{
    p->pool_used = 0;
    p->most_failed = 1;
    arrsetlen(p->undo, 0);
    for (int s = 0; s < p->nsection; s++) {
        struct section *c = &p->sections[s];
        c->rest = c->floor = c->across = 0;
        c->failed[p->order] /= 2;
        if (c->failed[p->order] > p->most_failed)
            p->most_failed = c->failed[p->order];
    }
    for (int i = 0; i < p->n; i++) {
        p->boxes[i].low = 0;
        take(p, i);
    }
}

/* Searches the boxes of list, order by order, with growing limits. */
static bool run_orders(struct packer *p, const int *list, int64_t nodes)
{
    int64_t share = 2 * (int64_t)p->n;
    int exhausted = 0;                               /* orders in a row that left nothing to try */
    for (int round = 0; nodes > 0 && exhausted < ORDERS; round++) {
        p->order = round % ORDERS;
        clear(p);
        int64_t given = share < nodes ? share : nodes;
        p->nodes = given;
        if (search_parts(p, list, p->n, 0, p->nsection))
            return true;
        nodes -= given - (p->nodes > 0 ? p->nodes : 0);
        exhausted = p->nodes >= 0 ? exhausted + 1 : 0;
        if (p->order == ORDERS - 1)
            share *= 2;
    }
    return false;
}

/* What needs no search: items that take no room or no time, and those that live all the time, which lie at the bottom.
 * Returns their height; `left` gets the rest. */
static int64_t place_trivial(struct item *items, int n, int64_t *offset, struct item **left, int **index)
{
    int64_t first = INT64_MAX, last = INT64_MIN, base = 0;
    for (int i = 0; i < n; i++)
        if (items[i].size && items[i].lower < items[i].upper) {
            first = items[i].upper < first ? items[i].upper : first;
            last = items[i].lower > last ? items[i].lower : last;
        }
    for (int i = 0; i < n; i++) {
        const struct item *it = &items[i];
        offset[i] = 0;
        if (!it->size || it->lower >= it->upper)
            continue;
        if (it->lower < first && it->upper > last) {         /* it shares a moment with every other */
            offset[i] = base;
            base += it->size;
        } else {
            arrput(*left, *it);
            arrput(*index, i);
        }
    }
    return base;
}

bool pack(struct item *items, int n, int64_t capacity, int64_t nodes)
{
    struct item *left = NULL;
    int *index = NULL;
    int64_t *offset = NEW_ARRAY(int64_t, n + 1), base = place_trivial(items, n, offset, &left, &index);
    struct packer p = {.n = (int)arrlen(left), .capacity = capacity - base};
    if (p.capacity < 0 || (p.n && p.capacity == 0))
        return false;
    if (p.n) {
        p.boxes = NEW_ARRAY(struct box, p.n);
        make_sections(&p, left);
        find_twins(&p);
        p.pool = NEW_ARRAY(int, 4 * (int64_t)p.n * (p.n + 2));
        p.trials = NEW_ARRAY(struct trial, p.n);
        int *all = NEW_ARRAY(int, p.n);
        for (int i = 0; i < p.n; i++)
            all[i] = i;
        if (!run_orders(&p, all, nodes))
            return false;
    }
    for (int i = 0; i < p.n; i++)
        offset[index[i]] = base + p.boxes[i].offset;
    for (int i = 0; i < n; i++)
        items[i].offset = offset[i];
    return true;
}

static int64_t height_of(const struct item *items, int n)
{
    int64_t height = 0;
    for (int i = 0; i < n; i++)
        if (items[i].offset + items[i].size > height)
            height = items[i].offset + items[i].size;
    return height;
}

int64_t pack_near(struct item *items, int n, int64_t nodes)
{
    static const int above[] = {0, 1, 2, 4, 8};      /* thousandths of the bound */
    int64_t height = fit(items, n), bound = fit_bound(items, n);
    for (size_t k = 0; k < sizeof above / sizeof *above; k++) {
        int64_t goal = bound + bound / 1000 * above[k];
        if (height <= goal || pack(items, n, goal, nodes))
            break;
    }
    return height_of(items, n);
}
