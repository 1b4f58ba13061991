/* Row work of emitted kernels (compiler/emit/rows.c) on a processor: a row is worked on in passes, one after the other, and stays in
 * the fastest cache. A sum along a row has one shape whatever is fused around it (rows.c), and a sum of all rows is made over
 * chunks of rows of fixed size, then over chunks in order: same numbers, same bits. */
#ifndef FL_ROWS_H
#define FL_ROWS_H
#include "../fl_defaults.h"

enum { FL_CHUNK_ROWS = FL_CHUNK_ROWS_CPU };
static inline int64_t fl_chunks(int64_t rows, int64_t n)
{
    (void)n;
    return (rows + FL_CHUNK_ROWS - 1) / FL_CHUNK_ROWS;
}
float fl_row_sum(const float *x, int64_t n);
float fl_row_max(const float *x, int64_t n);
float fl_row_min(const float *x, int64_t n);
/* Which elements of a row dropout keeps; first: where its first one is in the logical tensor. */
void fl_row_kept(uint8_t *kept, const struct fl_step *s, uint64_t hash, int64_t block, int64_t first, uint64_t least, int64_t n);

#define FL_LAUNCH_ROWS(kernel, rows, n, ...) kernel(__VA_ARGS__)
#define FL_LAUNCH_CHUNKS(kernel, rows, n, ...) kernel(__VA_ARGS__)
#define FL_ROWS(r, rows, n) FL_PRAGMA(omp parallel for if ((int64_t)(rows) * (n) > 8192)) for (int64_t r = 0; r < (rows); r++)
#define FL_CHUNKS(c, rows, n) FL_PRAGMA(omp parallel for if ((int64_t)(rows) * (n) > 8192)) for (int64_t c = 0; c < fl_chunks(rows, n); c++)
#define FL_CHUNK(r, c, rows) \
    for (int64_t r = (c) * FL_CHUNK_ROWS; r < (rows) && r < ((c) + 1) * FL_CHUNK_ROWS; r++)
/* A pass over the row; a row that is read, written or of the kernel's own; `vectors` is for GPUs. */
#define FL_PASS(i, n) FL_PRAGMA(omp simd) for (int64_t i = 0; i < (n); i++)
#define FL_ROW_IN(x, T, from, n, vectors) const T *const x = (from)
#define FL_ROW_OUT(y, T, to, n) T *const y = (to)
#define FL_ROW_PUT(y, T, to, n, vectors) (void)0
#define FL_ROW_OWN(v, n) float v[n] __attribute__((aligned(64)))
#define FL_GET_f32(x, i) (x)[i]
#define FL_GET_bf16(x, i) fl_from_bf16((x)[i])
#define FL_GET_f16(x, i) fl_from_f16((x)[i])
#define FL_GET_bool(x, i) (float)(x)[i]
#define FL_SET_f32(y, i, v) (y)[i] = (v)
#define FL_SET_bf16(y, i, v) (y)[i] = fl_to_bf16(v)
#define FL_SET_f16(y, i, v) (y)[i] = fl_to_f16(v)
#define FL_SET_bool(y, i, v) (y)[i] = (v) != 0.0f
#define FL_ROW_SUM(x, n) fl_row_sum(x, n)
#define FL_ROW_MAX(x, n) fl_row_max(x, n)
#define FL_ROW_MIN(x, n) fl_row_min(x, n)
#define FL_STEP(s) (s)
#define FL_ROW_KEPT(kept, s, hash, block, first, least, n) \
    uint8_t kept[n]; \
    fl_row_kept(kept, s, hash, block, first, least, n)
#define FL_KEPT(kept, i) (kept)[i]
#define FL_ONCE(n)
/* The sums of a chunk: row k of the `count` that it leaves in parts. */
#define FL_COLUMN(p, parts, c, k, count, n) \
    float *const p = (parts) + ((c) * (count) + (k)) * (n); \
    for (int64_t p##_i = 0; p##_i < (n); p##_i++) \
        p[p##_i] = 0
#define FL_COLUMN_PUT(p, parts, c, k, count, n) (void)0
#endif
