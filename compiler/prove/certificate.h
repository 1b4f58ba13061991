/* The order certificate: the events of every stage of one entry's step, run under rendezvous with no buffering at all
 * but the slots of the links. An event is what a call of the runtime waits for or lets go: fl_send waits until the message
 * slots_sent before has gone, fl_recv takes a message and posts the receive slots_received after it, a reduction meets.
 * Ranks of a stage run the same text, so a stage stands for all of them: collectives inside a stage are met by all
 * members in the same order, and what is left to prove are the waits between stages. */
#ifndef FLOWC_CERTIFICATE_H
#define FLOWC_CERTIFICATE_H
#include "../physical.h"

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
struct certificate {
    struct event **events;       /* per stage a stb_ds array */
    int *at;                     /* per stage: the event it cannot pass; arrlen(events[s]) when it ran through */
    bool complete;
    int *cycle;                  /* stb_ds array when not complete: stages, each waiting for the next; closes at the first,
                                    or ends at a stage that is done (its partner never comes) */
};

struct certificate *certificate_make(const struct physical *p, enum entry entry);
#endif
