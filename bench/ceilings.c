/* ceilings T D F V N H: what this machine can do at most, measured now: sgemm at the shapes of a GPT (N sequences of T tokens,
 * width D, hidden F, vocabulary V, H heads) on one thread, copy bandwidth, all-reduce of 16 MiB and a round trip of a cache line
 * between two ranks. Started by mpirun with 1 or 2 ranks; medians of some repeats. */
#ifdef OPENBLAS
#include <cblas.h>
#endif
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 9, TRIPS = 20000 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, REPEATS, sizeof *x, by_size);
    return x[REPEATS / 2];
}

static float *numbers(size_t n)
{
    float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    if (!x) {
        fprintf(stderr, "ceilings: out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 17) - 8;
    return x;
}

#ifdef OPENBLAS
static void product(const char *what, int m, int n, int k)
{
    float *a = numbers((size_t)m * (size_t)k), *b = numbers((size_t)k * (size_t)n), *c = numbers((size_t)m * (size_t)n);
    double s[REPEATS];
    for (int r = -1; r < REPEATS; r++) {
        double start = MPI_Wtime();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
        if (r >= 0)
            s[r] = MPI_Wtime() - start;
    }
    printf("    sgemm %-10s %6d x %-6d x %-6d %8.1f GFLOP/s\n", what, m, n, k, 2e-9 * m * n * k / median(s));
    free(a), free(b), free(c);
}
#else
static void product(const char *what, int m, int n, int k)
{
    printf("    sgemm %-10s %6d x %-6d x %-6d      OpenBLAS is not installed\n", what, m, n, k);
}
#endif

static void copy(void)
{
    size_t n = 64u << 20;
    float *a = numbers(n / 4), *b = numbers(n / 4);
    double s[REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        double start = MPI_Wtime();
        memcpy(a, b, n);
        s[r] = MPI_Wtime() - start;
        b[r] = a[n / 8];                             /* the copy is used */
    }
    printf("    copy, 64 MiB, read and written               %8.1f GB/s\n", 2e-9 * (double)n / median(s));
    free(a), free(b);
}

static void all_reduce(int rank)
{
    int n = 4 << 20;
    float *a = numbers((size_t)n), *b = numbers((size_t)n);
    double s[REPEATS];
    for (int r = 0; r < REPEATS; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        s[r] = MPI_Wtime() - start;
    }
    if (!rank)
        printf("    MPI all-reduce, 16 MiB, 2 ranks              %8.1f GB/s\n", 4e-9 * n / median(s));
    free(a), free(b);
}

static void round_trip(int rank)
{
    atomic_int *turn;
    MPI_Win window;
    MPI_Win_allocate_shared(rank ? 0 : 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &turn, &window);
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(window, 0, &bytes, &unit, &turn);
    if (!rank)
        atomic_store(turn, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = rank; i < 2 * TRIPS; i += 2) {
        while (atomic_load_explicit(turn, memory_order_acquire) != i)
            ;
        atomic_store_explicit(turn, i + 1, memory_order_release);
    }
    double s = MPI_Wtime() - start;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank)
        printf("    round trip of a cache line, 2 ranks          %8.0f ns\n", 1e9 * s / TRIPS);
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 7) {
        fprintf(stderr, "ceilings T D F V N H\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int t = atoi(argv[1]), d = atoi(argv[2]), f = atoi(argv[3]), v = atoi(argv[4]), rows = atoi(argv[5]) * t, k = d / atoi(argv[6]);
    if (size == 1) {
        product("qkv", rows, 3 * d, d);
        product("scores", t, t, k);
        product("up", rows, f, d);
        product("down", rows, d, f);
        product("weights", d, f, rows);
        product("head", rows, v, d);
        copy();
    } else if (size == 2) {
        all_reduce(rank);
        round_trip(rank);
    }
    MPI_Finalize();
    return 0;
}
