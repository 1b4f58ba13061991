/* Attention and its gradient, tile by tile: scores exist for ROWS queries and at most COLUMNS keys at a time, in memory
 * of the thread's own. The forward pass rescales its running result when a later tile has a larger score. The gradient
 * walks the tiles twice: first for each query's maximum, sum and the dot of probabilities with their gradients, then
 * for the gradients themselves; with a single tile the first walk's scores are kept. One thread does all queries of a
 * key head, in order, so that dk and dv are summed in one order. */
#include "product.h"

enum { ROWS = 64, COLUMNS = 512 };

/* What queries [t0, t0 + rows) of one head and the keys they may see look like. */
struct tile {
    const struct fl_attention *a;
    int64_t t0, rows;
    int64_t first, limit;                /* blocks of COLUMNS keys from first up to limit hold all that a query sees */
    const float *q, *k, *v;              /* of this head */
    const uint8_t *keep;                 /* of this head, or NULL */
    const int32_t *documents;            /* of this sequence, or NULL */
};

/* Query t sees keys [key_first, key_limit) at most. */
static int64_t key_limit(const struct fl_attention *a, int64_t t)
{
    int64_t more = a->causal ? 1 : a->window ? a->window : a->tk;
    return a->causal || a->window ? fl_most(0, fl_least(a->tk, t + a->causal_shift + more)) : a->tk;
}

static int64_t key_first(const struct fl_attention *a, int64_t t)
{
    return a->window ? fl_most(0, t + a->causal_shift - a->window + 1) : 0;
}

static struct tile tile_at(const struct fl_attention *a, int64_t b, int64_t h, int64_t t0, const float *q,
                           const float *k, const float *v, const uint8_t *keep)
{
    int64_t g = h / (a->heads / a->kv_heads);
    struct tile t = { .a = a, .t0 = t0, .rows = fl_least(ROWS, a->tq - t0) };
    t.limit = key_limit(a, t0 + t.rows - 1);
    t.first = key_first(a, t0) / COLUMNS * COLUMNS;
    t.documents = a->documents ? a->documents + b * a->document_stride[0] : NULL;
    t.q = q + b * a->q[0] + h * a->q[1] + t0 * a->q[2];
    t.k = k + b * a->k[0] + g * a->k[1];
    t.v = v + b * a->v[0] + g * a->v[1];
    t.keep = keep ? keep + b * a->keep_stride[0] + h * a->keep_stride[1] : NULL;
    return t;
}

/* c[m, n] = op(a) op(b) + beta c, each with its own rows' stride */
static void multiply(float *c, int64_t ldc, const float *a, int64_t lda, bool ta, const float *b, int64_t ldb, bool tb, int64_t m, int64_t n,
                     int64_t k, float beta)
{
    struct fl_gemm g = { .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .lda = lda, .ldb = ldb, .ldc = ldc, .alpha = 1, .beta = beta };
    fl_product(c, FL_F32, a, b, FL_F32, &g);
}

/* s[rows, COLUMNS] = scale q k^T for keys [c0, c0 + columns), -inf where the query does not see the key. */
static void scores(float *s, const struct tile *t, int64_t c0, int64_t columns)
{
    const struct fl_attention *a = t->a;
    multiply(s, COLUMNS, t->q, a->q[2], false, t->k + c0 * a->k[2], a->k[2], true, t->rows, columns, a->dk, 0);
    for (int64_t i = 0; i < t->rows; i++) {
        int64_t seen = fl_most(0, fl_least(columns, key_limit(a, t->t0 + i) - c0));
        for (int64_t j = 0; j < seen; j++)
            s[i * COLUMNS + j] *= a->scale;
        for (int64_t j = seen; j < columns; j++)
            s[i * COLUMNS + j] = -INFINITY;
        for (int64_t j = 0; j < fl_least(columns, key_first(a, t->t0 + i) - c0); j++)
            s[i * COLUMNS + j] = -INFINITY;
        for (int64_t j = 0; t->documents && j < columns; j++)
            if (t->documents[(c0 + j) * a->document_stride[1]] !=
                t->documents[(t->t0 + i + a->causal_shift) * a->document_stride[1]])
                s[i * COLUMNS + j] = -INFINITY;
        if (t->keep)
            for (int64_t j = 0; j < columns; j++)
                if (!t->keep[(t->t0 + i) * a->keep_stride[2] + (c0 + j) * a->keep_stride[3]])
                    s[i * COLUMNS + j] = -INFINITY;
    }
}

/* Raises a row's maximum over n more scores; gives the factor for what was summed under the old one. */
static float raise_max(float *top, const float *s, int64_t n)
{
    float now = *top;
#pragma omp simd reduction(max : now)
    for (int64_t j = 0; j < n; j++)
        now = s[j] > now ? s[j] : now;
    float by = now == *top ? 1 : fl_exp(*top - now);
    *top = now;
    return by;
}

static float exp_row(float *s, float top, int64_t n)
{
    float sum = 0, base = top == -INFINITY ? 0 : top;    /* nothing seen yet: exp(-inf - 0) = 0 */
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += s[j] = s[j] == -INFINITY ? 0 : fl_exp(s[j] - base);
    return sum;
}

static void forward(float *y, const struct tile *t, float *scratch)
{
    const struct fl_attention *a = t->a;
    float *s = scratch, *acc = s + ROWS * COLUMNS, top[ROWS], sum[ROWS];
    for (int64_t i = 0; i < t->rows; i++) {
        top[i] = -INFINITY;
        sum[i] = 0;
    }
    memset(acc, 0, (size_t)(t->rows * a->dv) * sizeof(float));
    for (int64_t c0 = t->first; c0 < t->limit; c0 += COLUMNS) {
        int64_t columns = fl_least(COLUMNS, t->limit - c0);
        scores(s, t, c0, columns);
        for (int64_t i = 0; i < t->rows; i++) {
            float *row = s + i * COLUMNS, by = raise_max(&top[i], row, columns);
            sum[i] = sum[i] * by + exp_row(row, top[i], columns);
            if (c0 > t->first)
                for (int64_t d = 0; d < a->dv; d++)
                    acc[i * a->dv + d] *= by;
        }
        multiply(acc, a->dv, s, COLUMNS, false, t->v + c0 * a->v[2], a->v[2], false, t->rows, a->dv, columns, 1);
    }
    for (int64_t i = 0; i < t->rows; i++) {
        float by = sum[i] > 0 ? 1 / sum[i] : 0;
        for (int64_t d = 0; d < a->dv; d++)
            y[i * a->y[2] + d] = acc[i * a->dv + d] * by;
    }
}

void fl_attention(float *y, const float *q, const float *k, const float *v, const uint8_t *keep,
                  const struct fl_attention *a)
{
    int64_t blocks = (a->tq + ROWS - 1) / ROWS, tasks = a->batch * a->heads * blocks;
#pragma omp parallel for schedule(dynamic) if (tasks > 1)
    for (int64_t i = 0; i < tasks; i++) {
        int64_t t0 = (blocks - 1 - i % blocks) * ROWS, h = i / blocks % a->heads, b = i / blocks / a->heads;
        float *scratch = fl_thread_scratch((ROWS * COLUMNS + ROWS * a->dv) * (int64_t)sizeof(float));
        struct tile t = tile_at(a, b, h, t0, q, k, v, keep);
        forward(y + b * a->y[0] + h * a->y[1] + t0 * a->y[2], &t, scratch);
    }
}

/* dp = dy v^T for keys [c0, c0 + columns). */
static void probability_grads(float *dp, const struct tile *t, const float *dy, int64_t c0, int64_t columns)
{
    const struct fl_attention *a = t->a;
    multiply(dp, COLUMNS, dy, a->gy[2], false, t->v + c0 * a->v[2], a->v[2], true, t->rows, columns, a->dv, 0);
}

static void backward(float *dq, float *dk, float *dv, const float *dy, const struct tile *t, float *scratch)
{
    const struct fl_attention *a = t->a;
    float *s = scratch, *dp = s + ROWS * COLUMNS, top[ROWS], sum[ROWS], dot[ROWS];
    bool single = t->limit - t->first <= COLUMNS;
    for (int64_t i = 0; i < t->rows; i++) {
        top[i] = -INFINITY;
        sum[i] = dot[i] = 0;
        for (int64_t d = 0; d < a->dk; d++)
            dq[i * a->gq[2] + d] = 0;
    }
    for (int64_t c0 = t->first; c0 < t->limit; c0 += COLUMNS) {
        int64_t columns = fl_least(COLUMNS, t->limit - c0);
        scores(s, t, c0, columns);
        probability_grads(dp, t, dy, c0, columns);
        for (int64_t i = 0; i < t->rows; i++) {
            float *row = s + i * COLUMNS, *g = dp + i * COLUMNS, by = raise_max(&top[i], row, columns), more = 0;
            sum[i] = sum[i] * by + exp_row(row, top[i], columns);
#pragma omp simd reduction(+ : more)
            for (int64_t j = 0; j < columns; j++)
                more += row[j] * g[j];
            dot[i] = dot[i] * by + more;
        }
    }
    for (int64_t c0 = t->first; c0 < t->limit; c0 += COLUMNS) {
        int64_t columns = fl_least(COLUMNS, t->limit - c0);
        if (!single) {
            scores(s, t, c0, columns);
            probability_grads(dp, t, dy, c0, columns);
        }
        for (int64_t i = 0; i < t->rows; i++) {
            float *row = s + i * COLUMNS, *g = dp + i * COLUMNS, by = sum[i] > 0 ? 1 / sum[i] : 0, mean = dot[i] * by;
            if (!single)
                exp_row(row, top[i], columns);
#pragma omp simd
            for (int64_t j = 0; j < columns; j++) {
                row[j] *= by;
                g[j] = row[j] * (g[j] - mean) * a->scale;
            }
        }
        multiply(dq, a->gq[2], dp, COLUMNS, false, t->k + c0 * a->k[2], a->k[2], false, t->rows, a->dk, columns, 1);
        multiply(dk + c0 * a->gk[2], a->gk[2], dp, COLUMNS, true, t->q, a->q[2], false, columns, a->dk, t->rows, 1);
        multiply(dv + c0 * a->gv[2], a->gv[2], s, COLUMNS, true, dy, a->gy[2], false, columns, a->dv, t->rows, 1);
    }
}

static void zero_rows(float *x, int64_t rows, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < rows; i++)
        memset(x + i * step, 0, (size_t)n * sizeof(float));
}

void fl_attention_grad(float *dq, float *dk, float *dv, const float *dy, const float *q, const float *k, const float *v,
                       const uint8_t *keep, const struct fl_attention *a)
{
    int64_t group = a->kv_heads ? a->heads / a->kv_heads : 0;    /* a rank may have no head at all */
#pragma omp parallel for schedule(dynamic) if (a->batch * a->kv_heads > 1)
    for (int64_t i = 0; i < a->batch * a->kv_heads; i++) {
        int64_t b = i / a->kv_heads, g = i % a->kv_heads;
        float *scratch = fl_thread_scratch(2 * ROWS * COLUMNS * (int64_t)sizeof(float));
        float *dkh = dk + b * a->gk[0] + g * a->gk[1], *dvh = dv + b * a->gv[0] + g * a->gv[1];
        zero_rows(dkh, a->tk, a->gk[2], a->dk);
        zero_rows(dvh, a->tk, a->gv[2], a->dv);
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            for (int64_t t0 = 0; t0 < a->tq; t0 += ROWS) {
                struct tile t = tile_at(a, b, h, t0, q, k, v, keep);
                backward(dq + b * a->gq[0] + h * a->gq[1] + t0 * a->gq[2], dkh, dvh,
                         dy + b * a->gy[0] + h * a->gy[1] + t0 * a->gy[2], &t, scratch);
            }
    }
}
