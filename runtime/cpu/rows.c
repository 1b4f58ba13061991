/* What emitted row work calls (flow_rows.h). Sums along a row: 64 running sums, element i to sum i mod 64, which are then added up
 * in halves. */
#include "cpu.h"

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
enum { LANES = 16, SUMS = 4, WIDTH = SUMS * LANES };

float fl_row_sum(const float *x, int64_t n)
{
    lanes s[SUMS] = {{0}, {0}, {0}, {0}};
    float last[WIDTH];
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        for (int k = 0; k < SUMS; k++)
            s[k] += *(const lanes *)(x + i + k * LANES);
    memcpy(last, s, sizeof last);
    for (int64_t l = 0; i + l < n; l++)
        last[l] += x[i + l];
    for (int half = WIDTH / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            last[l] += last[l + half];
    return last[0];
}

/* Of these the order does not matter. */
float fl_row_max(const float *x, int64_t n)
{
    float top = -INFINITY;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

float fl_row_min(const float *x, int64_t n)
{
    float least = INFINITY;
#pragma omp simd reduction(min : least)
    for (int64_t i = 0; i < n; i++)
        least = x[i] < least ? x[i] : least;
    return least;
}

float *fl_row_parts(int64_t elements)
{
    return fl_scratch(FL_SCRATCH_KERNEL, elements * (int64_t)sizeof(float));
}

void fl_row_columns(void *y, enum fl_type t, const float *parts, int64_t chunks, int64_t step, int64_t n)
{
#pragma omp parallel for if (chunks * n > FL_GRAIN)
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t c = 0; c < chunks; c++)
            sum += parts[c * step + i];
        float f = (float)sum;
        fl_store_row(fl_place_of(y, t, i), t, 1, &f, 1);
    }
}
