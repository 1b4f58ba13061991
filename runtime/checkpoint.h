/* Checkpoints: a directory with all weights and optimizer states as logical tensors, and the step. */
#ifndef FL_CHECKPOINT_H
#define FL_CHECKPOINT_H
#include "flow_rt.h"

/* Before the first step, on one rank: NULL when a checkpoint can be written into dir, else why not. What is not empty
 * and no directory of checkpoints is left alone. */
char *fl_checkpoint_refuse(const char *dir);
/* All ranks. `done`: steps done so far. In every moment dir is absent or holds a complete checkpoint. */
void fl_checkpoint_save(struct fl_run *run, const char *dir, int64_t done);
bool fl_checkpoint_exists(const char *dir);          /* the same answer on all ranks */
/* Fills parameters and states and run->step.seed, tells the reader where to go on; gives the number of steps done. */
int64_t fl_checkpoint_load(struct fl_run *run, const char *dir);
#endif
