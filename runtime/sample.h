/* Sampling from the trained model. */
#ifndef FL_SAMPLE_H
#define FL_SAMPLE_H
#include "flow_rt.h"
/* All ranks; rank 0 prints the text to stdout. done: steps of training so far, which names the draws. */
void fl_sample(struct fl_run *run, int64_t done);
#endif
