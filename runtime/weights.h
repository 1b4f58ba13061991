/* Parameters between the arena, initial values and files. All functions are called by all ranks together. */
#ifndef FL_WEIGHTS_H
#define FL_WEIGHTS_H
#include "flow_rt.h"

void fl_weights_init(struct fl_run *run, uint64_t seed);
/* From a file, an index of several or a folder with either. Names and shapes as the program maps them; missing, extra
 * and misshapen tensors are listed and end the run. */
void fl_weights_load(struct fl_run *run, const char *path);
/* From these files, called `what` in messages. With native the names are paths, and optimizer states are there too. */
void fl_weights_load_files(struct fl_run *run, const char *what, int n, const char *const *names, bool native);
/* Refuses a run whose end no file could hold: a parameter that nothing reads is on no rank. */
void fl_weights_check_held(const struct fl_run *run);
/* limit: bytes of one file, 0: no limit; what is more goes into several, with an index. ema: the moving averages in place
 * of the parameters that have one. */
void fl_weights_export(struct fl_run *run, const char *name, int64_t limit, bool ema);
bool fl_weights_averaged(const struct fl_run *run);          /* has the program any? */
#endif
