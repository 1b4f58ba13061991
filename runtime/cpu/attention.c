/* Attention and its gradient, tile by tile: scores exist for ROWS queries and at most COLUMNS keys at a time, in memory
 * of the thread's own. The forward pass rescales its running result when a later tile has a larger score. The gradient
 * walks the tiles twice: first for each query's maximum, sum and the dot of probabilities with their gradients, then
 * for the gradients themselves; with a single tile the first walk's scores are kept. One thread does all queries of a
 * key head, in order, so that dk and dv are summed in one order.
 *
 * f32 is read and written where it lies. What a tile reads of a short type is widened in memory of the thread; results are
 * rounded when they are complete. */
#include "product.h"

enum { ROWS = 64, COLUMNS = 512, HELD = 4 * COLUMNS };   /* HELD: keys that a thread keeps widened */

/* Rows of a tensor in f32, `step` apart. */
struct rows { float *p; int64_t step; };

/* Rows of a tensor of type t, `step` apart, n elements each: where they lie, or in room; `rows` from `first` are widened. */
static struct rows widened(const void *x, enum fl_type t, int64_t step, int64_t first, int64_t rows, int64_t n,
                           float *room)
{
    if (t == FL_F32)
        return (struct rows){ (float *)x, step };
    for (int64_t i = first; i < first + rows; i++)
        fl_load_row(room + i * n, fl_element(x, t, i * step), t, 1, n);
    return (struct rows){ room, n };
}

static struct rows from_row(struct rows x, int64_t i) { return (struct rows){ x.p + i * x.step, x.step }; }

/* Where rows of a result are formed, those of a short type from room[at]; put_back rounds them into it. */
static struct rows rows_for(void *y, enum fl_type t, int64_t step, int64_t n, float *room, int64_t at)
{
    return t == FL_F32 ? (struct rows){ y, step } : (struct rows){ room + at, n };
}

static void put_back(void *y, enum fl_type t, int64_t step, struct rows from, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < rows && t != FL_F32; i++)
        fl_store_row(fl_place_of(y, t, i * step), t, 1, from.p + i * from.step, n);
}

static void zero_rows(struct rows x, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < rows; i++)
        memset(x.p + i * x.step, 0, (size_t)n * sizeof(float));
}

/* Memory of a thread: scores and their gradients; sums of a tile's results; copies of short operands. */
struct room {
    float *s, *ds, *sums, *q, *dy, *k, *v;
    const void *of_k, *of_v;             /* the keys and values that k and v hold [from, limit) of */
    int64_t from, limit;
};

static float *take(float **p, int64_t n)
{
    float *at = *p;
    *p += n;
    return at;
}

static struct room room_for(const struct fl_attention *a, enum fl_type t, bool grad)
{
    int64_t scores = ROWS * COLUMNS, copies = t == FL_F32 ? 0 : 1, sums = grad ? copies * a->dk : a->dv;
    int64_t keys = copies * fl_least(HELD, a->tk), queries = copies * ROWS;
    int64_t all = (1 + grad) * scores + ROWS * sums + (keys + queries) * (a->dk + a->dv);
    float *p = fl_thread_scratch(all * (int64_t)sizeof(float));
    struct room r = { .s = take(&p, scores) };
    r.ds = take(&p, grad * scores);
    r.sums = take(&p, ROWS * sums);
    r.q = take(&p, queries * a->dk);
    r.dy = take(&p, queries * a->dv);
    r.k = take(&p, keys * a->dk);
    r.v = take(&p, keys * a->dv);
    return r;
}

/* What queries [t0, t0 + rows) of one head and the keys they may see look like. */
struct tile {
    const struct fl_attention *a;
    enum fl_type type;
    int64_t t0, rows;
    int64_t first, limit;                /* blocks of COLUMNS keys from first up to limit hold all that a query sees */
    const void *k, *v;                   /* of this head */
    struct rows q, keys, values;         /* in f32; the last two of the block at hand */
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

static struct tile tile_at(const struct fl_attention *a, enum fl_type type, int64_t b, int64_t h, int64_t t0,
                           const void *q, const void *k, const void *v, const uint8_t *keep, struct room *r)
{
    int64_t g = h / (a->heads / a->kv_heads);
    struct tile t = { .a = a, .type = type, .t0 = t0, .rows = fl_least(ROWS, a->tq - t0) };
    t.limit = key_limit(a, t0 + t.rows - 1);
    t.first = key_first(a, t0) / COLUMNS * COLUMNS;
    t.documents = a->documents ? a->documents + b * a->document_stride[0] : NULL;
    t.q = widened(fl_element(q, type, b * a->q[0] + h * a->q[1] + t0 * a->q[2]), type, a->q[2], 0, t.rows, a->dk, r->q);
    t.k = fl_element(k, type, b * a->k[0] + g * a->k[1]);
    t.v = fl_element(v, type, b * a->v[0] + g * a->v[1]);
    t.keep = keep ? keep + b * a->keep_stride[0] + h * a->keep_stride[1] : NULL;
    return t;
}

/* Brings keys [c0, c0 + columns) and their values: what this thread does not have from the tiles before. */
static void see(struct tile *t, struct room *r, int64_t c0, int64_t columns)
{
    const struct fl_attention *a = t->a;
    int64_t base = c0 / HELD * HELD, at = c0 - base;
    const void *k = fl_element(t->k, t->type, base * a->k[2]), *v = fl_element(t->v, t->type, base * a->v[2]);
    if (k != r->of_k || v != r->of_v || at < r->from || at > r->limit) {
        r->of_k = k;
        r->of_v = v;
        r->from = r->limit = at;
    }
    int64_t missing = fl_most(0, at + columns - r->limit);
    t->keys = from_row(widened(k, t->type, a->k[2], r->limit, missing, a->dk, r->k), at);
    t->values = from_row(widened(v, t->type, a->v[2], r->limit, missing, a->dv, r->v), at);
    r->limit += missing;
}

/* c[m, n] = op(a) op(b) + beta c */
static void multiply(struct rows c, struct rows a, bool ta, struct rows b, bool tb, int64_t m, int64_t n, int64_t k,
                     float beta)
{
    struct fl_gemm g = { .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .lda = a.step, .ldb = b.step, .ldc = c.step,
                         .alpha = 1, .beta = beta };
    fl_product(c.p, FL_F32, a.p, b.p, FL_F32, &g);
}

static struct rows block(float *s) { return (struct rows){ s, COLUMNS }; }

/* s[rows, COLUMNS] = scale q k^T for keys [c0, c0 + columns), -inf where the query does not see the key. */
static void scores(float *s, const struct tile *t, int64_t c0, int64_t columns)
{
    const struct fl_attention *a = t->a;
    multiply(block(s), t->q, false, t->keys, true, t->rows, columns, a->dk, 0);
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

static void forward(void *y, struct tile *t, struct room *r)
{
    const struct fl_attention *a = t->a;
    struct rows acc = { r->sums, a->dv };
    float *s = r->s, top[ROWS], sum[ROWS];
    for (int64_t i = 0; i < t->rows; i++) {
        top[i] = -INFINITY;
        sum[i] = 0;
    }
    zero_rows(acc, t->rows, a->dv);
    for (int64_t c0 = t->first; c0 < t->limit; c0 += COLUMNS) {
        int64_t columns = fl_least(COLUMNS, t->limit - c0);
        see(t, r, c0, columns);
        scores(s, t, c0, columns);
        for (int64_t i = 0; i < t->rows; i++) {
            float *row = s + i * COLUMNS, by = raise_max(&top[i], row, columns);
            sum[i] = sum[i] * by + exp_row(row, top[i], columns);
            if (c0 > t->first)
                for (int64_t d = 0; d < a->dv; d++)
                    acc.p[i * a->dv + d] *= by;
        }
        multiply(acc, block(s), false, t->values, false, t->rows, a->dv, columns, 1);
    }
    struct rows to = rows_for(y, t->type, a->y[2], a->dv, r->sums, 0);
    for (int64_t i = 0; i < t->rows; i++) {
        float by = sum[i] > 0 ? 1 / sum[i] : 0;
        for (int64_t d = 0; d < a->dv; d++)
            to.p[i * to.step + d] = acc.p[i * a->dv + d] * by;
    }
    put_back(y, t->type, a->y[2], to, t->rows, a->dv);
}

void fl_attention_as(void *y, const void *q, const void *k, const void *v, const uint8_t *keep, enum fl_type type,
                     const struct fl_attention *a)
{
    int64_t blocks = (a->tq + ROWS - 1) / ROWS, tasks = a->batch * a->heads * blocks;
#pragma omp parallel if (tasks > 1)
    {
        struct room r = room_for(a, type, false);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < tasks; i++) {
            int64_t t0 = (blocks - 1 - i % blocks) * ROWS, h = i / blocks % a->heads, b = i / blocks / a->heads;
            struct tile t = tile_at(a, type, b, h, t0, q, k, v, keep, &r);
            forward(fl_place_of(y, type, b * a->y[0] + h * a->y[1] + t0 * a->y[2]), &t, &r);
        }
    }
}

void fl_attention(float *y, const float *q, const float *k, const float *v, const uint8_t *keep,
                  const struct fl_attention *a)
{
    fl_attention_as(y, q, k, v, keep, FL_F32, a);
}

/* Scores of keys [c0, c0 + columns), and dp = dy v^T. */
static void both(struct tile *t, struct room *r, struct rows dy, int64_t c0, int64_t columns)
{
    see(t, r, c0, columns);
    scores(r->s, t, c0, columns);
    multiply(block(r->ds), dy, false, t->values, true, t->rows, columns, t->a->dv, 0);
}

static void backward(struct rows dq, struct rows dk, struct rows dv, struct rows dy, struct tile *t, struct room *r)
{
    const struct fl_attention *a = t->a;
    float *s = r->s, *dp = r->ds, top[ROWS], sum[ROWS], dot[ROWS];
    bool single = t->limit - t->first <= COLUMNS;
    zero_rows(dq, t->rows, a->dk);
    for (int64_t i = 0; i < t->rows; i++) {
        top[i] = -INFINITY;
        sum[i] = dot[i] = 0;
    }
    for (int64_t c0 = t->first; c0 < t->limit; c0 += COLUMNS) {
        int64_t columns = fl_least(COLUMNS, t->limit - c0);
        both(t, r, dy, c0, columns);
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
        if (!single)
            both(t, r, dy, c0, columns);
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
        multiply(dq, block(dp), false, t->keys, false, t->rows, a->dk, columns, 1);
        multiply(from_row(dk, c0), block(dp), true, t->q, false, columns, a->dk, t->rows, 1);
        multiply(from_row(dv, c0), block(s), true, dy, false, columns, a->dv, t->rows, 1);
    }
}

void fl_attention_grad_as(void *dq, void *dk, void *dv, const void *dy, const void *q, const void *k, const void *v,
                          const uint8_t *keep, enum fl_type type, const struct fl_attention *a)
{
    int64_t group = a->kv_heads ? a->heads / a->kv_heads : 0;    /* a rank may have no head at all */
    int64_t tasks = a->batch * a->kv_heads, sums_k = a->tk * a->dk, sums_v = a->tk * a->dv;
    int64_t room = fl_room_of_keys(tasks * a->tk, a->dk + a->dv);
    float *sums = type == FL_F32 ? NULL : fl_scratch(FL_SCRATCH_WIDE, room);
#pragma omp parallel if (tasks > 1)
    {
        struct room r = room_for(a, type, true);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < tasks; i++) {
            int64_t b = i / a->kv_heads, g = i % a->kv_heads;
            int64_t first = i * (sums_k + sums_v);
            void *dk_head = fl_place_of(dk, type, b * a->gk[0] + g * a->gk[1]);
            void *dv_head = fl_place_of(dv, type, b * a->gv[0] + g * a->gv[1]);
            struct rows sum_k = rows_for(dk_head, type, a->gk[2], a->dk, sums, first);
            struct rows sum_v = rows_for(dv_head, type, a->gv[2], a->dv, sums, first + sums_k);
            zero_rows(sum_k, a->tk, a->dk);
            zero_rows(sum_v, a->tk, a->dv);
            for (int64_t h = g * group; h < (g + 1) * group; h++)
                for (int64_t t0 = 0; t0 < a->tq; t0 += ROWS) {
                    struct tile t = tile_at(a, type, b, h, t0, q, k, v, keep, &r);
                    void *dq_rows = fl_place_of(dq, type, b * a->gq[0] + h * a->gq[1] + t0 * a->gq[2]);
                    const void *dy_rows = fl_element(dy, type, b * a->gy[0] + h * a->gy[1] + t0 * a->gy[2]);
                    struct rows sum_q = rows_for(dq_rows, type, a->gq[2], a->dk, r.sums, 0);
                    backward(sum_q, sum_k, sum_v, widened(dy_rows, type, a->gy[2], 0, t.rows, a->dv, r.dy), &t, &r);
                    put_back(dq_rows, type, a->gq[2], sum_q, t.rows, a->dk);
                }
            put_back(dk_head, type, a->gk[2], sum_k, a->tk, a->dk);
            put_back(dv_head, type, a->gv[2], sum_v, a->tk, a->dv);
        }
    }
}

void fl_attention_grad(float *dq, float *dk, float *dv, const float *dy, const float *q, const float *k, const float *v,
                       const uint8_t *keep, const struct fl_attention *a)
{
    fl_attention_grad_as(dq, dk, dv, dy, q, k, v, keep, FL_F32, a);
}
