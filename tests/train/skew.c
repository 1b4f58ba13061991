/* On any number of ranks: clocks that are set wrong on purpose are found wrong by as much, within what is said. */
#include "check.h"
#include "skew.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double wrong;

static double now(void)
{
    struct timespec t;                   /* all ranks are on one machine: this clock is right */
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + wrong;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &fl_rank_number);
    wrong = fl_rank_number * 0.37 - (fl_rank_number == 2 ? 5 : 0);
    struct fl_skew s = fl_skew_measure(MPI_COMM_WORLD, now);
    if (fabs(s.offset - wrong) > s.within + 1e-7 || s.within > 0.1) {
        fprintf(stderr, "rank %d: off by %.9f, found %.9f within %.9f\n", fl_rank_number, wrong, s.offset, s.within);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
