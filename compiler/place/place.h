/* Private to place.  split.c: the repeat that the pipeline cuts.  place.c: a stage for every node.  twins.c: recomputed
 * values on one stage.  weight.c: a weight part on one stage. */
#ifndef FLOWC_PLACE_H
#define FLOWC_PLACE_H
#include "../base/diag.h"
#include "../module.h"
#include "../op.h"
#include "../passes.h"

/* The forward repeat of g whose blocks have the label `label`, the first of its pieces, or NULL. names (may be NULL) collects the labels seen. */
struct node *split_find(const struct graph *g, const char *label, const char ***names);
/* Blocks of each virtual stage, cumulative: stb_ds array, one entry more than they are; NULL after a diagnostic. */
int64_t *split_counts(const struct plan *plan, const struct node *repeat);
void settle_twins(struct graph *g);                  /* after the backward has its stages */
void keep_weight_parts(struct graph *g);              /* likewise */
#endif
