/* Matrix products as plain loops, with cuBLAS's checks of arguments: column-major, c = alpha op(a) op(b) + beta c. */
#include "twin.h"
#include <cublas_v2.h>
#include <vector>

struct twin_cublas {
    cudaStream_t stream;
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
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

/* op(x) as a dense column-major matrix of rows x columns. */
static void gather(std::vector<float> &to, const float *x, bool transposed, long long ld, int rows, int columns)
{
    to.resize((size_t)rows * (size_t)columns);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++)
            to[(size_t)j * (size_t)rows + (size_t)i] = transposed ? x[i * ld + j] : x[j * ld + i];
}

static void multiply(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, long long lda, const float *b, long long ldb,
                     float beta, float *c, long long ldc)
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
            c[j * ldc + i] = alpha * column[(size_t)i] + (beta != 0 ? beta * c[j * ldc + i] : 0.0f);
    }
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                         const float *alpha, const float *a, int lda, long long stride_a, const float *b, int ldb,
                                         long long stride_b, const float *beta, float *c, int ldc, long long stride_c, int batch)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    int rows_a = ta == CUBLAS_OP_N ? m : k, rows_b = tb == CUBLAS_OP_N ? k : n;
    if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < (rows_a > 1 ? rows_a : 1) || ldb < (rows_b > 1 ? rows_b : 1) ||
        ldc < (m > 1 ? m : 1))
        return CUBLAS_STATUS_INVALID_VALUE;
    float by = *alpha, keep = *beta;
    twin_enqueue(handle->stream, "cublasSgemmStridedBatched", [=] {
        for (int i = 0; i < batch; i++)
            multiply(ta == CUBLAS_OP_T, tb == CUBLAS_OP_T, m, n, k, by, a + i * stride_a, lda, b + i * stride_b, ldb, keep,
                     c + i * stride_c, ldc);
        return true;
    });
    return CUBLAS_STATUS_SUCCESS;
}
