/* A posted collective goes on while both ranks compute, and not only between their kernels: one of them finds it ended behind one
 * product, though it has more pieces than a look before the product takes. On a busy machine a rank may stand still meanwhile, so
 * there are several tries. */
#include "compare.h"
#include "shared.h"

enum { M = 256, K = 256, N = 384 * 64, TRIES = 40, SUMS = 10 * (FL_MEETING_SLOT_BYTES / 4) };

int main(int argc, char **argv)
{
    int rank, tries = 0, beside = 0, ended = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fl_rank_number = rank;
    fl_watchdog_start();
    fl_target_start(0, 1);
    fl_comm *comm = fl_comm_new("all", 0, rank, 2);
    fl_links_start();
    float *a = random_array(M * K, 1), *b = random_array(K * N, 2), *c = blank(M * (int64_t)N), *x = blank(SUMS);
    const struct fl_gemm g = { .m = M, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N, .alpha = 1 };
    for (; tries < TRIES && !ended; tries++) {
        for (int64_t i = 0; i < SUMS; i++)
            x[i] = (float)(rank + i % 100);
        MPI_Barrier(MPI_COMM_WORLD);
        fl_post(comm, 0);
        fl_all_reduce(comm, x, SUMS, FL_SUM);
        fl_posted(comm, 0);
        fl_gemm(c, a, b, &g);
        beside = fl_shared_idle(comm->shared);
        fl_await(comm, 0);
        for (int64_t i = 0; i < SUMS; i++)
            if (x[i] != (float)(1 + 2 * (i % 100))) {
                fprintf(stderr, "rank %d: element %lld is %g\n", rank, (long long)i, x[i]);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        MPI_Allreduce(&beside, &ended, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%s after %d\n", ended ? "ended beside a product" : "never ended beside a product", tries);
    fl_comm_stop();
    fl_target_stop();
    fl_watchdog_stop();
    MPI_Finalize();
    return !ended;
}
