/* --check-replicas: what several ranks hold is the same on all of them, bit by bit. */
#ifndef FL_REPLICAS_H
#define FL_REPLICAS_H
#include "flow_rt.h"
void fl_replicas_start(struct fl_run *run);          /* looks at the parameters, and from now on at every step */
void fl_replicas_step(struct fl_run *run);           /* behind a step, all ranks: compares, or ends the run */
#endif
