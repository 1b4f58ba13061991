/* The event files of --tensorboard. Format: records as in TensorFlow's tensorflow/core/lib/io/record_writer.h
 * (length, its masked CRC-32C, data, its masked CRC-32C), each an Event of tensorflow/core/util/event.proto with a
 * Summary of simple values. Written without any of their libraries. Rank 0 only. */
#ifndef FL_TENSORBOARD_H
#define FL_TENSORBOARD_H
#include "report.h"
/* folder NULL: no files, and the others do nothing. NULL, or why none can be written there. */
char *fl_tensorboard_start(const char *folder, int64_t done);
void fl_tensorboard_step(const struct fl_report_step *s);
void fl_tensorboard_evaluation(const struct fl_report_evaluation *e);
void fl_tensorboard_stop(void);
#endif
