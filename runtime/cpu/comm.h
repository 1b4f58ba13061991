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
    const char *name;
    char *peers;                         /* "ranks 0 2", for the watchdog */
    int *counts[2];                      /* memory for counts and displacements */
};
double fl_comm_begin(const char *peers); /* starts the clock of communication; gives the time */
void fl_comm_end(double start);
void fl_links_stop(void);
void fl_gathers_poll(void);
#endif
