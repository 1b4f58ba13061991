/* Matrix products as plain loops, with cuBLAS's checks of arguments: column-major, c = alpha op(a) op(b) + beta c. */
#include "twin.h"
#include <cublas_v2.h>
#include <fl_types.h>
#include <vector>

struct twin_cublas {
    cudaStream_t stream;
    void *workspace;                     /* the program's; NULL: cuBLAS would take memory itself, also while captured */
};

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an argument is out of range";
}

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    *handle = new twin_cublas{};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->workspace = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
    twin_check_device(workspace, bytes, "cublasSetWorkspace");
    handle->workspace = workspace;
    return (uintptr_t)workspace % 256 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

static float wide(float x) { return x; }
static float wide(fl_bf16 x) { return fl_from_bf16(x); }
static float wide(fl_f16 x) { return fl_from_f16(x); }
static void put(float *to, float x) { *to = x; }
static void put(fl_bf16 *to, float x) { *to = fl_to_bf16(x); }
static void put(fl_f16 *to, float x) { *to = fl_to_f16(x); }

/* op(x) as a dense column-major matrix of rows x columns. */
template <typename T>
static void gather(std::vector<float> &to, const T *x, bool transposed, long long ld, int rows, int columns)
{
    to.resize((size_t)rows * (size_t)columns);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++)
            to[(size_t)j * (size_t)rows + (size_t)i] = wide(transposed ? x[i * ld + j] : x[j * ld + i]);
}

template <typename T, typename C>
static void multiply(bool ta, bool tb, int m, int n, int k, float alpha, const T *a, long long lda, const T *b, long long ldb,
                     float beta, C *c, long long ldc)
{
    static std::vector<float> left, right, column;
    gather(left, a, ta, lda, m, k);
    gather(right, b, tb, ldb, k, n);
    for (int j = 0; j < n; j++) {
        column.assign((size_t)m, 0.0f);
        for (int l = 0; l < k; l++) {
            const float factor = right[(size_t)j * (size_t)k + (size_t)l], *from = left.data() + (size_t)l * (size_t)m;
            for (int i = 0; i < m; i++)
                column[(size_t)i] += factor * from[i];
        }
        for (int i = 0; i < m; i++)
            put(&c[j * ldc + i], alpha * column[(size_t)i] + (beta != 0 ? beta * wide(c[j * ldc + i]) : 0.0f));
    }
}

static cublasStatus_t checked(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, int lda,
                              int ldb, int ldc, int batch)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    int rows_a = ta == CUBLAS_OP_N ? m : k, rows_b = tb == CUBLAS_OP_N ? k : n;
    bool bad = m < 0 || n < 0 || k < 0 || batch < 0 || lda < (rows_a > 1 ? rows_a : 1) || ldb < (rows_b > 1 ? rows_b : 1) ||
               ldc < (m > 1 ? m : 1);
    return bad ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename C>
static void enqueue(cublasHandle_t handle, const char *name, bool ta, bool tb, int m, int n, int k, float by, const T *a, int lda,
                    long long stride_a, const T *b, int ldb, long long stride_b, float keep, C *c, int ldc, long long stride_c,
                    int batch)
{
    if (!handle->workspace)
        twin_fault("%s: the handle has no workspace since its stream was set", name);
    twin_enqueue(handle->stream, name, [=] {
        for (int i = 0; i < batch; i++)
            multiply(ta, tb, m, n, k, by, a + i * stride_a, lda, b + i * stride_b, ldb, keep, c + i * stride_c, ldc);
        return true;
    });
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                         const float *alpha, const float *a, int lda, long long stride_a, const float *b, int ldb,
                                         long long stride_b, const float *beta, float *c, int ldc, long long stride_c, int batch)
{
    cublasStatus_t status = checked(handle, ta, tb, m, n, k, lda, ldb, ldc, batch);
    if (status == CUBLAS_STATUS_SUCCESS)
        enqueue(handle, "cublasSgemmStridedBatched", ta == CUBLAS_OP_T, tb == CUBLAS_OP_T, m, n, k, *alpha, a, lda, stride_a, b,
                ldb, stride_b, *beta, c, ldc, stride_c, batch);
    return status;
}

/* Of the many pairs of types those that flow programs use: both operands of 16 bits, the result of that type or f32. */
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType_t type_a, int lda, long long stride_a,
                                          const void *b, cudaDataType_t type_b, int ldb, long long stride_b, const void *beta,
                                          void *c, cudaDataType_t type_c, int ldc, long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t)
{
    cublasStatus_t status = checked(handle, ta, tb, m, n, k, lda, ldb, ldc, batch);
    bool known = type_a == type_b && type_a != CUDA_R_32F && (type_c == type_a || type_c == CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS && (!known || compute != CUBLAS_COMPUTE_32F))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    auto with = [&](auto *pa, auto *pc) {
        enqueue(handle, "cublasGemmStridedBatchedEx", ta == CUBLAS_OP_T, tb == CUBLAS_OP_T, m, n, k, *(const float *)alpha, pa, lda,
                stride_a, (decltype(pa))b, ldb, stride_b, *(const float *)beta, pc, ldc, stride_c, batch);
    };
    auto of = [&](auto *pa, auto *pc) {
        if (type_c == CUDA_R_32F)
            with(pa, (float *)c);
        else
            with(pa, pc);
    };
    if (type_a == CUDA_R_16BF)
        of((const fl_bf16 *)a, (fl_bf16 *)c);
    else
        of((const fl_f16 *)a, (fl_f16 *)c);
    return status;
}

/* The addresses lie in device memory and are read when the call runs. */
template <typename T, typename C>
static cublasStatus_t enqueue_pointers(cublasHandle_t handle, const char *name, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                       int k, float by, const T *const *a, int lda, const T *const *b, int ldb, float keep, C *const *c,
                                       int ldc, int batch)
{
    cublasStatus_t status = checked(handle, ta, tb, m, n, k, lda, ldb, ldc, batch);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!handle->workspace)
        twin_fault("%s: the handle has no workspace since its stream was set", name);
    for (const void *list : {(const void *)a, (const void *)b, (const void *)c})
        twin_check_device(list, (size_t)batch * sizeof(void *), name);
    twin_enqueue(handle->stream, name, [=] {
        for (int i = 0; i < batch; i++)
            multiply(ta == CUBLAS_OP_T, tb == CUBLAS_OP_T, m, n, k, by, a[i], lda, b[i], ldb, keep, c[i], ldc);
        return true;
    });
    return status;
}

cublasStatus_t cublasSgemmBatched(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                  const float *alpha, const float *const a[], int lda, const float *const b[], int ldb,
                                  const float *beta, float *const c[], int ldc, int batch)
{
    return enqueue_pointers(handle, "cublasSgemmBatched", ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc, batch);
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                   const void *alpha, const void *const a[], cudaDataType_t type_a, int lda, const void *const b[],
                                   cudaDataType_t type_b, int ldb, const void *beta, void *const c[], cudaDataType_t type_c, int ldc,
                                   int batch, cublasComputeType_t compute, cublasGemmAlgo_t)
{
    if (type_a != type_b || type_a == CUDA_R_32F || (type_c != type_a && type_c != CUDA_R_32F) || compute != CUBLAS_COMPUTE_32F)
        return CUBLAS_STATUS_INVALID_VALUE;
    auto with = [&](auto *element, auto *result) {
        typedef decltype(element) pointer;
        return enqueue_pointers(handle, "cublasGemmBatchedEx", ta, tb, m, n, k, *(const float *)alpha, (const pointer *)a, lda,
                                (const pointer *)b, ldb, *(const float *)beta, (decltype(result) const *)c, ldc, batch);
    };
    if (type_a == CUDA_R_16BF)
        return type_c == CUDA_R_32F ? with((const fl_bf16 *)NULL, (float *)NULL) : with((const fl_bf16 *)NULL, (fl_bf16 *)NULL);
    return type_c == CUDA_R_32F ? with((const fl_f16 *)NULL, (float *)NULL) : with((const fl_f16 *)NULL, (fl_f16 *)NULL);
}
