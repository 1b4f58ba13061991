/* Where the time of a training step goes, on this rank and, on rank 0, on all of them. A kind of communication is a
 * set of mesh axes: all communicators along these axes together, links between stages among those along the pipeline
 * axis. */
#ifndef FL_TIMES_H
#define FL_TIMES_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { FL_MAX_KIND = 32 };               /* further sets of axes count as the last one */
struct fl_times {                        /* of one step, in seconds */
    double step;
    double compute;                      /* the rank, or its device, works */
    double input;                        /* the rank waits for data */
    double memory;                       /* share of its device's memory, or its host's, that is in use; 0: unknown */
    double comm[FL_MAX_KIND];            /* by kind: the rank, or its compute stream, stands for communication */
};
struct fl_load {                         /* of all ranks, in the step before */
    int64_t steps;                       /* how many have been looked at */
    double comm, use;                    /* shares of the step, means over the ranks: in communication, at work */
    double input;                        /* most of any rank */
    double memory;                       /* the fullest */
    int memory_rank;
    struct { double mean, most; int rank; } wait[FL_MAX_KIND];       /* seconds a step, by kind */
    const double *rank;                  /* fl_times_of gives a rank's */
};
extern bool fl_measuring;                /* something of this run shows where its time goes; alike on all ranks */
int fl_kind_of(unsigned axes);           /* all ranks ask in one order */
int fl_kinds(void);
const char *fl_kind_name(int kind);      /* "dp", "dp*tp" */
bool fl_kind_pipe(int kind);             /* it goes along the pipeline axis */
bool fl_kind_data(int kind);             /* .. or one that splits what is trained on */
int64_t fl_kind_calls(int kind);         /* on this rank, a step */
unsigned fl_kind_axes(int kind);
void fl_comm_add(int kind, double seconds);          /* a call has ended in which this rank stood so long */
double fl_comm_total(void);              /* since the start */

void fl_times_begin(void);               /* around a step, where fl_measuring */
void fl_times_end(struct fl_times *t);
/* All ranks, after a step: starts to collect what each of them gives. On rank 0 it gives what all had in the step
 * before, or NULL where there was none. It waits for nobody who is not a step behind. */
const struct fl_load *fl_times_share(const struct fl_times *mine);
struct fl_times fl_times_of(const struct fl_load *l, int rank);
void fl_times_stop(void);                /* all ranks */
#ifdef __cplusplus
}
#endif
#endif
