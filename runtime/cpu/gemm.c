/* Contraction by the BLAS, in f32. Batches of small matrices are shared out among the threads, each with a serial BLAS; a large
 * matrix is left to the BLAS's own threads. */
#include "cpu.h"
#include <cblas.h>

/* A row of a matrix with one row may have any stride; the BLAS wants one that covers the row. */
static int leading(int64_t ld, int64_t columns) { return (int)fl_most(ld, fl_most(columns, 1)); }

static void scale(float *c, const struct fl_gemm *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++)
            c[i * g->ldc + j] = g->beta == 0 ? 0 : g->beta * c[i * g->ldc + j];
}

static void one(float *c, const float *a, const float *b, const struct fl_gemm *g)
{
    if (g->m == 0 || g->n == 0)
        return;
    if (g->k == 0) {
        scale(c, g);
        return;
    }
    cblas_sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (int)g->m,
                (int)g->n, (int)g->k, g->alpha, a, leading(g->lda, g->ta ? g->m : g->k), b,
                leading(g->ldb, g->tb ? g->k : g->n), g->beta, c, leading(g->ldc, g->n));
}

/* How the batches are walked, and where number i of them starts. */
struct batches { int64_t total; bool shared; };

static struct batches batches(const struct fl_gemm *g)
{
    struct batches b = { .total = 1 };
    for (int d = 0; d < g->nbatch; d++) {
        b.total *= g->batch[d];
        /* a result shared by batches (stride 0 in c with beta 1) is added to by one after another */
        b.shared |= g->sc[d] == 0 && g->batch[d] > 1;
    }
    return b;
}

static void batch_start(const struct fl_gemm *g, int64_t i, int64_t *a, int64_t *b, int64_t *c)
{
    *a = *b = *c = 0;
    for (int d = g->nbatch - 1; d >= 0; d--) {
        int64_t at = i % g->batch[d];
        i /= g->batch[d];
        *a += at * g->sa[d];
        *b += at * g->sb[d];
        *c += at * g->sc[d];
    }
}

void fl_gemm(float *c, const float *a, const float *b, const struct fl_gemm *g)
{
    struct batches all = batches(g);
    fl_poll();                                       /* messages under way move on between matrices */
    if (all.total == 1) {
        one(c, a, b, g);
        return;
    }
    bool large = g->m * g->n * g->k > 512 * 512 * 512 && all.total < omp_get_max_threads();
#pragma omp parallel for schedule(static) if (!all.shared && !large && all.total * g->m * g->n * g->k > 65536)
    for (int64_t i = 0; i < all.total; i++) {
        int64_t oa, ob, oc;
        batch_start(g, i, &oa, &ob, &oc);
        one(c + oc, a + oa, b + ob, g);
    }
}

/* ---- short types: tiles of the operands are widened into a thread's scratch and multiplied there ---- */

enum { TILE_M = 128, TILE_N = 256, TILE_K = 512 };

/* Rows [r0, r0 + rows) x columns of a stored matrix, dense in f32. */
static void widen(float *to, const void *x, enum fl_type t, int64_t ld, int64_t r0, int64_t rows, int64_t c0, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        fl_load_row(to + r * columns, fl_element(x, t, (r0 + r) * ld + c0), t, 1, columns);
}

/* One tile of c, all of k: c = alpha a b + beta c, rounded once. */
static void tile(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g, int64_t m0,
                 int64_t n0)
{
    int64_t m = fl_least(TILE_M, g->m - m0), n = fl_least(TILE_N, g->n - n0), most = fl_least(TILE_K, g->k);
    float *wa = fl_thread_scratch((m * most + most * n + (m + 1) * n) * (int64_t)sizeof(float)), *wb = wa + m * most;
    float *sum = wb + most * n, *old = sum + m * n;
    memset(sum, 0, (size_t)(m * n) * sizeof(float));
    for (int64_t k0 = 0; k0 < g->k; k0 += TILE_K) {
        int64_t k = fl_least(TILE_K, g->k - k0);
        if (g->ta)
            widen(wa, a, t, g->lda, k0, k, m0, m);
        else
            widen(wa, a, t, g->lda, m0, m, k0, k);
        if (g->tb)
            widen(wb, b, t, g->ldb, n0, n, k0, k);
        else
            widen(wb, b, t, g->ldb, k0, k, n0, n);
        cblas_sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (int)m, (int)n,
                    (int)k, g->alpha, wa, (int)(g->ta ? m : k), wb, (int)(g->tb ? k : n), 1, sum, (int)n);
    }
    for (int64_t i = 0; i < m; i++) {
        void *row = fl_place_of(c, tc, (m0 + i) * g->ldc + n0);
        if (g->beta != 0) {
            fl_load_row(old, row, tc, 1, n);
            for (int64_t j = 0; j < n; j++)
                sum[i * n + j] += g->beta * old[j];
        }
        fl_store_row(row, tc, 1, sum + i * n, n);
    }
}

void fl_gemm_as(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g)
{
    struct batches all = batches(g);
    int64_t rows = (g->m + TILE_M - 1) / TILE_M, columns = (g->n + TILE_N - 1) / TILE_N, tiles = all.total * rows * columns;
    fl_poll();
#pragma omp parallel for schedule(dynamic) if (!all.shared && tiles > 1 && all.total * g->m * g->n * g->k > 65536)
    for (int64_t i = 0; i < tiles; i++) {
        int64_t oa, ob, oc;
        batch_start(g, i / (rows * columns), &oa, &ob, &oc);
        tile(fl_place_of(c, tc, oc), tc, fl_element(a, t, oa), fl_element(b, t, ob), t, g, i / columns % rows * TILE_M,
             i % columns * TILE_N);
    }
}

/* ---- what follows a product: row by row, in its place ---- */

static void finish_row(float *x, const struct fl_epilogue *e, float *aux, const float *bias, const float *residual, int64_t n)
{
    for (int64_t j = 0; bias && j < n; j++)
        x[j] += bias[j];
    if (e->activation == FL_GELU && aux)
        memcpy(aux, x, (size_t)n * sizeof *x);
    for (int64_t j = 0; j < n && e->activation; j++)
        x[j] = e->activation == FL_GELU ? fl_gelu(x[j]) : e->activation == FL_RELU ? fmaxf(x[j], 0) : fl_gelu_grad(aux[j], x[j]);
    for (int64_t j = 0; residual && j < n; j++)
        x[j] += residual[j];
}

static void finish_rows(void *c, enum fl_type tc, const struct fl_gemm *g, const struct fl_epilogue *e)
{
    int64_t n = g->n;
#pragma omp parallel for if (g->m * n > FL_GRAIN)
    for (int64_t i = 0; i < g->m; i++) {
        float *x = fl_thread_scratch(4 * n * (int64_t)sizeof *x), *bias = x + n, *residual = bias + n, *aux = residual + n;
        void *row = fl_place_of(c, tc, i * g->ldc), *kept = e->aux ? fl_place_of(e->aux, tc, i * e->ldaux) : NULL;
        fl_load_row(x, row, tc, 1, n);
        if (e->bias)
            fl_load_row(bias, e->bias, tc, 1, n);
        if (e->residual)
            fl_load_row(residual, fl_element(e->residual, tc, i * e->ldr), tc, 1, n);
        if (e->activation == FL_GELU_GRAD)
            fl_load_row(aux, kept, tc, 1, n);
        finish_row(x, e, kept ? aux : NULL, e->bias ? bias : NULL, e->residual ? residual : NULL, n);
        if (e->activation == FL_GELU && kept)
            fl_store_row(kept, tc, 1, aux, n);
        fl_store_row(row, tc, 1, x, n);
    }
}

static void sum_contracted(const void *a, const void *b, enum fl_type t, enum fl_type tc, const struct fl_gemm *g, const struct fl_epilogue *e)
{
    const void *x = e->of_a ? a : b;
    int64_t count = e->of_a ? g->m : g->n, lead = e->of_a ? g->lda : g->ldb;
    bool dense = e->of_a ? g->ta : !g->tb;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t l = 0; l < g->k; l++) {
            float v;
            fl_load_row(&v, fl_element(x, t, dense ? l * lead + i : i * lead + l), t, 1, 1);
            sum += v;
        }
        fl_store_row(fl_place_of(e->bias_grad, tc, i), tc, 1, (const float[]){ (float)sum }, 1);
    }
}

void fl_gemm_epilogue(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g,
                      const struct fl_epilogue *e)
{
    if (t == FL_F32)
        fl_gemm(c, a, b, g);
    else
        fl_gemm_as(c, tc, a, b, t, g);
    if (e->bias || e->residual || e->activation)
        finish_rows(c, tc, g, e);
    if (e->bias_grad)
        sum_contracted(a, b, t, tc, g, e);
}
