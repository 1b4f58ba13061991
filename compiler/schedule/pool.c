/* Slots that several registers of a stage share. The chunks of a stage do not keep most at the same moment: what chunk 0 has
 * given back serves chunk 1. A micro-batch takes the slot that was given back last, over all of them, so that the number is
 * the most that is kept at once: 2p half-size ones under zb_v.
 *
 * Which slot that is repeats after some multiple of the number of slots, behind a few micro-batches at the start. So a table
 * says it whose size does not grow with micro-batches. */
#include "rolled.h"
#include <stdlib.h>
#include <string.h>

struct draft {
    const struct rolled *order;
    int microbatches, members, slots;
    uint64_t *touched;           /* by phase and chunk: bit set of the members that it touches */
    int *first, *last;           /* by member and micro-batch: its firings, counted from 1 */
    uint16_t *slot;              /* likewise */
};

static int at(const struct draft *d, int member, int microbatch) { return member * d->microbatches + microbatch; }

static uint64_t touched(const struct draft *d, const struct firing *f) { return d->touched[f->phase * MAX_CHUNK + f->chunk]; }

static void find_lives(struct draft *d)
{
    struct firing f;
    int now = 0;
    for (struct rolled_walk w = {.of = d->order}; rolled_next(&w, &f);) {
        now++;
        for (int k = 0; k < d->members; k++)
            if (touched(d, &f) >> k & 1) {
                int i = at(d, k, f.microbatch);
                d->first[i] = d->first[i] ? d->first[i] : now;
                d->last[i] = now;
            }
    }
}

static void take_slots(struct draft *d)
{
    uint16_t *free = NULL;
    struct firing f;
    int now = 0;
    for (struct rolled_walk w = {.of = d->order}; rolled_next(&w, &f);) {
        now++;
        for (int k = 0; k < d->members; k++) {
            int i = at(d, k, f.microbatch);
            if (touched(d, &f) >> k & 1 && d->first[i] == now)
                d->slot[i] = arrlen(free) ? arrpop(free) : (uint16_t)d->slots++;
        }
        for (int k = 0; k < d->members; k++) {
            int i = at(d, k, f.microbatch);
            if (touched(d, &f) >> k & 1 && d->last[i] == now)
                arrput(free, d->slot[i]);
        }
    }
}

/* From which micro-batch on all slots come again `period` micro-batches later. */
static int regular_from(const struct draft *d, int period)
{
    int from = 0;
    for (int k = 0; k < d->members; k++)
        for (int i = d->microbatches - period - 1; i >= from; i--)
            if (d->slot[at(d, k, i)] != d->slot[at(d, k, i + period)])
                from = i + 1;
    return from;
}

/* No two that are kept at the same moment have one slot, as the table says it. */
static bool holds(const struct draft *d, const struct slot_pool *p)
{
    int *owner = NEW_ARRAY(int, p->slots);               /* counted from 1 */
    struct firing f;
    int now = 0;
    for (struct rolled_walk w = {.of = d->order}; rolled_next(&w, &f);) {
        now++;
        for (int k = 0; k < d->members; k++) {
            int i = at(d, k, f.microbatch);
            if (!(touched(d, &f) >> k & 1))
                continue;
            int *mine = &owner[p->slot[k][slot_pool_place(p, f.microbatch)]];
            if (*mine != (d->first[i] == now ? 0 : i + 1))
                return false;
            *mine = i + 1;
        }
        for (int k = 0; k < d->members; k++) {
            int i = at(d, k, f.microbatch);
            if (touched(d, &f) >> k & 1 && d->last[i] == now)
                owner[p->slot[k][slot_pool_place(p, f.microbatch)]] = 0;
        }
    }
    return true;
}

int slot_pool_place(const struct slot_pool *p, int microbatch)
{
    return microbatch < p->prefix ? microbatch : p->prefix + (microbatch - p->prefix) % p->period;
}

struct slot_pool *slot_pool_make(const struct rolled *order, int stages, int microbatches, struct root *const *actors, int members)
{
    struct draft d = {.order = order, .microbatches = microbatches, .members = members};
    if (members > 64)
        return NULL;
    d.touched = NEW_ARRAY(uint64_t, PHASES * MAX_CHUNK);
    for (int k = 0; k < members; k++)
        for (int i = 0; i < arrlen(actors[k]); i++)
            d.touched[actors[k][i].phase * MAX_CHUNK + actors[k][i].chunk] |= (uint64_t)1 << k;
    d.first = NEW_ARRAY(int, members * microbatches);
    d.last = NEW_ARRAY(int, members * microbatches);
    d.slot = NEW_ARRAY(uint16_t, members * microbatches);
    find_lives(&d);
    for (int i = 0; i < members * microbatches; i++)
        if (!d.first[i])
            return NULL;                 /* the order does not come to its end */
    take_slots(&d);
    struct slot_pool *p = NEW(struct slot_pool);
    p->slots = d.slots;
    for (int turns = 1; turns <= stages && !p->period && 2 * turns * d.slots <= microbatches; turns++) {
        int from = regular_from(&d, turns * d.slots);
        if (from + 2 * turns * d.slots <= microbatches) {
            p->prefix = from;
            p->period = turns * d.slots;
        }
    }
    if (!p->period && microbatches > 2 * stages * d.slots)
        return NULL;                     /* the table would grow with them */
    if (!p->period) {
        p->prefix = microbatches;
        p->period = 1;
    }
    int places = p->prefix + p->period < microbatches ? p->prefix + p->period : microbatches;
    p->slot = NEW_ARRAY(uint16_t *, members);
    for (int k = 0; k < members; k++) {
        p->slot[k] = NEW_ARRAY(uint16_t, places);
        memcpy(p->slot[k], d.slot + at(&d, k, 0), (size_t)places * sizeof *d.slot);
    }
    p->places = places;
    return holds(&d, p) ? p : NULL;
}

int rolled_kept(const struct rolled *r, int stages, int microbatches, int chunks, bool splits)
{
    enum phase end = splits ? PHASE_WEIGHT : PHASE_BACKWARD;
    struct root **actors = NULL;
    int apart = 0;
    for (int c = 0; c < chunks; c++) {
        struct root *one = NULL;
        for (enum phase p = PHASE_FORWARD; p <= end; p++)
            arrput(one, ((struct root){.phase = p, .chunk = c}));
        arrput(actors, one);
        int back = rolled_slots(r, PHASE_FORWARD, c, PHASE_BACKWARD, c), weight = rolled_slots(r, PHASE_FORWARD, c, end, c);
        apart += back > weight ? back : weight;
    }
    const struct slot_pool *pool = chunks > 1 ? slot_pool_make(r, stages, microbatches, actors, chunks) : NULL;
    return pool && pool->slots < apart ? pool->slots : apart;
}
