/* What the calls of cuBLAS and cuBLASLt share (gemm.cu). Ours are row-major: c = a b there is c' = b' a' column-major, so the
 * operands change places. */
#ifndef FLOW_BLAS_H
#define FLOW_BLAS_H
#include "../check.h"
#include "../flow_rt.h"
#include <cublas_v2.h>

/* One for all products, which are all on one stream: its size decides what cuBLAS chooses, so the choice is always the same, and
 * a captured product needs no other memory when it is replayed. */
constexpr size_t FL_BLAS_WORKSPACE = 32 << 20;
void *fl_blas_workspace(void);

#define FL_BLAS(call) fl_blas_check((call), __FILE__, __LINE__)
void fl_blas_check(cublasStatus_t status, const char *file, int line);

static inline cudaDataType_t fl_data_type(enum fl_type t)
{
    return t == FL_BF16 ? CUDA_R_16BF : t == FL_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* cuBLAS wants a leading dimension that covers the row, also of a matrix that has none on this rank. */
static inline int64_t fl_leading(int64_t ld, int64_t columns)
{
    int64_t least = columns > 1 ? columns : 1;
    return ld > least ? ld : least;
}
#endif
