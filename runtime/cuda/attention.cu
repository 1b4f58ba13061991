/* Attention without the T x T matrix: a warp per (batch, head, query) walks the keys in tiles of FL_WARP with a running
 * maximum and sum. The gradient recomputes the probabilities: one pass over keys per query for dq (which leaves each
 * query's maximum, sum and dy.y in workspace), one pass over queries per key for dk and dv, so nothing is added to by two
 * warps. */
#include "../flow_rt.h"

struct row_state { float m, inv, dot; };         /* of one query: maximum, 1 / sum, dy . y */

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

static __device__ __forceinline__ float dot(const float *x, const float *y, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Of 0 .. n, what the bounds leave. */
static __device__ __forceinline__ int64_t within(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i < n ? i : n;
}

/* Query t sees keys [keys_from, keys_to) at most; key s is seen by queries [queries_from, queries_to) at most. Where a walk
 * starts is rounded down to whole tiles. */
static __device__ __forceinline__ int64_t keys_to(const struct fl_attention &a, int64_t t)
{
    return a.causal || a.window ? within(t + a.causal_shift + (a.causal ? 1 : a.window), a.tk) : a.tk;
}

static __device__ __forceinline__ int64_t keys_from(const struct fl_attention &a, int64_t t)
{
    return a.window ? within(t + a.causal_shift - a.window + 1, a.tk) / FL_WARP * FL_WARP : 0;
}

static __device__ __forceinline__ int64_t queries_to(const struct fl_attention &a, int64_t s)
{
    return a.window ? within(s - a.causal_shift + a.window, a.tq) : a.tq;
}

static __device__ __forceinline__ int64_t queries_from(const struct fl_attention &a, int64_t s)
{
    int64_t first = a.causal ? s - a.causal_shift : a.window ? s - a.causal_shift - a.window + 1 : 0;
    return within(first, a.tq) / FL_WARP * FL_WARP;
}

__global__ void attention_kernel(float *y, const float *q, const float *k, const float *v, const uint8_t *keep, struct fl_attention a)
{
    FL_SHARED(float, shared, FL_BLOCK);
    float *p = shared + threadIdx.x / FL_WARP * FL_WARP;
    int64_t queries = a.batch * a.heads * a.tq, group = a.heads / a.kv_heads;
    FL_WARP_FOR(i, queries) {
        int64_t t = i % a.tq, h = i / a.tq % a.heads, b = i / a.tq / a.heads, g = h / group;
        const float *qr = q + b * a.q[0] + h * a.q[1] + t * a.q[2];
        const float *kb = k + b * a.k[0] + g * a.k[1], *vb = v + b * a.v[0] + g * a.v[1];
        float *yr = y + b * a.y[0] + h * a.y[1] + t * a.y[2];
        float m = -INFINITY, sum = 0;
        int64_t from = keys_from(a, t), seen = keys_to(a, t);
        for (int64_t d = FL_LANE; d < a.dv; d += FL_WARP)
            yr[d] = 0;
        for (int64_t tile = from; tile < seen; tile += FL_WARP) {
            int64_t s = tile + FL_LANE;
            float score = s < seen && sees(a, keep, b, h, t, s) ? a.scale * dot(qr, kb + s * a.k[2], a.dk) : -INFINITY;
            float best = fmaxf(m, fl_warp_max(score));
            float weight = score == -INFINITY ? 0.0f : expf(score - best), shrink = m == -INFINITY ? 0.0f : expf(m - best);
            FL_WARP_BARRIER();           /* all have read the last tile's */
            p[FL_LANE] = weight;
            FL_WARP_BARRIER();
            sum = sum * shrink + fl_warp_sum(weight);
            int64_t here = seen - tile < FL_WARP ? seen - tile : FL_WARP;
            for (int64_t d = FL_LANE; d < a.dv; d += FL_WARP) {
                float acc = yr[d] * shrink;
                for (int64_t j = 0; j < here; j++)
                    acc += p[j] * vb[(tile + j) * a.v[2] + d];
                yr[d] = acc;
            }
            m = best;
        }
        float inv = sum > 0 ? 1.0f / sum : 0.0f;
        for (int64_t d = FL_LANE; d < a.dv; d += FL_WARP)
            yr[d] *= inv;
    }
}

__global__ void attention_grad_q(float *dq, row_state *state, const float *dy, const float *q, const float *k, const float *v,
                                 const uint8_t *keep, struct fl_attention a)
{
    FL_SHARED(float, shared, FL_BLOCK);
    float *ds = shared + threadIdx.x / FL_WARP * FL_WARP;
    int64_t queries = a.batch * a.heads * a.tq, group = a.heads / a.kv_heads;
    FL_WARP_FOR(i, queries) {
        int64_t t = i % a.tq, h = i / a.tq % a.heads, b = i / a.tq / a.heads, g = h / group;
        const float *qr = q + b * a.q[0] + h * a.q[1] + t * a.q[2], *gr = dy + b * a.gy[0] + h * a.gy[1] + t * a.gy[2];
        const float *kb = k + b * a.k[0] + g * a.k[1], *vb = v + b * a.v[0] + g * a.v[1];
        float *dr = dq + b * a.gq[0] + h * a.gq[1] + t * a.gq[2];
        int64_t from = keys_from(a, t), seen = keys_to(a, t);
        float m = -INFINITY, sum = 0, along = 0;
        for (int64_t s = from + FL_LANE; s < seen; s += FL_WARP)
            if (sees(a, keep, b, h, t, s))
                m = fmaxf(m, a.scale * dot(qr, kb + s * a.k[2], a.dk));
        m = fl_warp_max(m);
        for (int64_t s = from + FL_LANE; s < seen; s += FL_WARP)
            if (sees(a, keep, b, h, t, s)) {
                float e = expf(a.scale * dot(qr, kb + s * a.k[2], a.dk) - m);
                sum += e;
                along += e * dot(gr, vb + s * a.v[2], a.dv);
            }
        sum = fl_warp_sum(sum);
        float inv = sum > 0 ? 1.0f / sum : 0.0f;
        along = fl_warp_sum(along) * inv;
        if (FL_LANE == 0)
            state[i] = {m, inv, along};
        for (int64_t d = FL_LANE; d < a.dk; d += FL_WARP)
            dr[d] = 0;
        for (int64_t tile = from; tile < seen; tile += FL_WARP) {
            int64_t s = tile + FL_LANE;
            float w = 0;
            if (s < seen && sees(a, keep, b, h, t, s)) {
                float prob = expf(a.scale * dot(qr, kb + s * a.k[2], a.dk) - m) * inv;
                w = a.scale * prob * (dot(gr, vb + s * a.v[2], a.dv) - along);
            }
            FL_WARP_BARRIER();
            ds[FL_LANE] = w;
            FL_WARP_BARRIER();
            int64_t here = seen - tile < FL_WARP ? seen - tile : FL_WARP;
            for (int64_t d = FL_LANE; d < a.dk; d += FL_WARP) {
                float acc = dr[d];
                for (int64_t j = 0; j < here; j++)
                    acc += ds[j] * kb[(tile + j) * a.k[2] + d];
                dr[d] = acc;
            }
        }
    }
}

__global__ void attention_grad_kv(float *dk, float *dv, const row_state *state, const float *dy, const float *q, const float *k,
                                  const float *v, const uint8_t *keep, struct fl_attention a)
{
    FL_SHARED(float, shared_p, FL_BLOCK);
    FL_SHARED(float, shared_ds, FL_BLOCK);
    float *prob = shared_p + threadIdx.x / FL_WARP * FL_WARP, *ds = shared_ds + threadIdx.x / FL_WARP * FL_WARP;
    int64_t keys = a.batch * a.kv_heads * a.tk, group = a.heads / a.kv_heads;
    FL_WARP_FOR(i, keys) {
        int64_t s = i % a.tk, g = i / a.tk % a.kv_heads, b = i / a.tk / a.kv_heads;
        const float *kr = k + b * a.k[0] + g * a.k[1] + s * a.k[2], *vr = v + b * a.v[0] + g * a.v[1] + s * a.v[2];
        float *dkr = dk + b * a.gk[0] + g * a.gk[1] + s * a.gk[2], *dvr = dv + b * a.gv[0] + g * a.gv[1] + s * a.gv[2];
        int64_t first = queries_from(a, s), limit = queries_to(a, s);
        for (int64_t d = FL_LANE; d < a.dk; d += FL_WARP)
            dkr[d] = 0;
        for (int64_t d = FL_LANE; d < a.dv; d += FL_WARP)
            dvr[d] = 0;
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            for (int64_t tile = first; tile < limit; tile += FL_WARP) {
                int64_t t = tile + FL_LANE;
                float pr = 0, w = 0;
                if (t < limit && sees(a, keep, b, h, t, s)) {
                    const float *qr = q + b * a.q[0] + h * a.q[1] + t * a.q[2];
                    const float *gr = dy + b * a.gy[0] + h * a.gy[1] + t * a.gy[2];
                    row_state r = state[(b * a.heads + h) * a.tq + t];
                    pr = expf(a.scale * dot(qr, kr, a.dk) - r.m) * r.inv;
                    w = a.scale * pr * (dot(gr, vr, a.dv) - r.dot);
                }
                FL_WARP_BARRIER();
                prob[FL_LANE] = pr;
                ds[FL_LANE] = w;
                FL_WARP_BARRIER();
                int64_t here = limit - tile < FL_WARP ? limit - tile : FL_WARP;
                for (int64_t d = FL_LANE; d < a.dk; d += FL_WARP) {
                    float acc = dkr[d];
                    for (int64_t j = 0; j < here; j++)
                        acc += ds[j] * q[b * a.q[0] + h * a.q[1] + (tile + j) * a.q[2] + d];
                    dkr[d] = acc;
                }
                for (int64_t d = FL_LANE; d < a.dv; d += FL_WARP) {
                    float acc = dvr[d];
                    for (int64_t j = 0; j < here; j++)
                        acc += prob[j] * dy[b * a.gy[0] + h * a.gy[1] + (tile + j) * a.gy[2] + d];
                    dvr[d] = acc;
                }
            }
    }
}

extern "C" void fl_attention(float *y, const float *q, const float *k, const float *v, const uint8_t *keep,
                             const struct fl_attention *a)
{
    int64_t queries = a->batch * a->heads * a->tq;
    if (queries > 0)
        FL_LAUNCH_GRID(attention_kernel, fl_blocks_for(queries, FL_BLOCK / FL_WARP), FL_BLOCK, y, q, k, v, keep, *a);
}

extern "C" void fl_attention_grad(float *dq, float *dk, float *dv, const float *dy, const float *q, const float *k, const float *v,
                                  const uint8_t *keep, const struct fl_attention *a)
{
    int64_t queries = a->batch * a->heads * a->tq, keys = a->batch * a->kv_heads * a->tk;
    row_state *state = (row_state *)fl_workspace(0, sizeof *state * (size_t)(queries > 0 ? queries : 1));
    if (queries > 0)
        FL_LAUNCH_GRID(attention_grad_q, fl_blocks_for(queries, FL_BLOCK / FL_WARP), FL_BLOCK, dq, state, dy, q, k, v, keep, *a);
    if (keys > 0)
        FL_LAUNCH_GRID(attention_grad_kv, fl_blocks_for(keys, FL_BLOCK / FL_WARP), FL_BLOCK, dk, dv, state, dy, q, k, v, keep, *a);
}
