/* Checkpoints: a directory with all weights and optimizer states as logical tensors, and the step. */
#ifndef FL_CHECKPOINT_H
#define FL_CHECKPOINT_H
#include "flow_rt.h"

/* All ranks. `done`: steps done so far. The directory appears, or is replaced, only when it is complete. */
void fl_checkpoint_save(struct fl_run *run, const char *dir, int64_t done);
bool fl_checkpoint_exists(const char *dir);          /* the same answer on all ranks */
/* Fills parameters and states and run->step.seed; gives the number of steps done. */
int64_t fl_checkpoint_load(struct fl_run *run, const char *dir);
#endif
