/* batch.c: what micro-batches cut and what they count, before there are layouts. All three are for the values that the
 * graph has now, by value id, in their order: a value made later has no entry. */
#ifndef FLOWC_BATCH_H
#define FLOWC_BATCH_H
#include "graph.h"

/* Whether a micro-batch holds a part of the value, as it has the dim that the plan cuts, or has it under another name;
 * all false where the plan cuts none. */
bool *cut_values(struct graph *g);
/* Whether it follows from inputs and constants alone and is the same for all blocks: no parameter, nothing random and
 * nothing that a repeat carries. */
bool *input_values(struct graph *g);
/* Whether it is a count: made of such values, and summed over the dim that micro-batches cut. So it is known before the
 * first of them. */
bool *count_values(struct graph *g);
#endif
