/* Sampling from the trained model. */
#ifndef FL_SAMPLE_H
#define FL_SAMPLE_H
#include "flow_rt.h"
void fl_sample(struct fl_run *run);                  /* all ranks; rank 0 prints the text to stdout */
#endif
