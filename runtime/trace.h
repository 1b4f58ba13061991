/* --trace: what each rank does when, in a few steps, as one file in the trace event format of Chrome and Perfetto
 * ("Trace Event Format", complete events; one process for each rank, microseconds of rank 0's clock). All of this
 * does nothing in other steps. */
#ifndef FL_TRACE_H
#define FL_TRACE_H
#include "flow_rt.h"
#ifdef __cplusplus
extern "C" {
#endif

struct fl_options;
/* extern bool fl_tracing, in flow_rt.h: the step under way is traced */
enum fl_trace_what { FL_TRACE_STEP, FL_TRACE_COMPUTE, FL_TRACE_COMM, FL_TRACE_WAIT, FL_TRACE_INPUT };
enum { FL_TRACK_STEP, FL_TRACK_COMPUTE, FL_TRACK_FIRST };
int fl_trace_track(const char *name);                /* a row of its own, for what goes on beside the others */
int fl_trace_microbatch(void);                       /* of what is called just now */
/* start, end: MPI_Wtime of this rank. where: source line, or NULL where `what` begins with it. Both texts are kept. */
void fl_trace_add(int track, enum fl_trace_what kind, const char *where, const char *what, int microbatch, double start,
                  double end);
void fl_trace_call(double start, double end);        /* communication that blocked this rank, at the place of fl_at */
void fl_trace_input(double seconds);                 /* until now this rank has waited for data */

void fl_trace_start(const struct fl_options *o, int64_t first, int64_t last);   /* all ranks; steps from 0 */
void fl_trace_step(const struct fl_run *run);        /* a step begins */
void fl_trace_stepped(void);                         /* and has ended; after the last one all ranks write the file */
void fl_trace_stop(void);                            /* all ranks; writes what has not been written */
#ifdef __cplusplus
}
#endif
#endif
