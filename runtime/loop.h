/* The life of a run: training with evaluation, sampling and checkpoints. */
#ifndef FL_LOOP_H
#define FL_LOOP_H
#include "flow_rt.h"
#include "options.h"
void fl_loop(struct fl_run *run, const struct fl_options *o);
#endif
