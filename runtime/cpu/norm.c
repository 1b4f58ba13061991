/* Layer norm and RMS norm over the last dim, with gradients. Statistics are formed in double from vector partial sums;
 * the gradients of weight and bias are summed over chunks of rows of fixed size, then over chunks in order. */
#include "cpu.h"

enum { CHUNK = FL_NORM_CHUNK };

static double sum_of(const float *x, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static double squares_about(const float *x, float mean, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double d = x[i] - mean;
        sum += d * d;
    }
    return sum;
}

/* mean 0 and only the second moment for RMS norm. */
static void statistics(const float *x, int64_t n, float eps, bool centre, float *mean, float *inverse)
{
    *mean = centre ? (float)(sum_of(x, n) / (double)n) : 0;
    *inverse = (float)(1 / sqrt(squares_about(x, *mean, n) / (double)n + eps));
}

static void forward(float *y, const float *x, const float *weight, const float *bias, int64_t rows, int64_t n,
                    float eps, bool centre)
{
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * n;
        float *to = y + r * n, mean, inverse;
        statistics(from, n, eps, centre, &mean, &inverse);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = (from[i] - mean) * inverse;
            to[i] = (weight ? v * weight[i] : v) + (bias ? bias[i] : 0);
        }
    }
}

/* With h = (x - mean) / sigma and e = dy weight: dx = (e - mean(e) - h mean(e h)) / sigma; RMS norm lacks mean(e). */
static void backward(float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                     int64_t rows, int64_t n, float eps, bool centre)
{
    int64_t chunks = (rows + CHUNK - 1) / CHUNK;
    float *part = fl_scratch(FL_SCRATCH_KERNEL, fl_room_of_norm(rows, n));
#pragma omp parallel for if (rows * n > FL_GRAIN / 4)
    for (int64_t c = 0; c < chunks; c++) {
        float *pw = part + 2 * c * n, *pb = pw + n;
        memset(pw, 0, (size_t)(2 * n) * sizeof(float));
        for (int64_t r = c * CHUNK; r < fl_least((c + 1) * CHUNK, rows); r++) {
            const float *from = x + r * n, *g = dy + r * n;
            float mean, inverse, sum = 0, dot = 0;
            statistics(from, n, eps, centre, &mean, &inverse);
#pragma omp simd reduction(+ : sum, dot)
            for (int64_t i = 0; i < n; i++) {
                float h = (from[i] - mean) * inverse, e = weight ? g[i] * weight[i] : g[i];
                sum += e;
                dot += e * h;
                pw[i] += g[i] * h;
                pb[i] += g[i];
            }
            if (!dx)
                continue;
            sum = centre ? sum / (float)n : 0;
            dot /= (float)n;
            float *to = dx + r * n;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                float h = (from[i] - mean) * inverse, e = weight ? g[i] * weight[i] : g[i];
                to[i] = (e - sum - h * dot) * inverse;
            }
        }
    }
    if (!dweight && !dbias)
        return;
#pragma omp parallel for if (chunks * n > FL_GRAIN)
    for (int64_t i = 0; i < n; i++) {
        double sw = 0, sb = 0;
        for (int64_t c = 0; c < chunks; c++) {
            sw += part[2 * c * n + i];
            sb += part[2 * c * n + n + i];
        }
        if (dweight)
            dweight[i] = (float)sw;
        if (dbias)
            dbias[i] = (float)sb;
    }
}

void fl_layer_norm(float *y, const float *x, const float *weight, const float *bias, int64_t rows, int64_t n, float eps)
{
    forward(y, x, weight, bias, rows, n, eps, true);
}

void fl_layer_norm_grad(float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                        int64_t rows, int64_t n, float eps)
{
    backward(dx, dweight, dbias, dy, x, weight, rows, n, eps, true);
}

void fl_rms_norm(float *y, const float *x, const float *weight, int64_t rows, int64_t n, float eps)
{
    forward(y, x, weight, NULL, rows, n, eps, false);
}

void fl_rms_norm_grad(float *dx, float *dweight, const float *dy, const float *x, const float *weight, int64_t rows,
                      int64_t n, float eps)
{
    backward(dx, dweight, NULL, dy, x, weight, rows, n, eps, false);
}
