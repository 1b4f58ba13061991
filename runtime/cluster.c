/* --check-cluster. Every rank measures its products, copies and calls, all at the same time, as in training; along every
 * axis of the mesh the ranks measure an all_reduce of one number (latency) and of many (bandwidth: bytes that a rank sends,
 * 2 (k - 1) / k of them, per second), and each two neighbours change places of data while the others of the axis are still.
 * Each number is the best of several tries, the slowest rank's of those who take part.
 *
 * A rank is slow whose products or copies have less than 0.7 of the median's rate, a link one whose bandwidth is below half
 * the median's of its kind (within a host, between hosts), or whose latency is above four times it. FL_SLOW_RANK=R:F makes rank R
 * look F times slower, for trying this out. */
#include "cluster.h"
#include "agree.h"
#include "check.h"
#include "report.h"
#include "safetensors.h"
#include "target.h"
#include <errno.h>
#include <jansson.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 5, MOST_FLOATS = 1 << 20 };
static const double ENOUGH = 0.02;       /* seconds that a try should last */

struct speed { double flops, flops16, stream, call, host, host_latency; };
struct link { int from, to, axis; double latency, bandwidth; bool between, slow; };
struct axis { double latency, bandwidth; bool between; };

static char *room;                       /* of the device: two buffers of MOST_FLOATS */
static double slower = 1;                /* FL_SLOW_RANK */
static char (*host_of)[64];              /* by rank */

static float *buffer(int k) { return (float *)(room + (int64_t)k * MOST_FLOATS * (int64_t)sizeof(float)); }

/* ---- one rank ---- */

static struct fl_gemm gemm;
static void product(int64_t n)
{
    (void)n;
    fl_gemm(buffer(0) + 2 * gemm.m * gemm.m, buffer(0), buffer(0) + gemm.m * gemm.m, &gemm);
}
static void product16(int64_t n)
{
    (void)n;
    fl_gemm_as(buffer(0) + 2 * gemm.m * gemm.m, FL_F32, buffer(0), buffer(0) + gemm.m * gemm.m, FL_BF16, &gemm);
}
static void copy(int64_t n) { fl_copy(buffer(1), buffer(0), n, 4); }
static void call(int64_t n) { fl_fill(buffer(1), 0, n); }
static void *host_memory;
static void from_host(int64_t n) { fl_to_arena(buffer(0), host_memory, n * 4); }

/* Seconds of one call: of as many in a row as last long enough, the best of some tries. */
static double seconds(void (*f)(int64_t), int64_t n)
{
    double best = 1e30;
    int64_t times = 1;
    f(n);
    fl_target_sync();
    for (int k = 0; k < TRIES;) {
        double start = MPI_Wtime();
        for (int64_t i = 0; i < times; i++)
            f(n);
        fl_target_sync();
        double t = MPI_Wtime() - start;
        if (t < ENOUGH / TRIES && times < 1 << 20) {
            times *= 2;
            continue;
        }
        best = t / (double)times < best ? t / (double)times : best;
        k++;
    }
    return best * slower;
}

/* Products of a size that takes a while. */
static double flop_rate(void (*f)(int64_t))
{
    for (int64_t n = 32;; n *= 2) {
        gemm = (struct fl_gemm){ .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1 };
        double t = seconds(f, n);
        if (t > ENOUGH / TRIES || 8 * n * n > MOST_FLOATS)
            return 2.0 * (double)(n * n * n) / t;
    }
}

static struct speed own_speed(void)
{
    struct speed s;
    fl_fill(buffer(0), 0, 2 * MOST_FLOATS);
    host_memory = fl_staging_new(MOST_FLOATS * 4);
    s.flops = flop_rate(product);
    s.flops16 = flop_rate(product16);
    s.stream = 8.0 * MOST_FLOATS / seconds(copy, MOST_FLOATS);
    s.call = seconds(call, 1);
    s.host_latency = seconds(from_host, 1);
    s.host = 4.0 * MOST_FLOATS / seconds(from_host, MOST_FLOATS);
    return s;
}

/* ---- links ---- */

static fl_comm *comm;
static int partner;
static void reduce(int64_t n) { fl_all_reduce(comm, buffer(0), n, FL_SUM); }
static void change_places(int64_t n) { fl_permute_parts(comm, buffer(1), buffer(0), n, 4, partner, partner); }

/* Seconds of one call that the ranks of the communicator make together: as many times on all of them. */
static double together(void (*f)(int64_t), int64_t n, MPI_Comm ranks, int64_t times)
{
    double best = 1e30, t;
    for (int k = 0; k < TRIES; k++) {
        FL_WORLD(MPI_Barrier(ranks));
        double start = MPI_Wtime();
        for (int64_t i = 0; i < times; i++)
            f(n);
        fl_target_sync();
        t = MPI_Wtime() - start;
        FL_WORLD(MPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, ranks));
        best = t / (double)times < best ? t / (double)times : best;
    }
    return best;
}

/* Latency and bandwidth from a small and a large call, of which each rank sends `sent` times the size. */
static void measure(void (*f)(int64_t), double sent, MPI_Comm ranks, double *latency, double *bandwidth)
{
    double small = together(f, 1, ranks, 64), large = together(f, MOST_FLOATS, ranks, 4);
    *latency = small;
    *bandwidth = sent * 4 * MOST_FLOATS / (large > small ? large - small : 1e-9);
}

static bool apart(int a, int b) { return strcmp(host_of[a], host_of[b]) != 0; }

/* The axis that this rank is on, and the links between its neighbours: those this rank reports are put into `links`. */
static struct axis measure_axis(const struct fl_run *run, int a, struct link *links, int *nlink)
{
    int size = fl_program.axis_size[a], at = run->rank->coord[a], stride = fl_program.axis_stride[a];
    int first = fl_rank_number - at * stride;
    struct axis x = { 0 };
    MPI_Comm ranks;
    FL_WORLD(MPI_Comm_split(MPI_COMM_WORLD, first, at, &ranks));
    char *name = fl_printf("check_%s", fl_program.axis_name[a]);
    comm = fl_comm_new(name, first, fl_rank_number, size);
    measure(reduce, 2.0 * (size - 1) / size, ranks, &x.latency, &x.bandwidth);
    for (int i = 0; i + 1 < size; i++) {
        struct link l = { .from = first + i * stride, .to = first + (i + 1) * stride, .axis = a };
        partner = at == i ? i + 1 : at == i + 1 ? i : at;
        if (size > 2)
            measure(change_places, 1, ranks, &l.latency, &l.bandwidth);
        else
            l.latency = x.latency, l.bandwidth = x.bandwidth;
        l.between = apart(l.from, l.to);
        x.between |= l.between;
        if (at == i)
            links[(*nlink)++] = l;
    }
    FL_WORLD(MPI_Comm_free(&ranks));
    return x;
}

/* ---- what it says ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n ? x[n / 2] : 0;
}

/* The median over those links (kind 0 within, 1 between) of a field; 0: there are none. */
static double typical(const struct link *l, int n, bool between, bool latency)
{
    double *x = fl_alloc(n * (int64_t)sizeof *x);
    int count = 0;
    for (int i = 0; i < n; i++)
        if (l[i].between == between)
            x[count++] = latency ? l[i].latency : l[i].bandwidth;
    double m = median(x, count);
    free(x);
    return m;
}

static double typical_speed(const struct speed *s, size_t field)
{
    int n = fl_program.nranks;
    double *x = fl_alloc(n * (int64_t)sizeof *x);
    for (int r = 0; r < n; r++)
        memcpy(&x[r], (const char *)&s[r] + field, sizeof *x);
    double m = median(x, n);
    free(x);
    return m;
}
#define TYPICAL(field) typical_speed(s, offsetof(struct speed, field))

static int hosts(int *most)
{
    int count = 0;
    *most = 0;
    for (int r = 0; r < fl_program.nranks; r++) {
        int same = 0, before = 0;
        for (int k = 0; k < fl_program.nranks; k++) {
            same += !apart(r, k);
            before += k < r && !apart(r, k);
        }
        count += !before;
        *most = same > *most ? same : *most;
    }
    return count;
}

static void say_ranks(const struct speed *s, json_t *list)
{
    double flops = TYPICAL(flops), stream = TYPICAL(stream);
    for (int r = 0; r < fl_program.nranks; r++) {
        bool slow = s[r].flops < 0.7 * flops || s[r].stream < 0.7 * stream;
        json_array_append_new(list, json_pack("{s:i, s:s, s:f, s:f, s:b}", "rank", r, "host", host_of[r], "flops", s[r].flops,
                                              "stream", s[r].stream, "slow", slow));
        if (slow)
            printf("slow: rank %d on %s: %.3g GFLOP/s, %.3g GB/s of memory; the median is %.3g and %.3g\n", r, host_of[r],
                   s[r].flops / 1e9, s[r].stream / 1e9, flops / 1e9, stream / 1e9);
    }
}

static void say_links(struct link *l, int n, json_t *list)
{
    for (int i = 0; i < n; i++) {
        double bandwidth = typical(l, n, l[i].between, false), latency = typical(l, n, l[i].between, true);
        l[i].slow = l[i].bandwidth < 0.5 * bandwidth || l[i].latency > 4 * latency;
        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:f, s:f, s:b}", "from", l[i].from, "to", l[i].to, "axis",
                                              fl_program.axis_name[l[i].axis], "bandwidth", l[i].bandwidth, "latency",
                                              l[i].latency, "slow", l[i].slow));
        if (l[i].slow)
            printf("slow: the link of ranks %d on %s and %d on %s (%s): %.3g GB/s, %.3g us; the median is %.3g GB/s, %.3g us\n",
                   l[i].from, host_of[l[i].from], l[i].to, host_of[l[i].to], fl_program.axis_name[l[i].axis],
                   l[i].bandwidth / 1e9, l[i].latency * 1e6, bandwidth / 1e9, latency * 1e6);
    }
}

static void say(const char *file, const struct speed *s, const struct axis *all_axes, struct link *l, int nlink)
{
    int devices, count = hosts(&devices);
    json_t *axes = json_array(), *ranks = json_array(), *links = json_array();
    for (int a = 0; a < fl_program.naxis; a++) {
        struct axis x = { 0 };                             /* the slowest of its groups */
        for (int r = 0; r < fl_program.nranks; r++) {
            const struct axis *y = &all_axes[r * FL_MAX_AXIS + a];
            x.latency = y->latency > x.latency ? y->latency : x.latency;
            x.bandwidth = x.bandwidth == 0 || y->bandwidth < x.bandwidth ? y->bandwidth : x.bandwidth;
            x.between |= y->between;
        }
        if (a == fl_program.mb || fl_program.axis_size[a] == 1)
            continue;
        printf("axis %s: %d ranks %s, all_reduce %.3g GB/s, %.3g us\n", fl_program.axis_name[a], fl_program.axis_size[a],
               x.between ? "across hosts" : "within a host", x.bandwidth / 1e9, x.latency * 1e6);
        json_array_append_new(axes, json_pack("{s:s, s:i, s:b, s:f, s:f}", "axis", fl_program.axis_name[a], "ranks",
                                              fl_program.axis_size[a], "between", x.between, "bandwidth", x.bandwidth,
                                              "latency", x.latency));
    }
    printf("a rank: %.3g GFLOP/s in f32, %.3g in bf16, %.3g GB/s of memory, %.3g us a call, %.3g GB/s from the host\n",
           TYPICAL(flops) / 1e9, TYPICAL(flops16) / 1e9, TYPICAL(stream) / 1e9, TYPICAL(call) * 1e6, TYPICAL(host) / 1e9);
    say_ranks(s, ranks);
    say_links(l, nlink, links);
    json_t *root = json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name", "measured", "hosts", count, "devices",
                             devices, "flops", TYPICAL(flops), "flops16", TYPICAL(flops16), "stream", TYPICAL(stream), "call",
                             TYPICAL(call), "host", TYPICAL(host), "host_latency", TYPICAL(host_latency), "memory", 0.0);
    for (int between = 0; between < 2; between++)
        if (typical(l, nlink, between, false) > 0) {
            json_object_set_new(root, between ? "between" : "inside", json_real(typical(l, nlink, between, false)));
            json_object_set_new(root, between ? "between_latency" : "inside_latency", json_real(typical(l, nlink, between, true)));
        }
    json_object_set_new(root, "measured", json_pack("{s:o, s:o, s:o}", "axes", axes, "ranks", ranks, "links", links));
    if (json_dump_file(root, file, JSON_INDENT(2)))
        FL_FAIL("is the disk full, or the name a folder's?", "cannot write %s: %s", file, strerror(errno));
    json_decref(root);
    fl_report_note("%s: for flowc --cluster", file);
}

void fl_cluster_check(struct fl_run *run, const char *file)
{
    int n = fl_program.nranks, nlink = 0, slow;
    double factor;
    const char *text = getenv("FL_SLOW_RANK");
    if (text && sscanf(text, "%d:%lf", &slow, &factor) == 2 && slow == fl_rank_number)
        slower = factor;
    fl_agree(fl_rank_number == 0 ? fl_st_refuse(file) : NULL);
    room = fl_see_room(2 * MOST_FLOATS * (int64_t)sizeof(float));
    char own[64] = "";
    gethostname(own, sizeof own - 1);
    host_of = fl_alloc(n * (int64_t)sizeof *host_of);
    FL_WORLD(MPI_Allgather(own, sizeof own, MPI_CHAR, host_of, sizeof own, MPI_CHAR, MPI_COMM_WORLD));
    struct speed mine = own_speed(), *s = fl_alloc(n * (int64_t)sizeof *s);
    FL_WORLD(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, s, sizeof mine, MPI_BYTE, MPI_COMM_WORLD));
    struct link *links = fl_alloc(FL_MAX_AXIS * (int64_t)sizeof *links), *all;
    struct axis axes[FL_MAX_AXIS] = { { 0 } }, *all_axes = fl_alloc(n * (int64_t)sizeof axes);
    for (int a = 0; a < fl_program.naxis; a++)
        if (a != fl_program.mb && fl_program.axis_size[a] > 1)
            axes[a] = measure_axis(run, a, links, &nlink);
    all = fl_alloc(n * FL_MAX_AXIS * (int64_t)sizeof *all);
    int *count = fl_alloc(n * (int64_t)sizeof *count), total = 0;
    int bytes = FL_MAX_AXIS * (int)sizeof *links;
    FL_WORLD(MPI_Gather(&nlink, 1, MPI_INT, count, 1, MPI_INT, 0, MPI_COMM_WORLD));
    FL_WORLD(MPI_Gather(links, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, MPI_COMM_WORLD));
    FL_WORLD(MPI_Gather(axes, sizeof axes, MPI_BYTE, all_axes, sizeof axes, MPI_BYTE, 0, MPI_COMM_WORLD));
    for (int r = 0; r < n && fl_rank_number == 0; r++)
        for (int i = 0; i < count[r]; i++)
            all[total++] = all[r * FL_MAX_AXIS + i];
    if (fl_rank_number == 0)
        say(file, s, all_axes, all, total);
    free(s);
    free(links);
    free(all);
    free(all_axes);
    free(count);
}
