/* Contraction: batches of matrices, and parts of large ones, are shared out among the threads. */
#include "product.h"

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

void fl_gemm_as(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g)
{
    struct batches all = batches(g);
    int64_t threads = omp_get_max_threads(), width, at_once = all.shared ? 1 : all.total;
    int64_t parts = fl_product_parts(g, at_once ? (threads + at_once - 1) / at_once : 1, &width), tasks = at_once * parts;
    bool polls = omp_get_level() == 0;               /* one thread may call MPI, and not beside another */
    if (polls)
        fl_poll();                                   /* messages under way move on between matrices, and parts of large ones */
    for (int64_t first = 0; first < all.total; first += at_once) {
#pragma omp parallel for schedule(dynamic) if (tasks > 1 && at_once * g->m * g->n * g->k > 65536)
        for (int64_t i = 0; i < tasks; i++) {
            int64_t oa, ob, oc, n0 = i % parts * width;
            batch_start(g, first + i / parts, &oa, &ob, &oc);
            fl_product_part(fl_place_of(c, tc, oc), tc, fl_element(a, t, oa), fl_element(b, t, ob), t, g, 0, g->m, n0,
                            fl_least(width, g->n - n0), polls && omp_get_thread_num() == 0 ? fl_poll : NULL);
        }
    }
}

void fl_gemm(float *c, const float *a, const float *b, const struct fl_gemm *g) { fl_gemm_as(c, FL_F32, a, b, FL_F32, g); }

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
    int64_t n = g->n, size = tc == FL_F32 ? 0 : n;
    bool keeps = e->activation == FL_GELU && e->aux, reads = e->activation == FL_GELU_GRAD;
#pragma omp parallel if (g->m * n > FL_GRAIN)
    {
        float *room = fl_thread_scratch(4 * size * (int64_t)sizeof *room);
        float *room_aux = room + size, *room_more = room_aux + size;
        const float *bias = fl_row_in(room_more + size, e->bias, tc, n);
#pragma omp for
        for (int64_t i = 0; i < g->m; i++) {
            void *row = fl_place_of(c, tc, i * g->ldc);
            void *kept = e->aux ? fl_place_of(e->aux, tc, i * e->ldaux) : NULL;
            const void *more = e->residual ? fl_element(e->residual, tc, i * e->ldr) : NULL;
            float *x = fl_row_out(room, row, tc), *aux = kept ? fl_row_out(room_aux, kept, tc) : NULL;
            fl_row_in(x, row, tc, n);
            if (reads)
                fl_row_in(aux, kept, tc, n);
            finish_row(x, e, aux, bias, fl_row_in(room_more, more, tc, n), n);
            if (keeps)
                fl_row_put(kept, tc, aux, n);
            fl_row_put(row, tc, x, n);
        }
    }
}

/* A few results at a time, each a sum in the order of k. */
static void sum_contracted(const void *a, const void *b, enum fl_type t, enum fl_type tc, const struct fl_gemm *g,
                           const struct fl_epilogue *e)
{
    enum { FEW = 64 };
    const void *x = e->of_a ? a : b;
    int64_t count = e->of_a ? g->m : g->n, lead = e->of_a ? g->lda : g->ldb;
    bool dense = e->of_a ? g->ta : !g->tb;
    int64_t along = dense ? lead : 1, across = dense ? 1 : lead;
#pragma omp parallel for if (count * g->k > FL_GRAIN)
    for (int64_t at = 0; at < count; at += FEW) {
        int64_t n = fl_least(FEW, count - at);
        double sum[FEW] = { 0 };
        float row[FEW];
        for (int64_t l = 0; l < g->k; l++) {
            fl_load_row(row, fl_element(x, t, l * along + at * across), t, across, n);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                sum[i] += row[i];
        }
        for (int64_t i = 0; i < n; i++)
            row[i] = (float)sum[i];
        fl_store_row(fl_place_of(e->bias_grad, tc, at), tc, 1, row, n);
    }
}

void fl_gemm_epilogue(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g,
                      const struct fl_epilogue *e)
{
    fl_gemm_as(c, tc, a, b, t, g);
    if (e->bias || e->residual || e->activation)
        finish_rows(c, tc, g, e);
    if (e->bias_grad)
        sum_contracted(a, b, t, tc, g, e);
}
