/* The short float types: conversions bit by bit, and the functions that compute on them against f32 or float64 of the
 * same numbers, rounded once. */
#include "compare.h"
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* x rounded to `bits` of precision with smallest step 2^least, by the definition: ties to even. */
static double rounded(double x, int bits, int least, double largest)
{
    int e;
    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &e);
    double step = ldexp(1, e - bits > least ? e - bits : least), y = nearbyint(x / step) * step;
    return fabs(y) > largest ? copysign(INFINITY, x) : y;
}

static double as_bf16(double x) { return rounded(x, 8, -133, 3.3895313892515355e38); }
static double as_f16(double x) { return rounded(x, 11, -24, 65504); }

static void all_values(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        fl_bf16 b = { (uint16_t)i };
        fl_f16 h = { (uint16_t)i };
        int e = (int)(i >> 10 & 31);
        double m = i & 1023, f16 = e == 0 ? ldexp(m, -24) : e == 31 ? (m > 0 ? NAN : INFINITY) : ldexp(1024 + m, e - 25);
        float from_b = fl_from_bf16(b), from_h = fl_from_f16(h);
        assert_int_equal(bits_of(from_b), i << 16);
        assert_true(isnan(f16) ? isnan(from_h) : from_h == (float)(i >> 15 ? -f16 : f16));
        assert_true(isnan(from_h) || (signbit(from_h) != 0) == (i >> 15 != 0));
        /* back to the same bits; a NaN to one */
        assert_true(isnan(from_b) ? isnan(fl_from_bf16(fl_to_bf16(from_b))) : fl_to_bf16(from_b).bits == i);
        assert_true(isnan(from_h) ? isnan(fl_from_f16(fl_to_f16(from_h))) : fl_to_f16(from_h).bits == i);
    }
}

static void check_rounding(float x)
{
    float b = fl_round_bf16(x), h = fl_round_f16(x);
    if (isnan(x) ? !isnan(b) || !isnan(h) : bits_of(b) != bits_of((float)as_bf16(x)) || bits_of(h) != bits_of((float)as_f16(x)))
        fail_msg("%.9g (%08x) becomes bf16 %.9g and f16 %.9g", x, bits_of(x), b, h);
}

/* Around every value of both types and every tie between two of them; and far apart over all of f32. */
static void rounding(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t h = bits_of(fl_from_f16((fl_f16){ (uint16_t)i }));
        for (int d = -2; d <= 2; d++) {
            check_rounding(float_of((i << 16) + (uint32_t)d));
            check_rounding(float_of((i << 16) + 0x8000u + (uint32_t)d));
            check_rounding(float_of(h + (uint32_t)d));
            check_rounding(float_of(h + 0x1000u + (uint32_t)d));
        }
    }
    for (uint64_t u = 0; u < 1ull << 32; u += 65537 / 3)
        check_rounding(float_of((uint32_t)u));
    for (int e = -26; e < -13; e++)                  /* ties of subnormal f16 */
        for (int k = 1; k < 64; k++)
            check_rounding(ldexpf((float)k, e));
}

static void *as(const float *x, int64_t n, enum fl_type t)
{
    uint16_t *y = malloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        y[i] = t == FL_BF16 ? fl_to_bf16(x[i]).bits : fl_to_f16(x[i]).bits;
    return y;
}

static float at(const void *x, enum fl_type t, int64_t i)
{
    const uint16_t *u = x;
    return t == FL_F32    ? ((const float *)x)[i]
           : t == FL_BF16 ? fl_from_bf16((fl_bf16){ u[i] })
                          : fl_from_f16((fl_f16){ u[i] });
}

static float round_to(float x, enum fl_type t)
{
    return t == FL_F32 ? x : t == FL_BF16 ? fl_round_bf16(x) : fl_round_f16(x);
}

/* Transposes, strides larger than rows, batches, beta; results of the type or f32; sizes of one tile and of several. */
static void gemm(enum fl_type t, enum fl_type tc, int64_t m, int64_t n, int64_t k, int trans, bool batched)
{
    int64_t batch = batched ? 3 : 1, lda = (trans & 1 ? m : k) + 2, ldb = (trans & 2 ? k : n) + 1, ldc = n + 3;
    int64_t na = (trans & 1 ? k : m) * lda, nb = (trans & 2 ? n : k) * ldb, nc = m * ldc;
    void *a = as(random_array(batch * na, 1), batch * na, t), *b = as(random_array(nb, 2), nb, t);
    float *f32 = random_array(batch * nc, 3), *old = malloc((size_t)(batch * nc) * sizeof *old);
    void *c = tc == FL_F32 ? f32 : as(f32, batch * nc, tc);
    for (int64_t i = 0; i < batch * nc; i++)
        old[i] = at(c, tc, i);
    struct fl_gemm g = { .m = m, .n = n, .k = k, .ta = trans & 1, .tb = trans >> 1, .lda = lda, .ldb = ldb, .ldc = ldc,
                         .alpha = 2, .beta = 0.5f, .nbatch = batched, .batch = { batch }, .sa = { na }, .sc = { nc } };
    fl_gemm_as(c, tc, a, b, t, &g);
    for (int64_t s = 0; s < batch; s++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < ldc; j++) {
                int64_t where = s * nc + i * ldc + j;
                double sum = 0, want = old[where];
                for (int64_t l = 0; j < n && l < k; l++)
                    sum += (double)at(a, t, s * na + (trans & 1 ? l * lda + i : i * lda + l)) *
                           at(b, t, trans & 2 ? j * ldb + l : l * ldb + j);
                if (j < n)
                    want = 2 * sum + 0.5 * old[where];
                float got = at(c, tc, where), step = tc == FL_F32 ? 0 : tc == FL_BF16 ? 1 / 256.0f : 1 / 2048.0f;
                if (!(fabs(got - want) <= (double)step * fabs(want) + 2e-5 * (1 + fabs(want))))
                    fail_msg("c[%lld] is %.9g, expected %.9g", (long long)where, got, want);
                if (j >= n)
                    assert_true(got == old[where]);
            }
    free(a), free(b), free(f32), free(old);
    if (c != f32)
        free(c);
}

static void gemms(void **state)
{
    (void)state;
    for (int t = FL_BF16; t <= FL_F16; t++)
        for (int wide = 0; wide < 2; wide++)
            for (int trans = 0; trans < 4; trans++) {
                enum fl_type tc = wide ? FL_F32 : (enum fl_type)t;
                gemm((enum fl_type)t, tc, 5, 7, 3, trans, true);
                gemm((enum fl_type)t, tc, 150, 270, 70, trans, false);
                gemm((enum fl_type)t, tc, 9, 11, 1100, trans, false);
            }
}

/* Two batch dims that are no one: of each batch every second row of the other. */
static void apart(void **state)
{
    (void)state;
    enum { N = 2, H = 3, T = 5, K = 4 };
    for (int t = FL_F32; t <= FL_F16; t++) {
        float *fa = random_array(N * T * H * K, 1), *fb = random_array(N * T * H * K, 2), *fc = random_array(N * H * T * T, 3);
        void *a = t == FL_F32 ? fa : as(fa, N * T * H * K, t), *b = t == FL_F32 ? fb : as(fb, N * T * H * K, t);
        struct fl_gemm g = { .m = T, .n = T, .k = K, .tb = true, .lda = H * K, .ldb = H * K, .ldc = T, .alpha = 1, .nbatch = 2,
                             .batch = { N, H }, .sa = { T * H * K, K }, .sb = { T * H * K, K }, .sc = { H * T * T, T * T } };
        for (int again = 0; again < 2; again++) {
            if (t == FL_F32)
                fl_gemm(fc, a, b, &g);
            else
                fl_gemm_as(fc, FL_F32, a, b, (enum fl_type)t, &g);
        }
        for (int64_t i = 0; i < N * H * T * T; i++) {
            int64_t n = i / (H * T * T), h = i / (T * T) % H, q = i / T % T, k = i % T;
            double sum = 0;
            for (int64_t l = 0; l < K; l++)
                sum += (double)at(a, (enum fl_type)t, ((n * T + q) * H + h) * K + l) * at(b, (enum fl_type)t, ((n * T + k) * H + h) * K + l);
            if (fabs(sum - fc[i]) > 1e-5)
                fail_msg("type %d: c[%lld] is %.9g, expected %.9g", t, (long long)i, fc[i], sum);
        }
        if (t != FL_F32)
            free(a), free(b);
        free(fa), free(fb), free(fc);
    }
}

struct follows { bool bias, residual, aux, grad, of_a; enum fl_activation f; };

static double follow(double x, enum fl_activation f, float aux)
{
    return f == FL_GELU ? fl_gelu((float)x) : f == FL_RELU ? fmax(x, 0) : f == FL_GELU_GRAD ? fl_gelu_grad(aux, (float)x) : x;
}

/* A product of m x k and k x n with what follows; odd: sizes and strides for which the library has nothing to offer. */
static void epilogue(enum fl_type t, enum fl_type tc, const struct follows *w, int trans, bool odd)
{
    int64_t m = 24, n = odd ? 13 : 16, k = odd ? 9 : 8, ldc = odd ? n : n + 8, lda = (trans & 1 ? m : k) + 8, ldb = (trans & 2 ? k : n) + 8;
    int64_t na = (trans & 1 ? k : m) * lda, nb = (trans & 2 ? n : k) * ldb, nc = m * ldc;
    float *fa = random_array(na, 1), *fb = random_array(nb, 2), *fc = random_array(nc, 3), *faux = random_array(nc, 4),
          *fr = random_array(nc, 5), *fbias = random_array(m + n, 6), *fgrad = random_array(m + n, 7);
    void *a = t == FL_F32 ? fa : as(fa, na, t), *b = t == FL_F32 ? fb : as(fb, nb, t);
    void *c = tc == FL_F32 ? fc : as(fc, nc, tc), *aux = tc == FL_F32 ? faux : as(faux, nc, tc), *r = tc == FL_F32 ? fr : as(fr, nc, tc);
    void *bias = tc == FL_F32 ? fbias : as(fbias, m + n, tc), *grad = tc == FL_F32 ? fgrad : as(fgrad, m + n, tc);
    float *old = malloc((size_t)nc * sizeof *old), *old_aux = malloc((size_t)nc * sizeof *old_aux);
    for (int64_t i = 0; i < nc; i++)
        old[i] = at(c, tc, i), old_aux[i] = at(aux, tc, i);
    struct fl_gemm g = { .m = m, .n = n, .k = k, .ta = trans & 1, .tb = trans >> 1, .lda = lda, .ldb = ldb, .ldc = ldc, .alpha = 1,
                         .beta = w->grad ? 1 : 0 };
    struct fl_epilogue e = { .activation = w->f };
    if (w->bias)
        e.bias = bias;
    if (w->residual)
        e.residual = r, e.ldr = ldc;
    if (w->aux)
        e.aux = aux, e.ldaux = ldc;
    if (w->grad)
        e.bias_grad = grad, e.of_a = w->of_a;
    fl_gemm_epilogue(c, tc, a, b, t, &g, &e);
    double step = tc == FL_F32 ? 0 : tc == FL_BF16 ? 1 / 128.0 : 1 / 1024.0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t where = i * ldc + j;
            double x = w->grad ? old[where] : 0;
            for (int64_t l = 0; l < k; l++)
                x += (double)at(a, t, trans & 1 ? l * lda + i : i * lda + l) * at(b, t, trans & 2 ? j * ldb + l : l * ldb + j);
            x += w->bias ? at(bias, tc, j) : 0;
            double kept = w->f == FL_GELU && w->aux ? x : old_aux[where];
            x = follow(x, w->f, old_aux[where]) + (w->residual ? at(r, tc, where) : 0);
            float got = at(c, tc, where), got_aux = at(aux, tc, where);
            if (!(fabs(got - x) <= step * (1 + fabs(x)) + 2e-5))
                fail_msg("types %d %d: c[%lld] is %.9g, expected %.9g", t, tc, (long long)where, got, x);
            if (!(fabs(got_aux - kept) <= step * (1 + fabs(kept)) + 2e-5))
                fail_msg("types %d %d: aux[%lld] is %.9g, expected %.9g", t, tc, (long long)where, got_aux, kept);
        }
    for (int64_t i = 0; w->grad && i < (w->of_a ? m : n); i++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += w->of_a ? at(a, t, trans & 1 ? l * lda + i : i * lda + l) : at(b, t, trans & 2 ? i * ldb + l : l * ldb + i);
        if (!(fabs(at(grad, tc, i) - sum) <= step * (1 + fabs(sum)) + 2e-5))
            fail_msg("types %d %d: gradient %lld is %.9g, expected %.9g", t, tc, (long long)i, at(grad, tc, i), sum);
    }
    if (t != FL_F32)
        free(a), free(b);
    if (tc != FL_F32)
        free(c), free(aux), free(r), free(bias), free(grad);
    free(fa), free(fb), free(fc), free(faux), free(fr), free(fbias), free(fgrad), free(old), free(old_aux);
}

static void epilogues(void **state)
{
    (void)state;
    static const struct follows cases[] = {
        { .bias = true }, { .bias = true, .residual = true }, { .residual = true }, { .f = FL_GELU }, { .f = FL_GELU, .aux = true },
        { .f = FL_GELU, .bias = true }, { .f = FL_GELU, .bias = true, .aux = true }, { .f = FL_RELU }, { .f = FL_RELU, .bias = true },
        { .f = FL_GELU_GRAD, .aux = true }, { .grad = true }, { .grad = true, .of_a = true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = FL_F32; t <= FL_F16; t++)
            for (int trans = 0; trans < 4; trans++)
                for (int odd = 0; odd < 2; odd++) {
                    epilogue((enum fl_type)t, (enum fl_type)t, &cases[i], trans, odd);
                    if (cases[i].grad)
                        epilogue((enum fl_type)t, FL_F32, &cases[i], trans, odd);
                }
}

/* Reductions and ops along a dim of short types, against the f32 kernels on the same numbers. */
static void along(void **state)
{
    (void)state;
    enum { O = 3, N = 40, I = 5, ALL = O * N * I, K = 4 };
    struct fl_dims d = { .ndim = 3, .n = { O, N, I }, .valid = { O, N - 3, I }, .reduced = 2, .divisor = N - 3 };
    for (int t = FL_BF16; t <= FL_F16; t++)
        for (int inner = 0; inner < 2; inner++) {
            float *raw = random_array(ALL, 11 + (uint64_t)inner), *x = malloc(ALL * sizeof *x), *y = malloc(2 * ALL * sizeof *y),
                  *z = malloc(2 * ALL * sizeof *z);
            int32_t *ids = malloc(ALL * sizeof *ids), *iy = malloc(ALL * sizeof *iy), *iz = malloc(ALL * sizeof *iz);
            void *s = as(raw, ALL, (enum fl_type)t), *to = malloc(ALL * 2);
            for (int i = 0; i < ALL; i++)
                x[i] = at(s, (enum fl_type)t, i), ids[i] = i * 7 % 11 - 1;
            d.reduced = inner ? 4 : 2;
            d.valid[1] = inner ? N : N - 3;
            d.valid[2] = inner ? I - 1 : I;
            int kept = inner ? O * N : O * I;
            static void (*const full[])(float *, const float *, const struct fl_dims *) = { fl_sum, fl_max, fl_min, fl_mean };
            static void (*const typed[])(void *, const void *, enum fl_type, enum fl_type, const struct fl_dims *) = { fl_sum_as, fl_max_as, fl_min_as, fl_mean_as };
            for (int f = 0; f < 4; f++) {
                full[f](y, x, &d);
                typed[f](z, s, FL_F32, (enum fl_type)t, &d);
                assert_memory_equal(y, z, (size_t)kept * sizeof *y);
                typed[f](to, s, (enum fl_type)t, (enum fl_type)t, &d);
                for (int i = 0; i < kept; i++)
                    assert_true(at(to, (enum fl_type)t, i) == round_to(y[i], (enum fl_type)t));
            }
            fl_argmax(iy, x, &d);
            fl_argmax_as(iz, s, (enum fl_type)t, &d);
            assert_memory_equal(iy, iz, (size_t)kept * sizeof *iy);
            for (int reverse = 0; reverse < 2; reverse++) {
                fl_cumsum(y, x, &d, reverse);
                fl_cumsum_as(to, s, (enum fl_type)t, &d, reverse);
                for (int i = 0; i < ALL; i++)
                    assert_true(at(to, (enum fl_type)t, i) == round_to(y[i], (enum fl_type)t));
            }
            fl_top_k(y, iy, x, &d, K);
            fl_top_k_as(to, iz, s, (enum fl_type)t, &d, K);
            assert_memory_equal(iy, iz, (size_t)(kept * K) * sizeof *iy);
            for (int i = 0; i < kept * K; i++)
                assert_true(at(to, (enum fl_type)t, i) == y[i]);
            fl_scatter(y, x, ids, &d, 9, 0);
            fl_scatter_as(z, s, (enum fl_type)t, ids, &d, 9, 0);
            assert_memory_equal(y, z, (size_t)(kept * 9) * sizeof *y);
            free(raw), free(x), free(y), free(z), free(ids), free(iy), free(iz), free(s), free(to);
        }
}

/* Rows are converted by other instructions than elements: every f16, and f32 around each of them and its ties. */
static void rows_of_halves(void **state)
{
    (void)state;
    enum { N = 65536, AROUND = 6 };
    float *f = malloc((size_t)(N * AROUND) * sizeof *f), *all = malloc((size_t)N * sizeof *all);
    fl_f16 *h = malloc((size_t)(N * AROUND) * sizeof *h), *every = malloc((size_t)N * sizeof *every);
    for (uint32_t i = 0; i < N; i++) {
        every[i].bits = (uint16_t)i;
        for (uint32_t k = 0; k < AROUND; k++)
            f[i * AROUND + k] = float_of(bits_of(fl_from_f16(every[i])) + k / 3 * 0x1000u + k % 3 - 1);
    }
    fl_convert(all, FL_F32, every, FL_F16, N);
    fl_convert(h, FL_F16, f, FL_F32, N * AROUND);
    for (int i = 0; i < N; i++)
        assert_true(isnan(all[i]) ? isnan(fl_from_f16(every[i])) : bits_of(all[i]) == bits_of(fl_from_f16(every[i])));
    for (int i = 0; i < N * AROUND; i++)
        assert_true(isnan(f[i]) ? isnan(fl_from_f16(h[i])) : h[i].bits == fl_to_f16(f[i]).bits);
    free(f), free(all), free(h), free(every);
}

static void conversions(void **state)
{
    (void)state;
    enum { N = 2000 };
    float *x = random_array(N, 5), f[N];
    uint16_t y[N];
    for (int t = FL_BF16; t <= FL_F16; t++) {
        fl_convert(y, (enum fl_type)t, x, FL_F32, N);
        fl_convert(f, FL_F32, y, (enum fl_type)t, N);
        for (int i = 0; i < N; i++)
            assert_true(f[i] == round_to(x[i], (enum fl_type)t));
        /* a transposed part of y into the middle of f */
        struct fl_strided s = { .ndim = 2, .n = { 30, 50 }, .sy = { 50, 1 }, .sx = { 1, 40 } };
        fl_convert_strided(f + 100, FL_F32, y, (enum fl_type)t, &s);
        for (int i = 0; i < 30; i++)
            for (int j = 0; j < 50; j++)
                assert_true(f[100 + i * 50 + j] == round_to(x[i + 40 * j], (enum fl_type)t));
    }
    free(x);
}

static void accumulation(void **state)
{
    (void)state;
    enum { N = 3000 };
    float *x = random_array(N, 6), *y = random_array(N, 7);
    for (int t = FL_BF16; t <= FL_F16; t++)
        for (int kind = FL_SUM; kind <= FL_MIN; kind++) {
            enum fl_type type = (enum fl_type)t;
            uint16_t *a = as(x, N, type), *b = as(y, N, type), sum[N];
            for (int first = 1; first >= 0; first--) {
                if (t == FL_BF16)
                    fl_accumulate_bf16((fl_bf16 *)sum, (fl_bf16 *)(first ? a : b), N, first, (enum fl_reduce)kind);
                else
                    fl_accumulate_f16((fl_f16 *)sum, (fl_f16 *)(first ? a : b), N, first, (enum fl_reduce)kind);
            }
            for (int i = 0; i < N; i++) {
                float u = at(a, type, i), v = at(b, type, i);
                float want = kind == FL_SUM ? round_to(u + v, type) : kind == FL_MAX ? fmaxf(u, v) : fminf(u, v);
                assert_true(at(sum, type, i) == want);
            }
            free(a), free(b);
        }
    fl_bf16 b[5];
    fl_f16 h[5];
    fl_fill_bf16(b, -INFINITY, 5);
    fl_fill_f16(h, 0.1f, 5);
    for (int i = 0; i < 5; i++)
        assert_true(b[i].bits == 0xff80 && fl_from_f16(h[i]) == fl_round_f16(0.1f));
    free(x), free(y);
}

/* Wherever they begin and end: what goes 16 bytes at a time inside does not touch what lies beside. */
static void odd_places(void **state)
{
    (void)state;
    enum { N = 77, ROOM = 96 };
    float *x = random_array(ROOM, 41), *y = random_array(ROOM, 42);
    for (int t = FL_F32; t <= FL_F16; t++)
        for (int first = 0; first < 9; first++) {
            enum fl_type type = (enum fl_type)t;
            uint16_t *a = type == FL_F32 ? NULL : as(x, ROOM, type), *b = type == FL_F32 ? NULL : as(y, ROOM, type);
            float *f = blank(ROOM), *g = blank(ROOM);
            int to = (first * 5 + 3) % 9;
            memcpy(f, y, ROOM * sizeof *f);
            memcpy(g, y, ROOM * sizeof *g);
            if (type == FL_F32)
                fl_accumulate(f + to, x + first, N, false, FL_SUM);
            else if (type == FL_BF16)
                fl_accumulate_bf16((fl_bf16 *)b + to, (fl_bf16 *)a + first, N, false, FL_SUM);
            else
                fl_accumulate_f16((fl_f16 *)b + to, (fl_f16 *)a + first, N, false, FL_SUM);
            for (int i = 0; i < ROOM; i++) {
                bool in = i >= to && i < to + N;
                float u = round_to(y[i], type), v = in ? round_to(x[i - to + first], type) : 0;
                float got = type == FL_F32 ? f[i] : at(b, type, i);
                assert_true(got == (in ? round_to(u + v, type) : u));
            }
            if (type != FL_F32) {
                fl_convert(g + to, FL_F32, a + first, type, N);
                for (int i = 0; i < ROOM; i++)
                    assert_true(g[i] == (i >= to && i < to + N ? round_to(x[i - to + first], type) : y[i]));
                fl_convert(a + to, type, y + first, FL_F32, N);
                for (int i = 0; i < ROOM; i++)
                    assert_true(at(a, type, i) == round_to(i >= to && i < to + N ? y[i - to + first] : x[i], type));
                fl_fill_bf16((fl_bf16 *)a + to, 3, N);
                assert_true(((fl_bf16 *)a)[to].bits == 0x4040 && ((fl_bf16 *)a)[to + N - 1].bits == 0x4040);
                assert_true(at(a, type, to + N) == round_to(x[to + N], type) && (!to || at(a, type, to - 1) == round_to(x[to - 1], type)));
            }
            free(a), free(b), free(f), free(g);
        }
    free(x), free(y);
}

/* An update by a gradient of 16 bits has the bits of one by the same numbers in f32, wherever it begins; so have the squares, but
 * for the order in which a target adds them. */
static void updates(void **state)
{
    (void)state;
    enum { N = 9001 };
    const struct fl_step s = { .step = 3, .update = 3, .lr = 0.01f };
    for (int k = 0; k < 2 * 2 * 9; k++) {
        enum fl_type t = k & 1 ? FL_BF16 : FL_F16;
        int kind = k / 4, skip = k >> 1 & 1, n = N - skip;
        float *start = random_array(N, 31), *wide = blank(N), *made[2][3], *kept[3], scale = 0.5f, square[2];
        uint16_t *g = as(start, N, t);
        fl_convert(wide, FL_F32, g, t, N);
        for (int j = 0; j < 3; j++) {
            kept[j] = random_array(N, 35 + (uint64_t)j);
            for (int i = 0; i < N && j == 2; i++)
                kept[j][i] *= kept[j][i];
            for (int way = 0; way < 2; way++)
                memcpy(made[way][j] = random_array(N, 32), kept[j], N * sizeof(float));
        }
        for (int way = 0; way < 2; way++) {
            float *w = made[way][0], *m = made[way][1], *v = made[way][2];
            const void *d = way ? (const void *)(g + skip) : wide + skip;
            enum fl_type as_type = way ? t : FL_F32;
            switch (kind) {
            case 0: fl_adamw(&s, w, d, as_type, m, v, &scale, n, 0.9f, 0.95f, 1e-8f, 0.1f, 1); break;
            case 1: fl_adam(&s, w, d, as_type, m, v, NULL, n, 0.9f, 0.95f, 1e-8f, 0.1f, 1); break;
            case 2: fl_sgd(&s, w, d, as_type, m, &scale, n, 0.9f, 0.1f, 1); break;
            case 3: fl_lion(&s, w, d, as_type, m, &scale, n, 0.9f, 0.95f, 0.1f, 1); break;
            case 4: fl_muon_momentum(&s, w, m, d, as_type, &scale, n, 0.9f); break;
            case 5: fl_adamw_redo(&s, w, d, as_type, m, v, &scale, kept[0], kept[1], kept[2], n, 0.9f, 0.95f, 1e-8f, 0.1f, 1); break;
            case 6: fl_adam_redo(&s, w, d, as_type, m, v, &scale, kept[0], kept[1], kept[2], n, 0.9f, 0.95f, 1e-8f, 0.1f, 1); break;
            case 7: fl_sgd_redo(&s, w, d, as_type, m, &scale, kept[0], kept[1], n, 0.9f, 0.1f, 1); break;
            default: fl_lion_redo(&s, w, d, as_type, m, &scale, kept[0], kept[1], n, 0.9f, 0.95f, 0.1f, 1);
            }
            fl_square_sum(&square[way], d, as_type, n);
        }
        for (int j = 0; j < 3; j++)
            assert_memory_equal(made[0][j], made[1][j], N * sizeof(float));
        assert_memory_not_equal(made[0][0], kept[0], N * sizeof(float));
        assert_float_equal(square[1], square[0], 1e-6f * square[0]);
        for (int j = 0; j < 3; j++)
            free(made[0][j]), free(made[1][j]), free(kept[j]);
        free(start), free(wide), free(g);
    }
}

/* The kernels that know the types give what those of f32 give of the same numbers, rounded. */
static void same_as_f32(const char *what, const void *got, const float *want, enum fl_type t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(at(got, t, i) - round_to(want[i], t)) <= 1e-2f * fabsf(want[i]) / (t == FL_BF16 ? 1 : 8)))
            fail_msg("%s[%lld] is %.9g, expected %.9g", what, (long long)i, at(got, t, i), want[i]);
}

static void rows(void **state)
{
    (void)state;
    enum { R = 9, V = 37, VALID = 33, BASE = 3, D = 11 };
    int32_t target[R] = { 3, 9, -100, 35, 0, 20, 21, 22, 4 };
    for (int k = FL_BF16; k <= FL_F16; k++) {
        enum fl_type t = (enum fl_type)k;
        float *start = random_array(R * V, 11), *x = blank(R * V), *dloss = random_array(R, 12), smoothing = 0.1f * (float)(k & 1);
        uint16_t *s = as(start, R * V, t), dx[R * V], y[R * D];
        float want[4][R], got[4][R], want_dx[R * V], want_y[R * D], dw[V * D], want_dw[V * D];
        fl_convert(x, FL_F32, s, t, R * V);
        fl_ce_max(want[0], x, R, V, BASE, VALID);
        fl_ce_sum_exp(want[1], x, want[0], R, V, BASE, VALID);
        fl_ce_below(want[2], x, want[0], target, R, V, BASE, VALID, -100, smoothing);
        fl_ce_grad(want_dx, dloss, x, want[0], want[1], target, R, V, BASE, VALID, -100, smoothing);
        fl_ce_max_as(got[0], s, t, R, V, BASE, VALID);
        fl_ce_sum_exp_as(got[1], s, t, want[0], R, V, BASE, VALID);
        fl_ce_below_as(got[2], s, t, want[0], target, R, V, BASE, VALID, -100, smoothing);
        fl_ce_grad_as(dx, dloss, s, t, want[0], want[1], target, R, V, BASE, VALID, -100, smoothing);
        for (int i = 0; i < 3; i++)
            for (int r = 0; r < R; r++)
                assert_true(got[i][r] == want[i][r]);
        same_as_f32("dlogits", dx, want_dx, t, R * V);
        /* the first V rows of D as a table */
        fl_embedding(want_y, target, x, R, BASE, 20, D);
        fl_embedding_as(y, target, s, t, R, BASE, 20, D);
        same_as_f32("y", y, want_y, t, R * D);
        fl_embedding_grad(want_dw, x, target, R, BASE, V, D);
        fl_embedding_grad_as(dw, s, t, target, R, BASE, V, D);
        for (int i = 0; i < V * D; i++)
            assert_true(dw[i] == want_dw[i]);
        free(start), free(x), free(dloss), free(s);
    }
}

/* Operands of a short type: the logits are f32, their gradient is rounded before it is multiplied. */
static void linear_cross_entropy(void **state)
{
    (void)state;
    enum { R = 9, V = 37, VALID = 33, D = 11, CHUNK = 4 };
    int32_t target[R] = { 3, 9, -100, 32, 0, 20, 21, 22, 4 };
    float *x = random_array(R * D, 41), *w = random_array(V * D, 42), *dloss = random_array(R, 43);
    for (int k = FL_BF16; k <= FL_F16; k++) {
        enum fl_type t = (enum fl_type)k;
        struct fl_linear_ce c = { .rows = R, .chunk = CHUNK, .d = D, .n = V, .valid = VALID, .turned = k & 1, .ignore = -100, .smoothing = 0.1f };
        uint16_t *sx = as(x, R * D, t), *sw = as(w, V * D, t), dx[R * D];
        float *fx = blank(R * D), *fw = blank(V * D), want_loss[R], loss[R], want_dx[R * D], wide_dx[R * D], want_dw[V * D], dw[V * D];
        float room[CHUNK * V];
        fl_convert(fx, FL_F32, sx, t, R * D);
        fl_convert(fw, FL_F32, sw, t, V * D);
        fl_linear_cross_entropy(want_loss, want_dx, want_dw, fx, fw, dloss, target, room, &c);
        fl_linear_cross_entropy_as(loss, dx, dw, sx, sw, dloss, target, room, &c, t, t, t, FL_F32);
        for (int r = 0; r < R; r++)
            assert_true(fabsf(loss[r] - want_loss[r]) <= 1e-5f * fabsf(want_loss[r]));
        fl_linear_cross_entropy_as(loss, wide_dx, dw, sx, sw, dloss, target, room, &c, t, t, FL_F32, FL_F32);
        float most = t == FL_BF16 ? 1e-2f : 2e-3f;
        for (int i = 0; i < R * D; i++)
            assert_true(fabsf(wide_dx[i] - want_dx[i]) <= most && fabsf(at(dx, t, i) - round_to(wide_dx[i], t)) <= most);
        for (int i = 0; i < V * D; i++)
            assert_true(fabsf(dw[i] - want_dw[i]) <= most);
        float part[4][R];
        fl_linear_ce_parts_as(part[0], part[1], part[2], part[3], sx, sw, target, 1, room, &c, t, t);
        for (int r = 0; r < R; r++)
            assert_true(target[r] < 0 || fabsf(logf(part[1][r]) + part[2][r] - want_loss[r]) <= 1e-5f * fabsf(want_loss[r]));
        fl_linear_ce_parts_grad_as(dx, dw, sx, sw, dloss, part[0], part[1], target, room, &c, t, t, t, FL_F32);
        for (int i = 0; i < R * D; i++)
            assert_true(fabsf(at(dx, t, i) - want_dx[i]) <= most);
        for (int i = 0; i < V * D; i++)
            assert_true(fabsf(dw[i] - want_dw[i]) <= most);
        free(sx), free(sw), free(fx), free(fw);
    }
    free(x), free(w), free(dloss);
}

/* Norms: every tensor has a type of its own. */
static void norms(void **state)
{
    (void)state;
    enum { R = 70, N = 37 };
    float *x = random_array(R * N, 21), *g = random_array(R * N, 22), *w = random_array(N, 23), *b = random_array(N, 24);
    for (int k = 1; k < 8; k++) {                    /* which of x, dy and the weight are short; results as x */
        for (int s = FL_BF16; s <= FL_F16; s++) {
            enum fl_type tx = k & 1 ? (enum fl_type)s : FL_F32, tg = k & 2 ? (enum fl_type)s : FL_F32, tw = k & 4 ? (enum fl_type)s : FL_F32;
            uint16_t *sx = as(x, R * N, s), *sg = as(g, R * N, s), *sw = as(w, N, s), got[2 * R * N], gw[2 * N], gb[2 * N];
            float *fx = blank(R * N), *fg = blank(R * N), *fw = blank(N), want[R * N], ww[N], wb[N];
            fl_convert(fx, FL_F32, k & 1 ? (void *)sx : x, tx, R * N);
            fl_convert(fg, FL_F32, k & 2 ? (void *)sg : g, tg, R * N);
            fl_convert(fw, FL_F32, k & 4 ? (void *)sw : w, tw, N);
            const void *px = k & 1 ? (void *)sx : x, *pg = k & 2 ? (void *)sg : g, *pw = k & 4 ? (void *)sw : w;
            fl_layer_norm(want, fx, fw, b, R, N, 1e-5f);
            fl_layer_norm_as(got, px, pw, b, R, N, 1e-5f, tx, tx, tw, FL_F32);
            same_as_f32("layer_norm", got, want, tx, R * N);
            fl_layer_norm_grad(want, ww, wb, fg, fx, fw, R, N, 1e-5f);
            fl_layer_norm_grad_as(got, gw, gb, pg, px, pw, R, N, 1e-5f, tx, tw, FL_F32, tg, tx, tw);
            same_as_f32("dx", got, want, tx, R * N);
            same_as_f32("dweight", gw, ww, tw, N);
            same_as_f32("dbias", gb, wb, FL_F32, N);
            fl_rms_norm(want, fx, fw, R, N, 1e-5f);
            fl_rms_norm_as(got, px, pw, R, N, 1e-5f, tx, tx, tw);
            same_as_f32("rms_norm", got, want, tx, R * N);
            fl_rms_norm_grad(want, ww, fg, fx, fw, R, N, 1e-5f);
            fl_rms_norm_grad_as(got, gw, pg, px, pw, R, N, 1e-5f, tx, tw, tg, tx, tw);
            same_as_f32("rms dx", got, want, tx, R * N);
            same_as_f32("rms dweight", gw, ww, tw, N);
            free(sx), free(sg), free(sw), free(fx), free(fg), free(fw);
        }
    }
    free(x), free(g), free(w), free(b);
}

static void softmaxes(void **state)
{
    (void)state;
    enum { N = 3 * 7 * 5 };
    const struct fl_dims d = { .ndim = 3, .n = { 3, 7, 5 }, .valid = { 3, 6, 5 }, .reduced = 2 };
    float *start = random_array(N, 31), *g = random_array(N, 32), fx[N], fg[N], want[N], back[N];
    for (int k = FL_BF16; k <= FL_F16; k++) {
        enum fl_type t = (enum fl_type)k;
        uint16_t *x = as(start, N, t), *dy = as(g, N, t), y[N], dx[N];
        fl_convert(fx, FL_F32, x, t, N);
        fl_convert(fg, FL_F32, dy, t, N);
        for (int logarithm = 0; logarithm < 2; logarithm++) {
            (logarithm ? fl_log_softmax : fl_softmax)(want, fx, &d);
            (logarithm ? fl_log_softmax_as : fl_softmax_as)(y, x, t, &d);
            same_as_f32("softmax", y, want, t, N);
            fl_convert(want, FL_F32, y, t, N);
            (logarithm ? fl_log_softmax_grad : fl_softmax_grad)(back, want, fg, &d);
            (logarithm ? fl_log_softmax_grad_as : fl_softmax_grad_as)(dx, y, dy, t, &d);
            same_as_f32("softmax_grad", dx, back, t, N);
        }
        free(x), free(dy);
    }
    free(start), free(g);
}

static void movers(void **state)
{
    (void)state;
    enum { N = 2 * 6 * 3 * 8, COUNT = 4 };
    const struct fl_dims d = { .ndim = 3, .n = { 2, 6, 24 }, .valid = { 2, 6, 24 }, .reduced = 2 };
    const struct fl_place place = { .ndim = 2, .n = { 12, 24 }, .base = { 5, 0 }, .size = { 40, 24 } };
    const struct fl_step step = { .step = 3, .seed = 7 };
    int32_t indices[2 * COUNT * 24];
    for (int i = 0; i < 2 * COUNT * 24; i++)
        indices[i] = (i * 5 + 1) % 9;
    float *start = random_array(N, 41), fx[N], want[N];
    for (int k = FL_BF16; k <= FL_F16; k++) {
        enum fl_type t = (enum fl_type)k;
        uint16_t *x = as(start, N, t), y[N];
        fl_convert(fx, FL_F32, x, t, N);
        fl_rope(want, fx, 2, 6, 3, 8, 4, 100, true, false);
        fl_rope_as(y, x, t, 2, 6, 3, 8, 4, 100, true, false);
        same_as_f32("rope", y, want, t, N);
        fl_dropout(want, fx, &step, 99, 1, 0.4f, &place);
        fl_dropout_as(y, x, t, &step, 99, 1, 0.4f, &place);
        same_as_f32("dropout", y, want, t, N);
        fl_gather(want, fx, indices, &d, COUNT, 1);
        fl_gather_as(y, x, t, indices, &d, COUNT, 1);
        same_as_f32("gather", y, want, t, 2 * COUNT * 24);
        free(x);
    }
    free(start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_values),  cmocka_unit_test(rounding),     cmocka_unit_test(gemms),
        cmocka_unit_test(apart),       cmocka_unit_test(epilogues),    cmocka_unit_test(along),
        cmocka_unit_test(conversions), cmocka_unit_test(accumulation), cmocka_unit_test(updates), cmocka_unit_test(odd_places),
        cmocka_unit_test(rows_of_halves), cmocka_unit_test(rows), cmocka_unit_test(linear_cross_entropy),        cmocka_unit_test(norms),        cmocka_unit_test(softmaxes),
        cmocka_unit_test(movers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
