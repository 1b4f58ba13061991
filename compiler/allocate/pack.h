/* The exact search behind fit: is there a placement no higher than a capacity? */
#ifndef FLOWC_ALLOCATE_PACK_H
#define FLOWC_ALLOCATE_PACK_H
#include "fit.h"
#include <stdbool.h>

/* Finds offsets with every item below the capacity, or gives up after so many search nodes (a count, not a time: the same
 * problem has the same answer on every machine). Offsets are changed only on success. */
bool pack(struct item *items, int n, int64_t capacity, int64_t nodes);

/* Fits the items as low as so many nodes for each of a few heights above the bound allow; returns the height. */
int64_t pack_near(struct item *items, int n, int64_t nodes);
#endif
