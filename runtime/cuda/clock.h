/* When things happen on the device, in steps that are measured; in all others these do nothing. clock.cu. */
#ifndef FL_CUDA_CLOCK_H
#define FL_CUDA_CLOCK_H
#include "../flow_rt.h"
void fl_clock_begin(bool measured, bool captured);   /* a step is queued from here .. */
void fl_clock_end(void);                             /* .. to here */
void fl_clock_ran(bool measured, bool captured);     /* it, or the captured one, has been started */
void fl_clock_synced(void);                          /* the host has waited for it */
void fl_clock_stop(void);
int fl_clock_mark(cudaStream_t stream);              /* a point of time in what this stream does */
void fl_clock_stood(int kind, int from);             /* since that mark the compute stream may have waited */
void fl_clock_transfer(int track, int from, cudaStream_t stream);    /* since that mark this stream has moved bytes */
void fl_clock_range(const char *text);               /* as fl_range */
#endif
