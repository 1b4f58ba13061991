/* The schedules as actors and registers, and what comes out for any number of micro-batches. */
#ifndef FLOWC_POLICY_H
#define FLOWC_POLICY_H
#include "../module.h"
#include "simulate.h"

/* The actors of the plan's schedule, not yet run. `order` per stage: firings in the order given from outside, or NULL. */
struct actors *policy_actors(const struct plan *plan, int microbatches, struct firing *const *order);

struct timetable {
    int stages;
    struct rolled *order;                    /* per stage */
    int64_t *busy, *first, *last;            /* per stage, unit times */
    int64_t makespan, bound;
    struct actors *sample;                   /* the run with the fewest micro-batches that show it all; for drawings */
    bool complete;                           /* false: it blocks; `sample` tells how far it came */
};

/* A schedule is run for so many micro-batches as show its warm-up, steady state and drain, and for one period more; what
 * the two differ by is repeated up to the plan's number. So the cost is that of a small run whatever the number. */
struct timetable *timetable_make(const struct plan *plan, struct firing *const *order);
struct timetable *timetable_of(const struct plan *plan);      /* with the order of its file, where it has one */
double timetable_bubble(const struct timetable *t);          /* (makespan - busy) / makespan over all stages */
double timetable_span_bubble(const struct timetable *t, int stage);   /* the same of a stage from its first work to its last */
#endif
