/* Copies and fills: moving elements of any type. */
#include "cpu.h"

void fl_fill(float *y, float v, int64_t n)
{
#pragma omp parallel for simd if (n > FL_GRAIN)
    for (int64_t i = 0; i < n; i++)
        y[i] = v;
}

void fl_fill_bytes(void *y, int byte, int64_t n_bytes) { memset(y, byte, (size_t)n_bytes); }

/* Shares out `count` blocks of `bytes` each; a single large block is cut itself. */
static void move(char *y, int64_t step_y, const char *x, int64_t step_x, int64_t count, int64_t bytes)
{
    if (bytes == 0)
        return;
    if (count < 16 && bytes > 4 * FL_GRAIN) {
        int64_t piece = 1 << 16, pieces = (bytes + piece - 1) / piece;
#pragma omp parallel for collapse(2)
        for (int64_t i = 0; i < count; i++)
            for (int64_t p = 0; p < pieces; p++)
                memcpy(y + i * step_y + p * piece, x + i * step_x + p * piece,
                       (size_t)fl_least(piece, bytes - p * piece));
        return;
    }
#pragma omp parallel for if (count * bytes > 4 * FL_GRAIN)
    for (int64_t i = 0; i < count; i++)
        memcpy(y + i * step_y, x + i * step_x, (size_t)bytes);
}

void fl_copy(void *y, const void *x, int64_t n, int element_bytes)
{
    if (y != x)
        move(y, 0, x, 0, 1, n * element_bytes);
}

void fl_put(void *y, const void *x, int64_t outer, int64_t ny, int64_t at, int64_t n, int64_t inner, int element_bytes)
{
    int64_t row = inner * element_bytes;
    move((char *)y + at * row, ny * row, x, n * row, outer, n * row);
}

void fl_take(void *y, const void *x, int64_t outer, int64_t nx, int64_t at, int64_t n, int64_t inner, int element_bytes)
{
    int64_t row = inner * element_bytes;
    move(y, n * row, (const char *)x + at * row, nx * row, outer, n * row);
}

/* The innermost extent of a strided copy, by element size. */
#define ROW(T) \
    do { \
        T *to = (T *)y + oy; \
        const T *from = (const T *)x + ox; \
        if (sy == 1 && sx == 1) \
            memcpy(to, from, (size_t)n * sizeof(T)); \
        else \
            for (int64_t i = 0; i < n; i++) \
                to[i * sy] = from[i * sx]; \
    } while (0)

static void copy_row(void *y, int64_t oy, int64_t sy, const void *x, int64_t ox, int64_t sx, int64_t n,
                     int element_bytes)
{
    switch (element_bytes) {
    case 1: ROW(uint8_t); break;
    case 2: ROW(uint16_t); break;
    case 4: ROW(uint32_t); break;
    default: ROW(uint64_t); break;
    }
}

/* Merges dims that are one dim in both tensors, and leaves out those of extent 1. */
static struct fl_strided merged(const struct fl_strided *s)
{
    struct fl_strided m = { .ndim = 0 };
    for (int d = 0; d < s->ndim; d++) {
        int last = m.ndim - 1;
        if (s->n[d] == 1)
            continue;
        if (last >= 0 && m.sy[last] == s->n[d] * s->sy[d] && m.sx[last] == s->n[d] * s->sx[d]) {
            m.n[last] *= s->n[d];
            m.sy[last] = s->sy[d];
            m.sx[last] = s->sx[d];
        } else {
            m.n[m.ndim] = s->n[d];
            m.sy[m.ndim] = s->sy[d];
            m.sx[m.ndim++] = s->sx[d];
        }
    }
    if (m.ndim == 0)
        m = (struct fl_strided){ .ndim = 1, .n = { 1 }, .sy = { 1 }, .sx = { 1 } };
    return m;
}

static int64_t rows_of(const struct fl_strided *m)
{
    int64_t rows = 1;
    for (int d = 0; d < m->ndim - 1; d++)
        rows *= m->n[d];
    return rows;
}

/* Where row r of the innermost extent starts. */
static void row_start(const struct fl_strided *m, int64_t r, int64_t *oy, int64_t *ox)
{
    *oy = *ox = 0;
    for (int d = m->ndim - 2; d >= 0; d--) {
        *oy += r % m->n[d] * m->sy[d];
        *ox += r % m->n[d] * m->sx[d];
        r /= m->n[d];
    }
}

void fl_copy_strided(void *y, const void *x, const struct fl_strided *s, int element_bytes)
{
    struct fl_strided m = merged(s);
    int64_t rows = rows_of(&m), n = m.n[m.ndim - 1];
#pragma omp parallel for if (rows > 1 && rows * n > FL_GRAIN)
    for (int64_t r = 0; r < rows; r++) {
        int64_t oy, ox;
        row_start(&m, r, &oy, &ox);
        copy_row(y, oy, m.sy[m.ndim - 1], x, ox, m.sx[m.ndim - 1], n, element_bytes);
    }
}

void fl_convert_strided(void *y, enum fl_type ty, const void *x, enum fl_type tx, const struct fl_strided *s)
{
    enum { PIECE = 512 };
    struct fl_strided m = merged(s);
    int64_t rows = rows_of(&m), n = m.n[m.ndim - 1], sy = m.sy[m.ndim - 1], sx = m.sx[m.ndim - 1];
    int64_t pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for if (rows * n > FL_GRAIN)
    for (int64_t i = 0; i < rows * pieces; i++) {
        int64_t oy, ox, at = i % pieces * PIECE, count = fl_least(PIECE, n - at);
        float row[PIECE];
        row_start(&m, i / pieces, &oy, &ox);
        fl_load_row(row, fl_element(x, tx, ox + at * sx), tx, sx, count);
        fl_store_row(fl_place_of(y, ty, oy + at * sy), ty, sy, row, count);
    }
}

void fl_convert(void *y, enum fl_type ty, const void *x, enum fl_type tx, int64_t n)
{
    fl_convert_strided(y, ty, x, tx, &(struct fl_strided){ .ndim = 1, .n = { n }, .sy = { 1 }, .sx = { 1 } });
}

void fl_accumulate(float *acc, const float *x, int64_t n, bool first, enum fl_reduce kind)
{
    if (first) {
        fl_copy(acc, x, n, sizeof(float));
        return;
    }
    if (kind == FL_SUM) {
#pragma omp parallel for simd if (n > FL_GRAIN)
        for (int64_t i = 0; i < n; i++)
            acc[i] += x[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (kind == FL_MAX ? x[i] > acc[i] : x[i] < acc[i])
            acc[i] = x[i];
}

void fl_positions(int32_t *y, int64_t base, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)(base + i);
}
