/* Best fit by decreasing weight: items are placed one after the other in the smallest gap between those that live at
 * the same time and are placed already; ties go to the lowest offset. Several weights are tried and the lowest result
 * kept. */
#include "../base/mem.h"
#include "fit.h"
#include <stdbool.h>
#include <stdlib.h>

struct ranked { double weight; int index; };

static int by_weight(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->index - y->index;
}

static int64_t place_all(struct item *items, const struct ranked *order, int n)
{
    struct item **placed = NEW_ARRAY(struct item *, n);    /* sorted by offset */
    int64_t height = 0;
    for (int i = 0; i < n; i++) {
        struct item *it = &items[order[i].index];
        int64_t end = 0, best = -1, best_gap = INT64_MAX;
        for (int k = 0; k < i && best_gap != it->size; k++) {
            const struct item *o = placed[k];
            if (o->lower >= it->upper || it->lower >= o->upper)
                continue;
            int64_t gap = o->offset - end;
            if (gap >= it->size && gap < best_gap) {
                best_gap = gap;
                best = end;
            }
            if (o->offset + o->size > end)
                end = o->offset + o->size;
        }
        it->offset = best < 0 ? end : best;
        int k = i;
        for (; k && placed[k - 1]->offset > it->offset; k--)
            placed[k] = placed[k - 1];
        placed[k] = it;
        if (it->offset + it->size > height)
            height = it->offset + it->size;
    }
    return height;
}

static double weight(const struct item *it, int rule)
{
    double length = (double)(it->upper - it->lower), size = (double)it->size;
    return rule == 0 ? size : rule == 1 ? size * length : rule == 2 ? length * 1e12 + size : -(double)it->lower;
}

int64_t fit(struct item *items, int n)
{
    if (!n)
        return 0;
    struct ranked *order = NEW_ARRAY(struct ranked, n);
    int64_t *best = NEW_ARRAY(int64_t, n), height = INT64_MAX, bound = fit_bound(items, n);
    for (int rule = 0; rule < 4 && height > bound; rule++) {
        for (int i = 0; i < n; i++)
            order[i] = (struct ranked){weight(&items[i], rule), i};
        qsort(order, (size_t)n, sizeof *order, by_weight);
        int64_t h = place_all(items, order, n);
        if (h >= height)
            continue;
        height = h;
        for (int i = 0; i < n; i++)
            best[i] = items[i].offset;
    }
    for (int i = 0; i < n; i++)
        items[i].offset = best[i];
    return height;
}

struct event { int64_t at, size; };

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size;     /* ends before starts */
}

int64_t fit_bound(const struct item *items, int n)
{
    struct event *events = NEW_ARRAY(struct event, 2 * n + 1);
    for (int i = 0; i < n; i++) {
        events[2 * i] = (struct event){items[i].lower, items[i].size};
        events[2 * i + 1] = (struct event){items[i].upper, -items[i].size};
    }
    qsort(events, (size_t)(2 * n), sizeof *events, by_time);
    int64_t live = 0, most = 0;
    for (int i = 0; i < 2 * n; i++) {
        live += events[i].size;
        if (live > most)
            most = live;
    }
    return most;
}
