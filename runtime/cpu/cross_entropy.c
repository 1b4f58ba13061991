/* Cross entropy over rows of logits, whole or in the pieces a split vocabulary needs. Each row is one thread's. */
#include "cpu.h"
#include <float.h>

/* Valid columns of a part that starts at class `base`. */
static int64_t columns(int64_t n, int64_t base, int64_t valid) { return fl_most(0, fl_least(n, valid - base)); }

static float row_max(const float *x, int64_t n)
{
    float top = -INFINITY;
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < n; j++)
        top = x[j] > top ? x[j] : top;
    return top;
}

static float row_sum_exp(const float *x, float top, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += fl_exp(x[j] - top);
    return sum;
}

static float row_below(const float *x, float top, int64_t target, int64_t n, int64_t valid, float smoothing)
{
    float p = target >= 0 && target < n ? (1 - smoothing) * (top - x[target]) : 0;
    double sum = 0;
    if (smoothing == 0)
        return p;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += top - x[j];
    return p + (float)(smoothing * sum / (double)valid);
}

/* d loss / dx[j] = softmax[j] - (1 - smoothing) [j = target] - smoothing / valid; 0 in padding. */
static void row_grad(float *dx, float dloss, const float *x, float top, float sum, int64_t target, int64_t n,
                     int64_t stored, int64_t valid, float smoothing)
{
    float by = dloss / sum, less = dloss * smoothing / (float)valid;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        dx[j] = fl_exp(x[j] - top) * by - less;
    for (int64_t j = n; j < stored; j++)
        dx[j] = 0;
    if (target >= 0 && target < n)
        dx[target] -= dloss * (1 - smoothing);
}

/* n entries of a tensor of type t from `at` on, as f32: where they lie, or in scratch. */
static const float *as_f32(const void *x, enum fl_type t, int64_t at, int64_t n)
{
    if (t == FL_F32)
        return (const float *)x + at;
    float *row = fl_thread_scratch(2 * n * (int64_t)sizeof(float));
    fl_load_row(row, fl_element(x, t, at), t, 1, n);
    return row;
}

void fl_ce_max_as(float *m, const void *logits, enum fl_type t, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++)
        m[r] = row_max(as_f32(logits, t, r * n, n), columns(n, base, valid));
}

void fl_ce_sum_exp_as(float *s, const void *logits, enum fl_type t, const float *m, int64_t rows, int64_t n, int64_t base,
                      int64_t valid)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++)
        s[r] = row_sum_exp(as_f32(logits, t, r * n, n), m[r], columns(n, base, valid));
}

/* Without smoothing only one entry of the row is read. */
static float below(const void *logits, enum fl_type t, float top, int64_t at, int64_t n, int64_t target, int64_t valid_here,
                   int64_t valid, float smoothing)
{
    bool inside = target >= 0 && target < valid_here;
    if (smoothing > 0)
        return row_below(as_f32(logits, t, at, n), top, target, valid_here, valid, smoothing);
    return inside ? top - *as_f32(logits, t, at + target, 1) : 0;
}

void fl_ce_below_as(float *p, const void *logits, enum fl_type t, const float *m, const int32_t *target, int64_t rows,
                    int64_t n, int64_t base, int64_t valid, int32_t ignore, float smoothing)
{
#pragma omp parallel for if (rows > FL_GRAIN || smoothing > 0)
    for (int64_t r = 0; r < rows; r++)
        p[r] = target[r] == ignore ? 0
             : below(logits, t, m[r], r * n, n, target[r] - base, columns(n, base, valid), valid, smoothing);
}

void fl_ce_grad_as(void *dlogits, const float *dloss, const void *logits, enum fl_type t, const float *m, const float *s,
                   const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                   float smoothing)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++) {
        void *to = fl_place_of(dlogits, t, r * n);
        if (target[r] == ignore) {
            memset(to, 0, (size_t)(n * fl_type_bytes(t)));
            continue;
        }
        const float *x = as_f32(logits, t, r * n, n);
        float *dx = t == FL_F32 ? to : (float *)fl_thread_scratch(2 * n * (int64_t)sizeof(float)) + n;
        row_grad(dx, dloss[r], x, m[r], s[r], target[r] - base, columns(n, base, valid), n, valid, smoothing);
        if (t != FL_F32)
            fl_store_row(to, t, 1, dx, n);
    }
}

/* The loss of a row; its logits become softmax * by - less, but for the target's part. */
static float row_both(float *x, float dloss, int64_t target, int64_t n, int64_t stored, int64_t valid, float smoothing, bool gradient)
{
    float top = row_max(x, n), below = row_below(x, top, target, n, valid, smoothing), sum = 0;
    if (!gradient)
        return logf(row_sum_exp(x, top, n)) + below;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        float e = fl_exp(x[j] - top);
        x[j] = e;
        sum += e;
    }
    float by = dloss / sum, less = dloss * smoothing / (float)valid;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        x[j] = x[j] * by - less;
    for (int64_t j = n; j < stored; j++)
        x[j] = 0;
    if (target >= 0 && target < n)
        x[target] -= dloss * (1 - smoothing);
    return logf(sum) + below;
}

/* A row of f32 becomes one of a short type at its beginning. */
static void narrow(float *x, enum fl_type t, int64_t n)
{
    enum { PIECE = 256 };
    float piece[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = fl_least(PIECE, n - i);
        memcpy(piece, x + i, (size_t)count * sizeof(float));
        fl_store_row(fl_place_of(x, t, i), t, 1, piece, count);
    }
}

void fl_ce_rows(float *loss, float *logits, enum fl_type t, const float *dloss, const int32_t *target, int64_t rows, int64_t n,
                int64_t valid, int32_t ignore, float smoothing)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++) {
        float *x = logits + r * n;
        bool skipped = target[r] == ignore;
        loss[r] = skipped ? 0 : row_both(x, dloss ? dloss[r] : 0, target[r], columns(n, 0, valid), n, valid, smoothing, dloss);
        if (!dloss)
            continue;
        if (skipped)
            memset(x, 0, (size_t)(n * fl_type_bytes(t)));
        else if (t != FL_F32)
            narrow(x, t, n);
    }
}

void fl_ce_parts(float *most, float *sum, float *below, float *weight, const float *logits, int64_t apart, const int32_t *target,
                 int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore, float smoothing)
{
    int64_t here = columns(n, base, valid);
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++) {
        const float *x = logits + r * apart;
        int64_t at = target[r] - base;
        bool skipped = target[r] == ignore, hit = at >= 0 && at < here;
        most[r] = fmaxf(row_max(x, here), -FLT_MAX);
        sum[r] = row_sum_exp(x, most[r], here);
        below[r] = skipped ? 0 : row_below(x, most[r], at, here, valid, smoothing);
        weight[r] = skipped ? 0 : (hit ? 1 - smoothing : 0) + smoothing * (float)here / (float)valid;
    }
}

void fl_ce_parts_grad(float *logits, enum fl_type t, const float *dloss, const float *m, const float *s, const int32_t *target,
                      int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore, float smoothing)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++) {
        float *x = logits + r * n;
        if (target[r] == ignore) {
            memset(x, 0, (size_t)(n * fl_type_bytes(t)));
            continue;
        }
        row_grad(x, dloss[r], x, m[r], s[r], target[r] - base, columns(n, base, valid), n, valid, smoothing);
        if (t != FL_F32)
            narrow(x, t, n);
    }
}

void fl_ce_max(float *m, const float *logits, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
    fl_ce_max_as(m, logits, FL_F32, rows, n, base, valid);
}

void fl_ce_sum_exp(float *s, const float *logits, const float *m, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
    fl_ce_sum_exp_as(s, logits, FL_F32, m, rows, n, base, valid);
}

void fl_ce_below(float *p, const float *logits, const float *m, const int32_t *target, int64_t rows, int64_t n, int64_t base,
                 int64_t valid, int32_t ignore, float smoothing)
{
    fl_ce_below_as(p, logits, FL_F32, m, target, rows, n, base, valid, ignore, smoothing);
}

void fl_ce_grad(float *dlogits, const float *dloss, const float *logits, const float *m, const float *s,
                const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                float smoothing)
{
    fl_ce_grad_as(dlogits, dloss, logits, FL_F32, m, s, target, rows, n, base, valid, ignore, smoothing);
}
