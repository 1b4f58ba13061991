/* batch.c: what micro-batches cut, before there are layouts. */
#ifndef FLOWC_BATCH_H
#define FLOWC_BATCH_H
#include "graph.h"

/* By value id: whether a micro-batch holds a part of the value, as it has the dim that the plan cuts, or has it under
 * another name. For the values that the graph has now; all false where the plan cuts none. */
bool *cut_values(struct graph *g);
#endif
