/* A bounded queue of batches, filled ahead by a thread of its own; the thread waits while it is full. */
#ifndef FL_DATA_QUEUE_H
#define FL_DATA_QUEUE_H
#include <stdint.h>

struct fl_queue;
/* fill writes the batch of a step to `to`, which is zeroed, and gives a complaint or NULL. Steps go 0, 1, .. or, with a
 * period, begin again after so many. */
struct fl_queue *fl_queue_new(int64_t bytes, int64_t period, char *(*fill)(void *context, int64_t step, char *to),
                              void *context);
/* The batch of a step: it stays until another step is taken. Steps asked for in order are waiting already; any other one
 * empties the queue. What `fill` complains of ends the run here. */
const char *fl_queue_take(struct fl_queue *q, int64_t step);
double fl_queue_waited(void);            /* seconds that all takes of this process have waited */
void fl_queue_close(struct fl_queue *q); /* q may be NULL */
#endif
