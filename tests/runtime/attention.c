/* Attention and its gradient in all float types against the definition in float64: strided operands, grouped heads, causal or not, masks,
 * keys beyond one tile, queries that see nothing, windows, documents, and queries that begin later than the keys. */
#include "compare.h"

struct sizes { int64_t b, h, g, tq, tk, dk, dv; bool causal, mask; int64_t shift, window; bool documents; };

static int32_t document(int64_t b, int64_t s) { return (int32_t)((s + 3 * b) / 9 % 3); }

static bool sees(const struct sizes *z, int64_t b, int64_t t, int64_t s, const uint8_t *keep)
{
    t += z->shift;
    return !(z->causal && s > t) && !(z->window && (s - t >= z->window || t - s >= z->window)) &&
           !(z->documents && document(b, s) != document(b, t)) && !(z->mask && !keep[b * z->tk + s]);
}

/* The reference works on dense [b, h, t, k] arrays. */
static void reference(const struct sizes *z, double scale, const float *q, const float *k, const float *v,
                      const float *dy, const uint8_t *keep, double *y, double *dq, double *dk, double *dv)
{
    double *p = calloc((size_t)z->tk, 8), *dp = calloc((size_t)z->tk, 8);
    for (int64_t b = 0; b < z->b; b++)
        for (int64_t h = 0; h < z->h; h++)
            for (int64_t t = 0; t < z->tq; t++) {
                int64_t g = b * z->g + h / (z->h / z->g), row = (b * z->h + h) * z->tq + t;
                double top = -INFINITY, sum = 0, dot = 0;
                for (int64_t s = 0; s < z->tk; s++) {
                    p[s] = 0;
                    for (int64_t i = 0; i < z->dk; i++)
                        p[s] += scale * q[row * z->dk + i] * k[(g * z->tk + s) * z->dk + i];
                    if (!sees(z, b, t, s, keep))
                        p[s] = -INFINITY;
                    top = fmax(top, p[s]);
                }
                for (int64_t s = 0; s < z->tk; s++)
                    sum += p[s] = top == -INFINITY ? 0 : exp(p[s] - top);
                for (int64_t s = 0; s < z->tk; s++) {
                    p[s] = sum > 0 ? p[s] / sum : 0;
                    dp[s] = 0;
                    for (int64_t i = 0; i < z->dv; i++) {
                        y[row * z->dv + i] += p[s] * v[(g * z->tk + s) * z->dv + i];
                        dp[s] += (double)dy[row * z->dv + i] * v[(g * z->tk + s) * z->dv + i];
                        dv[(g * z->tk + s) * z->dv + i] += p[s] * dy[row * z->dv + i];
                    }
                    dot += p[s] * dp[s];
                }
                for (int64_t s = 0; s < z->tk; s++)
                    for (int64_t i = 0; i < z->dk; i++) {
                        double ds = p[s] * (dp[s] - dot) * scale;
                        dq[row * z->dk + i] += ds * k[(g * z->tk + s) * z->dk + i];
                        dk[(g * z->tk + s) * z->dk + i] += ds * q[row * z->dk + i];
                    }
            }
    free(p);
    free(dp);
}

/* Dense [b, h, t, k] to [b, t, h, k] with `extra` elements after each row, and back. */
static float *strided(const float *x, int64_t b, int64_t h, int64_t t, int64_t k, int64_t extra, int64_t *stride)
{
    extra = k % 16 ? extra : 0;          /* rows that start at multiples of 16 bytes too */
    stride[2] = h * (k + extra);
    stride[1] = k + extra;
    stride[0] = t * stride[2];
    float *y = blank(b * stride[0]);
    if (x)
        fl_copy_strided(y, x,
                        &(struct fl_strided){
                            4, { b, h, t, k }, { stride[0], stride[1], stride[2], 1 }, { h * t * k, t * k, k, 1 } },
                        4);
    return y;
}

static float *dense(const float *x, int64_t b, int64_t h, int64_t t, int64_t k, const int64_t *stride)
{
    float *y = blank(b * h * t * k);
    fl_copy_strided(
        y, x,
        &(struct fl_strided){ 4, { b, h, t, k }, { h * t * k, t * k, k, 1 }, { stride[0], stride[1], stride[2], 1 } },
        4);
    return y;
}

static void rounded(float *x, int64_t n, enum fl_type t)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = t == FL_F32 ? x[i] : t == FL_BF16 ? fl_round_bf16(x[i]) : fl_round_f16(x[i]);
}

static void one(const struct sizes *z, enum fl_type t)
{
    int64_t nq = z->b * z->h * z->tq, nk = z->b * z->g * z->tk;
    float *q = random_array(nq * z->dk, 1), *k = random_array(nk * z->dk, 2), *v = random_array(nk * z->dv, 3),
          *dy = random_array(nq * z->dv, 4);
    rounded(q, nq * z->dk, t), rounded(k, nk * z->dk, t), rounded(v, nk * z->dv, t), rounded(dy, nq * z->dv, t);
    double *ry = calloc((size_t)(nq * z->dv), 8), *rdq = calloc((size_t)(nq * z->dk), 8),
           *rdk = calloc((size_t)(nk * z->dk), 8);
    double *rdv = calloc((size_t)(nk * z->dv), 8);
    uint8_t *keep = malloc((size_t)(z->b * z->tk));
    for (int64_t i = 0; i < z->b * z->tk; i++)
        keep[i] = i % 3 != 0; /* the first key of sequence 0 is hidden: causal query 0 sees nothing */
    int32_t *documents = malloc((size_t)(z->b * z->tk) * sizeof *documents);
    for (int64_t i = 0; i < z->b * z->tk; i++)
        documents[i] = document(i / z->tk, i % z->tk);
    reference(z, 0.7, q, k, v, dy, keep, ry, rdq, rdk, rdv);
    struct fl_attention a = { .batch = z->b,
                              .heads = z->h,
                              .kv_heads = z->g,
                              .tq = z->tq,
                              .tk = z->tk,
                              .dk = z->dk,
                              .dv = z->dv,
                              .scale = 0.7f,
                              .causal = z->causal,
                              .causal_shift = z->shift,
                              .window = z->window,
                              .documents = z->documents ? documents : NULL,
                              .document_stride = { z->tk, 1 },
                              .keep_stride = { z->tk, 0, 0, 1 } };
    float *sq = strided(q, z->b, z->h, z->tq, z->dk, 3, a.q), *sk = strided(k, z->b, z->g, z->tk, z->dk, 0, a.k);
    float *sv = strided(v, z->b, z->g, z->tk, z->dv, 5, a.v), *sy = strided(NULL, z->b, z->h, z->tq, z->dv, 1, a.y);
    float *sdq = strided(NULL, z->b, z->h, z->tq, z->dk, 0, a.gq),
          *sdk = strided(NULL, z->b, z->g, z->tk, z->dk, 2, a.gk);
    float *sdv = strided(NULL, z->b, z->g, z->tk, z->dv, 0, a.gv),
          *sdy = strided(dy, z->b, z->h, z->tq, z->dv, 4, a.gy);
    const uint8_t *mask = z->mask ? keep : NULL;
    if (t != FL_F32) {
        int64_t n[] = { z->b * a.q[0], z->b * a.k[0], z->b * a.v[0], z->b * a.gy[0], z->b * a.y[0], z->b * a.gq[0], z->b * a.gk[0],
                        z->b * a.gv[0] };
        float *f[] = { sq, sk, sv, sdy, sy, sdq, sdk, sdv };
        void *h[8];
        for (int i = 0; i < 8; i++) {
            h[i] = aligned_alloc(16, (size_t)(n[i] * 2 + 31) / 16 * 16);
            fl_convert(h[i], t, f[i], FL_F32, n[i]);
        }
        fl_attention_as(h[4], h[0], h[1], h[2], mask, t, &a);
        fl_attention_grad_as(h[5], h[6], h[7], h[3], h[0], h[1], h[2], mask, t, &a);
        for (int i = 0; i < 8; i++) {
            fl_convert(f[i], FL_F32, h[i], t, n[i]);
            free(h[i]);
        }
        double by = t == FL_BF16 ? 1 : 1.0 / 8;
        check_close("y", dense(sy, z->b, z->h, z->tq, z->dv, a.y), ry, nq * z->dv, 1e-2 * by);
        check_close("dq", dense(sdq, z->b, z->h, z->tq, z->dk, a.gq), rdq, nq * z->dk, 2e-2 * by);
        check_close("dk", dense(sdk, z->b, z->g, z->tk, z->dk, a.gk), rdk, nk * z->dk, 2e-2 * by);
        check_close("dv", dense(sdv, z->b, z->g, z->tk, z->dv, a.gv), rdv, nk * z->dv, 2e-2 * by);
        return;
    }
    fl_attention(sy, sq, sk, sv, mask, &a);
    fl_attention_grad(sdq, sdk, sdv, sdy, sq, sk, sv, mask, &a);
    check_close("y", dense(sy, z->b, z->h, z->tq, z->dv, a.y), ry, nq * z->dv, 5e-6);
    check_close("dq", dense(sdq, z->b, z->h, z->tq, z->dk, a.gq), rdq, nq * z->dk, 1e-5);
    check_close("dk", dense(sdk, z->b, z->g, z->tk, z->dk, a.gk), rdk, nk * z->dk, 1e-5);
    check_close("dv", dense(sdv, z->b, z->g, z->tk, z->dv, a.gv), rdv, nk * z->dv, 1e-5);
}

static void cases(void **state)
{
    (void)state;
    const struct sizes table[] = {
        { 2, 4, 4, 13, 13, 8, 8, true, false, 0, 0, false },
        { 2, 4, 2, 70, 70, 8, 6, true, true, 0, 0, false },       /* two blocks of queries, grouped heads, uneven widths */
        { 1, 2, 1, 5, 1100, 16, 8, false, false, 0, 0, false },   /* three tiles of keys */
        { 1, 2, 2, 1030, 1030, 4, 4, true, true, 0, 0, false },
        { 2, 1, 1, 3, 7, 5, 5, false, true, 0, 0, false },
        { 1, 1, 1, 1, 1, 1, 1, true, false, 0, 0, false },
        { 2, 2, 1, 70, 150, 4, 4, true, false, 80, 0, false },      /* the last queries of 150 */
        { 1, 2, 2, 1200, 1200, 4, 4, true, false, 0, 37, false },
        { 1, 2, 2, 90, 1300, 4, 4, false, true, 1100, 20, false },
        { 2, 2, 2, 60, 100, 4, 4, true, false, 40, 0, true },
        { 2, 1, 1, 33, 33, 4, 4, false, false, 0, 5, true },
        { 1, 2, 1, 70, 70, 64, 48, true, false, 0, 0, false },
        { 1, 1, 1, 37, 53, 112, 128, false, true, 0, 0, false },
        { 1, 2, 2, 40, 40, 160, 192, true, false, 0, 0, false },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int t = FL_F32; t <= FL_F16; t++)
            one(&table[i], (enum fl_type)t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
