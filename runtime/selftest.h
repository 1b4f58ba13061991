/* Kernels and collectives against what they must give, on the machine at hand. */
#ifndef FL_SELFTEST_H
#define FL_SELFTEST_H
#include "flow_rt.h"

bool fl_selftest(struct fl_run *run);                /* all ranks call it; true on all of them when nothing was wrong on any */
#endif
