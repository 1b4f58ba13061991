/* The order certificate: the events of every stage of one entry's step, run under rendezvous with no buffering at all
 * but the slots of the links. An event is what a call of the runtime waits for or lets go: fl_send waits until the message
 * slots_sent before has gone, fl_recv takes a message and posts the receive slots_received after it, a reduction meets.
 * Ranks of a stage run the same text, so a stage stands for all of them: collectives inside a stage are met by all
 * members in the same order, and what is left to prove are the waits between stages. */
#ifndef FLOWC_CERTIFICATE_H
#define FLOWC_CERTIFICATE_H
#include "../schedule/rolled.h"

enum event_kind {
    EVENT_POST_RECV,             /* never waits */
    EVENT_WAIT_RECV,             /* until the send of the same micro-batch is posted */
    EVENT_POST_SEND,             /* never waits */
    EVENT_WAIT_SEND,             /* until the peer has posted the receive: nothing is buffered on the way */
    EVENT_MEET,                  /* a reduction over stages: until all of them are at the same one */
};
struct event {
    enum event_kind kind : 8;
    enum phase phase : 8;        /* what runs meanwhile, on which chunk .. */
    unsigned chunk : 8;
    int link, comm;              /* which one; -1 for the other */
    int microbatch;              /* the one that is moved */
    int running;                 /* .. and for which micro-batch */
    const struct node *node;     /* the boxing node */
};
/* A call of the runtime that may wait or let go. */
enum call_kind { CALL_RECV, CALL_SEND, CALL_MEET };
struct call {
    enum call_kind kind;
    int which;                   /* link, or communicator */
    const struct node *node;
};
/* Where a stage stands in its step. The cost of going on does not depend on how long the step is. */
struct event_walk {
    struct event now;            /* it has not passed this one yet .. */
    bool done;                   /* .. unless it has finished its step */
    int64_t passed;              /* events */
    const struct physical *p;
    const struct stage *stage;
    enum entry entry;
    int microbatches, group;
    bool ahead;                  /* receives are posted ahead */
    struct call *calls[PHASES][MAX_CHUNK];
    int link, slot;              /* of the receives posted before the step; link -1: past them */
    enum phase part;             /* what runs: COUNT, SETUP, the order (FORWARD), UPDATE */
    int64_t fired;               /* in it */
    struct rolled_walk order;
    struct firing firing;
    bool running;                /* a firing is under way: at this event of this call */
    int call, turn;
};
/* event_start: at the first event of a stage's step; event_next: past it, false at the end. `order` must stay. */
void event_start(struct event_walk *w, const struct physical *p, enum entry entry, int stage, const struct rolled *order,
                 int microbatches);
bool event_next(struct event_walk *w);

struct certificate {
    struct event_walk *stage;    /* where each stage came to */
    bool complete;
    int *cycle;                  /* stb_ds array when not complete: stages, each waiting for the next; closes at the first,
                                    or ends at a stage that is done (its partner never comes) */
};

struct certificate *certificate_make(const struct physical *p, enum entry entry);
/* The event that a stage cannot pass; NULL when it ran through. */
const struct event *certificate_at(const struct certificate *c, int stage);
#endif
