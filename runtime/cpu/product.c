/* Products of matrices. A block of b (DEPTH by WIDE) is packed into panels of COLUMNS and stays in the second-level cache;
 * rows of a pass through the first, packed a few at a time, or once for all blocks of b; a kernel forms ROWS by COLUMNS
 * sums in registers. Operands are 32-bit words: a number in f32, or two neighbours along k in bf16 where the processor
 * multiplies those. Packing turns what is transposed and widens what has no kernel; what needs neither, and lies close
 * together, is read where it lies. */
#include "product.h"
#include "pack.h"
#ifdef __SSE__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE vec multiply_add(vec sum, float a, vec b, bool pairs)
{
#ifdef __AVX512BF16__
    if (pairs) {
        union { float f; int32_t i; } word = { a };
        return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(word.i), (__m512bh)b);
    }
#endif
    (void)pairs;
    vec x = a - (vec){ 0 };
#if defined __AVX512F__
    return _mm512_fmadd_ps(x, b, sum);
#elif defined __FMA__
    return _mm256_fmadd_ps(x, b, sum);               /* for `sum + x * b` it depends on the processor tuned for */
#else
    for (int i = 0; i < LANES; i++)
        sum[i] = fmaf(x[i], b[i], sum[i]);
    return sum;
#endif
}

/* What a kernel's sums go to: c = sum, or c += sum. */
struct store { float *c; int64_t ld, columns; bool add; };

/* The last columns of a result pass through lines of their own. */
static __attribute__((noinline)) void put_edge(const vec *sum, int rows, int vectors, const struct store *s)
{
    for (int i = 0; i < rows; i++) {
        const float *x = (const float *)(sum + i * vectors);
        float *c = s->c + i * s->ld;
        for (int64_t j = 0; j < s->columns; j++)
            c[j] = s->add ? c[j] + x[j] : x[j];
    }
}

/* The products of one word of each row, three rows from each place of `line`, and of the words of b. */
INLINE void add_products(int rows, int vectors, bool pairs, vec sum[ROWS][VECTORS], const float *line[], int64_t along, int64_t across,
                         const float *b, int64_t step)
{
    vec x[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) {
        x[v] = *(const loose *)(b + v * LANES);
        __builtin_prefetch(b + SOON * step + v * LANES);
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            sum[i][v] = multiply_add(sum[i][v], line[i / 3][i % 3 * along], x[v], pairs);
#pragma GCC unroll 4
    for (int i = 0; 3 * i < rows; i++)
        line[i] += across;
}

/* a: word k of row i at i along + k across; b: `vectors` vectors of words for each k, `step` words from one k to the next */
INLINE void kernel(int rows, int vectors, bool pairs, const float *a, int64_t along, int64_t across, const float *b, int64_t step,
                   int64_t depth, const struct store *s)
{
    vec sum[ROWS][VECTORS];
    const float *line[(ROWS + 2) / 3] = { a };             /* three rows from each: what an address can say */
#pragma GCC unroll 4
    for (int i = 1; 3 * i < rows; i++)
        line[i] = line[i - 1] + 3 * along;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            __builtin_prefetch(s->c + i * s->ld + v * LANES, 1);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            sum[i][v] = (vec){ 0 };
#pragma GCC unroll 2
    for (int64_t k = 0; k < depth; k++, b += step)
        add_products(rows, vectors, pairs, sum, line, along, across, b, step);
    if (s->columns < vectors * LANES) {
        vec all[ROWS * VECTORS];
#pragma GCC unroll 24
        for (int i = 0; i < rows * vectors; i++)
            all[i] = sum[i / vectors][i % vectors];
        put_edge(all, rows, vectors, s);
        return;
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) {
            loose *c = (loose *)(s->c + i * s->ld) + v;
            if (s->add)
                sum[i][v] += *c;
            *c = sum[i][v];
        }
}

/* Where a kernel finds its operands: rows of a `lead` words apart (or of one k, where they lie side by side), b `step`. */
struct near { const float *a, *b; int64_t lead, step, depth; };

/* One function for each number of rows, so that all sums have registers; what is left of the rows goes by 4 and 1. */
#define KERNEL(name, rows, vectors, pairs, along, across)                                                              \
    static __attribute__((noinline)) void name(const struct near *n, const float *a, const struct store *s)            \
    {                                                                                                                  \
        kernel(rows, vectors, pairs, a, along, across, n->b, n->step, n->depth, s);                                    \
    }
#define KERNELS_OF(name, vectors, pairs, along, across)                                                                \
    KERNEL(name##_most_##vectors, ROWS, vectors, pairs, along, across)                                                 \
    KERNEL(name##_4_##vectors, 4, vectors, pairs, along, across)                                                       \
    KERNEL(name##_1_##vectors, 1, vectors, pairs, along, across)
#define KERNELS(name, pairs, along, across)                                                                            \
    KERNELS_OF(name, 1, pairs, along, across)                                                                          \
    KERNELS_OF(name, 2, pairs, along, across)                                                                          \
    IF_3(KERNELS_OF(name, 3, pairs, along, across))                                                                    \
    static void name(const struct near *n, int64_t rows, struct store *s)                                              \
    {                                                                                                                  \
        static void (*const all[][VECTORS])(const struct near *n, const float *a, const struct store *s) = {           \
            { name##_1_1, name##_1_2, IF_3(name##_1_3) },                                                              \
            { name##_4_1, name##_4_2, IF_3(name##_4_3) },                                                              \
            { name##_most_1, name##_most_2, IF_3(name##_most_3) },                                                     \
        };                                                                                                             \
        int64_t vectors = (s->columns + LANES - 1) / LANES;                                                            \
        const float *a = n->a;                                                                                         \
        for (int64_t i = 0, now; i < rows; i += now, a += now * (along), s->c += now * s->ld) {                        \
            now = rows - i >= ROWS ? ROWS : rows - i >= 4 ? 4 : 1;                                                     \
            all[(now >= 4) + (now == ROWS)][vectors - 1](n, a, s);                                                     \
        }                                                                                                              \
    }
KERNELS(plain_lines, false, n->lead, 1)
KERNELS(plain_columns, false, 1, n->lead)
#ifdef __AVX512BF16__
KERNELS(pair_lines, true, n->lead, 1)
KERNELS(pair_columns, true, 1, ROWS)
#else
#define pair_lines plain_lines
#define pair_columns plain_columns
#endif

/* ---- the walk ---- */

/* Scratch of one thread: a block of b, rows of a, lines of b before they are turned, sums of a short result. */
struct room { float *b, *a, *lines, *sums; };

/* `a`: words of packed rows. */
static struct room room_for(int64_t a, bool sums, bool widened)
{
    int64_t b = (widened ? 2 : 1) * DEPTH * (WIDE + COLUMNS), lines = COLUMNS * LINE;
    char *p = fl_thread_scratch_of(FL_SCRATCH_PRODUCT, 64 + (b + a + lines + (sums ? TALL * (int64_t)WIDE : 0)) * (int64_t)sizeof(float));
    float *at = (float *)(p + (64 - (uintptr_t)p % 64) % 64);
    return (struct room){ at, at + b + lines, at + b, at + b + lines + a };
}

/* May the kernels read it, k elements of a line, where it lies? Lines that are far apart, and many, miss in the first cache and
 * its pages. Pairs along a line are words there, if no line starts or ends within one. */
static bool lies_near(const struct operand *o, bool turned, int64_t lines, int64_t k)
{
    bool words = o->form == PLAIN || (o->form == PAIRS && !turned && k % 2 == 0 && o->ld % 2 == 0 && (uintptr_t)o->p % 4 == 0);
    return words && o->ld * lines <= NEAR;
}

/* Columns of b for some of k: where a panel of `width` starts is b + j / width * apart. */
struct panels { const float *b; int64_t width, apart, step; };

/* Three vectors across, or two where a narrow result would leave one alone for its last columns. */
static int64_t panel_width(int64_t n)
{
    bool alone = n % COLUMNS > 0 && n % COLUMNS <= LANES;
    return VECTORS > 2 && alone && n < 4 * COLUMNS ? COLUMNS - LANES : COLUMNS;
}

/* How a product is walked: k in parts of `part`, columns in blocks of `wide`, rows in blocks of `tall`. a is read where it lies,
 * or packed: rows of a block once for all blocks of b where `kept`, else a group of rows at a time. */
struct walk { int64_t part, wide, tall; bool near, kept; };

/* Words from one packed row to the next: with a line of the cache between them, eight rows do not compete for the same places. */
static int64_t packed_row(const struct operand *a, int64_t k) { return fl_words_of(a, k) + 16; }
static int64_t groups_of(int64_t rows) { return (rows + GROUP * ROWS - 1) / (GROUP * ROWS) * (GROUP * ROWS); }

/* Rows i.. of a block, `packed` for this part of k: `again` if they are there from the block of b before. */
static void rows_by_block(const struct operand *a, bool ta, const struct walk *w, float *packed, bool again, const struct panels *b,
                          int64_t k0, int64_t k, int64_t m0, int64_t m, int64_t n, struct store s)
{
    bool pairs = a->form == PAIRS;
    int64_t row = packed_row(a, k);
    struct near at = { .step = b->step, .depth = fl_words_of(a, k), .lead = w->near ? a->ld / (1 + pairs) : ta ? ROWS : row };
    for (int64_t i = 0; i < m; i += GROUP * ROWS) {
        int64_t rows = fl_least(GROUP * ROWS, m - i);
        float *group = packed + (w->kept ? i * row : 0);
        const float *from = w->near ? fl_element(a->p, a->type, ta ? k0 * a->ld + m0 + i : (m0 + i) * a->ld + k0) : group;
        if (!w->near && !again)
            fl_pack_rows(group, a, ta, k0, k, m0 + i, rows, row);
        for (int64_t q = 0; q < rows; q += ROWS) {
            at.a = from + q * (!w->near ? row : ta ? 1 : at.lead);
            at.b = b->b;
            for (int64_t j = 0; j < n; j += b->width, at.b += b->apart) {
                struct store here = { s.c + (i + q) * s.ld + j, s.ld, fl_least(b->width, n - j), s.add };
                (ta ? pairs ? pair_columns : plain_columns : pairs ? pair_lines : plain_lines)(&at, fl_least(ROWS, rows - q), &here);
            }
        }
    }
}

/* alpha sums + beta old, rounded. */
static void put_scaled(void *c, enum fl_type tc, const struct fl_gemm *g, float *sums, int64_t m, int64_t n)
{
    float old[WIDE];
    for (int64_t i = 0; i < m; i++) {
        float *x = sums + i * WIDE;
        void *row = fl_place_of(c, tc, i * g->ldc);
        if (g->beta != 0)
            fl_load_row(old, row, tc, 1, n);
        for (int64_t j = 0; j < n; j++)
            x[j] = g->beta == 0 ? g->alpha * x[j] : fmaf(g->beta, old[j], g->alpha * x[j]);
        fl_store_row(row, tc, 1, x, n);
    }
}

/* Results in f32 are summed where they lie, others apart, at most TALL rows. */
static bool in_place(enum fl_type tc, const struct fl_gemm *g) { return tc == FL_F32 && g->alpha == 1 && (g->beta == 0 || g->beta == 1); }

static void block(void *c, enum fl_type tc, const struct operand *a, const struct operand *b, const struct fl_gemm *g,
                  const struct walk *w, const struct room *r, bool again, int64_t m0, int64_t m, int64_t n0, int64_t n)
{
    void *at = fl_place_of(c, tc, m0 * g->ldc + n0);
    float *packed = r->a;
    bool here = in_place(tc, g);
    struct store s = { here ? at : r->sums, here ? g->ldc : WIDE, 0, here && g->beta == 1 };
    for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += w->part, s.add = true) {
        int64_t k = fl_least(w->part, g->k - k0);
        int64_t width = panel_width(n);
        struct panels p = { r->b, width, fl_words_of(a, k) * width, width };
        if (m < FEW_ROWS && !g->tb && b->form == PLAIN && n % LANES == 0 && lies_near(b, true, k, k))
            p = (struct panels){ (const float *)b->p + k0 * b->ld + n0, width, width, b->ld };
        else
            fl_pack_columns(r->b, b, g->tb, k0, k, n0, n, width, r->lines);
        rows_by_block(a, g->ta, w, packed, again, &p, k0, k, m0, m, n, s);
        packed += w->kept ? groups_of(m) * packed_row(a, k) : 0;
        if (k == 0)
            break;
    }
    if (!here)
        put_scaled(at, tc, g, r->sums, m, n);
}

/* The walk of m rows and n columns; *room: words that packed rows of a take. */
static struct walk walk_of(enum fl_type tc, const struct operand *a, const struct fl_gemm *g, int64_t m, int64_t n, int64_t *room)
{
    int64_t most = a->type == FL_BF16 ? 2 * DEPTH : DEPTH, parts = (g->k + most - 1) / most;
    int64_t panels = (n + COLUMNS - 1) / COLUMNS, blocks = (panels * COLUMNS + WIDE - 1) / WIDE;
    struct walk w = { .part = parts ? ((g->k + parts - 1) / parts + 1) / 2 * 2 : 0 };
    w.wide = blocks ? (panels + blocks - 1) / blocks * COLUMNS : WIDE;
    w.tall = in_place(tc, g) ? m : TALL;
    w.near = (!g->ta || fl_least(w.wide, n) < FEW_COLUMNS) && lies_near(a, g->ta, g->ta ? w.part : GROUP * ROWS, g->k);
    *room = w.near ? 0 : GROUP * ROWS * packed_row(a, w.part);
    if (w.near || blocks < 2 || m == 0 || g->k == 0)
        return w;
    int64_t row = parts * packed_row(a, w.part), group = GROUP * ROWS;
    int64_t tall = fl_least(fl_least(w.tall, groups_of(m)), KEPT / row / group * group);
    if (tall == 0)
        return w;
    int64_t more = (m + tall - 1) / tall - (m + w.tall - 1) / w.tall;
    if (m * (blocks - 1) > n * more) {               /* words of a no longer packed again, and words of b that are */
        w.tall = tall;
        w.kept = true;
        *room = groups_of(fl_least(m, tall)) * row;
    }
    return w;
}

/* bf16 counts them as 0, as its instruction does; what else a thread does in between, sums of a collective, does not. */
static unsigned subnormal_numbers_off(bool off)
{
#ifdef __SSE__
    unsigned modes = _mm_getcsr();
    if (off)
        _mm_setcsr(modes | 0x8040);
    return modes;
#else
    (void)off;
    return 0;
#endif
}

static void subnormal_numbers_as(unsigned modes)
{
#ifdef __SSE__
    _mm_setcsr(modes);
#else
    (void)modes;
#endif
}

void fl_product_part(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g, int64_t m0, int64_t m,
                     int64_t n0, int64_t n, void (*between)(void))
{
    struct operand oa = { a, t, fl_form_of(t), g->lda }, ob = { b, t, fl_form_of(t), g->ldb };
    int64_t kept, done = 0;
    struct walk w = walk_of(tc, &oa, g, m, n, &kept);
    struct room r = room_for(kept, !in_place(tc, g), oa.form == WIDENED);
    for (int64_t i = 0; i < m; i += w.tall)
        for (int64_t j = 0; j < n; j += w.wide) {
            int64_t now = fl_least(w.tall, m - i), wide = fl_least(w.wide, n - j);
            unsigned modes = subnormal_numbers_off(t == FL_BF16);
            block(c, tc, &oa, &ob, g, &w, &r, w.kept && j > 0, m0 + i, now, n0 + j, wide);
            subnormal_numbers_as(modes);
            done += now * wide * g->k;
            if (between && done >= LENGTHY) {
                between();
                done = 0;
            }
        }
}

void fl_product(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g)
{
    fl_product_part(c, tc, a, b, t, g, 0, g->m, 0, g->n, NULL);
}

/* How many parts the columns of a product are cut into for `threads`: whole panels, some parts for each thread to choose from. */
int64_t fl_product_parts(const struct fl_gemm *g, int64_t threads, int64_t *width)
{
    int64_t parts = (g->n + WIDE - 1) / WIDE, panels = (g->n + COLUMNS - 1) / COLUMNS;
    parts = fl_least(parts, 4 * threads);
    parts = threads == 1 ? fl_least(parts, 1) : fl_least(panels, (parts + threads - 1) / threads * threads);
    *width = parts ? (panels + parts - 1) / parts * COLUMNS : COLUMNS;
    return g->n ? (g->n + *width - 1) / *width : 0;
}
