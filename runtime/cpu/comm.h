/* Communicators and links of the cpu target. */
#ifndef FL_COMM_H
#define FL_COMM_H
#include "../target.h"
#include "cpu.h"
#include <mpi.h>
#include <stdio.h>

struct fl_comm {
    MPI_Comm mpi;
    int rank, size;
    int kind;                            /* of communication, for the times of a step */
    const char *name;
    char *peers;                         /* "ranks 0 2", for the watchdog */
    int *counts[2];                      /* memory for counts and displacements */
    struct fl_shared *shared;            /* memory that all its ranks share, or NULL */
    bool posting;                        /* between fl_post and fl_posted */
};
double fl_comm_begin(const char *peers); /* starts the clock of communication; gives the time */
void fl_comm_end(double start, int kind);
void fl_links_stop(void);
void fl_comms_poll(void);                /* collectives under way make progress */
/* post.c: a collective that has been queued in shared memory, or started with MPI: over when posted, else waited for here */
void fl_comm_queued(fl_comm *c, uint64_t ticket);
void fl_comm_started(fl_comm *c, MPI_Request request, int *counts);    /* counts are freed at its end */
void fl_posts_poll(void);
void fl_posts_stop(void);
void fl_gather_started(const void *whole, MPI_Request request, uint64_t ticket);     /* in two halves: the first */
void fl_comm_wait(MPI_Request *request, MPI_Status *status);     /* .. and helps those who share memory with this rank */
#endif
