/* What a command line asks to find out about the steps of a run: --check-finite, --check-replicas, --dump. */
#ifndef FL_INSPECT_H
#define FL_INSPECT_H
#include "flow_rt.h"
#include "options.h"
/* before step `done` (from 0) of those below `last` */
void fl_inspect_start(struct fl_run *run, const struct fl_options *o, int64_t done, int64_t last);
void fl_inspect_before(struct fl_run *run, enum fl_entry entry);     /* around each step of train or evaluate */
void fl_inspect_behind(struct fl_run *run, enum fl_entry entry);
void fl_inspect_stop(void);              /* behind the last step, all ranks */
#endif
