/* Parameters between the arena, initial values and files. All functions are called by all ranks together. */
#ifndef FL_WEIGHTS_H
#define FL_WEIGHTS_H
#include "flow_rt.h"

void fl_weights_init(struct fl_run *run, uint64_t seed);
/* Names and shapes as the program maps them; missing, extra and misshapen tensors are listed and end the run. With
 * native the names are paths, and optimizer states are there too. */
void fl_weights_load(struct fl_run *run, const char *file, bool native);
/* Refuses a run whose end no file could hold: a parameter that nothing reads is on no rank. */
void fl_weights_check_held(const struct fl_run *run);
void fl_weights_write(struct fl_run *run, const char *file, bool native);
#endif
