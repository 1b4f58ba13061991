/* Sends and receives of the double's NCCL. Those of a group start together; the group ends when all of them have. */
#include "nccl_comm.h"
#include <memory>
#include <nccl.h>
#include <string.h>
#include <vector>

struct message {
    bool sends, done;
    const void *src;
    void *dst;
    size_t bytes;
    int type, peer;
    ncclComm_t comm;
    unsigned long number;
    MPI_Request request;
    std::vector<char> packed;            /* type and data */
};
struct group {
    std::vector<message> list;
    cudaStream_t stream;
    bool started;
};

static std::shared_ptr<group> open_group;
static int depth;

static void check(int status, const char *what)
{
    if (status != MPI_SUCCESS)
        twin_fault("%s failed in the double", what);
}

static void begin(message &m)
{
    if (!m.sends)
        return;
    m.packed.resize(sizeof m.type + m.bytes);
    memcpy(m.packed.data(), &m.type, sizeof m.type);
    memcpy(m.packed.data() + sizeof m.type, m.src, m.bytes);
    check(MPI_Issend(m.packed.data(), (int)m.packed.size(), MPI_BYTE, m.peer, 0, m.comm->mpi, &m.request), "MPI_Issend");
}

static bool try_send(message &m)
{
    int done = 0;
    check(MPI_Test(&m.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done;
}

static bool try_receive(message &m)
{
    int here = 0, bytes = 0, type;
    MPI_Message handle;
    MPI_Status status;
    check(MPI_Improbe(m.peer, 0, m.comm->mpi, &here, &handle, &status), "MPI_Improbe");
    if (!here)
        return false;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    m.packed.resize((size_t)bytes);
    check(MPI_Mrecv(m.packed.data(), bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE), "MPI_Mrecv");
    memcpy(&type, m.packed.data(), sizeof type);
    if ((size_t)bytes != m.bytes + sizeof type || type != m.type)
        twin_fault("ncclRecv of %zu bytes of type %d meets an ncclSend of %zu bytes of type %d (rank %d to rank %d of their "
                   "communicator)", m.bytes, m.type, (size_t)bytes - sizeof type, type, m.peer, m.comm->rank);
    memcpy(m.dst, m.packed.data() + sizeof type, m.bytes);
    return true;
}

static bool advance(group &g)
{
    if (!g.started) {
        for (message &m : g.list)
            if (m.comm->ended + 1 != m.number)
                return false;
        for (message &m : g.list)
            begin(m);
        g.started = true;
    }
    bool all = true;
    for (message &m : g.list) {
        m.done = m.done || (m.sends ? try_send(m) : try_receive(m));
        all &= m.done;
    }
    if (!all)
        return false;
    ncclComm_t last = NULL;
    for (message &m : g.list)
        if (m.comm != last) {
            m.comm->ended++;
            last = m.comm;
        }
    return true;
}

static void close_group(void)
{
    auto queued = open_group;
    open_group = NULL;
    if (queued->list.empty())
        return;
    twin_enqueue_made(queued->stream, queued->list[0].sends ? "ncclSend" : "ncclRecv", [queued] {
        auto g = std::make_shared<group>(*queued);
        ncclComm_t last = NULL;
        for (message &m : g->list) {     /* a group is one call on each communicator */
            if (m.comm != last)
                m.comm->queued++;
            last = m.comm;
            m.number = m.comm->queued;
        }
        return [g] { return advance(*g); };
    });
}

static ncclResult_t add(bool sends, const void *src, void *dst, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                        cudaStream_t stream)
{
    if (!comm || comm->destroyed || peer < 0 || peer >= comm->size)
        return ncclInvalidUsage;
    size_t bytes = count * (type == ncclChar ? 1 : 4);
    twin_check_device(sends ? src : dst, bytes, sends ? "ncclSend" : "ncclRecv");
    if (!open_group)
        open_group = std::make_shared<group>(group{{}, stream, false});
    if (open_group->stream != stream)
        twin_fault("one group of sends and receives on two streams");
    open_group->list.push_back({sends, false, src, dst, bytes, type, peer, comm, 0, MPI_REQUEST_NULL, {}});
    if (!depth)
        close_group();
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth == 0 && open_group)
        close_group();
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return add(true, src, NULL, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *dst, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return add(false, NULL, dst, count, type, peer, comm, stream);
}
