/* By how much the clocks of ranks differ. */
#ifndef FL_SKEW_H
#define FL_SKEW_H
#include <mpi.h>
struct fl_skew {
    double offset;                       /* this rank's clock - that of rank 0, seconds */
    double within;                       /* the offset is right to this */
};
/* All ranks of the communicator. After Cristian (Probabilistic clock synchronization, 1989): of several round trips the
 * shortest counts, and the other's clock is taken to have been read in its middle. `now` gives this rank's clock. */
struct fl_skew fl_skew_measure(MPI_Comm comm, double (*now)(void));
#endif
