/* What belongs to a run beside its tensors, between its owners and a checkpoint's manifest. */
#ifndef FL_STATE_H
#define FL_STATE_H
#include "manifest.h"

json_t *fl_state_scalars(void);                      /* the numbers of fl_checkpoint_scalar, as they are now */
json_t *fl_state_positions(int64_t done, bool epochs);       /* of each data of train: where step `done` begins */
json_t *fl_state_held(void);             /* of each data of train: how much is read of it in an epoch, -1 where nothing is known */
void fl_state_compare(void);             /* once the data are open: says where they hold more or less than when it was saved */
void fl_state_take(const struct fl_manifest *m);     /* sets both */
#endif
