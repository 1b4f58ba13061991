/* Depth-first search for a placement below a capacity, in canonical order: items are placed by non-decreasing offset,
 * each on top of what is placed already (or at 0), which loses no solution. The first three ideas are those of
 * M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023:
 * - time is cut into sections, the maximal sets of items alive at once; what is not placed yet in a section must fit
 *   above the lowest place any item of it could still take;
 * - an item is not placed so high that another one would fit whole below it: lowering that one gives a solution too;
 * - where no unplaced item spans a boundary, the two sides are independent problems.
 * Two more decide the hard ones. A failure is blamed on a span of sections: an item that does not live in the span is
 * not moved to mend it (this may pass over a solution, so only the portfolio as a whole gives up). And sections that
 * failed often come first when the search starts anew.
 *
 * The order in which equal candidates are tried decides much; several are run in turn with growing node limits. */
#include "search.h"
#include <stdlib.h>

/* Orders of trial: three keys each, largest first. */
enum key { LENGTH, AREA, CROWD, FAILED, CROWD_FAILED };
static const enum key orders[ORDERS][3] = {
    {LENGTH, AREA, CROWD}, {CROWD, AREA, LENGTH}, {CROWD, LENGTH, AREA},
    {CROWD_FAILED, LENGTH, AREA}, {FAILED, LENGTH, AREA},
};
enum { KEYS = CROWD_FAILED + 1 };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void widen(struct range *r, int from, int to)
{
    r->from = from < r->from ? from : r->from;
    r->to = to > r->to ? to : r->to;
}

static bool search(struct packer *p, const int *list, int count, int from, int to, int64_t level, int after);

static int by_key(const void *x, const void *y)
{
    const struct trial *k = x, *l = y;
    for (int q = 0; q < 3; q++)
        if (k->key[q] != l->key[q])
            return k->key[q] > l->key[q] ? -1 : 1;
    return k->box - l->box;
}

static void rank_boxes(struct packer *p, const int *list, int count)
{
    for (int k = 0; k < count; k++) {
        const struct box *b = &p->boxes[list[k]];
        double key[KEYS] = {[LENGTH] = b->length, [AREA] = b->length * (double)b->size};
        for (int s = b->from; s < b->to; s++) {
            double crowd = (double)p->sections[s].rest / (double)p->capacity;
            double failed = p->sections[s].failed[p->order] / p->most_failed;
            key[CROWD] = crowd > key[CROWD] ? crowd : key[CROWD];
            key[FAILED] = failed > key[FAILED] ? failed : key[FAILED];
            key[CROWD_FAILED] = crowd + failed > key[CROWD_FAILED] ? crowd + failed : key[CROWD_FAILED];
        }
        const enum key *use = orders[p->order];
        p->trials[k] = (struct trial){{key[use[0]], key[use[1]], key[use[2]]}, list[k]};
    }
    qsort(p->trials, (size_t)count, sizeof *p->trials, by_key);
    for (int k = 0; k < count; k++)
        p->boxes[p->trials[k].box].rank = k;
}

/* The boxes of list, split where none of them spans a boundary: the parts are solved one by one. */
bool search_parts(struct packer *p, const int *list, int count, int from, int to)
{
    int64_t mark = p->pool_used;
    int *ranks = p->pool + mark;
    for (int k = 0; k < count; k++)
        ranks[k] = p->boxes[list[k]].rank;
    bool fine = true;
    for (int start = from; start < to && fine;) {
        int end = start + 1;
        while (end < to && p->sections[end].across)
            end++;
        int *mine = p->pool + mark + count, m = 0;
        for (int k = 0; k < count; k++)
            if (p->boxes[list[k]].from >= start && p->boxes[list[k]].from < end)
                mine[m++] = list[k];
        p->pool_used = mark + count + m;
        rank_boxes(p, mine, m);
        fine = !m || search(p, mine, m, start, end, 0, -1);
        start = end;
    }
    for (int k = 0; k < count && !fine; k++)
        p->boxes[list[k]].rank = ranks[k];
    p->pool_used = mark;
    return fine;
}

static void put(struct packer *p, int index)
{
    struct box *b = &p->boxes[index];
    b->offset = b->low;
    for (int s = b->from; s < b->to; s++) {
        p->sections[s].rest -= b->size;
        p->sections[s].across -= s > b->from;
    }
}

void take(struct packer *p, int index)
{
    struct box *b = &p->boxes[index];
    b->offset = -1;
    for (int s = b->from; s < b->to; s++) {
        p->sections[s].rest += b->size;
        p->sections[s].across += s > b->from;
    }
}

/* Section s is full too early: because of what is placed next to any box it still waits for. */
static void blame_section(struct packer *p, int s)
{
    struct section *c = &p->sections[s];
    c->failed[p->order]++;
    p->blame = (struct range){s, s + 1};
    for (int k = 0; k < arrlen(c->boxes); k++)
        if (p->boxes[c->boxes[k]].offset < 0)
            widen(&p->blame, p->boxes[c->boxes[k]].from, p->boxes[c->boxes[k]].to);
}

/* Lifts what lies over box b, then the floors of the sections; false when something can no longer fit. */
static bool lift(struct packer *p, const struct box *b)
{
    int64_t top = b->offset + b->size;
    int from = b->from, to = b->to;
    for (int k = 0; k < arrlen(b->near); k++) {
        struct box *o = &p->boxes[b->near[k]];
        if (o->offset >= 0 || o->low >= top)
            continue;
        if (top + o->size > p->capacity) {
            p->blame = (struct range){b->from, b->to};
            widen(&p->blame, o->from, o->to);
            return false;
        }
        arrput(p->undo, ((struct undo){false, b->near[k], o->low}));
        o->low = top;
        from = o->from < from ? o->from : from;
        to = o->to > to ? o->to : to;
    }
    for (int s = from; s < to; s++) {
        struct section *c = &p->sections[s];
        if (c->floor >= top || !c->rest)
            continue;
        int64_t floor = INT64_MAX;
        for (int k = 0; k < arrlen(c->boxes); k++) {
            const struct box *o = &p->boxes[c->boxes[k]];
            if (o->offset < 0 && o->low < floor)
                floor = o->low;
        }
        if (floor == c->floor)
            continue;
        if (floor + c->rest > p->capacity) {
            blame_section(p, s);
            widen(&p->blame, b->from, b->to);
            return false;
        }
        arrput(p->undo, ((struct undo){true, s, c->floor}));
        c->floor = floor;
    }
    return true;
}

static void drop(struct packer *p, ptrdiff_t mark)
{
    while (arrlen(p->undo) > mark) {
        struct undo u = arrpop(p->undo);
        if (u.is_floor)
            p->sections[u.index].floor = u.old;
        else
            p->boxes[u.index].low = u.old;
    }
}

/* The boxes of list that may be placed next, by offset, then by rank. */
static int list_candidates(const struct packer *p, const int *list, int count, int64_t level, int after, int64_t below,
                           int *candidates)
{
    int m = 0;
    for (int k = 0; k < count; k++) {
        const struct box *b = &p->boxes[list[k]];
        if (b->low < level || (b->low == level && b->rank < after) || b->low >= below ||
            (b->twin >= 0 && p->boxes[b->twin].offset < 0))
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
    return m;
}

/* Places box `index` at its low and then the boxes of rest; on false all is as before. */
static bool try(struct packer *p, int index, const int *rest, int left, int from, int to)
{
    struct box *b = &p->boxes[index];
    ptrdiff_t mark = arrlen(p->undo);
    put(p, index);
    if (lift(p, b)) {
        bool split = false;
        for (int s = b->from + 1; s < b->to; s++)
            split |= p->sections[s].across == 0;
        if (!left || (split ? search_parts(p, rest, left, from, to)
                            : search(p, rest, left, from, to, b->offset, b->rank)))
            return true;
    }
    for (int k = 0; k < left; k++)
        if (p->boxes[rest[k]].offset >= 0)           /* parts solved before one failed */
            take(p, rest[k]);
    drop(p, mark);
    take(p, index);
    return false;
}

/* Places the boxes of list, which live in sections [from, to), at `level` or above; on false nothing of it stays placed
 * and p->blame says where the reason lies. */
static bool search(struct packer *p, const int *list, int count, int from, int to, int64_t level, int after)
{
    if (--p->nodes < 0)
        return false;
    for (int s = from; s < to; s++)
        if (p->sections[s].rest && larger(p->sections[s].floor, level) + p->sections[s].rest > p->capacity) {
            blame_section(p, s);
            return false;
        }
    int64_t lowest_top = INT64_MAX;
    struct range blame = {0, 0};
    for (int k = 0; k < count; k++) {
        const struct box *b = &p->boxes[list[k]];
        if (b->low + b->size < lowest_top) {
            lowest_top = b->low + b->size;
            blame = (struct range){b->from, b->to};
        }
    }
    int64_t mark = p->pool_used;
    int *candidates = p->pool + mark, m = list_candidates(p, list, count, level, after, lowest_top, candidates);
    int *rest = candidates + m;
    p->pool_used = mark + m + count;
    struct range only = {from, to};                  /* others would fail as the last one did */
    for (int c = 0; c < m && p->nodes >= 0; c++) {
        const struct box *b = &p->boxes[candidates[c]];
        if (b->to <= only.from || only.to <= b->from)
            continue;
        int left = 0;
        for (int k = 0; k < count; k++)
            if (list[k] != candidates[c])
                rest[left++] = list[k];
        if (try(p, candidates[c], rest, left, from, to))
            return true;                             /* the pool is given up with the whole search */
        if (b->to <= p->blame.from || p->blame.to <= b->from) {
            only = blame = p->blame;
        } else {
            widen(&blame, p->blame.from, p->blame.to);
            widen(&blame, b->from, b->to);
        }
    }
    p->blame = blame;
    p->pool_used = mark;
    return false;
}
