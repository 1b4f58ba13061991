/* Attention without the T x T matrix, and its gradient, tile by tile: a warp has 16 rows of scores, a block as many warps as
 * its shared memory allows, and columns come in tiles. Scores and what is summed from them stay in registers in the order in
 * which a matrix instruction leaves them: of a tile of 8 columns a lane has two neighbouring columns of rows lane / 4 and
 * lane / 4 + 8. Operands of 16 bits are multiplied on tensor cores, f32 by f32 arithmetic in the same order of lanes.
 *
 * The gradient makes the scores again: once for each query's maximum, sum and dy . y, once for dq, and once, with keys as
 * rows, for dk and dv, so that nothing is added to by two blocks. Tiles that nobody sees are left out. */
#include "../check.h"
#include "../flow_rt.h"

struct row_state { float m, inv, dot; };         /* of one query: maximum of its scores (base 2), 1 / sum, dy . y */

static __device__ __forceinline__ bool sees(const struct fl_attention &a, const uint8_t *keep, int64_t b, int64_t h, int64_t t, int64_t s)
{
    int64_t at = t + a.causal_shift, away = s > at ? s - at : at - s;
    if ((a.causal && s > at) || (a.window && away >= a.window))
        return false;
    const int32_t *documents = a.documents ? a.documents + b * a.document_stride[0] : nullptr;
    if (documents && documents[s * a.document_stride[1]] != documents[at * a.document_stride[1]])
        return false;
    return !keep || keep[b * a.keep_stride[0] + h * a.keep_stride[1] + t * a.keep_stride[2] + s * a.keep_stride[3]];
}

/* Of 0 .. n, what the bounds leave. */
static __device__ __forceinline__ int64_t within(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i < n ? i : n;
}

/* Query t sees keys [keys_from, keys_to) at most; key s is seen by queries [queries_from, queries_to) at most. */
static __device__ __forceinline__ int64_t keys_to(const struct fl_attention &a, int64_t t)
{
    return a.causal || a.window ? within(t + a.causal_shift + (a.causal ? 1 : a.window), a.tk) : a.tk;
}

static __device__ __forceinline__ int64_t keys_from(const struct fl_attention &a, int64_t t)
{
    return a.window ? within(t + a.causal_shift - a.window + 1, a.tk) : 0;
}

static __device__ __forceinline__ int64_t queries_to(const struct fl_attention &a, int64_t s)
{
    return a.window ? within(s - a.causal_shift + a.window, a.tq) : a.tq;
}

static __device__ __forceinline__ int64_t queries_from(const struct fl_attention &a, int64_t s)
{
    int64_t first = a.causal ? s - a.causal_shift : a.window ? s - a.causal_shift - a.window + 1 : 0;
    return within(first, a.tq);
}

/* ---- 16 rows of one warp times a tile ---- */

constexpr int TILE = 16;
#define ROW ((int)(threadIdx.x % FL_WARP / 4))           /* of the lane; the other one is ROW + 8 */
#define COLUMN ((int)(threadIdx.x % FL_WARP % 4 * 2))    /* of each 8; the other one is COLUMN + 1 */

/* Rows of tiles in shared memory are D elements and 16 bytes, so that neighbours start in other banks. */
template <typename T, int D> constexpr int row_of = D + 16 / (int)sizeof(T);

template <typename T> constexpr bool is_short = sizeof(T) == 2;

/* Element (row, column) of the 16 x 16 at x whose address this lane gives to a matrix load: as the left operand, or as the
 * right one with its columns along memory. */
template <typename T> static __device__ __forceinline__ const T *left_at(const T *x, int row_length)
{
    return x + (FL_LANE % 16) * row_length + FL_LANE / 16 * 8;
}

template <typename T> static __device__ __forceinline__ const T *right_at(const T *x, int row_length)
{
    return x + (FL_LANE % 8 + FL_LANE / 16 * 8) * row_length + FL_LANE / 8 % 2 * 8;
}

/* c[16, N] += a[16, D] b[N, D]^T, both in shared memory. */
template <typename T, int D, int N> static __device__ __forceinline__ void multiply(float (&c)[N / 8][4], const T *a, const T *b)
{
    constexpr int R = row_of<T, D>;
    if constexpr (is_short<T>) {
FL_UNROLL
        for (int k = 0; k < D; k += TILE) {
            uint32_t x[4], y[4];
            fl_matrix_load(x, left_at(a + k, R));
FL_UNROLL
            for (int j = 0; j < N; j += TILE) {
                fl_matrix_load(y, right_at(b + j * R + k, R));
                fl_matrix_add<T>(c[j / 8], x, y[0], y[1]);
                fl_matrix_add<T>(c[j / 8 + 1], x, y[2], y[3]);
            }
        }
    } else {
        for (int k = 0; k < D; k++) {
            float x0 = a[ROW * R + k], x1 = a[(ROW + 8) * R + k];
FL_UNROLL
            for (int j = 0; j < N / 8; j++) {
                float y0 = b[(j * 8 + COLUMN) * R + k], y1 = b[(j * 8 + COLUMN + 1) * R + k];
                c[j][0] += x0 * y0;
                c[j][1] += x0 * y1;
                c[j][2] += x1 * y0;
                c[j][3] += x1 * y1;
            }
        }
    }
}

/* c[16, D] += p[16, N] b[N, D]: p in registers, b in shared memory; scratch: 16 x N of the warp's own, for f32 alone. */
template <typename T, int D, int N>
static __device__ __forceinline__ void multiply_on(float (&c)[D / 8][4], const float (&p)[N / 8][4], const T *b, float *scratch)
{
    constexpr int R = row_of<T, D>;
    if constexpr (is_short<T>) {
FL_UNROLL
        for (int k = 0; k < N; k += TILE) {
            const float(*q)[4] = &p[k / 8];
            uint32_t x[4] = {fl_pack<T>(q[0][0], q[0][1]), fl_pack<T>(q[0][2], q[0][3]), fl_pack<T>(q[1][0], q[1][1]),
                             fl_pack<T>(q[1][2], q[1][3])}, y[4];
FL_UNROLL
            for (int j = 0; j < D; j += TILE) {
                fl_matrix_load_across(y, left_at(b + k * R + j, R));
                fl_matrix_add<T>(c[j / 8], x, y[0], y[1]);
                fl_matrix_add<T>(c[j / 8 + 1], x, y[2], y[3]);
            }
        }
    } else {
        FL_WARP_BARRIER();
FL_UNROLL
        for (int j = 0; j < N / 8; j++)
FL_UNROLL
            for (int e = 0; e < 4; e++)
                scratch[(ROW + e / 2 * 8) * N + j * 8 + COLUMN + e % 2] = p[j][e];
        FL_WARP_BARRIER();
        for (int k = 0; k < N; k++) {
            float x0 = scratch[ROW * N + k], x1 = scratch[(ROW + 8) * N + k];
FL_UNROLL
            for (int j = 0; j < D / 8; j++) {
                float y0 = b[k * R + j * 8 + COLUMN], y1 = b[k * R + j * 8 + COLUMN + 1];
                c[j][0] += x0 * y0;
                c[j][1] += x0 * y1;
                c[j][2] += x1 * y0;
                c[j][3] += x1 * y1;
            }
        }
    }
}

/* ---- between memory and tiles ---- */

/* `rows` rows of D from row `first` on of a matrix of n columns and `limit` rows; zeros beyond. All threads of the block. */
template <typename T, int D> static __device__ void load_rows(T *to, const T *from, int64_t first, int rows, int64_t limit, int64_t stride, int64_t n)
{
    constexpr int EACH = 16 / (int)sizeof(T), R = row_of<T, D>;
    bool wide = n % EACH == 0 && stride % EACH == 0 && (uintptr_t)from % 16 == 0;
    for (int i = (int)threadIdx.x; i < rows * (D / EACH); i += (int)blockDim.x) {
        int r = i / (D / EACH), d = i % (D / EACH) * EACH;
        T *at = to + r * R + d;
        const T *x = from + (first + r) * stride + d;
        bool row = first + r < limit;
        if (wide) {
            *(fl_16_bytes *)at = row && d < n ? *(const fl_16_bytes *)x : fl_16_bytes{};
        } else {
            for (int e = 0; e < EACH; e++)
                at[e] = row && d + e < n ? x[e] : fl_store<T>(0);
        }
    }
}

/* The warp's 16 rows from `first` on, row by row times `by`. */
template <typename T, int D>
static __device__ void store_rows(T *to, const float (&c)[D / 8][4], int64_t first, int64_t limit, int64_t stride, int64_t n, float by0, float by1)
{
FL_UNROLL
    for (int j = 0; j < D / 8; j++)
FL_UNROLL
        for (int e = 0; e < 4; e++) {
            int64_t r = first + ROW + e / 2 * 8, d = j * 8 + COLUMN + e % 2;
            if (r < limit && d < n)
                to[r * stride + d] = fl_store<T>(c[j][e] * (e / 2 ? by1 : by0));
        }
}

/* Over the 4 lanes that share a row. */
static __device__ __forceinline__ float row_max(float v)
{
    v = fmaxf(v, fl_shuffle_xor(v, 1));
    return fmaxf(v, fl_shuffle_xor(v, 2));
}

static __device__ __forceinline__ float row_sum(float v)
{
    v += fl_shuffle_xor(v, 1);
    return v + fl_shuffle_xor(v, 2);
}

static __device__ __forceinline__ int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Do all queries [t0, t0 + rows) see all keys [s0, s0 + columns)? Queries beyond the end count as seeing. */
static __device__ __forceinline__ bool all_seen(const struct fl_attention &a, const uint8_t *keep, int64_t t0, int64_t rows, int64_t s0,
                                                int64_t columns)
{
    int64_t last = min_of(t0 + rows, a.tq) - 1;
    return !keep && !a.documents && s0 + columns <= min_of(keys_to(a, t0), a.tk) && s0 >= keys_from(a, last);
}

/* What a block works on. */
struct place { int64_t b, h, g, first; };

static __device__ __forceinline__ place place_of(const struct fl_attention &a, int64_t i, int64_t tiles, int rows)
{
    place p;
    p.first = (tiles - 1 - i % tiles) * rows;        /* causal: the longest rows first */
    p.h = i / tiles % a.heads;
    p.b = i / tiles / a.heads;
    p.g = p.h / (a.heads / a.kv_heads);
    return p;
}

constexpr float LOG2_E = 1.44269504088896341f;

/* Scores in base 2, -inf where a query does not see a key. */
template <int N>
static __device__ __forceinline__ void mask_scores(float (&s)[N / 8][4], const struct fl_attention &a, const uint8_t *keep, const place &p,
                                                   int64_t t0, int64_t s0, bool all)
{
    float by = a.scale * LOG2_E;
FL_UNROLL
    for (int j = 0; j < N / 8; j++)
FL_UNROLL
        for (int e = 0; e < 4; e++) {
            int64_t t = t0 + ROW + e / 2 * 8, key = s0 + j * 8 + COLUMN + e % 2;
            bool seen = all || (t < a.tq && key < a.tk && sees(a, keep, p.b, p.h, t, key));
            s[j][e] = seen ? s[j][e] * by : -INFINITY;
        }
}

/* Raises the maxima of the lane's two rows over a tile; s becomes exp2(s - maximum), shrink what earlier sums are multiplied by. */
template <int N> static __device__ __forceinline__ void raise_max(float (&s)[N / 8][4], float (&m)[2], float (&shrink)[2])
{
FL_UNROLL
    for (int r = 0; r < 2; r++) {
        float best = m[r];
FL_UNROLL
        for (int j = 0; j < N / 8; j++)
            best = fmaxf(best, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        best = row_max(best);
        shrink[r] = m[r] == -INFINITY ? 0.0f : exp2f(m[r] - best);
        m[r] = best;
FL_UNROLL
        for (int j = 0; j < N / 8; j++)
FL_UNROLL
            for (int e = 2 * r; e < 2 * r + 2; e++)
                s[j][e] = s[j][e] == -INFINITY ? 0.0f : exp2f(s[j][e] - best);
    }
}

/* ---- kernels: D columns hold a head, WARPS times 16 rows a block, N columns a tile ---- */

template <typename T, int D, int WARPS, int N>
__global__ void attention_kernel(T *y, const T *q, const T *k, const T *v, const uint8_t *keep, struct fl_attention a)
{
    constexpr int ROWS = 16 * WARPS, R = row_of<T, D>;
    FL_SHARED(T, qs, ROWS * R);
    FL_SHARED(T, ks, N * R);
    FL_SHARED(T, vs, N * R);
    FL_SHARED(float, ps, is_short<T> ? 1 : ROWS * N);
    int warp = (int)threadIdx.x / FL_WARP;
    float *own = is_short<T> ? ps : ps + warp * 16 * N;
    int64_t tiles = (a.tq + ROWS - 1) / ROWS;
    for (int64_t i = blockIdx.x; i < a.batch * a.heads * tiles; i += gridDim.x) {
        place p = place_of(a, i, tiles, ROWS);
        const T *kb = k + p.b * a.k[0] + p.g * a.k[1], *vb = v + p.b * a.v[0] + p.g * a.v[1];
        int64_t t0 = p.first + warp * 16, to = keys_to(a, min_of(p.first + ROWS, a.tq) - 1);
        float m[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, acc[D / 8][4] = {};
        FL_BARRIER();                    /* the last round's tiles have been read */
        load_rows<T, D>(qs, q + p.b * a.q[0] + p.h * a.q[1], p.first, ROWS, a.tq, a.q[2], a.dk);
        for (int64_t s0 = keys_from(a, p.first) / N * N; s0 < to; s0 += N) {
            float s[N / 8][4] = {}, shrink[2];
            FL_BARRIER();
            load_rows<T, D>(ks, kb, s0, N, a.tk, a.k[2], a.dk);
            load_rows<T, D>(vs, vb, s0, N, a.tk, a.v[2], a.dv);
            FL_BARRIER();
            multiply<T, D, N>(s, qs + warp * 16 * R, ks);
            mask_scores<N>(s, a, keep, p, t0, s0, all_seen(a, keep, p.first, ROWS, s0, N));
            raise_max<N>(s, m, shrink);
FL_UNROLL
            for (int r = 0; r < 2; r++) {
                sum[r] *= shrink[r];
FL_UNROLL
                for (int j = 0; j < N / 8; j++)
                    sum[r] += s[j][2 * r] + s[j][2 * r + 1];
FL_UNROLL
                for (int j = 0; j < D / 8; j++) {
                    acc[j][2 * r] *= shrink[r];
                    acc[j][2 * r + 1] *= shrink[r];
                }
            }
            multiply_on<T, D, N>(acc, s, vs, own);
        }
        float s0 = row_sum(sum[0]), s1 = row_sum(sum[1]);
        store_rows<T, D>(y + p.b * a.y[0] + p.h * a.y[1], acc, t0, a.tq, a.y[2], a.dv, s0 > 0 ? 1.0f / s0 : 0.0f, s1 > 0 ? 1.0f / s1 : 0.0f);
    }
}

/* First each query's state, then, over the same tiles again, dq. */
template <typename T, int D, int WARPS, int N>
__global__ void attention_grad_q(T *dq, row_state *state, const T *dy, const T *q, const T *k, const T *v, const uint8_t *keep,
                                 struct fl_attention a)
{
    constexpr int ROWS = 16 * WARPS, R = row_of<T, D>;
    FL_SHARED(T, qs, ROWS * R);
    FL_SHARED(T, ys, ROWS * R);
    FL_SHARED(T, ks, N * R);
    FL_SHARED(T, vs, N * R);
    FL_SHARED(float, ps, is_short<T> ? 1 : ROWS * N);
    int warp = (int)threadIdx.x / FL_WARP;
    float *own = is_short<T> ? ps : ps + warp * 16 * N;
    int64_t tiles = (a.tq + ROWS - 1) / ROWS;
    for (int64_t i = blockIdx.x; i < a.batch * a.heads * tiles; i += gridDim.x) {
        place p = place_of(a, i, tiles, ROWS);
        const T *kb = k + p.b * a.k[0] + p.g * a.k[1], *vb = v + p.b * a.v[0] + p.g * a.v[1];
        int64_t t0 = p.first + warp * 16, from = keys_from(a, p.first) / N * N, to = keys_to(a, min_of(p.first + ROWS, a.tq) - 1);
        float m[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, along[2] = {0, 0}, inv[2] = {0, 0}, acc[D / 8][4] = {};
        FL_BARRIER();
        load_rows<T, D>(qs, q + p.b * a.q[0] + p.h * a.q[1], p.first, ROWS, a.tq, a.q[2], a.dk);
        load_rows<T, D>(ys, dy + p.b * a.gy[0] + p.h * a.gy[1], p.first, ROWS, a.tq, a.gy[2], a.dv);
        for (int again = 0; again < 2; again++) {
            for (int64_t s0 = from; s0 < to; s0 += N) {
                float s[N / 8][4] = {}, g[N / 8][4] = {}, shrink[2];
                FL_BARRIER();
                load_rows<T, D>(ks, kb, s0, N, a.tk, a.k[2], a.dk);
                load_rows<T, D>(vs, vb, s0, N, a.tk, a.v[2], a.dv);
                FL_BARRIER();
                multiply<T, D, N>(s, qs + warp * 16 * R, ks);
                multiply<T, D, N>(g, ys + warp * 16 * R, vs);
                mask_scores<N>(s, a, keep, p, t0, s0, all_seen(a, keep, p.first, ROWS, s0, N));
                if (!again)
                    raise_max<N>(s, m, shrink);
FL_UNROLL
                for (int r = 0; r < 2; r++) {
                    if (!again) {
                        sum[r] *= shrink[r];
                        along[r] *= shrink[r];
                    }
FL_UNROLL
                    for (int j = 0; j < N / 8; j++)
FL_UNROLL
                        for (int e = 2 * r; e < 2 * r + 2; e++) {
                            if (again) {
                                float prob = s[j][e] == -INFINITY ? 0.0f : exp2f(s[j][e] - m[r]) * inv[r];
                                s[j][e] = a.scale * prob * (g[j][e] - along[r]);
                            } else {
                                sum[r] += s[j][e];
                                along[r] += s[j][e] * g[j][e];
                            }
                        }
                }
                if (again)
                    multiply_on<T, D, N>(acc, s, ks, own);
            }
FL_UNROLL
            for (int r = 0; r < 2 && !again; r++) {
                sum[r] = row_sum(sum[r]);
                inv[r] = sum[r] > 0 ? 1.0f / sum[r] : 0.0f;
                along[r] = row_sum(along[r]) * inv[r];
                if (COLUMN == 0 && t0 + ROW + 8 * r < a.tq)
                    state[(p.b * a.heads + p.h) * a.tq + t0 + ROW + 8 * r] = {m[r], inv[r], along[r]};
            }
        }
        if (dq)
            store_rows<T, D>(dq + p.b * a.gq[0] + p.h * a.gq[1], acc, t0, a.tq, a.gq[2], a.dk, 1.0f, 1.0f);
    }
}

/* With keys as rows: scores and their gradients stand on their side. Heads so wide that the sums of both would not stay in
 * registers take two walks, one for each. */
enum { KEYS = 1, VALUES = 2 };

template <typename T, int D, int WARPS, int N, int WHICH>
__global__ void attention_grad_kv(T *dk, T *dv, const row_state *state, const T *dy, const T *q, const T *k, const T *v,
                                  const uint8_t *keep, struct fl_attention a)
{
    constexpr int ROWS = 16 * WARPS, R = row_of<T, D>;
    FL_SHARED(T, ks, ROWS * R);
    FL_SHARED(T, vs, ROWS * R);
    FL_SHARED(T, qs, N * R);
    FL_SHARED(T, ys, N * R);
    FL_SHARED(row_state, states, N);
    FL_SHARED(float, ps, is_short<T> ? 1 : ROWS * N);
    int warp = (int)threadIdx.x / FL_WARP;
    float *own = is_short<T> ? ps : ps + warp * 16 * N;
    int64_t tiles = (a.tk + ROWS - 1) / ROWS, group = a.heads / a.kv_heads;
    for (int64_t i = blockIdx.x; i < a.batch * a.kv_heads * tiles; i += gridDim.x) {
        place p = {i / tiles / a.kv_heads, 0, i / tiles % a.kv_heads, i % tiles * ROWS};
        int64_t s0 = p.first + warp * 16, last = min_of(p.first + ROWS, a.tk) - 1;
        int64_t from = queries_from(a, p.first) / N * N, to = queries_to(a, last);
        float gk[D / 8][4] = {}, gv[D / 8][4] = {};      /* the one not asked for is dropped */
        FL_BARRIER();
        load_rows<T, D>(ks, k + p.b * a.k[0] + p.g * a.k[1], p.first, ROWS, a.tk, a.k[2], a.dk);
        load_rows<T, D>(vs, v + p.b * a.v[0] + p.g * a.v[1], p.first, ROWS, a.tk, a.v[2], a.dv);
        for (int64_t walk = 0, each = (to - from + N - 1) / N; walk < group * each; walk++) {
            int64_t t0 = from + walk % each * N;
            float s[N / 8][4] = {}, g[N / 8][4] = {};
            p.h = p.g * group + walk / each;
            FL_BARRIER();
            load_rows<T, D>(qs, q + p.b * a.q[0] + p.h * a.q[1], t0, N, a.tq, a.q[2], a.dk);
            load_rows<T, D>(ys, dy + p.b * a.gy[0] + p.h * a.gy[1], t0, N, a.tq, a.gy[2], a.dv);
            for (int t = (int)threadIdx.x; t < N; t += (int)blockDim.x)
                states[t] = t0 + t < a.tq ? state[(p.b * a.heads + p.h) * a.tq + t0 + t] : row_state{-INFINITY, 0, 0};
            FL_BARRIER();
            multiply<T, D, N>(s, ks + warp * 16 * R, qs);
            multiply<T, D, N>(g, vs + warp * 16 * R, ys);
            bool all = t0 + N <= a.tq && all_seen(a, keep, t0, N, p.first, ROWS);
FL_UNROLL
            for (int j = 0; j < N / 8; j++)
FL_UNROLL
                for (int e = 0; e < 4; e++) {
                    int64_t key = s0 + ROW + e / 2 * 8, t = t0 + j * 8 + COLUMN + e % 2;
                    row_state of = states[j * 8 + COLUMN + e % 2];
                    bool seen = all || (t < a.tq && key < a.tk && sees(a, keep, p.b, p.h, t, key));
                    s[j][e] = seen ? exp2f(s[j][e] * (a.scale * LOG2_E) - of.m) * of.inv : 0.0f;
                    g[j][e] = a.scale * s[j][e] * (g[j][e] - of.dot);
                }
            if constexpr (WHICH & VALUES)
                multiply_on<T, D, N>(gv, s, ys, own);
            if constexpr (WHICH & KEYS)
                multiply_on<T, D, N>(gk, g, qs, own);
        }
        if ((WHICH & KEYS) && dk)
            store_rows<T, D>(dk + p.b * a.gk[0] + p.g * a.gk[1], gk, s0, a.tk, a.gk[2], a.dk, 1.0f, 1.0f);
        if ((WHICH & VALUES) && dv)
            store_rows<T, D>(dv + p.b * a.gv[0] + p.g * a.gv[1], gv, s0, a.tk, a.gv[2], a.dv, 1.0f, 1.0f);
    }
}

/* ---- launches ---- */

template <typename T, int D, int WARPS, int N>
static void forward(T *y, const T *q, const T *k, const T *v, const uint8_t *keep, const struct fl_attention &a)
{
    int64_t blocks = a.batch * a.heads * ((a.tq + 16 * WARPS - 1) / (16 * WARPS));
    FL_LAUNCH_GRID((attention_kernel<T, D, WARPS, N>), fl_blocks_for(blocks, 1), WARPS * FL_WARP, y, q, k, v, keep, a);
}

template <typename T, int D, int WARPS, int N, int WHICH>
static void backward_keys(T *dk, T *dv, const row_state *state, const T *dy, const T *q, const T *k, const T *v, const uint8_t *keep,
                          const struct fl_attention &a)
{
    int64_t blocks = a.batch * a.kv_heads * ((a.tk + 16 * WARPS - 1) / (16 * WARPS));
    if (blocks > 0)
        FL_LAUNCH_GRID((attention_grad_kv<T, D, WARPS, N, WHICH>), fl_blocks_for(blocks, 1), WARPS * FL_WARP, dk, dv, state, dy, q, k,
                       v, keep, a);
}

template <typename T, int D, int WARPS, int N, int QUERIES>
static void backward(T *dq, T *dk, T *dv, const T *dy, const T *q, const T *k, const T *v, const uint8_t *keep, const struct fl_attention &a)
{
    int64_t queries = a.batch * a.heads * a.tq, blocks = a.batch * a.heads * ((a.tq + 16 * WARPS - 1) / (16 * WARPS));
    row_state *state = (row_state *)fl_workspace(0, sizeof *state * (size_t)(queries > 0 ? queries : 1));
    if (queries > 0)
        FL_LAUNCH_GRID((attention_grad_q<T, D, WARPS, N>), fl_blocks_for(blocks, 1), WARPS * FL_WARP, dq, state, dy, q, k, v, keep, a);
    if constexpr (D <= 128) {
        backward_keys<T, D, WARPS, QUERIES, KEYS | VALUES>(dk, dv, state, dy, q, k, v, keep, a);
    } else {
        backward_keys<T, D, WARPS, QUERIES, KEYS>(dk, dv, state, dy, q, k, v, keep, a);
        backward_keys<T, D, WARPS, QUERIES, VALUES>(dk, dv, state, dy, q, k, v, keep, a);
    }
}

/* Columns that hold a head, or the job ends. */
template <typename T> static int head_of(const struct fl_attention *a)
{
    constexpr int most = is_short<T> ? 256 : 192;
    int64_t head = a->dk > a->dv ? a->dk : a->dv;
    if (head > most)
        FL_FAIL("use more heads, or another precision", "a head of %lld columns: attention on cuda holds %d", (long long)head, most);
    return head <= 32 ? 32 : head <= 64 ? 64 : head <= 128 ? 128 : most;
}

/* Blocks are as large as 48 KiB of shared memory and 255 registers allow. */
template <typename T>
static void attention(T *y, const T *q, const T *k, const T *v, const uint8_t *keep, const struct fl_attention *a)
{
    constexpr bool s = is_short<T>;
    if (a->batch * a->heads * a->tq <= 0)
        return;
    switch (head_of<T>(a)) {
    case 32: forward<T, 32, 4, 32>(y, q, k, v, keep, *a); break;
    case 64: forward<T, 64, 4, s ? 64 : 32>(y, q, k, v, keep, *a); break;
    case 128: forward<T, 128, s ? 4 : 2, s ? 32 : 16>(y, q, k, v, keep, *a); break;
    default: forward<T, s ? 256 : 192, s ? 2 : 1, 16>(y, q, k, v, keep, *a);
    }
}

template <typename T>
static void attention_grad(T *dq, T *dk, T *dv, const T *dy, const T *q, const T *k, const T *v, const uint8_t *keep,
                           const struct fl_attention *a)
{
    constexpr bool s = is_short<T>;
    switch (head_of<T>(a)) {
    case 32: backward<T, 32, 4, 32, s ? 32 : 16>(dq, dk, dv, dy, q, k, v, keep, *a); break;
    case 64: backward<T, 64, s ? 4 : 2, s ? 32 : 16, s ? 32 : 16>(dq, dk, dv, dy, q, k, v, keep, *a); break;
    case 128: backward<T, 128, s ? 4 : 1, 16, 16>(dq, dk, dv, dy, q, k, v, keep, *a); break;
    default: backward<T, s ? 256 : 192, 1, s ? 16 : 8, s ? 16 : 8>(dq, dk, dv, dy, q, k, v, keep, *a);
    }
}

extern "C" void fl_attention_as(void *y, const void *q, const void *k, const void *v, const uint8_t *keep, enum fl_type t,
                                const struct fl_attention *a)
{
    FL_BY_TYPE(t, T, attention((T *)y, (const T *)q, (const T *)k, (const T *)v, keep, a))
}

extern "C" void fl_attention_grad_as(void *dq, void *dk, void *dv, const void *dy, const void *q, const void *k, const void *v,
                                     const uint8_t *keep, enum fl_type t, const struct fl_attention *a)
{
    FL_BY_TYPE(t, T, attention_grad((T *)dq, (T *)dk, (T *)dv, (const T *)dy, (const T *)q, (const T *)k, (const T *)v, keep, a))
}

extern "C" void fl_attention(float *y, const float *q, const float *k, const float *v, const uint8_t *keep,
                             const struct fl_attention *a)
{
    attention(y, q, k, v, keep, a);
}

extern "C" void fl_attention_grad(float *dq, float *dk, float *dv, const float *dy, const float *q, const float *k, const float *v,
                                  const uint8_t *keep, const struct fl_attention *a)
{
    attention_grad(dq, dk, dv, dy, q, k, v, keep, a);
}
