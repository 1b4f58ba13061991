/* The file of --metrics: a JSON object per step and one per evaluation, each on a line, flushed as it is written.
 * README.md lists its fields. Rank 0 only. */
#ifndef FL_METRICS_H
#define FL_METRICS_H
#include "report.h"
/* name NULL: no file, and the others do nothing. NULL, or why the file cannot be written. */
char *fl_metrics_start(const char *name, int64_t done);
void fl_metrics_step(const struct fl_report_step *s);
void fl_metrics_evaluation(const struct fl_report_evaluation *e);
void fl_metrics_warning(int64_t step, const char *text);
void fl_metrics_stop(void);
#endif
