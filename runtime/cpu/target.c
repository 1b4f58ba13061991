/* The cpu target: threads per rank, the arena, and scratch memory. Arena memory is host memory, so that moving bytes in
 * and out is a copy. */
#define _GNU_SOURCE
#include "../data_queue.h"
#include "../target.h"
#include "../trace.h"
#include "product.h"
#include <errno.h>
#include <malloc.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

const char *const fl_target_name = "cpu";

static struct piece { void *p; int64_t bytes; } shared[FL_SCRATCH_SLOTS], (*per_thread)[FL_THREAD_SLOTS];
static int nthreads = 1;
static bool strict;               /* FL_STRICT_ROOM=1, for tests: a kernel that asks for more than its room has ends the run */
static int64_t arena_bytes;
static int64_t library_bytes;     /* resident before the arena: what MPI and libc take for themselves, and scratch of products */
static int64_t library_shared, library_file;      /* of these: shared with other processes; text that was read from files */
static int64_t library_products;                  /* and scratch of products: those on short types make it larger later on */

/* How many ranks of this host may run on one of this rank's cores, itself included. */
static int sharers(const cpu_set_t *mine)
{
    MPI_Comm local;
    int n, count = 0;
    FL_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
    FL_MPI(MPI_Comm_size(local, &n));
    cpu_set_t *all = fl_alloc(n * (int64_t)sizeof *all), both;
    FL_MPI(MPI_Allgather(mine, sizeof *mine, MPI_BYTE, all, sizeof *mine, MPI_BYTE, local));
    FL_MPI(MPI_Comm_free(&local));
    for (int i = 0; i < n; i++) {
        CPU_AND(&both, mine, &all[i]);
        count += CPU_COUNT(&both) > 0;
    }
    free(all);
    return count;
}

/* Threads: OMP_NUM_THREADS when set, else the cores this rank may run on, shared with the ranks that may run there too.
 */
void fl_target_start(int local_rank, int local_size)
{
    (void)local_rank, (void)local_size;
    mallopt(M_MMAP_THRESHOLD, 1 << 19);              /* what is freed after the start, or grows, is no longer resident */
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(0, &mask);
    if (sched_getaffinity(0, sizeof mask, &mask))
        FL_FAIL(NULL, "sched_getaffinity: %s", strerror(errno));
    int threads = CPU_COUNT(&mask) / sharers(&mask);
    if (!getenv("OMP_NUM_THREADS"))
        omp_set_num_threads(threads > 0 ? threads : 1);
    fl_scratch_threads(omp_get_max_threads());
    strict = getenv("FL_STRICT_ROOM") != NULL;
}

void fl_scratch_threads(int n)
{
    nthreads = n > 0 ? n : 1;
    per_thread = fl_alloc(nthreads * (int64_t)sizeof *per_thread);
}

static void *grow(void *slot_p, int64_t *slot_bytes, int64_t bytes)
{
    if (*slot_bytes >= bytes)
        return slot_p;
    bytes = (bytes + 4095) / 4096 * 4096;
    free(slot_p);
    *slot_bytes = bytes;
    return fl_alloc(bytes);
}

/* What a call in a room works in comes from there, piece after piece: what is left of it. */
static struct { char *p; int64_t bytes; } rest;

void fl_room_enter(void *p, int64_t bytes)
{
    rest.p = p;
    rest.bytes = bytes;
}

void fl_room_leave(void) { rest.bytes = 0; }

static bool of_a_kernel(enum fl_scratch_slot slot)
{
    return slot == FL_SCRATCH_KERNEL || slot == FL_SCRATCH_INDEX || slot == FL_SCRATCH_WIDE;
}

void *fl_scratch(enum fl_scratch_slot slot, int64_t bytes)
{
    int64_t whole = (bytes + 63) / 64 * 64;
    if (of_a_kernel(slot) && whole <= rest.bytes) {
        char *piece = rest.p;
        rest.p += whole;
        rest.bytes -= whole;
        return piece;
    }
    if (strict && of_a_kernel(slot))
        FL_FAIL(NULL, "a kernel asks for %lld bytes where the plan has %lld", (long long)whole, (long long)rest.bytes);
    shared[slot].p = grow(shared[slot].p, &shared[slot].bytes, bytes);
    return shared[slot].p;
}

void *fl_thread_scratch_of(enum fl_thread_slot slot, int64_t bytes)
{
    if (!per_thread)
        fl_scratch_threads(omp_get_max_threads());
    int t = omp_get_thread_num();
    if (t >= nthreads)
        FL_FAIL("do not raise the number of threads after the start", "thread %d of %d has no scratch memory", t,
                nthreads);
    struct piece *mine = &per_thread[t][slot];
    mine->p = grow(mine->p, &mine->bytes, bytes);
    return mine->p;
}

/* Without what products pack operands in: as a BLAS of its own would, and as much as the machine's caches say. */
int64_t fl_scratch_bytes(void)
{
    int64_t sum = 0;
    for (int i = 0; i < FL_SCRATCH_SLOTS; i++)
        sum += shared[i].bytes;
    for (int t = 0; per_thread && t < nthreads; t++)
        for (int i = 0; i < FL_THREAD_SLOTS; i++)
            sum += i == FL_SCRATCH_PRODUCT ? 0 : per_thread[t][i].bytes;
    return sum;
}

static int64_t product_bytes(void)
{
    int64_t sum = 0;
    for (int t = 0; per_thread && t < nthreads; t++)
        sum += per_thread[t][FL_SCRATCH_PRODUCT].bytes;
    return sum;
}

/* A line of /proc/self/status, in bytes; 0 where there is none. */
static int64_t status_bytes(const char *name)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), ": %lld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* Text of libraries comes in when it first runs, what other ranks and this one share when it first reads it. */
bool fl_target_resident(int64_t *bytes, int64_t *library)
{
    *bytes = status_bytes("VmHWM");
    *library = library_bytes + status_bytes("RssFile") - library_file + status_bytes("RssShmem") - library_shared;
    *library += product_bytes() - library_products;
    return *bytes > 0;
}

static char *map(int64_t bytes, const char *what)
{
    int64_t whole = (bytes + 4095) / 4096 * 4096 + (bytes == 0 ? 4096 : 0);
    void *p = mmap(NULL, (size_t)whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        FL_FAIL("use more ranks, or recompute and sharding in the plan", "cannot get %.3f GiB for %s: %s",
                (double)bytes / (1 << 30), what, strerror(errno));
    if (whole >= 8 << 20)
        madvise(p, (size_t)whole, MADV_HUGEPAGE);    /* only a wish: small pages work too */
    arena_bytes += whole;
    return p;
}

/* Products pack operands in scratch of each thread. */
static void wake_products(void)
{
    enum { N = 384 };
    float *x = fl_alloc(3 * N * N * (int64_t)sizeof *x);
    struct fl_gemm g = { .m = N, .n = N, .k = N, .tb = true, .lda = N, .ldb = N, .ldc = N, .alpha = 1 };
#pragma omp parallel
    {
#pragma omp critical
        fl_product(x + 2 * N * N, FL_F32, x, x + N * N, FL_F32, &g);
    }
    free(x);
}

const bool fl_arena_zeros = true;

char *fl_arena_new(int64_t bytes)
{
    wake_products();
    library_bytes = status_bytes("VmRSS");
    library_shared = status_bytes("RssShmem");
    library_file = status_bytes("RssFile");
    library_products = product_bytes();
    return map(bytes, "the arena");
}

/* What would be host memory beside a device is a second mapping: the same copies, so that a plan can be tried here. */
char *fl_host_new(int64_t bytes)
{
    return bytes > 0 ? map(bytes, "what is offloaded") : NULL;
}

void fl_to_host(struct fl_run *run, int number, void *host, const void *src, int64_t bytes)
{
    (void)run, (void)number;
    if (bytes > 0)
        memcpy(host, src, (size_t)bytes);
}

void fl_to_device(struct fl_run *run, int number, void *dst, const void *host, int64_t bytes)
{
    (void)run, (void)number;
    if (bytes > 0)
        memcpy(dst, host, (size_t)bytes);
}

void fl_copied(struct fl_run *run, int number)
{
    (void)run, (void)number;
}

void fl_to_arena(void *dst, const void *host, int64_t bytes)
{
    if (bytes > 0)
        memcpy(dst, host, (size_t)bytes);
}

void fl_from_arena(void *host, const void *src, int64_t bytes)
{
    if (bytes > 0)
        memcpy(host, src, (size_t)bytes);
}

void fl_target_sync(void) {}

void *fl_see_room(int64_t bytes) { return fl_scratch(FL_SCRATCH_SEE, bytes); }

static double busy;                      /* of the last step of train */

void fl_target_run(struct fl_run *run, enum fl_entry entry, bool same)
{
    (void)same;
    double start = MPI_Wtime(), waited = fl_queue_waited();
    run->rank->class_->entry[entry](run);
    if (entry == FL_TRAIN)
        busy = MPI_Wtime() - start - (fl_queue_waited() - waited);
}

double fl_target_busy(void) { return busy; }

void fl_range(const char *text)
{
    static const char *open;
    static double since;
    double now = MPI_Wtime();
    if (open)
        fl_trace_add(FL_TRACK_COMPUTE, FL_TRACE_COMPUTE, NULL, open, fl_trace_microbatch(), since, now);
    open = text;
    since = now;
}

/* Host and arena are one memory: an input is made where it belongs. */
void *fl_staging_new(int64_t bytes) { return fl_alloc(bytes); }

void *fl_staging_of(int input, int microbatch, void *dst, int64_t bytes)
{
    (void)input, (void)microbatch, (void)bytes;
    return dst;
}

void fl_copy_in(void *dst, const void *staging, int64_t bytes)
{
    if (dst != staging)
        fl_to_arena(dst, staging, bytes);
}

void fl_copy_out(void *staging, const void *src, int64_t bytes) { fl_from_arena(staging, src, bytes); }
int64_t fl_target_peak_bytes(void) { return arena_bytes + fl_scratch_bytes() + fl_links_bytes(); }

void fl_target_stop(void)
{
    for (int i = 0; i < FL_SCRATCH_SLOTS; i++)
        free(shared[i].p);
    for (int t = 0; per_thread && t < nthreads; t++)
        for (int i = 0; i < FL_THREAD_SLOTS; i++)
            free(per_thread[t][i].p);
    free(per_thread);
    per_thread = NULL;
    memset(shared, 0, sizeof shared);
}

void fl_target_selftest(char *room) { (void)room; }      /* kernels are plain C */
