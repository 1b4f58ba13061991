/* Clocks of ranks against rank 0's, one rank after the other. */
#include "skew.h"
#include "check.h"

enum { LEAST = 20, MOST = 500, TAG = 12 };
static const double good = 50e-6;        /* seconds; on a busy machine it takes more trips, or it is not got */

static struct fl_skew ask(MPI_Comm comm, int rank, double (*now)(void))
{
    struct fl_skew best = { .within = 1e300 };
    int more = 1, none = 0;
    for (int i = 0; i < LEAST || (i < MOST && best.within > good); i++) {
        double theirs, start = now();
        FL_MPI(MPI_Send(&more, 1, MPI_INT, rank, TAG, comm));
        FL_MPI(MPI_Recv(&theirs, 1, MPI_DOUBLE, rank, TAG, comm, MPI_STATUS_IGNORE));
        double end = now();
        if ((end - start) / 2 < best.within)
            best = (struct fl_skew){ theirs - (start + end) / 2, (end - start) / 2 };
    }
    FL_MPI(MPI_Send(&none, 1, MPI_INT, rank, TAG, comm));
    return best;
}

struct fl_skew fl_skew_measure(MPI_Comm comm, double (*now)(void))
{
    int rank, size;
    struct fl_skew own = { 0 };
    FL_MPI(MPI_Comm_rank(comm, &rank));
    FL_MPI(MPI_Comm_size(comm, &size));
    for (int r = 1; r < size && rank == 0; r++) {
        struct fl_skew s = ask(comm, r, now);
        FL_MPI(MPI_Send(&s, sizeof s, MPI_BYTE, r, TAG, comm));
    }
    if (rank == 0)
        return own;
    for (;;) {
        int more;
        FL_MPI(MPI_Recv(&more, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE));
        double mine = now();
        if (!more)
            break;
        FL_MPI(MPI_Send(&mine, 1, MPI_DOUBLE, 0, TAG, comm));
    }
    FL_MPI(MPI_Recv(&own, sizeof own, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE));
    return own;
}
