/* Cross entropy of a product of rows with the matrix of the classes, a few rows at a time, on both targets: the products are
 * fl_gemm's, what lies between them fl_ce_rows's. The logits of these rows are in f32 whatever the operands are; their
 * gradient takes their place, in a short type the first half of each row. */
#include "flow_rt.h"

static int64_t bytes_of(enum fl_type t) { return t == FL_F32 ? 4 : 2; }
static const char *from(const void *x, enum fl_type t, int64_t at) { return (const char *)x + at * bytes_of(t); }

static void multiply(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g)
{
    if (t == FL_F32)
        fl_gemm((float *)c, (const float *)a, (const float *)b, g);
    else
        fl_gemm_as(c, tc, a, b, t, g);
}

void fl_linear_cross_entropy_as(float *loss, void *dx, void *dw, const void *x, const void *w, const float *dloss,
                                const int32_t *target, float *room, const struct fl_linear_ce *c, enum fl_type tx, enum fl_type tw,
                                enum fl_type tdx, enum fl_type tdw)
{
    int64_t d = c->d, n = c->n, wide = c->turned ? n : d, apart = tx == FL_F32 ? n : 2 * n;      /* rows of the gradient */
    (void)tw, (void)tdw;
    for (int64_t r = 0; r == 0 || r < c->rows; r += c->chunk) {      /* without rows: once, for dw = 0 */
        int64_t rows = c->rows - r < c->chunk ? c->rows - r : c->chunk;
        const void *xr = from(x, tx, r * d);
        struct fl_gemm logits = {.m = rows, .n = n, .k = d, .tb = !c->turned, .lda = d, .ldb = wide, .ldc = n, .alpha = 1};
        multiply(room, FL_F32, xr, w, tx, &logits);
        fl_ce_rows(loss + r, room, tx, dloss ? dloss + r : NULL, target + r, rows, n, c->valid, c->ignore, c->smoothing);
        if (dx) {
            struct fl_gemm back = {.m = rows, .n = d, .k = n, .tb = c->turned, .lda = apart, .ldb = wide, .ldc = d, .alpha = 1};
            multiply((char *)dx + r * d * bytes_of(tdx), tdx, room, w, tx, &back);
        }
        if (dw) {
            struct fl_gemm sum = {.m = c->turned ? d : n, .n = wide, .k = rows, .ta = true, .lda = c->turned ? d : apart,
                                  .ldb = c->turned ? apart : d, .ldc = wide, .alpha = 1, .beta = c->add || r ? 1 : 0};
            multiply(dw, FL_F32, c->turned ? xr : room, c->turned ? room : xr, tx, &sum);
        }
    }
}

void fl_linear_cross_entropy(float *loss, float *dx, float *dw, const float *x, const float *w, const float *dloss,
                             const int32_t *target, float *room, const struct fl_linear_ce *c)
{
    fl_linear_cross_entropy_as(loss, dx, dw, x, w, dloss, target, room, c, FL_F32, FL_F32, FL_F32, FL_F32);
}
