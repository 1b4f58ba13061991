/* Orders in rolled form (struct rolled, physical.h): made from a plain list, walked, shortened, made longer. */
#ifndef FLOWC_ROLLED_H
#define FLOWC_ROLLED_H
#include "../physical.h"

struct rolled rolled_make(const struct firing *order, int count);
int64_t rolled_count(const struct rolled *r);
bool rolled_empty(const struct rolled *r);

/* All firings, one after the other: for (struct rolled_walk w = {.of = &r}; rolled_next(&w, &f);) .. */
struct rolled_walk {
    const struct rolled *of;
    int lap, lap_turn, roll, roll_turn, at;      /* where it stands; zeros at the start */
};
bool rolled_next(struct rolled_walk *w, struct firing *f);

/* a and b are one order for two numbers of micro-batches: the same loops, their numbers linear in it. The order `by` such
 * steps beyond a (1: b itself), or false when the two have not the same loops. */
bool rolled_extend(const struct rolled *a, const struct rolled *b, int by, struct rolled *out);

/* The order with up to `skip` micro-batches fewer, taken out of long loops, the same number of every phase and chunk; the
 * micro-batches after them move up. Returns how many were taken out. */
int rolled_shorten(const struct rolled *r, int skip, struct rolled *out);

/* Slots of a register that `from` writes and `to` gives back: the most micro-batches from the oldest one that `to` has
 * not done to the newest one that `from` has started. Micro-batch i lies in slot i mod that number. The cost does not
 * depend on the length of the loops. */
int rolled_slots(const struct rolled *r, enum phase from, int from_chunk, enum phase to, int to_chunk);

/* Slots for what every chunk keeps from its forward to its backward, or weight phase: chunk by chunk, or fewer where the chunks
 * share them. pool.c */
int rolled_kept(const struct rolled *r, int stages, int microbatches, int chunks, bool splits);
#endif
