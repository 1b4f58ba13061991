/* Collectives and links over NCCL. The collectives of a communicator run on its stream, in program order, one after the
 * other; so do those of communicators that share a stream. A call by itself waits for the compute stream and that for it;
 * between fl_post and fl_posted they are one group, and the compute stream waits for it in fl_await only. Each link has its
 * own two-rank communicator and stream, so that a send never waits for an unrelated receive; events tie it to the compute
 * stream. Parts along an inner dim, and uneven parts, are packed into equal pieces in workspace and unpacked after.
 *
 * Collectives on two streams may be under way at once only where all their blocks find room on the device. The compiler says
 * on how many streams that is so, for COMM_BLOCKS a communicator and LINK_BLOCKS a link (compiler/physical.h). */
#include "../check.h"
#include "../target.h"
#include "../trace.h"
#include "clock.h"
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define FL_NCCL(call)                                                                                                  \
    do {                                                                                                               \
        ncclResult_t status_ = (call);                                                                                 \
        if (status_ != ncclSuccess)                                                                                    \
            FL_FAIL("set NCCL_DEBUG=INFO to see why", "%s failed: %s", #call, ncclGetErrorString(status_));            \
    } while (0)

enum { STREAMS = 16 };
struct fl_comm {
    ncclComm_t nccl;
    int rank, size, number;
    cudaStream_t stream;
    struct fl_event ready, ended;        /* of the compute stream before a call; of this one after it */
    int kind, track;                     /* for the times of a step, and for its trace */
    int since, started;                  /* marks of the clock: before a call; when it begins */
};
struct fl_link {
    ncclComm_t nccl;
    cudaStream_t stream;
    int kind, track;
    bool sends;
    int slots, next;
    int64_t slot_bytes;
    char *buffer;
    struct fl_event *filled, *emptied;   /* one per slot */
};

static struct fl_comm **comms;
static cudaStream_t streams[STREAMS];
static int nstream = 1;
static struct fl_event *posted;          /* by number */
static int nposted;
static fl_comm *posting;                 /* whose calls are between fl_post and fl_posted */
static bool grouped;                     /* ncclGroupStart is open: calls go out together */
static struct { const void *whole; struct fl_event ended; } *gathers;    /* started, by target */
static int ngather;
static struct fl_link **links;
static int ncomm, nlink;

template <typename T> static T *remember(T **&list, int &count)
{
    list = (T **)realloc(list, (size_t)(count + 1) * sizeof *list);
    if (!list)
        FL_FAIL("the host is out of memory", "cannot list a communicator");
    return list[count++] = (T *)fl_alloc(sizeof(T));
}

/* More blocks than the compiler counted on may not find room beside each other: the run would hang. */
static void at_most(const char *name, int most)
{
    const char *wish = getenv(name);
    char text[16];
    if (wish && *wish && atoi(wish) > most)
        FL_FAIL("unset it", "%s is %s in the environment, but the plan counts on %d at most", name, wish, most);
    snprintf(text, sizeof text, "%d", most);
    if (!wish || atoi(wish) < 1)
        setenv(name, text, 1);
}

static ncclComm_t nccl_join(MPI_Comm group)
{
    int rank, size;
    FL_MPI(MPI_Comm_rank(group, &rank));
    FL_MPI(MPI_Comm_size(group, &size));
    ncclUniqueId id;
    if (rank == 0)
        FL_NCCL(ncclGetUniqueId(&id));
    FL_MPI(MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, group));
    ncclComm_t c;
    FL_NCCL(ncclCommInitRank(&c, size, id, rank));
    return c;
}

extern "C" struct fl_comm *fl_comm_new(const char *name, int colour, int key, int size)
{
    MPI_Comm group;
    FL_MPI(MPI_Comm_split(MPI_COMM_WORLD, colour < 0 ? MPI_UNDEFINED : colour, key, &group));
    if (colour < 0)
        return NULL;
    struct fl_comm *c = remember(comms, ncomm);
    FL_MPI(MPI_Comm_rank(group, &c->rank));
    FL_MPI(MPI_Comm_size(group, &c->size));
    if (c->size != size)
        FL_FAIL(NULL, "communicator %s has %d ranks, the plan says %d", name, c->size, size);
    c->nccl = nccl_join(group);
    FL_MPI(MPI_Comm_free(&group));
    c->number = ncomm - 1;
    if (!streams[c->number % nstream])
        streams[c->number % nstream] = fl_stream_new();
    c->stream = streams[c->number % nstream];
    c->track = fl_trace_track(name);
    return c;
}

extern "C" void fl_comm_kind(struct fl_comm *c, int kind) { c->kind = kind; }
extern "C" void fl_link_kind(struct fl_link *l, int kind) { l->kind = kind; }

/* The compute stream waits for an event of another one. */
static void stand(int kind, const struct fl_event *e)
{
    int since = fl_clock_mark(fl_stream());
    fl_wait(fl_stream(), e);
    fl_clock_stood(kind, since);
}

static int begin_transfer(cudaStream_t stream) { return fl_tracing ? fl_clock_mark(stream) : -1; }

/* From here on this communicator's stream is the one that calls are queued on, behind what the compute stream has. */
static void enter(fl_comm *c)
{
    if (posting)
        return;
    c->since = fl_clock_mark(fl_stream());
    fl_record(&c->ready, fl_stream());
    fl_wait(c->stream, &c->ready);
    fl_stream_use(c->stream);
    c->started = begin_transfer(c->stream);
}

static void leave(fl_comm *c)
{
    if (posting)
        return;
    fl_clock_transfer(c->track, c->started, c->stream);
    fl_record(&c->ended, c->stream);
    fl_stream_use(NULL);
    fl_wait(fl_stream(), &c->ended);
    fl_clock_stood(c->kind, c->since);
}

/* Calls that neither pack nor unpack go out together. */
static void group(bool open)
{
    if (!posting || grouped == open)
        return;
    grouped = open;
    if (open)
        FL_NCCL(ncclGroupStart());
    else
        FL_NCCL(ncclGroupEnd());
}

extern "C" void fl_post(fl_comm *c, int number)
{
    (void)number;
    enter(c);
    posting = c;
}

extern "C" void fl_posted(fl_comm *c, int number)
{
    group(false);
    posting = NULL;
    if (number >= nposted) {
        posted = (struct fl_event *)realloc(posted, (size_t)(number + 1) * sizeof *posted);
        if (!posted)
            FL_FAIL("the host is out of memory", "cannot list a collective");
        for (; nposted <= number; nposted++)
            posted[nposted] = {};
    }
    fl_clock_transfer(c->track, c->started, c->stream);
    fl_record(&posted[number], c->stream);
    fl_stream_use(NULL);
}

extern "C" void fl_await(fl_comm *c, int number)
{
    if (number < nposted)
        stand(c->kind, &posted[number]);
}

extern "C" void fl_comms_start(int count)
{
    at_most("NCCL_MAX_CTAS", 16);                    /* COMM_BLOCKS, LINK_BLOCKS */
    at_most("NCCL_MAX_P2P_NCHANNELS", 4);
    nstream = count < 1 ? 1 : count < STREAMS ? count : STREAMS;
}

extern "C" void fl_links_start(void) {}

extern "C" struct fl_link *fl_link_new(const struct fl_link_spec *spec, int peer, int tag, bool sends)
{
    struct fl_link *l = remember(links, nlink);
    l->sends = sends;
    l->slots = sends ? spec->slots_sent : spec->slots_received;
    l->filled = (struct fl_event *)fl_alloc(l->slots * (int64_t)sizeof *l->filled);
    l->emptied = (struct fl_event *)fl_alloc(l->slots * (int64_t)sizeof *l->emptied);
    l->slot_bytes = (spec->bytes + 255) / 256 * 256;
    FL_CUDA(cudaMalloc((void **)&l->buffer, (size_t)(l->slot_bytes * l->slots)));
    l->stream = fl_stream_new();
    l->track = fl_trace_track(fl_printf("%s stage %d: %s", sends ? "to" : "from", sends ? spec->to : spec->from, spec->name));
    ncclUniqueId id;
    if (sends) {
        FL_NCCL(ncclGetUniqueId(&id));
        FL_MPI(MPI_Send(&id, (int)sizeof id, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
    } else {
        FL_MPI(MPI_Recv(&id, (int)sizeof id, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    FL_NCCL(ncclCommInitRank(&l->nccl, 2, id, sends ? 0 : 1));
    return l;
}

extern "C" void fl_send(fl_link *l, const void *src, int64_t bytes)
{
    int slot = l->next;
    char *buffer = l->buffer + slot * l->slot_bytes;
    l->next = (slot + 1) % l->slots;
    stand(l->kind, &l->emptied[slot]);
    FL_CUDA(cudaMemcpyAsync(buffer, src, (size_t)bytes, cudaMemcpyDeviceToDevice, fl_stream()));
    fl_record(&l->filled[slot], fl_stream());
    fl_wait(l->stream, &l->filled[slot]);
    int started = begin_transfer(l->stream);
    FL_NCCL(ncclSend(buffer, (size_t)bytes, ncclChar, 1, l->nccl, l->stream));
    fl_clock_transfer(l->track, started, l->stream);
    fl_record(&l->emptied[slot], l->stream);
}

extern "C" void fl_recv(fl_link *l, void *dst, int64_t bytes)
{
    int slot = l->next;
    char *buffer = l->buffer + slot * l->slot_bytes;
    l->next = (slot + 1) % l->slots;
    fl_wait(l->stream, &l->emptied[slot]);
    int started = begin_transfer(l->stream);
    FL_NCCL(ncclRecv(buffer, (size_t)bytes, ncclChar, 0, l->nccl, l->stream));
    fl_clock_transfer(l->track, started, l->stream);
    fl_record(&l->filled[slot], l->stream);
    stand(l->kind, &l->filled[slot]);
    FL_CUDA(cudaMemcpyAsync(dst, buffer, (size_t)bytes, cudaMemcpyDeviceToDevice, fl_stream()));
    fl_record(&l->emptied[slot], fl_stream());
}

extern "C" void fl_poll(void) {}

/* Each communicator packs in room of its own: others may be under way. */
static void *room(const fl_comm *c, int which, size_t bytes)
{
    return fl_workspace(3 + 2 * c->number + which, bytes);
}

extern "C" void fl_comm_room(fl_comm *c, const struct fl_room *plan)
{
    if (plan->first)
        room(c, 0, (size_t)plan->first);
    if (plan->second)
        room(c, 1, (size_t)plan->second);
}

static ncclRedOp_t reduction(enum fl_reduce kind)
{
    return kind == FL_SUM ? ncclSum : kind == FL_MAX ? ncclMax : ncclMin;
}

static int64_t part_first(int64_t n, int part, int parts)
{
    int64_t more = n % parts;
    return part * (n / parts) + (part < more ? part : more);
}

extern "C" int fl_comm_rank(const fl_comm *c) { return c ? c->rank : 0; }
extern "C" int fl_comm_size(const fl_comm *c) { return c ? c->size : 1; }

static void reduce_all(fl_comm *c, void *x, int64_t n, ncclDataType_t type, enum fl_reduce kind)
{
    if (!c || c->size == 1 || n <= 0)
        return;
    enter(c);
    group(true);
    FL_NCCL(ncclAllReduce(x, x, (size_t)n, type, reduction(kind), c->nccl, fl_stream()));
    leave(c);
}

extern "C" void fl_all_reduce(fl_comm *c, float *x, int64_t n, enum fl_reduce kind)
{
    reduce_all(c, x, n, ncclFloat, kind);
}

extern "C" void fl_all_reduce_i32(fl_comm *c, int32_t *x, int64_t n, enum fl_reduce kind)
{
    reduce_all(c, x, n, ncclInt32, kind);
}

extern "C" void fl_all_reduce_bf16(fl_comm *c, fl_bf16 *x, int64_t n, enum fl_reduce kind)
{
    reduce_all(c, x, n, ncclBfloat16, kind);
}

extern "C" void fl_all_reduce_f16(fl_comm *c, fl_f16 *x, int64_t n, enum fl_reduce kind)
{
    reduce_all(c, x, n, ncclHalf, kind);
}

extern "C" void fl_all_gather(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t n, int64_t inner, int bytes)
{
    int k = fl_comm_size(c), me = fl_comm_rank(c);
    if (k == 1) {
        fl_copy(dst, src, outer * n * inner, bytes);
        return;
    }
    int64_t most = (n + k - 1) / k, piece = outer * most * inner * bytes;
    enter(c);
    if (outer == 1 && n % k == 0) {
        FL_NCCL(ncclAllGather(src, dst, (size_t)piece, ncclChar, c->nccl, fl_stream()));
        leave(c);
        return;
    }
    char *all = (char *)room(c, 0, (size_t)(piece * (k + 1))), *mine = all + piece * k;
    int64_t own = part_first(n, me + 1, k) - part_first(n, me, k);
    fl_put(mine, src, outer, most, 0, own, inner, bytes);
    FL_NCCL(ncclAllGather(mine, all, (size_t)piece, ncclChar, c->nccl, fl_stream()));
    for (int r = 0; r < k; r++) {
        int64_t at = part_first(n, r, k), rows = part_first(n, r + 1, k) - at;
        char *rows_of_r = (char *)room(c, 1, (size_t)piece);
        fl_take(rows_of_r, all + r * piece, outer, most, 0, rows, inner, bytes);
        fl_put(dst, rows_of_r, outer, n, at, rows, inner, bytes);
    }
    leave(c);
}

static size_t bytes_of(ncclDataType_t type) { return type == ncclFloat ? 4 : 2; }

static void scatter(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t n, int64_t inner, ncclDataType_t type,
                    enum fl_reduce kind)
{
    int k = fl_comm_size(c), me = fl_comm_rank(c), bytes = (int)bytes_of(type);
    if (k == 1) {
        fl_copy(dst, src, outer * n * inner, bytes);
        return;
    }
    int64_t most = (n + k - 1) / k, piece = outer * most * inner;
    bool whole = outer == 1 && n % k == 0;
    enter(c);
    group(whole);
    if (whole) {
        FL_NCCL(ncclReduceScatter(src, dst, (size_t)piece, type, reduction(kind), c->nccl, fl_stream()));
        leave(c);
        return;
    }
    char *all = (char *)room(c, 0, (size_t)(piece * (k + 1) * bytes)), *mine = all + piece * k * bytes;
    fl_fill_bytes(all, 0, piece * k * bytes);
    for (int r = 0; r < k; r++) {
        int64_t at = part_first(n, r, k), rows = part_first(n, r + 1, k) - at;
        void *rows_of_r = room(c, 1, (size_t)(piece * bytes));
        fl_take(rows_of_r, src, outer, n, at, rows, inner, bytes);
        fl_put(all + r * piece * bytes, rows_of_r, outer, most, 0, rows, inner, bytes);
    }
    FL_NCCL(ncclReduceScatter(all, mine, (size_t)piece, type, reduction(kind), c->nccl, fl_stream()));
    fl_take(dst, mine, outer, most, 0, part_first(n, me + 1, k) - part_first(n, me, k), inner, bytes);
    leave(c);
}

extern "C" void fl_reduce_scatter(fl_comm *c, float *dst, const float *src, int64_t outer, int64_t n, int64_t inner,
                                  enum fl_reduce kind)
{
    scatter(c, dst, src, outer, n, inner, ncclFloat, kind);
}

extern "C" void fl_reduce_scatter_bf16(fl_comm *c, fl_bf16 *dst, const fl_bf16 *src, int64_t outer, int64_t n, int64_t inner,
                                       enum fl_reduce kind)
{
    scatter(c, dst, src, outer, n, inner, ncclBfloat16, kind);
}

extern "C" void fl_reduce_scatter_f16(fl_comm *c, fl_f16 *dst, const fl_f16 *src, int64_t outer, int64_t n, int64_t inner,
                                      enum fl_reduce kind)
{
    scatter(c, dst, src, outer, n, inner, ncclHalf, kind);
}

static void gather_shares(fl_comm *c, void *whole, const void *mine, int64_t share, ncclDataType_t type)
{
    int bytes = (int)bytes_of(type);
    char *place = (char *)whole + fl_comm_rank(c) * share * bytes;
    if (fl_comm_size(c) > 1) {
        enter(c);
        group(true);
        FL_NCCL(ncclAllGather(mine, whole, (size_t)share, type, c->nccl, fl_stream()));
        leave(c);
    } else if (place != mine) {
        fl_copy(place, mine, share, bytes);
    }
}

/* NCCL reads a whole share for every rank: a piece that ends earlier is copied, zeros behind it. */
static void scatter_shares(fl_comm *c, void *mine, const void *whole, int64_t n, int64_t share, ncclDataType_t type,
                           enum fl_reduce kind)
{
    int k = fl_comm_size(c), bytes = (int)bytes_of(type);
    if (k == 1) {
        fl_copy(mine, whole, n, bytes);
        return;
    }
    enter(c);
    group(n == k * share);
    if (n < k * share) {
        char *all = (char *)room(c, 0, (size_t)(k * share * bytes));
        fl_copy(all, whole, n, bytes);
        fl_fill_bytes(all + n * bytes, 0, (k * share - n) * bytes);
        whole = all;
    }
    FL_NCCL(ncclReduceScatter(whole, mine, (size_t)share, type, reduction(kind), c->nccl, fl_stream()));
    leave(c);
}

extern "C" void fl_gather_shares(fl_comm *c, float *whole, const float *mine, int64_t share)
{
    gather_shares(c, whole, mine, share, ncclFloat);
}

extern "C" void fl_gather_shares_bf16(fl_comm *c, fl_bf16 *whole, const fl_bf16 *mine, int64_t share)
{
    gather_shares(c, whole, mine, share, ncclBfloat16);
}

extern "C" void fl_gather_shares_f16(fl_comm *c, fl_f16 *whole, const fl_f16 *mine, int64_t share)
{
    gather_shares(c, whole, mine, share, ncclHalf);
}

/* One target has one gather under way at most. */
static struct fl_event *gather_ended(const void *whole)
{
    int i = 0;
    while (i < ngather && gathers[i].whole != whole)
        i++;
    if (i == ngather) {
        gathers = (decltype(gathers))realloc(gathers, (size_t)++ngather * sizeof *gathers);
        if (!gathers)
            FL_FAIL("the host is out of memory", "cannot list a gather");
        gathers[i] = {whole, {}};
    }
    return &gathers[i].ended;
}

extern "C" void fl_gather_start(fl_comm *c, void *whole, const void *mine, int64_t share, int element_bytes)
{
    if (fl_comm_size(c) == 1) {
        fl_copy(whole, mine, share, element_bytes);
        return;
    }
    enter(c);
    FL_NCCL(ncclAllGather(mine, whole, (size_t)(share * element_bytes), ncclChar, c->nccl, fl_stream()));
    fl_clock_transfer(c->track, c->started, c->stream);
    fl_record(gather_ended(whole), c->stream);
    fl_stream_use(NULL);
}

extern "C" void fl_gather_wait(fl_comm *c, const void *whole)
{
    if (fl_comm_size(c) > 1)
        stand(c->kind, gather_ended(whole));
}

extern "C" void fl_scatter_shares(fl_comm *c, float *mine, const float *whole, int64_t n, int64_t share, enum fl_reduce kind)
{
    scatter_shares(c, mine, whole, n, share, ncclFloat, kind);
}

extern "C" void fl_scatter_shares_bf16(fl_comm *c, fl_bf16 *mine, const fl_bf16 *whole, int64_t n, int64_t share,
                                       enum fl_reduce kind)
{
    scatter_shares(c, mine, whole, n, share, ncclBfloat16, kind);
}

extern "C" void fl_scatter_shares_f16(fl_comm *c, fl_f16 *mine, const fl_f16 *whole, int64_t n, int64_t share,
                                      enum fl_reduce kind)
{
    scatter_shares(c, mine, whole, n, share, ncclHalf, kind);
}

/* The part for rank r is cut from src along the dim that becomes split; the part from rank r goes into dst along the
 * dim that becomes whole. Dims seen as outer x a x middle x b x inner. */
extern "C" void fl_all_to_all(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t a, int64_t middle, int64_t b,
                              int64_t inner, bool split_a, int bytes)
{
    int k = fl_comm_size(c), me = fl_comm_rank(c);
    int64_t na = part_first(a, me + 1, k) - part_first(a, me, k), nb = part_first(b, me + 1, k) - part_first(b, me, k);
    int64_t most = outer * ((a + k - 1) / k) * middle * ((b + k - 1) / k) * inner * bytes;
    enter(c);
    char *out = (char *)room(c, 0, (size_t)(2 * most * k)), *in = out + most * k;
    for (int r = 0; r < k; r++) {
        int64_t at = split_a ? part_first(a, r, k) : part_first(b, r, k);
        int64_t rows = (split_a ? part_first(a, r + 1, k) : part_first(b, r + 1, k)) - at;
        if (split_a)
            fl_take(out + r * most, src, outer, a, at, rows, middle * nb * inner, bytes);
        else
            fl_take(out + r * most, src, outer * na * middle, b, at, rows, inner, bytes);
    }
    FL_NCCL(ncclGroupStart());
    for (int r = 0; r < k; r++) {
        FL_NCCL(ncclSend(out + r * most, (size_t)most, ncclChar, r, c->nccl, fl_stream()));
        FL_NCCL(ncclRecv(in + r * most, (size_t)most, ncclChar, r, c->nccl, fl_stream()));
    }
    FL_NCCL(ncclGroupEnd());
    for (int r = 0; r < k; r++) {
        int64_t at = split_a ? part_first(b, r, k) : part_first(a, r, k);
        int64_t rows = (split_a ? part_first(b, r + 1, k) : part_first(a, r + 1, k)) - at;
        if (split_a)
            fl_put(dst, in + r * most, outer * na * middle, b, at, rows, inner, bytes);
        else
            fl_put(dst, in + r * most, outer, a, at, rows, middle * nb * inner, bytes);
    }
    leave(c);
}

extern "C" void fl_permute_parts(fl_comm *c, void *dst, const void *src, int64_t n, int bytes, int to, int from)
{
    if (to == fl_comm_rank(c)) {
        fl_copy(dst, src, n, bytes);
        return;
    }
    enter(c);
    FL_NCCL(ncclGroupStart());
    FL_NCCL(ncclSend(src, (size_t)(n * bytes), ncclChar, to, c->nccl, fl_stream()));
    FL_NCCL(ncclRecv(dst, (size_t)(n * bytes), ncclChar, from, c->nccl, fl_stream()));
    FL_NCCL(ncclGroupEnd());
    leave(c);
}

extern "C" void fl_comm_stop(void)
{
    FL_CUDA(cudaDeviceSynchronize());
    fl_step_stop();                      /* graphs hold communicators */
    for (int i = 0; i < nlink; i++) {
        for (int slot = 0; slot < links[i]->slots; slot++) {
            fl_event_free(&links[i]->filled[slot]);
            fl_event_free(&links[i]->emptied[slot]);
        }
        FL_NCCL(ncclCommDestroy(links[i]->nccl));
        fl_stream_free(links[i]->stream);
        FL_CUDA(cudaFree(links[i]->buffer));
        free(links[i]->filled);
        free(links[i]->emptied);
        free(links[i]);
    }
    for (int i = 0; i < ncomm; i++) {
        FL_NCCL(ncclCommDestroy(comms[i]->nccl));
        fl_event_free(&comms[i]->ready);
        fl_event_free(&comms[i]->ended);
        free(comms[i]);
    }
    for (int i = 0; i < STREAMS; i++)
        if (streams[i])
            fl_stream_free(streams[i]);
    for (int i = 0; i < nposted; i++)
        fl_event_free(&posted[i]);
    for (int i = 0; i < ngather; i++)
        fl_event_free(&gathers[i].ended);
    free(posted);
    free(gathers);
    free(links);
    free(comms);
}
