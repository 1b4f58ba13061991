/* Cross entropy of a product of rows with the matrix of the classes, a few rows at a time, on both targets: the products are
 * fl_gemm's, what lies between them fl_ce_rows's. The logits of these rows are in f32 whatever the operands are; their
 * gradient takes their place, in a short type the first half of each row. Of a part of the classes: in two goes, since maximum
 * and sum of whole rows come from elsewhere in between. */
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

/* A piece of rows: of the whole from r on. */
struct piece {
    const struct fl_linear_ce *c;
    const void *x, *w;
    enum fl_type t;
    float *room;
    int64_t r, rows;
};

static bool next_piece(struct piece *p)
{
    int64_t left = p->c->rows - p->r;
    p->rows = left < p->c->chunk ? left : p->c->chunk;
    return p->r == 0 || left > 0;                    /* without rows: once, for dw = 0 */
}

static void make_logits(const struct piece *p)
{
    const struct fl_linear_ce *c = p->c;
    struct fl_gemm logits = {.m = p->rows, .n = c->n, .k = c->d, .tb = !c->turned, .lda = c->d, .ldb = c->turned ? c->n : c->d, .ldc = c->n,
                             .alpha = 1};
    multiply(p->room, FL_F32, from(p->x, p->t, p->r * c->d), p->w, p->t, &logits);
}

/* What the gradient in the room adds to. */
static void take_back(const struct piece *p, void *dx, enum fl_type tdx, void *dw)
{
    const struct fl_linear_ce *c = p->c;
    int64_t d = c->d, n = c->n, wide = c->turned ? n : d, apart = p->t == FL_F32 ? n : 2 * n;      /* rows of the gradient */
    const void *xr = from(p->x, p->t, p->r * d);
    if (dx) {
        struct fl_gemm back = {.m = p->rows, .n = d, .k = n, .tb = c->turned, .lda = apart, .ldb = wide, .ldc = d, .alpha = 1};
        multiply((char *)dx + p->r * d * bytes_of(tdx), tdx, p->room, p->w, p->t, &back);
    }
    if (dw) {
        struct fl_gemm sum = {.m = c->turned ? d : n, .n = wide, .k = p->rows, .ta = true, .lda = c->turned ? d : apart,
                              .ldb = c->turned ? apart : d, .ldc = wide, .alpha = 1, .beta = c->add || p->r ? 1 : 0};
        multiply(dw, FL_F32, c->turned ? xr : p->room, c->turned ? p->room : xr, p->t, &sum);
    }
}

void fl_linear_cross_entropy_as(float *loss, void *dx, void *dw, const void *x, const void *w, const float *dloss,
                                const int32_t *target, float *room, const struct fl_linear_ce *c, enum fl_type tx, enum fl_type tw,
                                enum fl_type tdx, enum fl_type tdw)
{
    (void)tw, (void)tdw;
    for (struct piece p = {.c = c, .x = x, .w = w, .t = tx, .room = room}; next_piece(&p); p.r += c->chunk) {
        make_logits(&p);
        fl_ce_rows(loss + p.r, room, tx, dloss ? dloss + p.r : NULL, target + p.r, p.rows, c->n, c->valid, c->ignore, c->smoothing);
        take_back(&p, dx, tdx, dw);
    }
}

void fl_linear_cross_entropy(float *loss, float *dx, float *dw, const float *x, const float *w, const float *dloss,
                             const int32_t *target, float *room, const struct fl_linear_ce *c)
{
    fl_linear_cross_entropy_as(loss, dx, dw, x, w, dloss, target, room, c, FL_F32, FL_F32, FL_F32, FL_F32);
}

void fl_linear_ce_parts_as(float *most, float *sum, float *below, float *weight, const void *x, const void *w, const int32_t *target,
                           int64_t groups, float *room, const struct fl_linear_ce *c, enum fl_type tx, enum fl_type tw)
{
    (void)tw;
    for (struct piece p = {.c = c, .x = x, .w = w, .t = tx, .room = room}; next_piece(&p); p.r += c->chunk) {
        make_logits(&p);
        for (int64_t g = 0, first = 0; g < groups; g++) {
            int64_t n = c->n / groups + (g < c->n % groups), at = g * c->rows + p.r;
            fl_ce_parts(most + at, sum + at, below + at, weight + at, room + first, c->n, target + p.r, p.rows, n, c->base + first,
                        c->valid, c->ignore, c->smoothing);
            first += n;
        }
    }
}

void fl_linear_ce_parts(float *most, float *sum, float *below, float *weight, const float *x, const float *w, const int32_t *target,
                        int64_t groups, float *room, const struct fl_linear_ce *c)
{
    fl_linear_ce_parts_as(most, sum, below, weight, x, w, target, groups, room, c, FL_F32, FL_F32);
}

void fl_linear_ce_parts_grad_as(void *dx, void *dw, const void *x, const void *w, const float *dloss, const float *m, const float *s,
                                const int32_t *target, float *room, const struct fl_linear_ce *c, enum fl_type tx, enum fl_type tw,
                                enum fl_type tdx, enum fl_type tdw)
{
    (void)tw, (void)tdw;
    for (struct piece p = {.c = c, .x = x, .w = w, .t = tx, .room = room}; next_piece(&p); p.r += c->chunk) {
        make_logits(&p);
        fl_ce_parts_grad(room, tx, dloss + p.r, m + p.r, s + p.r, target + p.r, p.rows, c->n, c->base, c->valid, c->ignore, c->smoothing);
        take_back(&p, dx, tdx, dw);
    }
}

void fl_linear_ce_parts_grad(float *dx, float *dw, const float *x, const float *w, const float *dloss, const float *m, const float *s,
                             const int32_t *target, float *room, const struct fl_linear_ce *c)
{
    fl_linear_ce_parts_grad_as(dx, dw, x, w, dloss, m, s, target, room, c, FL_F32, FL_F32, FL_F32, FL_F32);
}
