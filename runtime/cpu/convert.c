/* The short float types in rows: loads, stores, fills and accumulation. Each works on f32 and rounds where it stores. */
#include "cpu.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

/* Vector loops over dense rows, plain ones otherwise. */
#define EACH(i, first, n, step, dense, strided)                                                                        \
    do {                                                                                                               \
        if ((step) == 1) {                                                                                             \
            FL_PRAGMA(omp simd)                                                                                        \
            for (int64_t i = first; i < (n); i++)                                                                      \
                dense;                                                                                                 \
        } else {                                                                                                       \
            for (int64_t i = first; i < (n); i++)                                                                      \
                strided;                                                                                               \
        }                                                                                                              \
    } while (0)

/* Dense f16, eight at a time where the processor converts: how many of n it did. Its bits are those of fl_types.h. */
static int64_t load_f16(float *to, const fl_f16 *h, int64_t n)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(h + i))));
#else
    (void)to, (void)h, (void)n;
#endif
    return i;
}

static int64_t store_f16(fl_f16 *h, const float *from, int64_t n)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(h + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#else
    (void)h, (void)from, (void)n;
#endif
    return i;
}

void fl_load_row(float *to, const void *x, enum fl_type t, int64_t step, int64_t n)
{
    const float *f = x;
    const fl_bf16 *b = x;
    const fl_f16 *h = x;
    int64_t done = t == FL_F16 && step == 1 ? load_f16(to, h, n) : 0;
    if (t == FL_F32)
        EACH(i, 0, n, step, to[i] = f[i], to[i] = f[i * step]);
    else if (t == FL_BF16)
        EACH(i, 0, n, step, to[i] = fl_from_bf16(b[i]), to[i] = fl_from_bf16(b[i * step]));
    else
        EACH(i, done, n, step, to[i] = fl_from_f16(h[i]), to[i] = fl_from_f16(h[i * step]));
}

void fl_store_row(void *y, enum fl_type t, int64_t step, const float *from, int64_t n)
{
    float *f = y;
    fl_bf16 *b = y;
    fl_f16 *h = y;
    int64_t done = t == FL_F16 && step == 1 ? store_f16(h, from, n) : 0;
    if (t == FL_F32)
        EACH(i, 0, n, step, f[i] = from[i], f[i * step] = from[i]);
    else if (t == FL_BF16)
        EACH(i, 0, n, step, b[i] = fl_to_bf16(from[i]), b[i * step] = fl_to_bf16(from[i]));
    else
        EACH(i, done, n, step, h[i] = fl_to_f16(from[i]), h[i * step] = fl_to_f16(from[i]));
}

static float joined(float a, float x, enum fl_reduce kind)
{
    return kind == FL_SUM ? a + x : kind == FL_MAX ? (x > a ? x : a) : x < a ? x : a;
}

#define TYPE(T)                                                                                                        \
    void fl_fill_##T(fl_##T *y, float v, int64_t n)                                                                    \
    {                                                                                                                  \
        fl_##T x = fl_to_##T(v);                                                                                       \
        FL_FOR1(i, n)                                                                                                  \
            y[i] = x;                                                                                                  \
    }                                                                                                                  \
    void fl_accumulate_##T(fl_##T *acc, const fl_##T *x, int64_t n, bool first, enum fl_reduce kind)                   \
    {                                                                                                                  \
        if (first)                                                                                                     \
            fl_copy(acc, x, n, sizeof *acc);                                                                           \
        else if (kind == FL_SUM)                                                                                       \
            FL_FOR1(i, n)                                                                                              \
                acc[i] = fl_to_##T(fl_from_##T(acc[i]) + fl_from_##T(x[i]));                                           \
        else                                                                                                           \
            FL_FOR1(i, n)                                                                                              \
                acc[i] = fl_to_##T(joined(fl_from_##T(acc[i]), fl_from_##T(x[i]), kind));                              \
    }
TYPE(bf16)
TYPE(f16)
