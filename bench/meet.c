/* meet: each collective of the cpu target between the ranks that mpirun started, over MPI and through the memory that they share,
 * in turn; medians of some rounds, and the ratio within a round with its least and largest. */
#include "comm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fl_program_spec fl_program = { .name = "meet", .nranks = 1, .pipe = -1, .mb = -1 };
const struct fl_rank *const fl_ranks[] = { NULL };
const int fl_rank_count = 0;

enum { ROUNDS = 15, KINDS = 5 };
static const char *const names[KINDS] = { "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "permute" };
static int rank, size;
static float *x, *y;

static int by_size(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

/* n floats in the whole tensor: two dims of which the inner one is split. */
static void call(fl_comm *c, int kind, int64_t n)
{
    int64_t rows = n >= 1 << 16 ? 256 : 8, columns = n / rows;
    switch (kind) {
    case 0: fl_all_reduce(c, x, n, FL_SUM); break;
    case 1: fl_reduce_scatter(c, y, x, rows, columns, 1, FL_SUM); break;
    case 2: fl_all_gather(c, y, x, rows, columns, 1, 4); break;
    case 3: fl_all_to_all(c, y, x, 1, rows, 1, columns, 1, false, 4); break;
    default: fl_permute_parts(c, y, x, n, 4, (rank + 1) % size, (rank + size - 1) % size);
    }
}

static double seconds(fl_comm *c, int kind, int64_t n, int times)
{
    memset(x, 0, (size_t)n * sizeof *x);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), t;
    for (int i = 0; i < times; i++)
        call(c, kind, n);
    t = (MPI_Wtime() - start) / times;
    MPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return t;
}

static fl_comm *made(const char *way)
{
    setenv("FL_SHARED", way, 1);
    return fl_comm_new("all", 0, rank, size);
}

int main(int argc, char **argv)
{
    static const int64_t floats[] = { 1 << 10, 1 << 16, 1 << 20, 1 << 23 };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    fl_rank_number = rank;
    fl_target_start(0, 1);
    fl_comm *shared = made("1"), *mpi = made("0");
    x = fl_alloc(((int64_t)1 << 23) * 4), y = fl_alloc(((int64_t)1 << 23) * 4);
    if (rank == 0)
        printf("%-16s %9s %12s %12s   MPI / shared memory\n", "", "KiB", "MPI, us", "shared, us");
    for (int kind = 0; kind < KINDS; kind++)
        for (int k = 0; k < 4; k++) {
            double a[ROUNDS], b[ROUNDS], ratio[ROUNDS];
            int times = k == 0 ? 200 : k == 1 ? 40 : k == 2 ? 4 : 1;
            seconds(mpi, kind, floats[k], 1), seconds(shared, kind, floats[k], 1);
            for (int i = 0; i < ROUNDS; i++) {
                a[i] = seconds(mpi, kind, floats[k], times), b[i] = seconds(shared, kind, floats[k], times);
                ratio[i] = a[i] / b[i];
            }
            qsort(a, ROUNDS, sizeof *a, by_size), qsort(b, ROUNDS, sizeof *b, by_size), qsort(ratio, ROUNDS, sizeof *ratio, by_size);
            if (rank == 0)
                printf("%-16s %9lld %12.1f %12.1f   %.2f (%.2f .. %.2f)\n", names[kind], (long long)floats[k] * 4 / 1024,
                       1e6 * a[ROUNDS / 2], 1e6 * b[ROUNDS / 2], ratio[ROUNDS / 2], ratio[0], ratio[ROUNDS - 1]);
        }
    fl_comm_stop();
    fl_target_stop();
    MPI_Finalize();
    return 0;
}
