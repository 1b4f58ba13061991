/* Actors and registers, run at compile time. An actor is a phase of one chunk on one stage; it fires once per
 * micro-batch. It fires when its stage is idle, what it needs has finished for the same micro-batch, and every register
 * it writes has a free slot: that back-pressure is the only scheduler. Which schedule comes out is decided by the slot
 * counts and by the order in which a stage looks at its queues, nothing else.
 *
 * A queue holds the actors of one phase on one stage. With several chunks it serves them in groups: `group` micro-batches
 * of the first chunk, then the same of the next one, and so on. Or it is a list of firings, one after the other: an order
 * given from outside. Queues of a stage are tried in the order they were added. */
#ifndef FLOWC_SIMULATE_H
#define FLOWC_SIMULATE_H
#include "../physical.h"

struct actor {
    int stage;
    enum phase phase;
    int chunk, time;             /* unit times it takes */
    int *needs;                  /* stb_ds array: actors that must have finished the micro-batch */
};
struct turn { int actor, microbatch; };
struct queue {
    int stage, group;
    int *actors;                 /* stb_ds array: one per chunk */
    struct turn *list;           /* stb_ds array: instead */
};
struct register_file {           /* slots shared by what `writers` write and `readers` give back, all on one stage */
    int *writers, *readers;      /* stb_ds arrays of actors */
    int slots;
};
struct fired { struct firing what; int start, time; };
struct actors {
    int stages, microbatches;
    struct actor *actor;                     /* stb_ds arrays */
    struct queue *queue;
    struct register_file *registers;
    /* results */
    struct fired **order;                    /* per stage, in time order */
    int *count, *busy, *first, *last;        /* per stage: firings, time at work, start of the first, end of the last */
    int makespan;
};

struct actors *actors_new(int stages, int microbatches);
int actors_add(struct actors *a, int stage, enum phase phase, int chunk, int time);    /* returns its number */
void actors_need(struct actors *a, int actor, int producer);
struct queue *actors_queue(struct actors *a, int stage, int group);                    /* arrput its actors */
struct register_file *actors_register(struct actors *a, int slots);                    /* arrput writers and readers */
bool actors_run(struct actors *a);           /* false: back-pressure and needs block each other for ever */
int actors_bound(const struct actors *a);    /* no order of these actors ends earlier (bound.c) */
#endif
