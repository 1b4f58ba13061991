/* --check-finite: the first NaN or infinity of a run. */
#ifndef FL_FINITE_H
#define FL_FINITE_H
#include "flow_rt.h"
void fl_finite_start(struct fl_run *run);            /* looks at the parameters, and from now on at every step */
void fl_finite_step(struct fl_run *run);             /* behind a step: the parameters as it left them */
void fl_finite_stop(void);                           /* behind the last one, all ranks */
#endif
