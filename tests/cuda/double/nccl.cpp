/* NCCL over MPI, without buffering: nothing here blocks, so that all streams of a rank go on while one waits for a peer.
 *
 * Members of a collective first compare what they are about to do (number of the call on this communicator, kind, count,
 * type, reduction), then exchange the data; every member reduces all parts in rank order, so results are the same bits
 * everywhere. A send ends when its receive has been posted, and both must agree on count and type. Calls on one
 * communicator run in the order in which the host made them, whatever their streams. */
#include <fl_types.h>
#include "nccl_comm.h"
#include <memory>
#include <nccl.h>
#include <string.h>
#include <string>
#include <vector>

struct call_facts {
    unsigned long number;
    int kind, type, op;
    size_t count;
};
enum call_kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER };

static const char *const kind_name[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter"};
enum { TAG = 20000, TAGS = 8000 };

struct identity { int root, number; };

const char *ncclGetErrorString(ncclResult_t status)
{
    return status == ncclSuccess ? "no error" : "invalid usage";
}

static void mpi(int status, const char *what)
{
    if (status != MPI_SUCCESS)
        twin_fault("%s failed in the double", what);
}

static size_t bytes_of(ncclDataType_t type)
{
    return type == ncclChar ? 1 : type == ncclHalf || type == ncclBfloat16 ? 2 : 4;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int number;
    identity mine = {0, number++};
    mpi(MPI_Comm_rank(MPI_COMM_WORLD, &mine.root), "MPI_Comm_rank");
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &mine, sizeof mine);
    return ncclSuccess;
}

/* Members tell the root of the id who they are; it answers with all of them. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
    identity by;
    memcpy(&by, id.internal, sizeof by);
    int self, tag = TAG + by.number % TAGS;
    mpi(MPI_Comm_rank(MPI_COMM_WORLD, &self), "MPI_Comm_rank");
    std::vector<int> world((size_t)size, -1);
    if (self == by.root) {
        world[(size_t)rank] = self;
        for (int i = 1; i < size; i++) {
            int who[2];
            MPI_Status status;
            mpi(MPI_Recv(who, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status), "MPI_Recv");
            if (who[1] != size || who[0] < 0 || who[0] >= size || world[(size_t)who[0]] >= 0)
                twin_fault("ncclCommInitRank: rank %d of %d joins a communicator of %d, or twice", who[0], who[1], size);
            world[(size_t)who[0]] = status.MPI_SOURCE;
        }
        for (int r : world)
            if (r != self)
                mpi(MPI_Send(world.data(), size, MPI_INT, r, tag, MPI_COMM_WORLD), "MPI_Send");
    } else {
        int who[2] = {rank, size};
        mpi(MPI_Send(who, 2, MPI_INT, by.root, tag, MPI_COMM_WORLD), "MPI_Send");
        mpi(MPI_Recv(world.data(), size, MPI_INT, by.root, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
    }
    MPI_Group all, members;
    twin_nccl *c = new twin_nccl{MPI_COMM_NULL, rank, size, 0, 0, false};
    mpi(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
    mpi(MPI_Group_incl(all, size, world.data(), &members), "MPI_Group_incl");
    mpi(MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &c->mpi), "MPI_Comm_create_group");
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    *comm = c;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm->destroyed)
        twin_fault("ncclCommDestroy: this communicator is destroyed already");
    twin_drain();
    comm->destroyed = true;
    return ncclSuccess;
}

/* Numbers are added as they are, those of 16 bits in f32 and rounded at each step. */
static float wide(float x) { return x; }
static int32_t wide(int32_t x) { return x; }
static float wide(fl_bf16 x) { return fl_from_bf16(x); }
static float wide(fl_f16 x) { return fl_from_f16(x); }
static void put(float *to, float x) { *to = x; }
static void put(int32_t *to, int32_t x) { *to = x; }
static void put(fl_bf16 *to, float x) { *to = fl_to_bf16(x); }
static void put(fl_f16 *to, float x) { *to = fl_to_f16(x); }

template <typename T> static void reduce_into(T *to, const T *from, size_t n, int op)
{
    for (size_t i = 0; i < n; i++) {
        auto a = wide(to[i]), x = wide(from[i]);
        put(&to[i], op == ncclSum ? a + x : op == ncclMax ? (x > a || x != x ? x : a) : (x < a || x != x ? x : a));
    }
}

/* Reduces piece [at, at + n) of all parts, each `whole` elements, into dst. */
static void reduce_parts(void *dst, const std::vector<char> &parts, int size, size_t whole, size_t at, size_t n, int type, int op)
{
    size_t bytes = bytes_of((ncclDataType_t)type);
    memcpy(dst, parts.data() + at * bytes, n * bytes);
    for (size_t r = 1; r < (size_t)size; r++) {
        const char *from = parts.data() + (r * whole + at) * bytes;
        if (type == ncclFloat)
            reduce_into((float *)dst, (const float *)from, n, op);
        else if (type == ncclBfloat16)
            reduce_into((fl_bf16 *)dst, (const fl_bf16 *)from, n, op);
        else if (type == ncclHalf)
            reduce_into((fl_f16 *)dst, (const fl_f16 *)from, n, op);
        else
            reduce_into((int32_t *)dst, (const int32_t *)from, n, op);
    }
}

struct collective {
    ncclComm_t comm;
    call_facts facts;
    const void *src;
    void *dst;
    int stage = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<call_facts> said;
    std::vector<char> parts, mine;
};

static void compare(const collective &c)
{
    const call_facts &me = c.facts;
    for (size_t r = 0; r < c.said.size(); r++) {
        const call_facts &other = c.said[r];
        if (other.number != me.number || other.kind != me.kind || other.type != me.type || other.op != me.op || other.count != me.count)
            twin_fault("members of a communicator disagree in call %lu: here %s of %zu elements (type %d, reduction %d), on its "
                       "rank %zu call %lu, %s of %zu (type %d, reduction %d)", me.number, kind_name[me.kind], me.count, me.type,
                       me.op, r, other.number, kind_name[other.kind], other.count, other.type, other.op);
    }
}

/* One try; true when the collective is complete. */
static bool advance(collective &c)
{
    int done = 0;
    size_t size = (size_t)c.comm->size, count = c.facts.count, bytes = count * bytes_of((ncclDataType_t)c.facts.type);
    if (c.facts.kind == REDUCE_SCATTER)
        bytes *= size;
    if (c.stage == 0) {
        if (c.comm->ended + 1 != c.facts.number)
            return false;
        c.said.resize(size);
        mpi(MPI_Iallgather(&c.facts, sizeof c.facts, MPI_BYTE, c.said.data(), sizeof c.facts, MPI_BYTE, c.comm->mpi, &c.request),
            "MPI_Iallgather");
        c.stage = 1;
    }
    mpi(MPI_Test(&c.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done)
        return false;
    if (c.stage == 1) {
        compare(c);
        c.mine.assign((const char *)c.src, (const char *)c.src + bytes);
        c.parts.resize(bytes * size);
        mpi(MPI_Iallgather(c.mine.data(), (int)bytes, MPI_BYTE, c.parts.data(), (int)bytes, MPI_BYTE, c.comm->mpi, &c.request),
            "MPI_Iallgather");
        c.stage = 2;
        return false;
    }
    if (c.facts.kind == ALL_GATHER)
        memcpy(c.dst, c.parts.data(), c.parts.size());
    else if (c.facts.kind == ALL_REDUCE)
        reduce_parts(c.dst, c.parts, c.comm->size, count, 0, count, c.facts.type, c.facts.op);
    else
        reduce_parts(c.dst, c.parts, c.comm->size, count * size, count * (size_t)c.comm->rank, count, c.facts.type, c.facts.op);
    c.comm->ended++;
    return true;
}

static ncclResult_t start(call_kind kind, const void *src, void *dst, size_t count, ncclDataType_t type, int op, ncclComm_t comm,
                          cudaStream_t stream)
{
    if (!comm || comm->destroyed)
        return ncclInvalidUsage;
    size_t bytes = count * bytes_of(type), all = bytes * (size_t)comm->size;
    twin_check_device(src, kind == REDUCE_SCATTER ? all : bytes, kind_name[kind]);
    twin_check_device(dst, kind == ALL_GATHER ? all : bytes, kind_name[kind]);
    twin_enqueue_made(stream, kind_name[kind], [=] {
        auto c = std::make_shared<collective>();
        c->comm = comm;
        c->facts = {};                   /* its padding is sent too */
        c->facts = {++comm->queued, kind, type, op, count};
        c->src = src;
        c->dst = dst;
        return [c] { return advance(*c); };
    });
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return type == ncclChar ? ncclInvalidArgument : start(ALL_REDUCE, src, dst, count, type, op, comm, stream);
}

ncclResult_t ncclAllGather(const void *src, void *dst, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    return start(ALL_GATHER, src, dst, count, type, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return type == ncclChar ? ncclInvalidArgument : start(REDUCE_SCATTER, src, dst, count, type, op, comm, stream);
}
