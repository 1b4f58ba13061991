/* Contractions through cuBLAS. Ours are row-major: c = a b there is c' = b' a' column-major, so the operands change
 * places. The innermost batch goes into the strided form, the others are loops on the host. */
#include "../check.h"
#include "../flow_rt.h"
#include <cublas_v2.h>

static void check(cublasStatus_t status, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    fl_fail(__FILE__, line, "an allocation that failed leaves cuBLAS no workspace: is the GPU's memory taken by others?",
            "cuBLAS failed: %s (status %d)", cublasGetStatusString(status), (int)status);
}

/* One for all products, which are all on one stream: its size decides what cuBLAS chooses, so the choice is always the same, and
 * a captured product needs no other memory when it is replayed. */
constexpr size_t WORKSPACE = 32 << 20;
static void *workspace(void)
{
    static void *p;
    if (!p)
        FL_CUDA(cudaMalloc(&p, WORKSPACE));
    return p;
}

static cublasHandle_t made(cublasMath_t mode)
{
    cublasHandle_t h;
    check(cublasCreate(&h), __LINE__);
    check(cublasSetStream(h, fl_stream()), __LINE__);
    check(cublasSetMathMode(h, mode), __LINE__);
    check(cublasSetWorkspace(h, workspace(), WORKSPACE), __LINE__);      /* after the stream, which takes it away */
    return h;
}

static cublasHandle_t handle(void)
{
    static cublasHandle_t h = made(CUBLAS_PEDANTIC_MATH);
    return h;
}

/* For operands of 16 bits: tensor cores, but every sum in f32. */
static cublasHandle_t short_handle(void)
{
    static cublasHandle_t h =
        made((cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    return h;
}

static cudaDataType_t data_type(enum fl_type t)
{
    return t == FL_BF16 ? CUDA_R_16BF : t == FL_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* Where element `at` of a tensor lies. */
static char *element(const void *x, enum fl_type t, int64_t at) { return (char *)x + at * (t == FL_F32 ? 4 : 2); }

/* cuBLAS wants a leading dimension that covers the row, also of a matrix that has none on this rank. */
static int leading(int64_t ld, int64_t columns)
{
    int64_t least = columns > 1 ? columns : 1;
    return (int)(ld > least ? ld : least);
}

/* Nothing to add up: what is there stays as far as beta keeps it. */
template <typename T> __global__ void scale_kernel(T *c, int64_t rows, int64_t columns, int64_t ld, float beta)
{
    FL_GRID_FOR(i, rows * columns) {
        T *at = c + i / columns * ld + i % columns;
        *at = beta == 0 ? fl_store<T>(0.0f) : fl_store<T>(beta * fl_load(*at));
    }
}

/* Batches as three loops, the missing ones of one turn. */
struct batches { int64_t count[3], sa[3], sb[3], sc[3]; };

static batches batches_of(const struct fl_gemm *g)
{
    batches b = {{1, 1, 1}, {0}, {0}, {0}};
    for (int i = 0; i < g->nbatch; i++) {
        int to = 3 - g->nbatch + i;
        b.count[to] = g->batch[i];
        b.sa[to] = g->sa[i];
        b.sb[to] = g->sb[i];
        b.sc[to] = g->sc[i];
    }
    return b;
}

static void scale(void *c, enum fl_type t, const struct fl_gemm *g, const batches &n)
{
    for (int64_t i = 0; i < n.count[0] * n.count[1] * n.count[2]; i++) {
        int64_t outer = i / n.count[2], at = i % n.count[2] * n.sc[2] + outer % n.count[1] * n.sc[1] + outer / n.count[1] * n.sc[0];
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(scale_kernel<T>, fl_blocks_for(g->m * g->n, FL_BLOCK), FL_BLOCK, (T *)c + at, g->m, g->n,
                                        g->ldc, g->beta))
    }
}

extern "C" void fl_gemm(float *c, const float *a, const float *b, const struct fl_gemm *g)
{
    if (g->m <= 0 || g->n <= 0)
        return;
    batches n = batches_of(g);
    if (g->k <= 0) {
        scale(c, FL_F32, g, n);
        return;
    }
    int lda = leading(g->lda, g->ta ? g->m : g->k), ldb = leading(g->ldb, g->tb ? g->k : g->n), ldc = leading(g->ldc, g->n);
    cublasOperation_t opa = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, opb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    for (int64_t i = 0; i < n.count[0]; i++)
        for (int64_t j = 0; j < n.count[1]; j++)
            check(cublasSgemmStridedBatched(handle(), opb, opa, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                                            b + i * n.sb[0] + j * n.sb[1], ldb, n.sb[2],
                                            a + i * n.sa[0] + j * n.sa[1], lda, n.sa[2], &g->beta,
                                            c + i * n.sc[0] + j * n.sc[1], ldc, n.sc[2], (int)n.count[2]),
                  __LINE__);
}

/* The same on tensor cores: operands of 16 bits, sums in f32. */
extern "C" void fl_gemm_as(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g)
{
    if (g->m <= 0 || g->n <= 0)
        return;
    batches n = batches_of(g);
    if (g->k <= 0) {
        scale(c, tc, g, n);
        return;
    }
    int lda = leading(g->lda, g->ta ? g->m : g->k), ldb = leading(g->ldb, g->tb ? g->k : g->n), ldc = leading(g->ldc, g->n);
    cublasOperation_t opa = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, opb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    for (int64_t i = 0; i < n.count[0]; i++)
        for (int64_t j = 0; j < n.count[1]; j++)
            check(cublasGemmStridedBatchedEx(short_handle(), opb, opa, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                                             element(b, t, i * n.sb[0] + j * n.sb[1]), data_type(t), ldb, n.sb[2],
                                             element(a, t, i * n.sa[0] + j * n.sa[1]), data_type(t), lda, n.sa[2],
                                             &g->beta, element(c, tc, i * n.sc[0] + j * n.sc[1]), data_type(tc), ldc,
                                             n.sc[2], (int)n.count[2], CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                  __LINE__);
}
