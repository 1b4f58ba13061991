/* Embedding, its gradient, and rope: ops on positions and ids. The gradient of a table row is summed by one thread, in
 * the order of the ids. */
#include "cpu.h"

void fl_embedding_as(void *y, const int32_t *ids, const void *w, enum fl_type t, int64_t count, int64_t base, int64_t rows,
                     int64_t n)
{
    int64_t bytes = n * fl_type_bytes(t);
#pragma omp parallel for if (count * n > FL_GRAIN)
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ids[i] - base;
        if (row >= 0 && row < rows)
            memcpy((char *)y + i * bytes, (const char *)w + row * bytes, (size_t)bytes);
        else
            memset((char *)y + i * bytes, 0, (size_t)bytes);
    }
}

void fl_embedding(float *y, const int32_t *ids, const float *w, int64_t count, int64_t base, int64_t rows, int64_t n)
{
    fl_embedding_as(y, ids, w, FL_F32, count, base, rows, n);
}

void fl_embedding_grad_as(float *dw, const void *dy, enum fl_type t, const int32_t *ids, int64_t count, int64_t base,
                          int64_t rows, int64_t n)
{
    /* counting sort: the places of row r are order[start[r]] .. order[start[r + 1] - 1], ascending */
    int32_t *start = fl_scratch(FL_SCRATCH_INDEX, (rows + 2 + count) * (int64_t)sizeof(int32_t)),
            *order = start + rows + 2;
    memset(start, 0, (size_t)(rows + 2) * sizeof(int32_t));
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ids[i] - base;
        if (row >= 0 && row < rows)
            start[row + 2]++;
    }
    for (int64_t r = 2; r < rows + 2; r++)
        start[r] += start[r - 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ids[i] - base;
        if (row >= 0 && row < rows)
            order[start[row + 1]++] = (int32_t)i;
    }
#pragma omp parallel for schedule(dynamic, 16) if ((rows + count) * n > FL_GRAIN)
    for (int64_t r = 0; r < rows; r++) {
        float *to = dw + r * n;
        memset(to, 0, (size_t)n * sizeof(float));
        for (int32_t p = start[r]; p < start[r + 1]; p++) {
            const float *from = (const float *)dy + order[p] * n;
            if (t != FL_F32) {
                float *row = fl_thread_scratch(n * (int64_t)sizeof(float));
                fl_load_row(row, fl_element(dy, t, order[p] * n), t, 1, n);
                from = row;
            }
#pragma omp simd
            for (int64_t d = 0; d < n; d++)
                to[d] += from[d];
        }
    }
}

void fl_embedding_grad(float *dw, const float *dy, const int32_t *ids, int64_t count, int64_t base, int64_t rows,
                       int64_t n)
{
    fl_embedding_grad_as(dw, dy, FL_F32, ids, count, base, rows, n);
}

void fl_rope_as(void *y, const void *x, enum fl_type type, int64_t outer, int64_t t, int64_t inner, int64_t n,
                int64_t first, float base, bool half, bool inverse)
{
    int64_t pairs = n / 2;
    float *turn =
        fl_scratch(FL_SCRATCH_KERNEL, t * n * (int64_t)sizeof(float)); /* cos, sin of each position and pair */
#pragma omp parallel for if (t * n > FL_GRAIN / 8)
    for (int64_t p = 0; p < t; p++)
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)(first + p) * pow(base, -2.0 * (double)i / (double)n);
            turn[p * n + i] = (float)cos(angle);
            turn[p * n + pairs + i] = (float)(inverse ? -sin(angle) : sin(angle));
        }
#pragma omp parallel for if (outer * t * inner * n > FL_GRAIN)
    for (int64_t r = 0; r < outer * t * inner; r++) {
        void *place = fl_place_of(y, type, r * n);
        float *room = type == FL_F32 ? NULL : fl_thread_scratch(n * (int64_t)sizeof(float));
        const float *from = fl_row_in(room, fl_element(x, type, r * n), type, n);
        const float *c = turn + r / inner % t * n, *s = c + pairs;
        float *to = fl_row_out(room, place, type);
        int64_t step = half ? 1 : 2, other = half ? pairs : 1;
#pragma omp simd
        for (int64_t i = 0; i < pairs; i++) {
            float a = from[i * step], b = from[i * step + other];
            to[i * step] = a * c[i] - b * s[i];
            to[i * step + other] = a * s[i] + b * c[i];
        }
        fl_row_put(place, type, to, n);
    }
}

void fl_rope(float *y, const float *x, int64_t outer, int64_t t, int64_t inner, int64_t n, int64_t first, float base,
             bool half, bool inverse)
{
    fl_rope_as(y, x, FL_F32, outer, t, inner, n, first, base, half, inverse);
}
