/* Checkpoints: a directory with all weights and optimizer states as logical tensors, and the step. They are copied at
 * the step and written while training goes on. */
#ifndef FL_CHECKPOINT_H
#define FL_CHECKPOINT_H
#include "flow_rt.h"

struct fl_checkpoint_to {
    const char *dir;                     /* in every moment absent, or with a complete checkpoint */
    int64_t keep, keep_every;            /* the last `keep` stay, and those of every keep_every-th step (0: none) */
    int64_t room;                        /* bytes that may wait for the disk on each rank */
};
/* All ranks, before the first step: ends the run when a checkpoint cannot be written into dir, or when not all ranks
 * see it. What is not empty and no directory of checkpoints is left alone. */
void fl_checkpoint_prepare(const struct fl_checkpoint_to *to);
/* All ranks. `done`: steps done so far. Returns when the weights may change; waits for the checkpoint before. */
void fl_checkpoint_save(struct fl_run *run, int64_t done);
/* Is this rank still writing? When no rank is, all of them call fl_checkpoint_advance, which takes the next step: files
 * are written, then the manifest, then it is in place. */
bool fl_checkpoint_pending(void);        /* the same answer on all ranks */
bool fl_checkpoint_busy(void);
void fl_checkpoint_advance(void);
void fl_checkpoint_finish(void);         /* waits until what was begun is in place */

bool fl_checkpoint_exists(const char *dir);          /* the same answer on all ranks */
/* Fills parameters and states and run->step.seed, tells the reader where to go on; gives the number of steps done. dir:
 * a directory of checkpoints, or one of them. */
int64_t fl_checkpoint_load(struct fl_run *run, const char *dir);

/* A number of the host that belongs to the run's state: saved under this name, set when a checkpoint is loaded that has
 * it. Called on all ranks before either; the value is the same on all of them. */
void fl_checkpoint_scalar(const char *name, double *value);
#endif
