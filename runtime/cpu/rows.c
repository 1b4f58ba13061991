/* What emitted row work calls (flow_rows.h). Sums along a row: 64 running sums, element i to sum i mod 64, which are then added up
 * in halves. */
#include "../fl_random.h"
#include "cpu.h"
#include "flow_rows.h"

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));
enum { LANES = 16, SUMS = 4, WIDTH = SUMS * LANES };

float fl_row_sum(const float *x, int64_t n)
{
    lanes s[SUMS] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        for (int k = 0; k < SUMS; k++)
            s[k] += *(const lanes *)(x + i + k * LANES);
    for (int k = 0; i < n; k++, i += LANES) {
        lanes rest = {0};
        memcpy(&rest, x + i, (size_t)fl_least(n - i, LANES) * sizeof(float));
        s[k] += rest;
    }
    lanes all = (s[0] + s[2]) + (s[1] + s[3]);
    eight half[2], a;
    four quarter[2], b;
    memcpy(half, &all, sizeof half);
    a = half[0] + half[1];
    memcpy(quarter, &a, sizeof quarter);
    b = quarter[0] + quarter[1];
    return (b[0] + b[2]) + (b[1] + b[3]);
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

void fl_row_kept(uint8_t *kept, const struct fl_step *s, uint64_t hash, int64_t block, int64_t first, uint64_t least, int64_t n)
{
    uint64_t key = fl_key(s->seed, hash);
    for (int64_t i = 0; i < n;) {
        uint32_t word[4];
        uint64_t at = (uint64_t)(first + i);
        fl_random_4(key, s->step, (uint32_t)block, at >> 2, word);
        for (int e = (int)(at & 3); e < 4 && i < n; e++)
            kept[i++] = word[e] >= least;
    }
}

void fl_row_columns(void *y, enum fl_type t, const float *parts, int64_t chunks, int64_t step, int64_t n)
{
#pragma omp parallel for if (chunks * n > FL_GRAIN)
    for (int64_t at = 0; at < n; at += WIDTH) {
        double sum[WIDTH] = { 0 };
        float row[WIDTH];
        int64_t count = fl_least(WIDTH, n - at);
        for (int64_t c = 0; c < chunks; c++)
#pragma omp simd
            for (int64_t i = 0; i < count; i++)
                sum[i] += parts[c * step + at + i];
        for (int64_t i = 0; i < count; i++)
            row[i] = (float)sum[i];
        fl_store_row(fl_place_of(y, t, at), t, 1, row, count);
    }
}
