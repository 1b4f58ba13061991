/* --selftest: the kernels of the target against plain loops in float64, and the collectives of the program's communicators
 * against what they must give. Sizes are odd, so that every kernel has a rest. On a GPU this is what proves the few device
 * primitives that no host can run (cuda/primitives.cu tries them one by one). */
#include "selftest.h"
#include "agree.h"
#include "check.h"
#include "fl_random.h"
#include "target.h"
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 32 << 20 };
static char *room;                       /* memory of the target; every check starts anew */
static int64_t used;
static int failed;

static void *piece(int64_t bytes)
{
    void *p = room + used;
    used += (bytes + 255) / 256 * 256;
    if (used > ROOM)
        FL_FAIL(NULL, "the self-test has no room for a check");
    return p;
}

static int64_t width(enum fl_type t) { return t == FL_BF16 || t == FL_F16 ? 2 : 4; }

static float rounded(float x, enum fl_type t) { return t == FL_F32 ? x : t == FL_BF16 ? fl_round_bf16(x) : fl_round_f16(x); }

/* n numbers in (-1, 1) on the host that are exact in type t. */
static float *numbers(int64_t n, uint64_t seed, enum fl_type t)
{
    float *x = fl_alloc(n * 4);
    for (int64_t i = 0; i < n; i++)
        x[i] = rounded((float)(2 * fl_uniform(seed, 0, 0, (uint64_t)i) - 1), t);
    return x;
}

/* x in the target's memory, as type t. */
static void *placed(const float *x, int64_t n, enum fl_type t)
{
    void *p = piece(n * width(t));
    uint16_t *bits = fl_alloc(n * 4);
    for (int64_t i = 0; i < n && t != FL_F32; i++)
        bits[i] = t == FL_BF16 ? fl_to_bf16(x[i]).bits : fl_to_f16(x[i]).bits;
    fl_to_arena(p, t == FL_F32 ? (const void *)x : bits, n * width(t));
    fl_target_sync();
    free(bits);
    return p;
}

static void *placed_ids(const int32_t *x, int64_t n)
{
    void *p = piece(n * 4);
    fl_to_arena(p, x, n * 4);
    fl_target_sync();
    return p;
}

void fl_holds(const char *what, enum fl_type t, const void *got, const double *want, int64_t n, double most)
{
    static const char *const name[] = { "f32", "bf16", "f16" };
    float *x = fl_alloc(n * 4);
    uint16_t *bits = fl_alloc(n * 4);
    fl_from_arena(t == FL_F32 ? (void *)x : bits, got, n * width(t));
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        float v = t == FL_F32 ? x[i] : t == FL_BF16 ? fl_from_bf16((fl_bf16){ bits[i] }) : fl_from_f16((fl_f16){ bits[i] });
        double error = fabs(v - want[i]) / (1 + fabs(want[i]));
        worst = error <= worst ? worst : error;          /* a NaN stays */
    }
    bool bad = !(worst <= most);
    failed += bad;
    if (bad || !fl_rank_number)
        printf("selftest rank %d: %-22s %-4s error %.1e, at most %.0e: %s\n", fl_rank_number, what, name[t], worst, most, bad ? "WRONG" : "ok");
    free(x), free(bits);
}

static double most(enum fl_type t, double f32) { return t == FL_F32 ? f32 : t == FL_BF16 ? 2e-2 : 3e-3; }

static void products(enum fl_type t, int trans)
{
    enum { M = 37, N = 45, K = 70 };
    float *a = numbers(M * K, 1, t), *b = numbers(K * N, 2, t);
    double want[M * N];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            want[i * N + j] = 0;
            for (int k = 0; k < K; k++)
                want[i * N + j] += (double)a[trans & 1 ? k * M + i : i * K + k] * b[trans & 2 ? j * K + k : k * N + j];
        }
    struct fl_gemm g = { .m = M, .n = N, .k = K, .ta = trans & 1, .tb = trans >> 1, .lda = trans & 1 ? M : K, .ldb = trans & 2 ? K : N,
                         .ldc = N, .alpha = 1 };
    void *c = piece(M * N * 4), *pa = placed(a, M * K, t), *pb = placed(b, K * N, t);
    if (t == FL_F32)
        fl_gemm(c, pa, pb, &g);
    else
        fl_gemm_as(c, FL_F32, pa, pb, t, &g);
    fl_holds("product", FL_F32, c, want, M * N, 1e-5);
    g.k = 0;                             /* nothing to add */
    g.beta = 0.5f;
    if (t == FL_F32)
        fl_gemm(c, pa, pb, &g);
    else
        fl_gemm_as(c, FL_F32, pa, pb, t, &g);
    for (int i = 0; i < M * N; i++)
        want[i] *= 0.5;
    fl_holds("product of nothing", FL_F32, c, want, M * N, 1e-5);
    free(a), free(b);
}

static void norms(enum fl_type t)
{
    enum { R = 67, N = 173 };
    float *x = numbers(R * N, 3, t), *w = numbers(N, 4, FL_F32), *b = numbers(N, 5, FL_F32), *g = numbers(R * N, 6, t);
    static double y[R * N], dx[R * N], dw[N], db[N];
    memset(dw, 0, sizeof dw);
    memset(db, 0, sizeof db);
    for (int r = 0; r < R; r++) {
        double mean = 0, square = 0, a = 0, c = 0;
        for (int i = 0; i < N; i++)
            mean += x[r * N + i] / (double)N;
        for (int i = 0; i < N; i++)
            square += (x[r * N + i] - mean) * (x[r * N + i] - mean) / N;
        double inv = 1 / sqrt(square + 1e-5);
        for (int i = 0; i < N; i++) {
            double h = (x[r * N + i] - mean) * inv, e = (double)g[r * N + i] * w[i];
            y[r * N + i] = h * w[i] + b[i];
            dw[i] += g[r * N + i] * h;
            db[i] += g[r * N + i];
            a += e / N;
            c += e * h / N;
        }
        for (int i = 0; i < N; i++)
            dx[r * N + i] = inv * ((double)g[r * N + i] * w[i] - a - (x[r * N + i] - mean) * inv * c);
    }
    void *px = placed(x, R * N, t), *pw = placed(w, N, FL_F32), *pb = placed(b, N, FL_F32), *pg = placed(g, R * N, t);
    void *py = piece(R * N * 4), *pdx = piece(R * N * 4), *pdw = piece(N * 4), *pdb = piece(N * 4);
    fl_layer_norm_as(py, px, pw, pb, R, N, 1e-5f, t, t, FL_F32, FL_F32);
    fl_layer_norm_grad_as(pdx, pdw, pdb, pg, px, pw, R, N, 1e-5f, t, FL_F32, FL_F32, t, t, FL_F32);
    fl_holds("layer_norm", t, py, y, R * N, most(t, 1e-5));
    fl_holds("layer_norm dx", t, pdx, dx, R * N, most(t, 1e-5));
    fl_holds("layer_norm dweight", FL_F32, pdw, dw, N, 1e-5);
    fl_holds("layer_norm dbias", FL_F32, pdb, db, N, 1e-5);
    free(x), free(w), free(b), free(g);
}

/* q [T, H, K], k and v [T, 1, K]: grouped heads, causal. */
static void attentions(enum fl_type t, int64_t width_of_head)
{
    enum { H = 2, T = 75, MOST = 192 };
    int64_t K = width_of_head;
    float *q = numbers(T * H * K, 7, t), *k = numbers(T * K, 8, t), *v = numbers(T * K, 9, t), *g = numbers(T * H * K, 10, t);
    static double y[T * H * MOST], dq[T * H * MOST], dk[T * MOST], dv[T * MOST];
    memset(y, 0, sizeof y), memset(dq, 0, sizeof dq), memset(dk, 0, sizeof dk), memset(dv, 0, sizeof dv);
    double scale = 0.3;
    for (int h = 0; h < H; h++)
        for (int i = 0; i < T; i++) {
            const float *qr = q + (i * H + h) * K, *gr = g + (i * H + h) * K;
            double p[T], dp[T], sum = 0, dot = 0;
            for (int s = 0; s <= i; s++) {
                p[s] = dp[s] = 0;
                for (int64_t d = 0; d < K; d++) {
                    p[s] += scale * qr[d] * k[s * K + d];
                    dp[s] += (double)gr[d] * v[s * K + d];
                }
                sum += p[s] = exp(p[s]);
            }
            for (int s = 0; s <= i; s++)
                dot += (p[s] /= sum) * dp[s];
            for (int s = 0; s <= i; s++)
                for (int64_t d = 0; d < K; d++) {
                    double ds = scale * p[s] * (dp[s] - dot);
                    y[(i * H + h) * K + d] += p[s] * v[s * K + d];
                    dq[(i * H + h) * K + d] += ds * k[s * K + d];
                    dk[s * K + d] += ds * qr[d];
                    dv[s * K + d] += p[s] * gr[d];
                }
        }
    struct fl_attention a = { .batch = 1, .heads = H, .kv_heads = 1, .tq = T, .tk = T, .dk = K, .dv = K, .scale = (float)scale, .causal = true,
                              .q = { 0, K, H * K }, .k = { 0, 0, K }, .v = { 0, 0, K }, .y = { 0, K, H * K }, .gq = { 0, K, H * K },
                              .gk = { 0, 0, K }, .gv = { 0, 0, K }, .gy = { 0, K, H * K } };
    void *pq = placed(q, T * H * K, t), *pk = placed(k, T * K, t), *pv = placed(v, T * K, t), *pg = placed(g, T * H * K, t);
    void *py = piece(T * H * K * 4), *pdq = piece(T * H * K * 4), *pdk = piece(T * K * 4), *pdv = piece(T * K * 4);
    if (t == FL_F32) {
        fl_attention(py, pq, pk, pv, NULL, &a);
        fl_attention_grad(pdq, pdk, pdv, pg, pq, pk, pv, NULL, &a);
    } else {
        fl_attention_as(py, pq, pk, pv, NULL, t, &a);
        fl_attention_grad_as(pdq, pdk, pdv, pg, pq, pk, pv, NULL, t, &a);
    }
    fl_holds("attention", t, py, y, T * H * K, most(t, 1e-5));
    fl_holds("attention dq", t, pdq, dq, T * H * K, most(t, 1e-5));
    fl_holds("attention dk", t, pdk, dk, T * K, most(t, 1e-5));
    fl_holds("attention dv", t, pdv, dv, T * K, most(t, 1e-5));
    free(q), free(k), free(v), free(g);
}

static void losses(enum fl_type t)
{
    enum { R = 19, V = 301, VALID = 290 };
    float *x = numbers(R * V, 11, t), *g = numbers(R, 12, FL_F32);
    int32_t ids[R];
    static double m[R], s[R], p[R], dx[R * V];
    for (int r = 0; r < R; r++) {
        ids[r] = r == 4 ? -100 : r * 13 % VALID;
        m[r] = -INFINITY;
        s[r] = 0;
        for (int i = 0; i < VALID; i++)
            m[r] = fmax(m[r], x[r * V + i]);
        for (int i = 0; i < VALID; i++)
            s[r] += exp(x[r * V + i] - m[r]);
        p[r] = ids[r] < 0 ? 0 : m[r] - x[r * V + ids[r]];
        for (int i = 0; i < V; i++)
            dx[r * V + i] = ids[r] < 0 || i >= VALID ? 0 : g[r] * (exp(x[r * V + i] - m[r]) / s[r] - (i == ids[r]));
    }
    void *px = placed(x, R * V, t), *pg = placed(g, R, FL_F32), *pi = placed_ids(ids, R), *pm = piece(R * 4), *ps = piece(R * 4);
    void *pp = piece(R * 4), *pdx = piece(R * V * 4);
    fl_ce_max_as(pm, px, t, R, V, 0, VALID);
    fl_ce_sum_exp_as(ps, px, t, pm, R, V, 0, VALID);
    fl_ce_below_as(pp, px, t, pm, pi, R, V, 0, VALID, -100, 0);
    fl_ce_grad_as(pdx, pg, px, t, pm, ps, pi, R, V, 0, VALID, -100, 0);
    fl_holds("cross_entropy max", FL_F32, pm, m, R, 0);
    fl_holds("cross_entropy sum", FL_F32, ps, s, R, 1e-5);
    fl_holds("cross_entropy below", FL_F32, pp, p, R, 1e-6);
    fl_holds("cross_entropy grad", t, pdx, dx, R * V, most(t, 1e-6));
    free(x), free(g);
}

/* The loss of a product without its logits, some rows at a time. */
static void losses_of_products(enum fl_type t)
{
    enum { R = 19, V = 301, VALID = 290, D = 24 };
    struct fl_linear_ce c = { .rows = R, .chunk = 8, .d = D, .n = V, .valid = VALID, .ignore = -100 };
    float *x = numbers(R * D, 13, t), *w = numbers(V * D, 14, t), *g = numbers(R, 15, FL_F32);
    int32_t ids[R];
    static double l[VALID], loss[R], dx[R * D], dw[V * D], largest[R], sums[R], below[R];
    memset(dx, 0, sizeof dx);
    memset(dw, 0, sizeof dw);
    for (int r = 0; r < R; r++) {
        double sum = 0;
        ids[r] = r == 4 ? -100 : r * 13 % VALID;
        for (int v = 0; v < VALID; v++) {
            l[v] = 0;
            for (int k = 0; k < D; k++)
                l[v] += (double)x[r * D + k] * w[v * D + k];
            sum += exp(l[v]);
            largest[r] = v && largest[r] > l[v] ? largest[r] : l[v];
        }
        loss[r] = ids[r] < 0 ? 0 : log(sum) - l[ids[r]];
        sums[r] = sum * exp(-largest[r]);
        below[r] = ids[r] < 0 ? 0 : largest[r] - l[ids[r]];
        for (int v = 0; v < VALID && ids[r] >= 0; v++) {
            double of = g[r] * (exp(l[v]) / sum - (v == ids[r]));
            for (int k = 0; k < D; k++) {
                dx[r * D + k] += of * w[v * D + k];
                dw[v * D + k] += of * x[r * D + k];
            }
        }
    }
    void *px = placed(x, R * D, t), *pw = placed(w, V * D, t), *pg = placed(g, R, FL_F32), *pi = placed_ids(ids, R);
    void *pl = piece(R * 4), *pdx = piece(R * D * 4), *pdw = piece(V * D * 4), *held = piece(c.chunk * V * 4);
    if (t == FL_F32)
        fl_linear_cross_entropy(pl, pdx, pdw, px, pw, pg, pi, held, &c);
    else
        fl_linear_cross_entropy_as(pl, pdx, pdw, px, pw, pg, pi, held, &c, t, t, t, FL_F32);
    fl_holds("cross_entropy of x w", FL_F32, pl, loss, R, 1e-5);
    fl_holds("cross_entropy dx", t, pdx, dx, R * D, most(t, 1e-5));
    fl_holds("cross_entropy dw", FL_F32, pdw, dw, V * D, most(t, 1e-5));
    void *part[4];
    for (int k = 0; k < 4; k++)
        part[k] = piece(R * 4);
    if (t == FL_F32) {
        fl_linear_ce_parts(part[0], part[1], part[2], part[3], px, pw, pi, 1, held, &c);
        fl_linear_ce_parts_grad(pdx, pdw, px, pw, pg, part[0], part[1], pi, held, &c);
    } else {
        fl_linear_ce_parts_as(part[0], part[1], part[2], part[3], px, pw, pi, 1, held, &c, t, t);
        fl_linear_ce_parts_grad_as(pdx, pdw, px, pw, pg, part[0], part[1], pi, held, &c, t, t, t, FL_F32);
    }
    fl_holds("cross_entropy, largest", FL_F32, part[0], largest, R, 1e-5);
    fl_holds("cross_entropy, sum", FL_F32, part[1], sums, R, 1e-5);
    fl_holds("cross_entropy, below", FL_F32, part[2], below, R, 1e-5);
    fl_holds("cross_entropy dx of parts", t, pdx, dx, R * D, most(t, 1e-5));
    fl_holds("cross_entropy dw of parts", FL_F32, pdw, dw, V * D, most(t, 1e-5));
    free(x), free(w), free(g);
}

static void softmaxes(enum fl_type t)
{
    enum { R = 41, N = 133 };
    float *x = numbers(R * N, 13, t), *g = numbers(R * N, 14, t);
    static double y[R * N], dx[R * N];
    for (int r = 0; r < R; r++) {
        double sum = 0, dot = 0;
        for (int i = 0; i < N; i++)
            sum += exp(x[r * N + i]);
        for (int i = 0; i < N; i++)
            dot += g[r * N + i] * (y[r * N + i] = exp(x[r * N + i]) / sum);
        for (int i = 0; i < N; i++)
            dx[r * N + i] = y[r * N + i] * (g[r * N + i] - dot);
    }
    const struct fl_dims d = { .ndim = 2, .n = { R, N }, .valid = { R, N }, .reduced = 2 };
    void *px = placed(x, R * N, t), *pg = placed(g, R * N, t), *py = piece(R * N * 4), *pdx = piece(R * N * 4);
    fl_softmax_as(py, px, t, &d);
    fl_softmax_grad_as(pdx, py, pg, t, &d);
    fl_holds("softmax", t, py, y, R * N, most(t, 1e-6));
    fl_holds("softmax grad", t, pdx, dx, R * N, most(t, 1e-6));
    free(x), free(g);
}

static void tables(enum fl_type t)
{
    enum { R = 23, N = 70, COUNT = 57, T = 5, PAIRS = 7 };
    float *w = numbers(R * N, 15, t), *x = numbers(COUNT * N, 16, t);
    int32_t ids[COUNT];
    static double y[COUNT * N], dw[R * N], turned[COUNT * N];
    memset(dw, 0, sizeof dw);
    for (int i = 0; i < COUNT; i++) {
        ids[i] = i * 7 % (R + 2);                    /* some are another rank's */
        for (int d = 0; d < N; d++) {
            y[i * N + d] = ids[i] < R ? w[ids[i] * N + d] : 0;
            if (ids[i] < R)
                dw[ids[i] * N + d] += x[i * N + d];
        }
    }
    for (int64_t row = 0; row < COUNT * N / (2 * PAIRS) / T * T; row++)
        for (int i = 0; i < PAIRS; i++) {
            double angle = (double)(3 + row % T) * pow(100, -2.0 * i / (2 * PAIRS)), a = x[row * 2 * PAIRS + i], b = x[row * 2 * PAIRS + PAIRS + i];
            turned[row * 2 * PAIRS + i] = a * cos(angle) - b * sin(angle);
            turned[row * 2 * PAIRS + PAIRS + i] = a * sin(angle) + b * cos(angle);
        }
    int64_t outer = COUNT * N / (2 * PAIRS) / T;
    void *pw = placed(w, R * N, t), *px = placed(x, COUNT * N, t), *pi = placed_ids(ids, COUNT), *py = piece(COUNT * N * 4);
    void *pdw = piece(R * N * 4), *pt = piece(COUNT * N * 4);
    fl_embedding_as(py, pi, pw, t, COUNT, 0, R, N);
    fl_embedding_grad_as(pdw, px, t, pi, COUNT, 0, R, N);
    fl_rope_as(pt, px, t, outer, T, 1, 2 * PAIRS, 3, 100, true, false);
    fl_holds("embedding", t, py, y, COUNT * N, 0);
    fl_holds("embedding grad", FL_F32, pdw, dw, R * N, 1e-6);
    fl_holds("rope", t, pt, turned, outer * T * 2 * PAIRS, most(t, 1e-5));
    free(w), free(x);
}

static void sums(void)
{
    enum { A = 5, B = 33, C = 47 };
    float *x = numbers(A * B * C, 17, FL_F32);
    double sum[A * C], largest[A], square = 0, dropped[B * C];
    for (int i = 0; i < A * C; i++)
        sum[i] = 0;
    for (int i = 0; i < A; i++)
        largest[i] = -INFINITY;
    for (int i = 0; i < A * B * C; i++) {
        sum[i / (B * C) * C + i % C] += x[i];
        largest[i / (B * C)] = fmax(largest[i / (B * C)], x[i]);
        square += (double)x[i] * x[i];
    }
    for (int i = 0; i < B * C; i++)
        dropped[i] = fl_uniform(fl_key(5, 77), 4, 2, (uint64_t)(i + 3 * C)) >= 0.25 ? x[i] / 0.75 : 0;
    void *px = placed(x, A * B * C, FL_F32), *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = piece(A * B * C * 4);
    fl_sum(p[0], px, &(struct fl_dims){ .ndim = 3, .n = { A, B, C }, .valid = { A, B, C }, .reduced = 2 });
    fl_max(p[1], px, &(struct fl_dims){ .ndim = 3, .n = { A, B, C }, .valid = { A, B, C }, .reduced = 6 });
    fl_square_sum(p[2], px, FL_F32, A * B * C);
    fl_dropout(p[3], px, &(struct fl_step){ .step = 4, .seed = 5 }, 77, 2, 0.25f,
               &(struct fl_place){ .ndim = 2, .n = { B, C }, .base = { 3, 0 }, .size = { 50, C } });
    fl_holds("sum", FL_F32, p[0], sum, A * C, 1e-6);
    fl_holds("max", FL_F32, p[1], largest, A, 0);
    fl_holds("square_sum", FL_F32, p[2], &square, 1, 1e-6);
    fl_holds("dropout", FL_F32, p[3], dropped, B * C, 1e-6);
    free(x);
}

/* Along the middle dim of A x B x C. */
static void indices(void)
{
    enum { A = 3, B = 17, C = 5, COUNT = 11 };
    float *x = numbers(A * B * C, 22, FL_F32);
    int32_t ids[A * B * C];
    double running[A * B * C], placed_at[A * COUNT * C], largest[A * C], second[A * C];
    memset(placed_at, 0, sizeof placed_at);
    for (int a = 0; a < A; a++)
        for (int c = 0; c < C; c++) {
            double sum = 0, first = -INFINITY, next = -INFINITY;
            for (int b = 0; b < B; b++) {
                int i = (a * B + b) * C + c;
                running[i] = sum += x[i];
                next = fmax(next, fmin(first, x[i]));
                first = fmax(first, x[i]);
                ids[i] = b * 5 % 13;                 /* two are outside */
                if (ids[i] < COUNT)
                    placed_at[(a * COUNT + ids[i]) * C + c] += x[i];
            }
            largest[a * C + c] = first;
            second[a * C + c] = next;
        }
    double both[2 * A * C];
    for (int a = 0; a < A; a++)
        for (int c = 0; c < C; c++) {
            both[a * 2 * C + c] = largest[a * C + c];
            both[(a * 2 + 1) * C + c] = second[a * C + c];
        }
    const struct fl_dims d = { .ndim = 3, .n = { A, B, C }, .valid = { A, B, C }, .reduced = 2 };
    void *px = placed(x, A * B * C, FL_F32), *pi = placed_ids(ids, A * B * C), *p[5];
    for (int i = 0; i < 5; i++)
        p[i] = piece(A * B * C * 4);
    fl_cumsum(p[0], px, &d, false);
    fl_scatter(p[1], px, pi, &d, COUNT, 0);
    fl_top_k(p[2], NULL, px, &d, 2);
    fl_argmax(p[3], px, &d);
    const struct fl_dims one = { .ndim = 3, .n = { A, B, C }, .valid = { A, B, C }, .reduced = 2 };
    /* the largest is where argmax says: [A, C] seen as [A, 1, C] */
    fl_gather(p[4], px, p[3], &one, 1, 0);
    fl_holds("cumsum", FL_F32, p[0], running, A * B * C, 1e-6);
    fl_holds("scatter", FL_F32, p[1], placed_at, A * COUNT * C, 1e-6);
    fl_holds("top_k", FL_F32, p[2], both, 2 * A * C, 0);
    fl_holds("argmax and gather", FL_F32, p[4], largest, A * C, 0);
    free(x);
}

static void updates(void)
{
    enum { N = 5003 };
    float *w = numbers(N, 18, FL_F32), *g = numbers(N, 19, FL_F32), *m = numbers(N, 20, FL_F32), *v = numbers(N, 21, FL_F32), by = 0.5f;
    static double want[N];
    const struct fl_step step = { .step = 2, .update = 2, .lr = 0.01f };
    for (int i = 0; i < N; i++) {
        v[i] = fabsf(v[i]);
        double gi = g[i] * 0.5, mi = 0.9 * m[i] + 0.1 * gi, vi = 0.99 * v[i] + 0.01 * gi * gi;
        want[i] = w[i] - 0.01 * 0.1 * w[i] - 0.01 / (1 - pow(0.9, 3)) * mi / (sqrt(vi) / sqrt(1 - pow(0.99, 3)) + 1e-8);
    }
    void *pw = placed(w, N, FL_F32), *pg = placed(g, N, FL_F32), *pm = placed(m, N, FL_F32), *pv = placed(v, N, FL_F32), *pb = placed(&by, 1, FL_F32);
    fl_adamw(&step, pw, pg, FL_F32, pm, pv, pb, N, 0.9f, 0.99f, 1e-8f, 0.1f, 1);
    fl_gathered();
    fl_holds("adamw", FL_F32, pw, want, N, 1e-5);
    for (int i = 0; i < N; i++)
        want[i] = w[i] - 0.01 * (0.9 * m[i] + 0.5 * g[i] + 0.1 * w[i]);
    pw = placed(w, N, FL_F32), pm = placed(m, N, FL_F32);
    fl_sgd(&step, pw, pg, FL_F32, pm, pb, N, 0.9f, 0.1f, 1);
    fl_gathered();
    fl_holds("sgd", FL_F32, pw, want, N, 1e-5);
    free(w), free(g), free(m), free(v);
}

/* Member r gives r + 1 + i at place i: small whole numbers, so every sum is exact. */
static void collectives(struct fl_run *run)
{
    enum { N = 13 };
    for (int c = 0; c < fl_program.ncomm; c++) {
        fl_comm *of = run->comm[c];
        if (!of)
            continue;                    /* of other stages */
        int size = fl_comm_size(of), rank = fl_comm_rank(of);
        int64_t n = (int64_t)N * size;
        used = 0;
        float *x = fl_alloc(n * 4);
        double *sum = fl_alloc(n * 8), *all = fl_alloc(n * 8);
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)(rank + 1 + i);
            sum[i] = size * (size + 1) / 2.0 + (double)(size * i);
            all[i] = (double)(i / N + 1 + i % N);
        }
        void *px = placed(x, n, FL_F32), *py = placed(x, n, FL_F32), *part = piece(N * 4), *whole = piece(n * 4);
        fl_all_reduce(of, px, n, FL_SUM);
        fl_reduce_scatter(of, part, py, 1, n, 1, FL_SUM);
        fl_all_gather(of, whole, py, 1, n, 1, 4);
        fl_holds(fl_printf("all_reduce %s", fl_program.comm[c].name), FL_F32, px, sum, n, 0);
        fl_holds(fl_printf("reduce_scatter %s", fl_program.comm[c].name), FL_F32, part, sum + rank * N, N, 0);
        fl_holds(fl_printf("all_gather %s", fl_program.comm[c].name), FL_F32, whole, all, n, 0);
        free(x), free(sum), free(all);
    }
}

bool fl_selftest(struct fl_run *run)
{
    room = fl_arena_new(ROOM);
    fl_target_selftest(room);
    for (int k = FL_F32; k <= FL_F16; k++) {
        enum fl_type t = (enum fl_type)k;
        for (int trans = 0; trans < 4; trans++)
            used = 0, products(t, trans);
        used = 0, norms(t);
        used = 0, softmaxes(t);
        used = 0, losses(t);
        used = 0, losses_of_products(t);
        used = 0, tables(t);
        used = 0, attentions(t, 20);
        used = 0, attentions(t, 64);
        used = 0, attentions(t, 128);
        used = 0, attentions(t, 192);
    }
    used = 0, sums();
    used = 0, indices();
    used = 0, updates();
    collectives(run);
    int all = failed;
    FL_MPI(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (!fl_rank_number)
        printf("selftest: %d wrong\n", all);
    return !all;
}
