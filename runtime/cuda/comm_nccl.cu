/* Collectives and links over NCCL. Collectives run on the compute stream, in program order. Each link has its own
 * two-rank communicator and stream, so that a send never waits for an unrelated receive; events tie it to the compute
 * stream. Parts along an inner dim, and uneven parts, are packed into equal pieces in workspace and unpacked after. */
#include "../check.h"
#include "../target.h"
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

struct fl_comm {
    ncclComm_t nccl;
    int rank, size;
};
struct fl_link {
    ncclComm_t nccl;
    cudaStream_t stream;
    bool sends;
    int slots, next;
    int64_t slot_bytes;
    char *buffer;
    struct fl_event *filled, *emptied;   /* one per slot */
};

static double seconds;
static struct fl_comm **comms;
static struct fl_link **links;
static int ncomm, nlink;

template <typename T> static T *remember(T **&list, int &count)
{
    list = (T **)realloc(list, (size_t)(count + 1) * sizeof *list);
    if (!list)
        FL_FAIL("the host is out of memory", "cannot list a communicator");
    return list[count++] = (T *)fl_alloc(sizeof(T));
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
    (void)name;
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
    return c;
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
    fl_wait(fl_stream(), &l->emptied[slot]);
    FL_CUDA(cudaMemcpyAsync(buffer, src, (size_t)bytes, cudaMemcpyDeviceToDevice, fl_stream()));
    fl_record(&l->filled[slot], fl_stream());
    fl_wait(l->stream, &l->filled[slot]);
    FL_NCCL(ncclSend(buffer, (size_t)bytes, ncclChar, 1, l->nccl, l->stream));
    fl_record(&l->emptied[slot], l->stream);
}

extern "C" void fl_recv(fl_link *l, void *dst, int64_t bytes)
{
    int slot = l->next;
    char *buffer = l->buffer + slot * l->slot_bytes;
    l->next = (slot + 1) % l->slots;
    fl_wait(l->stream, &l->emptied[slot]);
    FL_NCCL(ncclRecv(buffer, (size_t)bytes, ncclChar, 0, l->nccl, l->stream));
    fl_record(&l->filled[slot], l->stream);
    fl_wait(fl_stream(), &l->filled[slot]);
    FL_CUDA(cudaMemcpyAsync(dst, buffer, (size_t)bytes, cudaMemcpyDeviceToDevice, fl_stream()));
    fl_record(&l->emptied[slot], fl_stream());
}

extern "C" void fl_poll(void) {}

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
extern "C" double fl_comm_seconds(void) { return seconds; }

extern "C" void fl_all_reduce(fl_comm *c, float *x, int64_t n, enum fl_reduce kind)
{
    if (c && c->size > 1 && n > 0)
        FL_NCCL(ncclAllReduce(x, x, (size_t)n, ncclFloat, reduction(kind), c->nccl, fl_stream()));
}

extern "C" void fl_all_reduce_i32(fl_comm *c, int32_t *x, int64_t n, enum fl_reduce kind)
{
    if (c && c->size > 1 && n > 0)
        FL_NCCL(ncclAllReduce(x, x, (size_t)n, ncclInt32, reduction(kind), c->nccl, fl_stream()));
}

extern "C" void fl_all_reduce_bf16(fl_comm *c, fl_bf16 *x, int64_t n, enum fl_reduce kind)
{
    if (c && c->size > 1 && n > 0)
        FL_NCCL(ncclAllReduce(x, x, (size_t)n, ncclBfloat16, reduction(kind), c->nccl, fl_stream()));
}

extern "C" void fl_all_reduce_f16(fl_comm *c, fl_f16 *x, int64_t n, enum fl_reduce kind)
{
    if (c && c->size > 1 && n > 0)
        FL_NCCL(ncclAllReduce(x, x, (size_t)n, ncclHalf, reduction(kind), c->nccl, fl_stream()));
}

extern "C" void fl_all_gather(fl_comm *c, void *dst, const void *src, int64_t outer, int64_t n, int64_t inner, int bytes)
{
    int k = fl_comm_size(c), me = fl_comm_rank(c);
    if (k == 1) {
        fl_copy(dst, src, outer * n * inner, bytes);
        return;
    }
    int64_t most = (n + k - 1) / k, piece = outer * most * inner * bytes;
    if (outer == 1 && n % k == 0) {
        FL_NCCL(ncclAllGather(src, dst, (size_t)piece, ncclChar, c->nccl, fl_stream()));
        return;
    }
    char *all = (char *)fl_workspace(2, (size_t)(piece * (k + 1))), *mine = all + piece * k;
    int64_t own = part_first(n, me + 1, k) - part_first(n, me, k);
    fl_put(mine, src, outer, most, 0, own, inner, bytes);
    FL_NCCL(ncclAllGather(mine, all, (size_t)piece, ncclChar, c->nccl, fl_stream()));
    for (int r = 0; r < k; r++) {
        int64_t at = part_first(n, r, k), rows = part_first(n, r + 1, k) - at;
        char *rows_of_r = (char *)fl_workspace(3, (size_t)piece);
        fl_take(rows_of_r, all + r * piece, outer, most, 0, rows, inner, bytes);
        fl_put(dst, rows_of_r, outer, n, at, rows, inner, bytes);
    }
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
    if (outer == 1 && n % k == 0) {
        FL_NCCL(ncclReduceScatter(src, dst, (size_t)piece, type, reduction(kind), c->nccl, fl_stream()));
        return;
    }
    char *all = (char *)fl_workspace(2, (size_t)(piece * (k + 1) * bytes)), *mine = all + piece * k * bytes;
    fl_fill_bytes(all, 0, piece * k * bytes);
    for (int r = 0; r < k; r++) {
        int64_t at = part_first(n, r, k), rows = part_first(n, r + 1, k) - at;
        void *rows_of_r = fl_workspace(3, (size_t)(piece * bytes));
        fl_take(rows_of_r, src, outer, n, at, rows, inner, bytes);
        fl_put(all + r * piece * bytes, rows_of_r, outer, most, 0, rows, inner, bytes);
    }
    FL_NCCL(ncclReduceScatter(all, mine, (size_t)piece, type, reduction(kind), c->nccl, fl_stream()));
    fl_take(dst, mine, outer, most, 0, part_first(n, me + 1, k) - part_first(n, me, k), inner, bytes);
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
    if (fl_comm_size(c) > 1)
        FL_NCCL(ncclAllGather(mine, whole, (size_t)share, type, c->nccl, fl_stream()));
    else if (place != mine)
        fl_copy(place, mine, share, bytes);
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
    if (n < k * share) {
        char *all = (char *)fl_workspace(2, (size_t)(k * share * bytes));
        fl_copy(all, whole, n, bytes);
        fl_fill_bytes(all + n * bytes, 0, (k * share - n) * bytes);
        whole = all;
    }
    FL_NCCL(ncclReduceScatter(whole, mine, (size_t)share, type, reduction(kind), c->nccl, fl_stream()));
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

/* In the order of the one stream: nothing is left to wait for. */
extern "C" void fl_gather_start(fl_comm *c, void *whole, const void *mine, int64_t share, int element_bytes)
{
    if (fl_comm_size(c) > 1)
        FL_NCCL(ncclAllGather(mine, whole, (size_t)(share * element_bytes), ncclChar, c->nccl, fl_stream()));
    else
        fl_copy(whole, mine, share, element_bytes);
}

extern "C" void fl_gather_wait(fl_comm *c, const void *whole)
{
    (void)c, (void)whole;
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
    char *out = (char *)fl_workspace(2, (size_t)(2 * most * k)), *in = out + most * k;
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
        free(comms[i]);
    }
    free(links);
    free(comms);
}
