/* Contractions through cuBLAS. One batch dim, or several that lie like one, go into the strided form; batches that no stride says
 * go by a table of pointers, in one call too. */
#include "../target.h"
#include "blas.h"
#include <stdlib.h>
#include <string.h>

void fl_blas_check(cublasStatus_t status, const char *file, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    fl_fail(file, line, "an allocation that failed leaves cuBLAS no workspace: is the GPU's memory taken by others?",
            "cuBLAS failed: %s (status %d)", cublasGetStatusString(status), (int)status);
}

void *fl_blas_workspace(void)
{
    static void *p;
    if (!p)
        FL_CUDA(cudaMalloc(&p, FL_BLAS_WORKSPACE));
    return p;
}

static cublasHandle_t made(cublasMath_t mode)
{
    cublasHandle_t h;
    FL_BLAS(cublasCreate(&h));
    FL_BLAS(cublasSetStream(h, fl_stream()));
    FL_BLAS(cublasSetMathMode(h, mode));
    FL_BLAS(cublasSetWorkspace(h, fl_blas_workspace(), FL_BLAS_WORKSPACE));      /* after the stream, which takes it away */
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

/* Where element `at` of a tensor lies. */
static char *element(const void *x, enum fl_type t, int64_t at) { return (char *)x + at * (t == FL_F32 ? 4 : 2); }

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

/* ---- batches by pointers ----
 * The table of a call holds the addresses of its c, then of its a, then of its b. It is made once: every step makes the same
 * calls, and a captured one reads the table when it is replayed. */

struct call { char *c; const char *a, *b; int64_t element_c, element; batches n; };
static struct table { call of; void **on_device; } *tables;
static int ntable, room;

static void **pointers(const call &of)
{
    for (int i = 0; i < ntable; i++)
        if (!memcmp(&tables[i].of, &of, sizeof of))
            return tables[i].on_device;
    if (ntable == room) {
        room = room ? 2 * room : 16;
        tables = (table *)realloc((void *)tables, (size_t)room * sizeof *tables);
        if (!tables)
            FL_FAIL("the host is out of memory", "cannot list a product");
    }
    const batches &n = of.n;
    int64_t total = n.count[0] * n.count[1] * n.count[2];
    const void **list = (const void **)fl_alloc(3 * total * (int64_t)sizeof *list);
    for (int64_t i = 0; i < total; i++) {
        int64_t at[3] = {i / n.count[2] / n.count[1], i / n.count[2] % n.count[1], i % n.count[2]}, c = 0, a = 0, b = 0;
        for (int d = 0; d < 3; d++)
            c += at[d] * n.sc[d], a += at[d] * n.sa[d], b += at[d] * n.sb[d];
        list[i] = of.c + c * of.element_c;
        list[total + i] = of.a + a * of.element;
        list[2 * total + i] = of.b + b * of.element;
    }
    table *t = &tables[ntable++];
    memcpy((void *)&t->of, (const void *)&of, sizeof of);
    FL_CUDA(cudaMalloc((void **)&t->on_device, (size_t)(3 * total) * sizeof(void *)));
    fl_to_arena(t->on_device, list, 3 * total * (int64_t)sizeof(void *));
    free(list);
    return t->on_device;
}

void fl_gemm_stop(void)
{
    for (int i = 0; i < ntable; i++)
        FL_CUDA(cudaFree(tables[i].on_device));
    free(tables);
    tables = NULL;
    ntable = room = 0;
}

static void by_pointers(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g, const batches &n,
                        int ldc, int lda, int ldb)
{
    call of;
    memset((void *)&of, 0, sizeof of);
    of.c = (char *)c, of.a = (const char *)a, of.b = (const char *)b;
    of.element_c = tc == FL_F32 ? 4 : 2, of.element = t == FL_F32 ? 4 : 2, of.n = n;
    void **table = pointers(of);
    int total = (int)(n.count[0] * n.count[1] * n.count[2]);
    cublasOperation_t opa = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, opb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (t == FL_F32)
        FL_BLAS(cublasSgemmBatched(handle(), opb, opa, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                                   (const float *const *)(table + 2 * total), ldb, (const float *const *)(table + total), lda,
                                   &g->beta, (float *const *)table, ldc, total));
    else
        FL_BLAS(cublasGemmBatchedEx(short_handle(), opb, opa, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                                    (const void *const *)(table + 2 * total), fl_data_type(t), ldb,
                                    (const void *const *)(table + total), fl_data_type(t), lda, &g->beta, table, fl_data_type(tc),
                                    ldc, total, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* Results that batches share are added to by one after another: those are calls of their own. */
static bool shared(const batches &n)
{
    for (int d = 0; d < 3; d++)
        if (n.count[d] > 1 && n.sc[d] == 0)
            return true;
    return false;
}

static void product(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g)
{
    if (g->m <= 0 || g->n <= 0)
        return;
    batches n = batches_of(g);
    if (g->k <= 0) {
        scale(c, tc, g, n);
        return;
    }
    int lda = (int)fl_leading(g->lda, g->ta ? g->m : g->k), ldb = (int)fl_leading(g->ldb, g->tb ? g->k : g->n);
    int ldc = (int)fl_leading(g->ldc, g->n);
    if (n.count[0] * n.count[1] > 1 && n.count[2] > 0 && !shared(n)) {
        by_pointers(c, tc, a, b, t, g, n, ldc, lda, ldb);
        return;
    }
    cublasOperation_t opa = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, opb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    for (int64_t i = 0; i < n.count[0]; i++)
        for (int64_t j = 0; j < n.count[1]; j++) {
            const char *from_a = element(a, t, i * n.sa[0] + j * n.sa[1]), *from_b = element(b, t, i * n.sb[0] + j * n.sb[1]);
            char *to = element(c, tc, i * n.sc[0] + j * n.sc[1]);
            if (t == FL_F32)
                FL_BLAS(cublasSgemmStridedBatched(handle(), opb, opa, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                                                  (const float *)from_b, ldb, n.sb[2], (const float *)from_a, lda, n.sa[2], &g->beta,
                                                  (float *)to, ldc, n.sc[2], (int)n.count[2]));
            else
                FL_BLAS(cublasGemmStridedBatchedEx(short_handle(), opb, opa, (int)g->n, (int)g->m, (int)g->k, &g->alpha, from_b,
                                                   fl_data_type(t), ldb, n.sb[2], from_a, fl_data_type(t), lda, n.sa[2], &g->beta, to,
                                                   fl_data_type(tc), ldc, n.sc[2], (int)n.count[2], CUBLAS_COMPUTE_32F,
                                                   CUBLAS_GEMM_DEFAULT));
        }
}

extern "C" void fl_gemm(float *c, const float *a, const float *b, const struct fl_gemm *g) { product(c, FL_F32, a, b, FL_F32, g); }

/* The same on tensor cores: operands of 16 bits, sums in f32. */
extern "C" void fl_gemm_as(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g)
{
    product(c, tc, a, b, t, g);
}
