/* Reductions over any dims. Dims that are next to each other and treated alike are merged first; then either the
 * innermost dim is kept (rows are added to each other) or it is reduced (each row gives numbers). Chunks of fixed size
 * are reduced on their own and their results combined in order, in double, whatever the number of threads. */
#include "cpu.h"

struct shape {                           /* merged: groups alternate between kept and reduced */
    int ndim;
    int64_t n[FL_MAX_DIM], valid[FL_MAX_DIM], stride[FL_MAX_DIM];
    bool reduced[FL_MAX_DIM];
    int64_t kept, folded;                /* entries of y; entries of x that go into one of them */
};

static struct shape merge(const struct fl_dims *d)
{
    struct shape s = { .ndim = 0, .kept = 1, .folded = 1 };
    for (int i = 0; i < d->ndim; i++) {
        bool reduced = d->reduced >> i & 1, whole = !reduced || d->valid[i] == d->n[i];
        int64_t valid = reduced ? d->valid[i] : d->n[i];
        *(reduced ? &s.folded : &s.kept) *= valid;
        int last = s.ndim - 1;
        if (last >= 0 && s.reduced[last] == reduced && whole) {
            s.n[last] *= d->n[i];                        /* padding of an outer dim covers whole inner blocks */
            s.valid[last] *= d->n[i];
        } else {
            s.n[s.ndim] = d->n[i];
            s.valid[s.ndim] = valid;
            s.reduced[s.ndim++] = reduced;
        }
    }
    int64_t stride = 1;
    for (int i = s.ndim - 1; i >= 0; i--) {
        s.stride[i] = stride;
        stride *= s.n[i];
    }
    return s;
}

/* Offset in x of index `at` among the dims before `end` that are reduced (or kept). */
static int64_t offset(const struct shape *s, int end, bool reduced, int64_t at)
{
    int64_t sum = 0;
    for (int i = end - 1; i >= 0; i--)
        if (s->reduced[i] == reduced) {
            int64_t n = reduced ? s->valid[i] : s->n[i];
            sum += at % n * s->stride[i];
            at /= n;
        }
    return sum;
}

static double identity(enum fl_reduce kind) { return kind == FL_SUM ? 0 : kind == FL_MAX ? -INFINITY : INFINITY; }

static double join(enum fl_reduce kind, double a, double b)
{
    return kind == FL_SUM ? a + b : kind == FL_MAX ? (b > a ? b : a) : (b < a ? b : a);
}

static double fold_row(const float *x, int64_t n, enum fl_reduce kind)
{
    double sum = 0;
    float top = kind == FL_MAX ? -INFINITY : INFINITY;
    if (kind == FL_SUM) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += x[i];
        return sum;
    }
    if (kind == FL_MAX) {
#pragma omp simd reduction(max : top)
        for (int64_t i = 0; i < n; i++)
            top = x[i] > top ? x[i] : top;
    } else {
#pragma omp simd reduction(min : top)
        for (int64_t i = 0; i < n; i++)
            top = x[i] < top ? x[i] : top;
    }
    return top;
}

static void add_row(float *acc, const float *x, int64_t n, enum fl_reduce kind)
{
    if (kind == FL_SUM) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            acc[i] += x[i];
    } else if (kind == FL_MAX) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            acc[i] = x[i] > acc[i] ? x[i] : acc[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            acc[i] = x[i] < acc[i] ? x[i] : acc[i];
    }
}

enum { CHUNK_ROWS = FL_FOLD_ROWS, CHUNK_ENTRIES = FL_FOLD_ENTRIES };

/* n entries from `at` on as f32: where they lie, or in scratch of the thread. */
static const float *row_of(const void *x, enum fl_type t, int64_t at, int64_t n)
{
    if (t == FL_F32)
        return (const float *)x + at;
    float *row = fl_thread_scratch(n * (int64_t)sizeof(float));
    fl_load_row(row, fl_element(x, t, at), t, 1, n);
    return row;
}

/* y[kept outer, inner] = fold over reduced rows of x[.., inner]. */
static void fold_rows(float *y, const void *x, enum fl_type tx, const struct shape *s, enum fl_reduce kind)
{
    int last = s->ndim - 1;
    int64_t inner = s->n[last], outer = inner ? s->kept / inner : 0, rows = s->folded;
    int64_t chunks = rows ? (rows + CHUNK_ROWS - 1) / CHUNK_ROWS : 1;
    float *part = chunks > 1 ? fl_scratch(FL_SCRATCH_KERNEL, fl_room_of_rows(s->kept, rows)) : y;
#pragma omp parallel for if (outer * rows * inner > FL_GRAIN)
    for (int64_t t = 0; t < outer * chunks; t++) {
        int64_t o = t / chunks, first = t % chunks * CHUNK_ROWS, end = fl_least(first + CHUNK_ROWS, rows);
        int64_t from = offset(s, last, false, o);
        float *acc = part + t * inner;
        for (int64_t i = 0; i < inner; i++)
            acc[i] = (float)identity(kind);
        for (int64_t r = first; r < end; r++)
            add_row(acc, row_of(x, tx, from + offset(s, last, true, r), inner), inner, kind);
    }
    if (chunks == 1)
        return;
#pragma omp parallel for if (outer * chunks * inner > FL_GRAIN)
    for (int64_t i = 0; i < outer * inner; i++) {
        const float *from = part + i / inner * chunks * inner + i % inner;
        double sum = identity(kind);
        for (int64_t c = 0; c < chunks; c++)
            sum = join(kind, sum, from[c * inner]);
        y[i] = (float)sum;
    }
}

/* y[kept] = fold over reduced rows of the fold of each row. */
static void fold_inner(float *y, const void *x, enum fl_type tx, const struct shape *s, enum fl_reduce kind)
{
    int last = s->ndim - 1;
    int64_t inner = s->valid[last], rows = inner ? s->folded / inner : 0;
    bool few = s->kept < FL_FOLD_FEW;
    int64_t pieces = few ? fl_pieces(inner, CHUNK_ENTRIES) : 1, split = few ? rows : 1;
    if (inner == 0 || rows == 0) {
        for (int64_t o = 0; o < s->kept; o++)
            y[o] = (float)identity(kind);
        return;
    }
    int64_t width = pieces > 1 ? CHUNK_ENTRIES : inner, tasks = s->kept * split * pieces;
    double *part = fl_scratch(FL_SCRATCH_KERNEL, fl_room_of_fold(s->kept, rows, inner));
#pragma omp parallel for if (s->kept * rows * inner > FL_GRAIN)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t p = t % pieces, r = t / pieces % split, o = t / pieces / split;
        int64_t from = offset(s, last, false, o) + p * width, n = fl_least(width, inner - p * width);
        double sum = identity(kind);
        for (int64_t k = r; k < (split > 1 || rows == 1 ? r + 1 : rows); k++)
            sum = join(kind, sum, fold_row(row_of(x, tx, from + offset(s, last, true, k), n), n, kind));
        part[t] = sum;
    }
    for (int64_t o = 0; o < s->kept; o++) {
        double sum = identity(kind);
        for (int64_t i = 0; i < split * pieces; i++)
            sum = join(kind, sum, part[o * split * pieces + i]);
        y[o] = (float)sum;
    }
}

/* A result in a short type is rounded once, from f32 scratch. */
static void fold(void *y, enum fl_type ty, const void *x, enum fl_type tx, const struct fl_dims *d, enum fl_reduce kind, double divisor)
{
    struct shape s = merge(d);
    float *sums = ty == FL_F32 ? y : fl_scratch(FL_SCRATCH_WIDE, s.kept * (int64_t)sizeof *sums);
    if (s.ndim == 0)
        fl_load_row(sums, x, tx, 1, 1);
    else if (s.reduced[s.ndim - 1])
        fold_inner(sums, x, tx, &s, kind);
    else
        fold_rows(sums, x, tx, &s, kind);
    for (int64_t i = 0; divisor != 1 && i < s.kept; i++)
        sums[i] = (float)(sums[i] / divisor);
    if (ty != FL_F32)
        fl_store_row(y, ty, 1, sums, s.kept);
}

#define REDUCTION(name, kind, divisor)                                                                                 \
    void fl_##name##_as(void *y, const void *x, enum fl_type ty, enum fl_type tx, const struct fl_dims *d)              \
    {                                                                                                                  \
        fold(y, ty, x, tx, d, kind, divisor);                                                                          \
    }                                                                                                                  \
    void fl_##name(float *y, const float *x, const struct fl_dims *d) { fold(y, FL_F32, x, FL_F32, d, kind, divisor); }
REDUCTION(sum, FL_SUM, 1)
REDUCTION(max, FL_MAX, 1)
REDUCTION(min, FL_MIN, 1)
REDUCTION(mean, FL_SUM, d->divisor)

/* Counts are whole numbers: any order of adding gives the same. */
void fl_count(float *y, const void *x, const struct fl_dims *d, bool has_ignore, int32_t ignore)
{
    struct shape s = merge(d);
    const uint8_t *flag = x;
    const int32_t *id = x;
#pragma omp parallel for if (s.kept * s.folded > FL_GRAIN && s.kept > 1)
    for (int64_t o = 0; o < s.kept; o++) {
        int64_t at = offset(&s, s.ndim, false, o), count = 0;
        for (int64_t r = 0; r < s.folded; r++) {
            int64_t i = at + offset(&s, s.ndim, true, r);
            count += has_ignore ? id[i] != ignore : flag[i] != 0;
        }
        y[o] = (float)count;
    }
}

void fl_argmax_as(int32_t *y, const void *x, enum fl_type t, const struct fl_dims *d)
{
    struct shape s = merge(d);
#pragma omp parallel for if (s.kept * s.folded > FL_GRAIN)
    for (int64_t o = 0; o < s.kept; o++) {
        int64_t from = offset(&s, s.ndim, false, o), best = 0;
        float most = s.folded > 0 ? *row_of(x, t, from, 1) : 0;
        for (int64_t r = 1; r < s.folded; r++) {
            float v = *row_of(x, t, from + offset(&s, s.ndim, true, r), 1);
            best = v > most ? r : best;
            most = v > most ? v : most;
        }
        y[o] = (int32_t)best;
    }
}

void fl_argmax(int32_t *y, const float *x, const struct fl_dims *d) { fl_argmax_as(y, x, FL_F32, d); }
