/* The part of NCCL that flow programs use, for a host. */
#ifndef DOUBLE_NCCL_H
#define DOUBLE_NCCL_H
#include <cuda_runtime.h>

enum ncclResult_t { ncclSuccess = 0, ncclInvalidArgument = 4, ncclInvalidUsage = 5 };
enum ncclDataType_t { ncclChar = 0, ncclInt32 = 2, ncclHalf = 6, ncclFloat = 7, ncclBfloat16 = 9 };
enum ncclRedOp_t { ncclSum, ncclProd, ncclMax, ncclMin };
typedef struct twin_nccl *ncclComm_t;
struct ncclUniqueId { char internal[128]; };

const char *ncclGetErrorString(ncclResult_t status);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *src, void *dst, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *dst, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
#endif
