/* Preloaded: ranks of SLOW_RANKS ("2 3") sleep SLOW milliseconds in each matrix product, or with SLOW_LINK=1 in each
 * all-reduce over MPI, as a slow machine or a slow link would; with SLOW_EVERY=N in each N-th only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void be_slow(int link)
{
    static long count;
    const char *own = getenv("OMPI_COMM_WORLD_RANK"), *ranks = getenv("SLOW_RANKS"), *ms = getenv("SLOW"),
               *every = getenv("SLOW_EVERY");
    if (!ms || link != (getenv("SLOW_LINK") != NULL) || (own && !strstr(ranks ? ranks : "", own)))
        return;
    if (count++ % (every ? atol(every) : 1) == 0)
        usleep((useconds_t)(atof(ms) * 1000));
}

/* Every product asks for the threads that it may use (runtime/cpu/gemm.c), and nothing else does within a step. */
int omp_get_max_threads(void)
{
    int (*real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "omp_get_max_threads");
    be_slow(0);
    return real();
}

int MPI_Allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    be_slow(1);
    return PMPI_Allreduce(from, to, n, type, op, comm);
}
