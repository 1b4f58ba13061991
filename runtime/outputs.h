/* What a step hands over: scalars such as the loss, and one row of logits for the sampler. */
#ifndef FL_OUTPUTS_H
#define FL_OUTPUTS_H
#include "flow_rt.h"

/* Runs one step of an entry and makes its scalar outputs known on every rank that asks for them. */
void fl_outputs_run(struct fl_run *run, enum fl_entry entry);
/* Value of an output of the entry run last, on rank 0; *have false when the entry has no such scalar. */
double fl_outputs_scalar(enum fl_entry entry, const char *name, bool *have);
/* While set, the row of output `name` at sequence 0 and this position is collected: row holds its valid entries on all
 * ranks after the next run. Gives the number of entries. NULL ends it. */
int64_t fl_outputs_row(enum fl_entry entry, const char *name, int64_t position);
const float *fl_outputs_row_values(void);
#endif
