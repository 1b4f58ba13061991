/* How long a step of training will take: the work and the communication of every stage's program under the cost model,
 * laid out in time in the order that schedule fixed. Seconds. The model's numbers are those of the plan's cluster. */
#ifndef FLOWC_COST_PREDICT_H
#define FLOWC_COST_PREDICT_H
#include "../physical.h"

struct prediction {
    double seconds;              /* of a step, on the slowest rank */
    double compute, comm;        /* of these, what the busiest stage computes and what it spends in collectives */
    double bubble;               /* (makespan - busy) / makespan of the scheduled part, in these seconds */
    double flops;                /* of the model in a step: three times the contractions of the forward, all ranks together */
    double mfu;                  /* flops / (seconds * ranks * rate of a rank) */
    double host_bytes;           /* what the busiest rank copies to and from host memory in a step */
    double comm_bytes;           /* what the busiest rank sends and receives in a step */
};

/* After schedule. */
struct prediction predict(const struct module *m);
double step_flops(const struct module *m);           /* prediction.flops; 0: nothing to train */
double peak_flops(const struct module *m);           /* what all ranks can do in a second, in the plan's precision */
/* Seconds of one run of a node of a stage program, on the rank with the largest parts. */
double node_seconds(const struct physical *p, const struct node *n);
double collective_seconds(const struct physical *p, const struct node *n, double bytes);     /* of one call that takes so much */
/* Of what the stage's UPDATE reduces: the seconds that go by beside its backward. hidden.c */
double hidden_seconds(const struct physical *p, int stage);
/* The same of what a phase both starts and waits for itself, each time. */
double phase_hidden_seconds(const struct physical *p, const struct region *root);
#endif
