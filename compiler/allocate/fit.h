/* The placement solver: gives items with lifetimes offsets so that no two that live at once overlap. */
#ifndef FLOWC_ALLOCATE_FIT_H
#define FLOWC_ALLOCATE_FIT_H
#include <stdint.h>

struct item {
    int64_t lower, upper;        /* lives in [lower, upper) */
    int64_t size;
    int64_t offset;              /* found by fit */
    int id;
};
int64_t fit(struct item *items, int n);             /* returns the height; items keep their order */
int64_t fit_bound(const struct item *items, int n); /* the most that lives at once: no height is below it */
#endif
