/* Products of matrices: right, and the same bits whatever the processor has. product.c is here twice: as it is built for this
 * machine, and (plain_..) without the instructions for bf16 and with vectors of 8. */
#include "compare.h"
#include "cpu/product.h"
#include <stdlib.h>

void plain_product(void *c, enum fl_type tc, const void *a, const void *b, enum fl_type t, const struct fl_gemm *g);

static uint64_t state = 7;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* Numbers of any size: ordinary ones, and with `tiny` subnormal numbers and what multiplies to them. */
static float number(bool tiny)
{
    float x = (float)(below(2001) - 1000) / 500;
    return tiny && below(3) == 0 ? ldexpf(x, -(int)below(150)) : x;
}

struct one { void *a, *b, *c, *d; double *sum, *size; struct fl_gemm g; };

static void fill(void *to, enum fl_type t, int64_t n, bool tiny)
{
    for (int64_t i = 0; i < n; i++) {
        float x = number(tiny);
        fl_store_row(fl_place_of(to, t, i), t, 1, &x, 1);
    }
}

static float value(const void *x, enum fl_type t, int64_t i)
{
    float y;
    fl_load_row(&y, fl_element(x, t, i), t, 1, 1);
    return y;
}

static struct fl_gemm shape(void)
{
    struct fl_gemm all = { 0 }, *g = &all;
    static const int64_t sizes[] = { 1, 3, 4, 12, 13, 31, 32, 33, 48, 50, 64, 97, 385, 400 }, depths[] = { 0, 1, 2, 7, 64, 383, 385, 769, 1537 };
    static const float by[] = { 1, 1, 0.5f }, keep[] = { 0, 1, 0.25f };
    g->m = sizes[below(14)], g->n = sizes[below(14)], g->k = depths[below(9)];
    g->ta = below(2), g->tb = below(2);
    g->lda = (g->ta ? g->m : g->k) + below(3), g->ldb = (g->tb ? g->k : g->n) + below(3), g->ldc = g->n + below(3);
    g->alpha = by[below(3)], g->beta = keep[below(3)];
    return all;
}

/* Behind each line of n elements something that no product may take up. */
static void spoil(void *x, enum fl_type t, int64_t lines, int64_t n, int64_t lead)
{
    float nan = NAN;
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = n; j < lead; j++)
            fl_store_row(fl_place_of(x, t, i * lead + j), t, 1, &nan, 1);
}

static void check(struct fl_gemm g, enum fl_type t, enum fl_type tc, bool tiny)
{
    int64_t lines_a = g.ta ? g.k : g.m, lines_b = g.tb ? g.n : g.k, na = lines_a * g.lda, nb = lines_b * g.ldb;
    int64_t nc = g.m * g.ldc, bytes = fl_type_bytes(tc), of_t = fl_type_bytes(t);
    char *a = malloc((size_t)(na * of_t) + 1), *b = malloc((size_t)(nb * of_t) + 1), *c = malloc((size_t)(nc * bytes)), *d = malloc((size_t)(nc * bytes));
    float *old = malloc((size_t)nc * sizeof *old);
    fill(a, t, na, tiny);
    fill(b, t, nb, tiny);
    spoil(a, t, lines_a, g.ta ? g.m : g.k, g.lda);
    spoil(b, t, lines_b, g.tb ? g.k : g.n, g.ldb);
    fill(c, tc, nc, false);
    memcpy(d, c, (size_t)(nc * bytes));
    fl_load_row(old, c, tc, 1, nc);
    int64_t at_m = below(g.m), at_n = below(g.n);    /* in two parts of rows and columns: the same bits */
    fl_product_part(c, tc, a, b, t, &g, 0, at_m, 0, g.n, NULL);
    fl_product_part(c, tc, a, b, t, &g, at_m, g.m - at_m, 0, at_n, NULL);
    fl_product_part(c, tc, a, b, t, &g, at_m, g.m - at_m, at_n, g.n - at_n, NULL);
    plain_product(d, tc, a, b, t, &g);
    if (memcmp(c, d, (size_t)(nc * bytes)))
        fail_msg("other bits: %d x %d x %d, %d %d, alpha %g beta %g, parts at %d %d", (int)g.m, (int)g.n, (int)g.k, g.ta, g.tb, g.alpha, g.beta, (int)at_m, (int)at_n);
    for (int64_t i = 0; i < g.m; i++)
        for (int64_t j = 0; j < g.n; j++) {
            double sum = 0, size = 0, was = g.beta * (double)old[i * g.ldc + j];
            for (int64_t l = 0; l < g.k; l++) {
                double p = (double)value(a, t, g.ta ? l * g.lda + i : i * g.lda + l) * value(b, t, g.tb ? j * g.ldb + l : l * g.ldb + j);
                sum += p;
                size += fabs(p);
            }
            double want = g.alpha * sum + was, room = 3e-6 * (g.alpha * size + fabs(was)) + 1e-30;
            room += tc == FL_F32 ? 0 : fabs(want) * (tc == FL_BF16 ? 0x1p-8 : 0x1p-11) + 6e-8;
            double got = value(c, tc, i * g.ldc + j);
            if (!(fabs(got - want) <= room))
                fail_msg("c[%d][%d] of %d %d %d: %g, not %g", (int)i, (int)j, (int)g.m, (int)g.n, (int)g.k, got, want);
        }
    free(a), free(b), free(c), free(d), free(old);
}

static void f32(void **s)
{
    (void)s;
    for (int i = 0; i < 25; i++)
        check(shape(), FL_F32, FL_F32, false);
}

static void short_types(void **s)
{
    (void)s;
    for (int i = 0; i < 25; i++) {
        check(shape(), FL_BF16, i % 2 ? FL_BF16 : FL_F32, i % 3 == 0);
        check(shape(), FL_F16, i % 2 ? FL_F16 : FL_F32, false);
    }
    struct fl_gemm g = { .m = 530, .n = 400, .k = 33, .ta = true, .lda = 530, .ldb = 402, .ldc = 400, .alpha = 1, .beta = 0.25f };
    check(g, FL_BF16, FL_BF16, false);               /* sums apart, in two blocks of rows, each kept for two of columns */
    check(g, FL_F16, FL_F16, false);
    g.k = 35, g.ta = false, g.lda = 36;              /* the last pair of a line is half a pair */
    check(g, FL_BF16, FL_F32, false);
}

/* The bits of a row do not depend on the rows beside it, nor on the number of threads. */
static void threads(void **s)
{
    (void)s;
    enum { M = 70, N = 200, K = 500 };
    static float a[M * K], b[K * N], c[M * N], d[M * N];
    struct fl_gemm g = { .m = M, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N, .alpha = 1 };
    fill(a, FL_F32, M * K, false);
    fill(b, FL_F32, K * N, false);
    fl_gemm(c, a, b, &g);
    g.m = 1;
    for (int i = 0; i < M; i++) {
        fl_product(d + i * N, FL_F32, a + i * K, b, FL_F32, &g);
        assert_memory_equal(c + i * N, d + i * N, sizeof *c * N);
    }
}

static int pauses;
static void pause_here(void)
{
    volatile float small = 1e-39f;                   /* what happens in between has subnormal numbers */
    assert_true(small * 1 != 0);
    pauses++;
}

/* Rows of a that are packed once for several blocks of columns, more than are kept at a time: the bits of a block alone. */
static void kept(void **s)
{
    (void)s;
    enum { M = 700, N = 800, K = 1537, FAR = 8000 };
    struct fl_gemm g = { .m = M, .n = N, .k = K, .ldb = N, .ldc = N, .alpha = 1 };
    float *a = calloc((size_t)M * FAR, sizeof *a), *b = malloc((size_t)K * N * sizeof *b);
    float *c = malloc(2 * (size_t)M * N * sizeof *c), *d = c + M * N;
    fill(b, FL_F32, K * N, false);
    for (int turned = 0; turned < 2; turned++) {
        g.ta = turned, g.lda = turned ? M : FAR;
        fill(a, FL_F32, (turned ? K : M) * g.lda, false);
        pauses = 0;
        fl_product_part(c, FL_F32, a, b, FL_F32, &g, 0, M, 0, N, pause_here);
        for (int64_t n = 0; n < N; n += 200)
            fl_product_part(d, FL_F32, a, b, FL_F32, &g, 0, M, n, 200, NULL);
        assert_memory_equal(c, d, (size_t)M * N * sizeof *c);
        assert_true(pauses >= 3);
    }
    pauses = 0;
    fl_product_part(c, FL_F32, a, b, FL_BF16, &g, 0, M, 0, N, pause_here);
    assert_true(pauses >= 3);
    g.k = 0;                                         /* nothing to keep */
    fl_product(c, FL_F32, a, b, FL_F32, &g);
    for (int64_t i = 0; i < M * N; i++)
        assert_true(c[i] == 0);
    free(a), free(b), free(c);
}

int main(void)
{
    omp_set_num_threads(3);
    fl_scratch_threads(3);
    const struct CMUnitTest tests[] = { cmocka_unit_test(f32), cmocka_unit_test(short_types), cmocka_unit_test(threads),
                                        cmocka_unit_test(kept) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
