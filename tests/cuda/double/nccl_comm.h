/* A communicator of the double's NCCL. */
#ifndef DOUBLE_NCCL_COMM_H
#define DOUBLE_NCCL_COMM_H
#include "twin.h"
#include <mpi.h>

struct twin_nccl {
    MPI_Comm mpi;
    int rank, size;
    unsigned long queued, ended;         /* calls the host made, calls that are complete */
    bool destroyed;
};
#endif
