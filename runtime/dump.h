/* --dump: the logical tensors of one step, whole, in a file. */
#ifndef FL_DUMP_H
#define FL_DUMP_H
#include "flow_rt.h"
/* Patterns are separated by commas. All ranks; what matches nothing is refused before the first step. */
void fl_dump_start(struct fl_run *run, const char *patterns, const char *file);
void fl_dump_arm(void);                  /* the next step is looked at */
void fl_dump_write(struct fl_run *run);  /* .. and written, all ranks */
#endif
