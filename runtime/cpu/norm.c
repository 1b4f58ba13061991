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

/* A tensor and its type. */
struct typed { const void *p; enum fl_type t; };
struct result { void *p; enum fl_type t; };

static const float *row_in(float *room, struct typed x, int64_t r, int64_t n)
{
    return x.p ? fl_row_in(room, fl_element(x.p, x.t, r * n), x.t, n) : NULL;
}

static void forward(struct result y, struct typed x, struct typed gain, struct typed shift, int64_t rows, int64_t n,
                    float eps, bool centre)
{
#pragma omp parallel if (rows * n > FL_GRAIN / 4)
    {
        float *room = fl_thread_scratch(3 * n * (int64_t)sizeof(float));
        const float *weight = row_in(room + n, gain, 0, n), *bias = row_in(room + 2 * n, shift, 0, n);
#pragma omp for
        for (int64_t r = 0; r < rows; r++) {
            const float *from = row_in(room, x, r, n);
            void *place = fl_place_of(y.p, y.t, r * n);
            float *to = fl_row_out(room, place, y.t), mean, inverse;
            statistics(from, n, eps, centre, &mean, &inverse);
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                float v = (from[i] - mean) * inverse;
                to[i] = (weight ? v * weight[i] : v) + (bias ? bias[i] : 0);
            }
            fl_row_put(place, y.t, to, n);
        }
    }
}

/* With h = (x - mean) / sigma and e = dy weight: dx = (e - mean(e) - h mean(e h)) / sigma; RMS norm lacks mean(e). */
static void backward(struct result dx, struct result dweight, struct result dbias, struct typed dy, struct typed x,
                     struct typed gain, int64_t rows, int64_t n, float eps, bool centre)
{
    int64_t chunks = (rows + CHUNK - 1) / CHUNK;
    float *part = fl_scratch(FL_SCRATCH_KERNEL, fl_room_of_norm(rows, n));
#pragma omp parallel if (rows * n > FL_GRAIN / 4)
    {
        float *room = fl_thread_scratch(3 * n * (int64_t)sizeof(float));
        const float *weight = row_in(room + 2 * n, gain, 0, n);
#pragma omp for
        for (int64_t c = 0; c < chunks; c++) {
            float *pw = part + 2 * c * n, *pb = pw + n;
            memset(pw, 0, (size_t)(2 * n) * sizeof(float));
            for (int64_t r = c * CHUNK; r < fl_least((c + 1) * CHUNK, rows); r++) {
                const float *from = row_in(room, x, r, n), *g = row_in(room + n, dy, r, n);
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
                if (!dx.p)
                    continue;
                sum = centre ? sum / (float)n : 0;
                dot /= (float)n;
                void *place = fl_place_of(dx.p, dx.t, r * n);
                float *to = fl_row_out(room, place, dx.t);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    float h = (from[i] - mean) * inverse, e = weight ? g[i] * weight[i] : g[i];
                    to[i] = (e - sum - h * dot) * inverse;
                }
                fl_row_put(place, dx.t, to, n);
            }
        }
    }
    if (dweight.p)
        fl_row_columns(dweight.p, dweight.t, part, chunks, 2 * n, n);
    if (dbias.p)
        fl_row_columns(dbias.p, dbias.t, part + n, chunks, 2 * n, n);
}

#define IN(x, t) (struct typed){ x, t }
#define OUT(y, t) (struct result){ y, t }

void fl_layer_norm_as(void *y, const void *x, const void *weight, const void *bias, int64_t rows, int64_t n, float eps,
                      enum fl_type ty, enum fl_type tx, enum fl_type tw, enum fl_type tb)
{
    forward(OUT(y, ty), IN(x, tx), IN(weight, tw), IN(bias, tb), rows, n, eps, true);
}

void fl_layer_norm(float *y, const float *x, const float *weight, const float *bias, int64_t rows, int64_t n, float eps)
{
    fl_layer_norm_as(y, x, weight, bias, rows, n, eps, FL_F32, FL_F32, FL_F32, FL_F32);
}

void fl_layer_norm_grad_as(void *dx, void *dweight, void *dbias, const void *dy, const void *x, const void *weight,
                           int64_t rows, int64_t n, float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdb,
                           enum fl_type tdy, enum fl_type tx, enum fl_type tw)
{
    backward(OUT(dx, tdx), OUT(dweight, tdw), OUT(dbias, tdb), IN(dy, tdy), IN(x, tx), IN(weight, tw), rows, n, eps,
             true);
}

void fl_layer_norm_grad(float *dx, float *dweight, float *dbias, const float *dy, const float *x, const float *weight,
                        int64_t rows, int64_t n, float eps)
{
    fl_layer_norm_grad_as(dx, dweight, dbias, dy, x, weight, rows, n, eps, FL_F32, FL_F32, FL_F32, FL_F32, FL_F32,
                          FL_F32);
}

void fl_rms_norm_as(void *y, const void *x, const void *weight, int64_t rows, int64_t n, float eps, enum fl_type ty,
                    enum fl_type tx, enum fl_type tw)
{
    forward(OUT(y, ty), IN(x, tx), IN(weight, tw), IN(NULL, FL_F32), rows, n, eps, false);
}

void fl_rms_norm(float *y, const float *x, const float *weight, int64_t rows, int64_t n, float eps)
{
    fl_rms_norm_as(y, x, weight, rows, n, eps, FL_F32, FL_F32, FL_F32);
}

void fl_rms_norm_grad_as(void *dx, void *dweight, const void *dy, const void *x, const void *weight, int64_t rows,
                         int64_t n, float eps, enum fl_type tdx, enum fl_type tdw, enum fl_type tdy, enum fl_type tx,
                         enum fl_type tw)
{
    backward(OUT(dx, tdx), OUT(dweight, tdw), OUT(NULL, FL_F32), IN(dy, tdy), IN(x, tx), IN(weight, tw), rows, n, eps,
             false);
}

void fl_rms_norm_grad(float *dx, float *dweight, const float *dy, const float *x, const float *weight, int64_t rows,
                      int64_t n, float eps)
{
    fl_rms_norm_grad_as(dx, dweight, dy, x, weight, rows, n, eps, FL_F32, FL_F32, FL_F32, FL_F32, FL_F32);
}
