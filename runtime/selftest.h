/* Kernels and collectives against what they must give, on the machine at hand. */
#ifndef FL_SELFTEST_H
#define FL_SELFTEST_H
#include "flow_rt.h"
#ifdef __cplusplus
extern "C" {
#endif

bool fl_selftest(struct fl_run *run);                /* all ranks call it; true on all of them when nothing was wrong on any */

/* Holds n elements of type t in the target's memory to `want`: |got - want| / (1 + |want|) is at most `most`. Says and counts it. */
void fl_holds(const char *what, enum fl_type t, const void *got, const double *want, int64_t n, double most);
#ifdef __cplusplus
}
#endif
#endif
