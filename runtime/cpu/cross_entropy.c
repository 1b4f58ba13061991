/* Cross entropy over rows of logits, whole or in the pieces a split vocabulary needs. Each row is one thread's. */
#include "cpu.h"

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

static float row_pick(const float *x, int64_t target, int64_t n, int64_t valid, float smoothing)
{
    float p = target >= 0 && target < n ? (1 - smoothing) * x[target] : 0;
    if (smoothing > 0) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++)
            sum += x[j];
        p += (float)(smoothing * sum / (double)valid);
    }
    return p;
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

void fl_ce_max(float *m, const float *logits, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++)
        m[r] = row_max(logits + r * n, columns(n, base, valid));
}

void fl_ce_sum_exp(float *s, const float *logits, const float *m, int64_t rows, int64_t n, int64_t base, int64_t valid)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++)
        s[r] = row_sum_exp(logits + r * n, m[r], columns(n, base, valid));
}

void fl_ce_pick(float *p, const float *logits, const int32_t *target, int64_t rows, int64_t n, int64_t base,
                int64_t valid, int32_t ignore, float smoothing)
{
#pragma omp parallel for if (rows > FL_GRAIN || smoothing > 0)
    for (int64_t r = 0; r < rows; r++)
        p[r] = target[r] == ignore
                   ? 0
                   : row_pick(logits + r * n, target[r] - base, columns(n, base, valid), valid, smoothing);
}

void fl_ce_grad(float *dlogits, const float *dloss, const float *logits, const float *m, const float *s,
                const int32_t *target, int64_t rows, int64_t n, int64_t base, int64_t valid, int32_t ignore,
                float smoothing)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++) {
        if (target[r] == ignore)
            memset(dlogits + r * n, 0, (size_t)n * sizeof(float));
        else
            row_grad(dlogits + r * n, dloss[r], logits + r * n, m[r], s[r], target[r] - base, columns(n, base, valid),
                     n, valid, smoothing);
    }
}
