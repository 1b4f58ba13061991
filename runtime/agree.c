/* Agreeing that all is well, or ending together with one message. */
#include "agree.h"
#include "check.h"
#include "peers.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fl_agree(const char *complaint) { fl_agree_or(complaint, FL_EXIT_REFUSED); }

void fl_agree_or(const char *complaint, int code)
{
    int size, first, mine;
    FL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    mine = complaint ? fl_rank_number : size;
    FL_WORLD(MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (first == size)
        return;
    if (first == fl_rank_number)
        fprintf(stderr, "flow: %s\n", complaint);
    fl_peers_tell();
    fflush(NULL);
    MPI_Finalize();
    exit(code);
}

static int votes[4], counted[4];
static MPI_Request request;

void fl_vote_begin(const int *mine, int n)
{
    memcpy(votes, mine, (size_t)n * sizeof *votes);
    FL_MPI(MPI_Iallreduce(votes, counted, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request));
}

void fl_vote_end(int *largest, int n)
{
    FL_WORLD(MPI_Wait(&request, MPI_STATUS_IGNORE));
    memcpy(largest, counted, (size_t)n * sizeof *votes);
}
