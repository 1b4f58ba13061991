/* Agreeing that all is well, or ending together with one message. */
#include "agree.h"
#include "check.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

void fl_agree(const char *complaint)
{
    int size, first, mine;
    FL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    mine = complaint ? fl_rank_number : size;
    FL_MPI(MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (first == size)
        return;
    if (first == fl_rank_number)
        fprintf(stderr, "flow: %s\n", complaint);
    fflush(NULL);
    MPI_Finalize();
    exit(1);
}
