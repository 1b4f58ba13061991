/* What the ranks of a plan say to each other: each communication of the physical graph once, however often it is made.
 * Stages that run the same communication (blocks of a cut repeat, gradient buckets) share a record. */
#ifndef FLOWC_BOX_SURVEY_H
#define FLOWC_BOX_SURVEY_H
#include "../physical.h"

struct record {
    const char *where, *value, *axis, *kind, *type;
    enum entry entry;
    enum phase phase;
    int64_t bytes, times;            /* per call; per step and rank, on the busiest stage */
    int64_t blocks;                  /* of one chunk, on the busiest stage */
    int values;                      /* tensors in one call */
    int *stages;                     /* stb_ds array */
    int chunk;                       /* of the last of them, the one seen last */
    int64_t *total, *calls;          /* bytes and calls a step, per stage */
    const char *route;               /* of links: "stage 0 -> 1, 1 -> 2" */
    unsigned axes;
    struct span span;
    int64_t posts;                   /* calls started beside the backward, which this one waits for; of the busiest stage */
    bool recompute;                  /* in the backward, to do forward work again */
};

struct total { const char *axis; int64_t calls, bytes; };

const char *record_phase(const struct record *r);    /* "forward", "recompute" .. */
struct record *comm_survey(const struct physical *p);                                 /* stb_ds arrays */
struct total *comm_totals(const struct physical *p, const struct record *records);   /* of a step of training */
bool is_communication(const struct node *n);
int64_t node_repeats(const struct node *n);          /* blocks a stage runs it for */
const char *communication_kind(const struct node *n);    /* "all_reduce" */
int64_t communication_bytes(const struct physical *p, const struct node *n);     /* of one call */
void check_expectations(struct module *m);           /* expect.c: the plan's `expect comm` lines */
void check_hosts(struct module *m);                  /* hosts.c: an axis between hosts where a cheaper order exists */
#endif
