/* Every collective on communicators that share memory and on the same ones over MPI, with random sizes: to the same bits
 * where nothing is rounded or two ranks meet, and in shared memory always to those of the sum in rank order. Uneven and empty
 * parts, pieces that fill all slots, several communicators with posted collectives under way together. What goes through
 * shared memory makes no collective call of MPI. */
#include "compare.h"
#include "shared.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int calls;                        /* of MPI's collectives */
#define COUNTED(name, parameters, arguments) \
    int name parameters                      \
    {                                        \
        calls++;                             \
        return P##name arguments;            \
    }
COUNTED(MPI_Allreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
COUNTED(MPI_Iallreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r), (a, b, n, t, o, c, r))
COUNTED(MPI_Reduce_scatter, (const void *a, void *b, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
COUNTED(MPI_Ireduce_scatter, (const void *a, void *b, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
        (a, b, n, t, o, c, r))
COUNTED(MPI_Allgather, (const void *a, int m, MPI_Datatype s, void *b, int n, MPI_Datatype t, MPI_Comm c), (a, m, s, b, n, t, c))
COUNTED(MPI_Iallgather, (const void *a, int m, MPI_Datatype s, void *b, int n, MPI_Datatype t, MPI_Comm c, MPI_Request *r),
        (a, m, s, b, n, t, c, r))
COUNTED(MPI_Allgatherv, (const void *a, int m, MPI_Datatype s, void *b, const int n[], const int at[], MPI_Datatype t, MPI_Comm c),
        (a, m, s, b, n, at, t, c))
COUNTED(MPI_Alltoallv, (const void *a, const int m[], const int am[], MPI_Datatype s, void *b, const int n[], const int an[],
                        MPI_Datatype t, MPI_Comm c), (a, m, am, s, b, n, an, t, c))
COUNTED(MPI_Sendrecv, (const void *a, int m, MPI_Datatype s, int to, int i, void *b, int n, MPI_Datatype t, int from, int j,
                       MPI_Comm c, MPI_Status *st), (a, m, s, to, i, b, n, t, from, j, c, st))

enum kind { ALL_REDUCE, REDUCE_SCATTER, SCATTER_SHARES, GATHER_SHARES, LAST_POSTED = GATHER_SHARES, ALL_GATHER, ALL_TO_ALL, PERMUTE,
            GATHER_START, KINDS };
static const char *const names[] = { "all_reduce", "reduce_scatter", "scatter_shares", "gather_shares", "all_gather",
                                     "all_to_all", "permute", "gather_start" };
enum { GROUPS = 3, GUARD = 64, SHARED = 0, APART = 1 };

static struct group { fl_comm *comm[2]; int rank, size, colour; } groups[GROUPS];
static int world_rank, world_size;

struct call {
    enum kind kind;
    enum fl_type type;
    enum fl_reduce reduce;
    bool exact, split;                   /* sums of whole numbers are exact */
    int bytes, far;
    int64_t outer, n, inner, middle, b;  /* a is n */
    int64_t src_n, dst_n;
    uint64_t seed;
    char *src, *dst[2];
};

static uint64_t hash(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static uint64_t state;                   /* of the numbers that all members of a group draw alike */
static int64_t draw(int64_t below) { return (int64_t)(hash(state++) % (uint64_t)below); }

static bool reduces(const struct call *x) { return x->kind <= SCATTER_SHARES; }

/* What member r of the group has. */
static void fill(char *to, const struct call *x, int r)
{
    for (int64_t i = 0; i < x->src_n; i++) {
        uint64_t h = hash(x->seed * 31 + (uint64_t)(r * 1000003 + i));
        float f = x->exact ? (float)(h % 31) - 15 : (float)(int32_t)h / (1 << 20);
        if (!reduces(x) || x->type == FL_I32)
            memcpy(to + i * x->bytes, &h, (size_t)x->bytes);
        else
            fl_convert(to + i * x->bytes, x->type, &f, FL_F32, 1);
    }
}

static char *guarded(int64_t bytes)
{
    char *p = aligned_alloc(64, (size_t)(bytes + GUARD + 63) / 64 * 64);
    return memset(p, 0xa5, (size_t)(bytes + GUARD + 63) / 64 * 64);
}

static struct call drawn(const struct group *g, int round, int last_kind)
{
    static const enum fl_type types[] = { FL_F32, FL_BF16, FL_F16, FL_I32 };
    struct call x = { .kind = (enum kind)draw(last_kind + 1), .reduce = (enum fl_reduce)draw(3), .exact = draw(2), .split = draw(2) };
    bool large = round % 10 == 9;
    x.type = types[draw(x.kind == ALL_REDUCE ? 4 : 3)];
    x.bytes = reduces(&x) ? (int)fl_type_bytes(x.type) : 1 << draw(4);
    x.seed = hash(state);
    x.outer = draw(3) ? 1 : 1 + draw(5);
    x.n = large ? 1000 + draw(700000) / x.outer : draw(3) ? draw(3 * g->size + 1) : draw(5000);
    x.inner = large ? 1 : 1 + draw(7);
    x.middle = 1 + draw(3);
    x.b = large ? 1 + draw(3) : draw(2 * g->size + 2);
    x.far = (int)draw(g->size);
    int64_t share = (x.n + g->size - 1) / g->size, mine = fl_part_size(x.n, g->size, g->rank);
    switch (x.kind) {
    case ALL_REDUCE: x.src_n = x.dst_n = x.n; break;
    case REDUCE_SCATTER: x.src_n = x.outer * x.n * x.inner, x.dst_n = x.outer * mine * x.inner; break;
    case SCATTER_SHARES: x.src_n = x.n, x.dst_n = fl_most(0, fl_least(share, x.n - g->rank * share)); break;
    case GATHER_SHARES:
    case GATHER_START:
        x.bytes = x.kind == GATHER_START ? x.bytes : (int)fl_type_bytes(x.type);
        x.src_n = share, x.dst_n = share * g->size;
        break;
    case ALL_GATHER: x.src_n = x.outer * mine * x.inner, x.dst_n = x.outer * x.n * x.inner; break;
    case ALL_TO_ALL: {
        int64_t all = x.outer * x.middle * x.inner, mine_b = fl_part_size(x.b, g->size, g->rank);
        x.src_n = all * (x.split ? x.n * mine_b : mine * x.b), x.dst_n = all * (x.split ? mine * x.b : x.n * mine_b);
        break;
    }
    default: x.src_n = x.dst_n = x.n;
    }
    x.src = guarded(x.src_n * x.bytes);
    fill(x.src, &x, g->rank);
    for (int w = 0; w < 2; w++) {
        x.dst[w] = guarded(x.dst_n * x.bytes);
        if (x.kind == ALL_REDUCE)
            memcpy(x.dst[w], x.src, (size_t)(x.n * x.bytes));
    }
    return x;
}

#define BY_TYPE(f, type, ...) \
    ((type) == FL_F32 ? f(__VA_ARGS__) : (type) == FL_BF16 ? f##_bf16(__VA_ARGS__) : f##_f16(__VA_ARGS__))

static void issue(struct call *x, const struct group *g, int way)
{
    fl_comm *c = g->comm[way];
    void *dst = x->dst[way];
    const void *src = x->src;
    int64_t share = (x->n + g->size - 1) / g->size;
    int before = calls;
    switch (x->kind) {
    case ALL_REDUCE:
        if (x->type == FL_I32)
            fl_all_reduce_i32(c, dst, x->n, x->reduce);
        else
            BY_TYPE(fl_all_reduce, x->type, c, dst, x->n, x->reduce);
        break;
    case REDUCE_SCATTER: BY_TYPE(fl_reduce_scatter, x->type, c, dst, src, x->outer, x->n, x->inner, x->reduce); break;
    case SCATTER_SHARES: BY_TYPE(fl_scatter_shares, x->type, c, dst, src, x->n, share, x->reduce); break;
    case GATHER_SHARES:
        if (x->split) {                  /* in its place */
            src = (char *)dst + g->rank * share * x->bytes;
            memcpy((char *)dst + g->rank * share * x->bytes, x->src, (size_t)(share * x->bytes));
        }
        BY_TYPE(fl_gather_shares, x->type, c, dst, src, share);
        break;
    case GATHER_START:
        fl_gather_start(c, dst, src, share, x->bytes);
        fl_poll();
        fl_gather_wait(c, dst);
        break;
    case ALL_GATHER: fl_all_gather(c, dst, src, x->outer, x->n, x->inner, x->bytes); break;
    case ALL_TO_ALL: fl_all_to_all(c, dst, src, x->outer, x->n, x->middle, x->b, x->inner, x->split, x->bytes); break;
    default: fl_permute_parts(c, dst, src, x->n, x->bytes, (g->rank + x->far) % g->size, (g->rank + g->size - x->far) % g->size);
    }
    if (way == SHARED && calls != before) {
        fprintf(stderr, "%s of ranks that share memory called MPI\n", names[x->kind]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void same(const struct call *x, const struct group *g, const void *a, const void *b, const char *what)
{
    int64_t bytes = x->dst_n * x->bytes, i = 0;
    if (!memcmp(a, b, (size_t)bytes))
        return;
    while (((const char *)a)[i] == ((const char *)b)[i])
        i++;
    fprintf(stderr, "rank %d of %d: %s of type %d, %lld x %lld x %lld, %lld, %lld, %d bytes: element %lld of %lld is not %s\n", g->rank,
            g->size, names[x->kind], x->type, (long long)x->outer, (long long)x->n, (long long)x->inner, (long long)x->middle,
            (long long)x->b, x->bytes, (long long)i / x->bytes, (long long)x->dst_n, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The reduction in rank order, in f32, rounded once. */
static void compare_with_order(const struct call *x, const struct group *g)
{
    float *sum = malloc((size_t)(x->src_n + 1) * 4), *f = malloc((size_t)(x->src_n + 1) * 4);
    char *other = guarded(x->src_n * x->bytes), *want = guarded(x->src_n * x->bytes);
    for (int r = 0; r < g->size; r++) {
        fill(other, x, r);
        fl_convert(f, FL_F32, other, x->type, x->src_n);
        for (int64_t i = 0; i < x->src_n; i++)
            sum[i] = r == 0              ? f[i]
                     : x->reduce == FL_SUM ? sum[i] + f[i]
                     : x->reduce == FL_MAX ? fmaxf(sum[i], f[i])
                                           : fminf(sum[i], f[i]);
    }
    fl_convert(want, x->type, sum, FL_F32, x->src_n);
    if (x->kind == REDUCE_SCATTER)
        fl_take(other, want, x->outer, x->n, fl_part_base(x->n, g->size, g->rank), fl_part_size(x->n, g->size, g->rank), x->inner,
                x->bytes);
    else if (x->kind == SCATTER_SHARES && x->dst_n)
        memcpy(other, want + g->rank * ((x->n + g->size - 1) / g->size) * x->bytes, (size_t)(x->dst_n * x->bytes));
    same(x, g, x->dst[SHARED], x->kind == ALL_REDUCE ? want : other, "the reduction in rank order");
    free(sum), free(f), free(other), free(want);
}

static void check(struct call *x, const struct group *g)
{
    char untouched[GUARD];
    memset(untouched, 0xa5, sizeof untouched);
    if (memcmp(x->dst[SHARED] + x->dst_n * x->bytes, untouched, sizeof untouched)) {
        fprintf(stderr, "%s wrote behind its end\n", names[x->kind]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (!reduces(x) || x->exact || x->type == FL_I32 || x->reduce != FL_SUM || g->size <= 2)
        same(x, g, x->dst[SHARED], x->dst[APART], "what it is over MPI");
    if (reduces(x) && x->type != FL_I32)
        compare_with_order(x, g);
    free(x->src), free(x->dst[0]), free(x->dst[1]);
}

/* Posted over all groups and both ways at once, then waited for, the last ones first. */
static void posts(int round)
{
    enum { EACH = 3 };
    struct call x[GROUPS][EACH];
    for (int k = 0; k < EACH; k++)
        for (int i = 0; i < GROUPS; i++) {
            struct group *g = &groups[i];
            state = hash((uint64_t)(round * 1000 + k * 100 + i * 10 + g->colour));
            x[i][k] = drawn(g, k == 1 && round == 0 ? 9 : 0, LAST_POSTED);
            for (int w = 0; w < 2; w++) {
                fl_post(g->comm[w], (k * GROUPS + i) * 2 + w);
                issue(&x[i][k], g, w);
                fl_posted(g->comm[w], (k * GROUPS + i) * 2 + w);
            }
            fl_poll();
        }
    for (int k = EACH - 1; k >= 0; k--)
        for (int i = 0; i < GROUPS; i++) {
            for (int w = 0; w < 2; w++)
                fl_await(groups[i].comm[w], (k * GROUPS + i) * 2 + w);
            check(&x[i][k], &groups[i]);
        }
}

static fl_comm *made(const char *way, int colour, int size)
{
    setenv("FL_SHARED", way, 1);
    return fl_comm_new("group", colour, world_rank, size);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    fl_rank_number = world_rank;
    fl_watchdog_start();
    fl_target_start(0, 1);
    fl_links_start();
    int colours[GROUPS] = { 0, world_rank / 2, world_rank % 2 };       /* all, and the axes of a mesh of two columns */
    for (int i = 0; i < GROUPS; i++) {
        struct group *g = &groups[i];
        for (int r = 0; r < world_size; r++)
            g->size += (i == 0 ? 0 : i == 1 ? r / 2 : r % 2) == colours[i];
        g->colour = colours[i];
        g->comm[SHARED] = made("1", g->colour, g->size);
        g->comm[APART] = made("0", g->colour, g->size);
        g->rank = fl_comm_rank(g->comm[SHARED]);
        if (g->size > 1 && (!g->comm[SHARED]->shared || g->comm[APART]->shared)) {
            fprintf(stderr, "FL_SHARED does not say who shares memory\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    calls = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < GROUPS; i++) {
            struct group *g = &groups[i];
            state = hash((uint64_t)(round * 100 + i * 10 + g->colour));
            struct call x = drawn(g, round, KINDS - 1);
            issue(&x, g, SHARED);
            issue(&x, g, APART);
            check(&x, g);
        }
        if (round % 4 == 0)
            posts(round);
    }
    if (!calls)
        MPI_Abort(MPI_COMM_WORLD, 1);    /* nothing has been compared */
    fl_comm_stop();
    fl_target_stop();
    fl_watchdog_stop();
    MPI_Finalize();
    return 0;
}
