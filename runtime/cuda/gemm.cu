/* Contractions through cuBLAS. Ours are row-major: c = a b there is c' = b' a' column-major, so the operands change
 * places. The innermost batch goes into the strided form, the others are loops on the host. */
#include "../flow_rt.h"
#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>

static void check(cublasStatus_t status, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    fprintf(stderr, "flow: %s:%d: cuBLAS failed: %s (status %d)\n", __FILE__, line, cublasGetStatusString(status), (int)status);
    exit(1);
}

static cublasHandle_t handle(void)
{
    static cublasHandle_t h;
    if (!h) {
        check(cublasCreate(&h), __LINE__);
        check(cublasSetStream(h, fl_stream()), __LINE__);
        check(cublasSetMathMode(h, CUBLAS_PEDANTIC_MATH), __LINE__);
    }
    return h;
}

extern "C" void fl_gemm(float *c, const float *a, const float *b, const struct fl_gemm *g)
{
    if (g->m <= 0 || g->n <= 0)
        return;
    int64_t count[3] = {1, 1, 1}, sa[3] = {0}, sb[3] = {0}, sc[3] = {0};
    for (int i = 0; i < g->nbatch; i++) {
        int to = 3 - g->nbatch + i;
        count[to] = g->batch[i];
        sa[to] = g->sa[i];
        sb[to] = g->sb[i];
        sc[to] = g->sc[i];
    }
    cublasOperation_t opa = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, opb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    for (int64_t i = 0; i < count[0]; i++)
        for (int64_t j = 0; j < count[1]; j++)
            check(cublasSgemmStridedBatched(handle(), opb, opa, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                                            b + i * sb[0] + j * sb[1], (int)g->ldb, sb[2], a + i * sa[0] + j * sa[1], (int)g->lda,
                                            sa[2], &g->beta, c + i * sc[0] + j * sc[1], (int)g->ldc, sc[2], (int)count[2]),
                  __LINE__);
}
