/* Contraction by the BLAS. Batches of small matrices are shared out among the threads, each with a serial BLAS; a large
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

void fl_gemm(float *c, const float *a, const float *b, const struct fl_gemm *g)
{
    int64_t n[3] = { 1, 1, 1 }, total = 1;
    for (int d = 0; d < g->nbatch; d++)
        total *= n[d] = g->batch[d];
    fl_poll();                                       /* messages under way move on between matrices */
    if (total == 1 || g->nbatch == 0) {
        one(c, a, b, g);
        return;
    }
    /* Batches may share their result only where the caller accumulates (stride 0 in c with beta 1): one after another.
     */
    bool shared = false;
    for (int d = 0; d < g->nbatch; d++)
        shared |= g->sc[d] == 0 && n[d] > 1;
    bool large = g->m * g->n * g->k > 512 * 512 * 512 && total < omp_get_max_threads();
#pragma omp parallel for schedule(static) if (!shared && !large && total * g->m * g->n * g->k > 65536)
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, oa = 0, ob = 0, oc = 0;
        for (int d = g->nbatch - 1; d >= 0; d--) {
            int64_t at = rest % n[d];
            rest /= n[d];
            oa += at * g->sa[d];
            ob += at * g->sb[d];
            oc += at * g->sc[d];
        }
        one(c + oc, a + oa, b + ob, g);
    }
}
