/* The file of --prometheus: gauges of the last step in Prometheus' text exposition format 0.0.4, for the textfile
 * collector of its node exporter (a name in .prom). Written beside and renamed, once a second at most and at the
 * end. Rank 0 only. */
#ifndef FL_PROMETHEUS_H
#define FL_PROMETHEUS_H
#include "report.h"
/* name NULL: no file, and the others do nothing. NULL, or why the file cannot be written. */
char *fl_prometheus_start(const char *name);
void fl_prometheus_step(const struct fl_report_step *s);
void fl_prometheus_evaluation(const struct fl_report_evaluation *e);
void fl_prometheus_stop(void);
#endif
