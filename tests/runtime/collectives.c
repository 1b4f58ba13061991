/* Collectives and links on any number of ranks: every rank can compute what every other one holds, so each result is
 * compared with the definition. Extents do not divide, and one is smaller than the number of ranks. */
#include "compare.h"
#include "check.h"
#include "target.h"
#include <mpi.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static struct fl_comm *comm;

static float value(int of_rank, int64_t i) { return (float)((of_rank * 7919 + i * 104729) % 2003 - 1001) / 64; }
static int64_t part_size(int64_t n, int i) { return n / size + (i < n % size); }
static int64_t part_base(int64_t n, int i) { return i * (n / size) + (i < n % size ? i : n % size); }

static void need(bool ok, const char *what, int64_t i)
{
    if (!ok) {
        fprintf(stderr, "rank %d of %d: %s is wrong at %lld\n", rank, size, what, (long long)i);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void all_reduce(void)
{
    const int64_t n = 700001;                        /* three pieces */
    float *x = blank(n);
    for (int kind = FL_SUM; kind <= FL_MIN; kind++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = value(rank, i);
        fl_all_reduce(comm, x, n, (enum fl_reduce)kind);
        for (int64_t i = 0; i < n; i++) {
            float want = value(0, i);
            for (int r = 1; r < size; r++)
                want = kind == FL_SUM   ? want + value(r, i)
                       : kind == FL_MAX ? fmaxf(want, value(r, i))
                                        : fminf(want, value(r, i));
            need(fabsf(x[i] - want) <= 1e-4f, "all_reduce", i);
        }
    }
}

/* Whole numbers whose sums both types hold exactly: any order of adding gives them. */
static float small(int of_rank, int64_t i) { return (float)((of_rank * 7 + i * 5) % 31 - 15); }

static void short_types(void)
{
    const int64_t n = 300001, outer = 3, cut = 7, inner = 2, total = outer * cut * inner;
    int64_t mine = part_size(cut, rank), base = part_base(cut, rank);
    for (int half = 0; half < 2; half++)
        for (int kind = FL_SUM; kind <= FL_MIN; kind++) {
            enum fl_type t = half ? FL_F16 : FL_BF16;
            float *f = malloc((size_t)n * sizeof *f), want = 0;
            uint16_t *x = malloc((size_t)n * sizeof *x), *part = malloc((size_t)total * sizeof *part);
            for (int64_t i = 0; i < n; i++)
                f[i] = small(rank, i);
            fl_convert(x, t, f, FL_F32, n);
            if (half)
                fl_reduce_scatter_f16(comm, (fl_f16 *)part, (fl_f16 *)x, outer, cut, inner, (enum fl_reduce)kind);
            else
                fl_reduce_scatter_bf16(comm, (fl_bf16 *)part, (fl_bf16 *)x, outer, cut, inner, (enum fl_reduce)kind);
            if (half)
                fl_all_reduce_f16(comm, (fl_f16 *)x, n, (enum fl_reduce)kind);
            else
                fl_all_reduce_bf16(comm, (fl_bf16 *)x, n, (enum fl_reduce)kind);
            for (int64_t i = 0; i < n; i++) {
                want = small(0, i);
                for (int r = 1; r < size; r++)
                    want = kind == FL_SUM   ? want + small(r, i)
                           : kind == FL_MAX ? fmaxf(want, small(r, i))
                                            : fminf(want, small(r, i));
                f[i] = want;
            }
            float *got = malloc((size_t)n * sizeof *got);
            fl_convert(got, FL_F32, x, t, n);
            for (int64_t i = 0; i < n; i++)
                need(got[i] == f[i], half ? "all_reduce_f16" : "all_reduce_bf16", i);
            fl_convert(got, FL_F32, part, t, outer * mine * inner);
            for (int64_t o = 0; o < outer; o++)
                for (int64_t j = 0; j < mine * inner; j++)
                    need(got[o * mine * inner + j] == f[(o * cut + base) * inner + j], "reduce_scatter of a short type", j);
            free(f), free(x), free(part), free(got);
        }
}

/* outer x n x inner of rank r: element i of the whole is value(r, i). */
static void gather_and_scatter(int64_t outer, int64_t n, int64_t inner)
{
    int64_t mine = part_size(n, rank), base = part_base(n, rank), total = outer * n * inner;
    float *part = blank(outer * mine * inner), *whole = blank(total), *source = blank(total);
    for (int64_t i = 0; i < total; i++)
        source[i] = value(rank, i);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < mine * inner; j++)
            part[o * mine * inner + j] = value(9, (o * n + base) * inner + j);
    fl_all_gather(comm, whole, part, outer, n, inner, sizeof(float));
    for (int64_t i = 0; i < total; i++)
        need(whole[i] == value(9, i), "all_gather", i);
    fl_reduce_scatter(comm, part, source, outer, n, inner, FL_SUM);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < mine * inner; j++) {
            float want = 0;
            for (int r = 0; r < size; r++)
                want += value(r, (o * n + base) * inner + j);
            need(fabsf(part[o * mine * inner + j] - want) <= 1e-4f, "reduce_scatter", j);
        }
}

static void all_to_all(int64_t outer, int64_t a, int64_t middle, int64_t b, int64_t inner)
{
    for (int split_a = 0; split_a < 2; split_a++) {
        int64_t n[2][2] = { { split_a ? a : part_size(a, rank), split_a ? part_size(b, rank) : b },
                            { split_a ? part_size(a, rank) : a, split_a ? b : part_size(b, rank) } };
        int64_t base[2][2] = { { split_a ? 0 : part_base(a, rank), split_a ? part_base(b, rank) : 0 },
                               { split_a ? part_base(a, rank) : 0, split_a ? 0 : part_base(b, rank) } };
        float *x[2] = { blank(outer * n[0][0] * middle * n[0][1] * inner),
                        blank(outer * n[1][0] * middle * n[1][1] * inner) };
        for (int side = 0; side < 2; side++) {
            if (side == 1)
                fl_all_to_all(comm, x[1], x[0], outer, a, middle, b, inner, split_a, sizeof(float));
            int64_t at = 0;
            for (int64_t o = 0; o < outer; o++)
                for (int64_t i = 0; i < n[side][0]; i++)
                    for (int64_t m = 0; m < middle; m++)
                        for (int64_t j = 0; j < n[side][1]; j++)
                            for (int64_t k = 0; k < inner; k++, at++) {
                                float v = value(
                                    3,
                                    (((o * a + base[side][0] + i) * middle + m) * b + base[side][1] + j) * inner + k);
                                if (side == 0)
                                    x[0][at] = v;
                                else
                                    need(x[1][at] == v, "all_to_all", at);
                            }
        }
    }
}

/* Parts move on by every number of ranks, around the group. */
static void permute(void)
{
    const int64_t n = 7;
    for (int far = 0; far < size; far++) {
        float *x = blank(n), *y = blank(n);
        for (int64_t i = 0; i < n; i++)
            x[i] = value(rank, i);
        fl_permute_parts(comm, y, x, n, sizeof(float), (rank + far) % size, (rank + size - far) % size);
        for (int64_t i = 0; i < n; i++)
            need(y[i] == value((rank + size - far) % size, i), "permute", i);
    }
}

/* Posted collectives of all kinds under way together, on the cpu target with looks in between, and one by itself behind them:
 * longer than all slots, shorter than the ranks, shares that end early. Numbers are used again. */
static void posts(void)
{
    enum { MANY = 5 };
    static const int64_t length[MANY] = { 1900001, 3, 65536, 0, 100003 };
    float *sum[MANY], *part[MANY], *source[MANY], *whole[MANY];
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < MANY; k++) {
            int64_t n = length[k], share = (n + size - 1) / size;
            sum[k] = blank(n + 1), part[k] = blank(share + 1), source[k] = blank(n + 1), whole[k] = blank(size * share + 1);
            for (int64_t i = 0; i < n; i++)
                sum[k][i] = source[k][i] = value(rank + k + round, i);
            for (int64_t i = 0; i < share; i++)
                whole[k][rank * share + i] = value(rank + 3 * k, i);
            fl_post(comm, k);
            fl_all_reduce(comm, sum[k], n, FL_SUM);
            if (n)
                fl_scatter_shares(comm, part[k], source[k], n, share, FL_MAX);
            if (n)
                fl_gather_shares(comm, whole[k], whole[k] + rank * share, share);
            fl_posted(comm, k);
            fl_poll();
        }
        float alone = value(rank, round), want = 0;
        fl_all_reduce(comm, &alone, 1, FL_SUM);
        for (int r = 0; r < size; r++)
            want += value(r, round);
        need(fabsf(alone - want) <= 1e-4f, "all_reduce behind posts", round);
        for (int k = MANY - 1; k >= 0; k--) {
            int64_t n = length[k], share = (n + size - 1) / size;
            fl_await(comm, k);
            for (int64_t i = 0; i < n; i++) {
                float most = value(k + round, i);
                want = value(k + round, i);
                for (int r = 1; r < size; r++) {
                    want += value(r + k + round, i);
                    most = fmaxf(most, value(r + k + round, i));
                }
                need(fabsf(sum[k][i] - want) <= 1e-4f, "posted all_reduce", i);
                if (i / share == rank)
                    need(part[k][i - rank * share] == most, "posted scatter_shares", i);
            }
            for (int64_t i = 0; i < size * share && n; i++)
                need(whole[k][i] == value((int)(i / share) + 3 * k, i % share), "posted gather_shares", i);
        }
    }
}

/* A ring: each rank sends 20 messages to the next one and only then receives: needs the slots of both
 * ends, 1 and 19, not luck. */
static void links(void)
{
    const struct fl_link_spec spec = { "ring", 0, 1, 40000, 1, 19 };
    if (size == 1)
        return;
    struct fl_link *out = fl_link_new(&spec, (rank + 1) % size, 5, true),
                   *in = fl_link_new(&spec, (rank + size - 1) % size, 5, false);
    float x[10000];
    for (int k = 0; k < 20; k++) {
        for (int i = 0; i < 10000; i++)
            x[i] = value(rank + k, i);
        fl_send(out, x, k % 2 ? 40000 : 4);
        memset(x, 0, sizeof x);                      /* the buffer is ours again */
        fl_poll();
    }
    for (int k = 0; k < 20; k++) {
        fl_recv(in, x, k % 2 ? 40000 : 4);
        for (int i = 0; i < (k % 2 ? 10000 : 1); i++)
            need(x[i] == value((rank + size - 1) % size + k, i), "message", i);
    }
}

/* Rank 0 waits in a collective that rank 1 never joins. */
static void hang(void)
{
    float x = 0;
    if (rank == 0) {
        fl_at("gpt.flow:41", "all_reduce(tp) h[*].attn");
        fl_all_reduce(comm, &x, 1, FL_SUM);
    }
    sleep(30);
}

/* .. or awaits one posted behind one that both have made, with pieces in more slots than there are. */
static void hang_posted(void)
{
    enum { N = 3000000 };
    float *x = blank(N), *y = blank(2 * N);
    fl_at("gpt.flow:42", "all_gather(tp) h[*].y");
    fl_all_gather(comm, y, x, 1, 2 * N, 1, sizeof *x);
    if (rank == 0) {
        fl_at("gpt.flow:43", "reduce_scatter(dp) grad");
        fl_post(comm, 0);
        fl_reduce_scatter(comm, x, y, 1, 2 * N, 1, FL_SUM);
        fl_posted(comm, 0);
        fl_await(comm, 0);
    }
    sleep(30);
}

/* .. or joins late, while something moves there. */
static void busy(void)
{
    float x = 1;
    for (int i = 0; rank == 1 && i < 25; i++) {
        usleep(100000);
        fl_alive();
    }
    fl_all_reduce(comm, &x, 1, FL_SUM);
    assert_true(x == 2);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    fl_rank_number = rank;
    fl_watchdog_start();
    fl_target_start(0, 1);
    comm = fl_comm_new("all", 0, rank, size);
    fl_links_start();
    bool only_collectives = argc > 1 && !strcmp(argv[1], "collectives");     /* NCCL cannot make links around a ring */
    if (argc > 1 && !strcmp(argv[1], "busy"))
        busy();
    else if (argc > 1 && !strcmp(argv[1], "posted"))
        hang_posted();
    else if (argc > 1 && !only_collectives)
        hang();
    all_reduce();
    short_types();
    gather_and_scatter(1, 7, 5);
    gather_and_scatter(4, 8, 3);
    gather_and_scatter(3, 2, 1);
    all_to_all(2, 7, 3, 5, 2);
    all_to_all(1, 2, 1, 2, 1);
    permute();
    posts();
    if (!only_collectives)
        links();
    fl_comm_stop();
    fl_target_stop();
    fl_watchdog_stop();
    MPI_Finalize();
    return 0;
}
