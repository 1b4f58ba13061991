/* Attention without the T x T matrix: a block per (batch, head, query) walks the keys in tiles of FL_BLOCK with a running
 * maximum and sum. The gradient recomputes the probabilities: one pass over keys per query for dq (which leaves each
 * query's maximum, sum and dy.y in workspace), one pass over queries per key for dk and dv, so nothing is added to by two
 * blocks. */
#include "../flow_rt.h"

struct row_state { float m, inv, dot; };         /* of one query: maximum, 1 / sum, dy . y */

static __device__ __forceinline__ bool sees(const struct fl_attention &a, const uint8_t *keep, int64_t b, int64_t h, int64_t t, int64_t s)
{
    if (a.causal && s > t + a.causal_shift)
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

static __device__ __forceinline__ int64_t keys_seen(const struct fl_attention &a, int64_t t)
{
    if (!a.causal)
        return a.tk;
    int64_t n = t + a.causal_shift + 1;
    return n < 0 ? 0 : n < a.tk ? n : a.tk;
}

__global__ void attention_kernel(float *y, const float *q, const float *k, const float *v, const uint8_t *keep, struct fl_attention a)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    FL_SHARED(float, p, FL_BLOCK);
    int64_t queries = a.batch * a.heads * a.tq, group = a.heads / a.kv_heads;
    for (int64_t i = blockIdx.x; i < queries; i += gridDim.x) {
        int64_t t = i % a.tq, h = i / a.tq % a.heads, b = i / a.tq / a.heads, g = h / group;
        const float *qr = q + b * a.q[0] + h * a.q[1] + t * a.q[2];
        const float *kb = k + b * a.k[0] + g * a.k[1], *vb = v + b * a.v[0] + g * a.v[1];
        float *yr = y + b * a.y[0] + h * a.y[1] + t * a.y[2];
        float m = -INFINITY, sum = 0;
        int64_t seen = keys_seen(a, t);
        for (int64_t d = threadIdx.x; d < a.dv; d += FL_BLOCK)
            yr[d] = 0;
        for (int64_t tile = 0; tile < seen; tile += FL_BLOCK) {
            int64_t s = tile + threadIdx.x;
            float score = s < seen && sees(a, keep, b, h, t, s) ? a.scale * dot(qr, kb + s * a.k[2], a.dk) : -INFINITY;
            float best = fmaxf(m, fl_block_max(score, scratch));
            float weight = score == -INFINITY ? 0.0f : expf(score - best), shrink = m == -INFINITY ? 0.0f : expf(m - best);
            FL_BARRIER();
            p[threadIdx.x] = weight;
            sum = sum * shrink + fl_block_sum(weight, scratch);
            int64_t here = seen - tile < FL_BLOCK ? seen - tile : FL_BLOCK;
            for (int64_t d = threadIdx.x; d < a.dv; d += FL_BLOCK) {
                float acc = yr[d] * shrink;
                for (int64_t j = 0; j < here; j++)
                    acc += p[j] * vb[(tile + j) * a.v[2] + d];
                yr[d] = acc;
            }
            m = best;
        }
        float inv = sum > 0 ? 1.0f / sum : 0.0f;
        for (int64_t d = threadIdx.x; d < a.dv; d += FL_BLOCK)
            yr[d] *= inv;
    }
}

__global__ void attention_grad_q(float *dq, row_state *state, const float *dy, const float *q, const float *k, const float *v,
                                 const uint8_t *keep, struct fl_attention a)
{
    FL_SHARED(float, scratch, FL_BLOCK / FL_WARP);
    FL_SHARED(float, ds, FL_BLOCK);
    int64_t queries = a.batch * a.heads * a.tq, group = a.heads / a.kv_heads;
    for (int64_t i = blockIdx.x; i < queries; i += gridDim.x) {
        int64_t t = i % a.tq, h = i / a.tq % a.heads, b = i / a.tq / a.heads, g = h / group;
        const float *qr = q + b * a.q[0] + h * a.q[1] + t * a.q[2], *gr = dy + b * a.y[0] + h * a.y[1] + t * a.y[2];
        const float *kb = k + b * a.k[0] + g * a.k[1], *vb = v + b * a.v[0] + g * a.v[1];
        float *dr = dq + b * a.q[0] + h * a.q[1] + t * a.q[2];
        int64_t seen = keys_seen(a, t);
        float m = -INFINITY, sum = 0, along = 0;
        for (int64_t s = threadIdx.x; s < seen; s += FL_BLOCK)
            if (sees(a, keep, b, h, t, s))
                m = fmaxf(m, a.scale * dot(qr, kb + s * a.k[2], a.dk));
        m = fl_block_max(m, scratch);
        for (int64_t s = threadIdx.x; s < seen; s += FL_BLOCK)
            if (sees(a, keep, b, h, t, s)) {
                float e = expf(a.scale * dot(qr, kb + s * a.k[2], a.dk) - m);
                sum += e;
                along += e * dot(gr, vb + s * a.v[2], a.dv);
            }
        sum = fl_block_sum(sum, scratch);
        float inv = sum > 0 ? 1.0f / sum : 0.0f;
        along = fl_block_sum(along, scratch) * inv;
        if (threadIdx.x == 0)
            state[i] = {m, inv, along};
        for (int64_t d = threadIdx.x; d < a.dk; d += FL_BLOCK)
            dr[d] = 0;
        for (int64_t tile = 0; tile < seen; tile += FL_BLOCK) {
            int64_t s = tile + threadIdx.x;
            float w = 0;
            if (s < seen && sees(a, keep, b, h, t, s)) {
                float prob = expf(a.scale * dot(qr, kb + s * a.k[2], a.dk) - m) * inv;
                w = a.scale * prob * (dot(gr, vb + s * a.v[2], a.dv) - along);
            }
            FL_BARRIER();
            ds[threadIdx.x] = w;
            FL_BARRIER();
            int64_t here = seen - tile < FL_BLOCK ? seen - tile : FL_BLOCK;
            for (int64_t d = threadIdx.x; d < a.dk; d += FL_BLOCK) {
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
    FL_SHARED(float, prob, FL_BLOCK);
    FL_SHARED(float, ds, FL_BLOCK);
    int64_t keys = a.batch * a.kv_heads * a.tk, group = a.heads / a.kv_heads;
    for (int64_t i = blockIdx.x; i < keys; i += gridDim.x) {
        int64_t s = i % a.tk, g = i / a.tk % a.kv_heads, b = i / a.tk / a.kv_heads;
        const float *kr = k + b * a.k[0] + g * a.k[1] + s * a.k[2], *vr = v + b * a.v[0] + g * a.v[1] + s * a.v[2];
        float *dkr = dk + b * a.k[0] + g * a.k[1] + s * a.k[2], *dvr = dv + b * a.v[0] + g * a.v[1] + s * a.v[2];
        for (int64_t d = threadIdx.x; d < a.dk; d += FL_BLOCK)
            dkr[d] = 0;
        for (int64_t d = threadIdx.x; d < a.dv; d += FL_BLOCK)
            dvr[d] = 0;
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            for (int64_t tile = 0; tile < a.tq; tile += FL_BLOCK) {
                int64_t t = tile + threadIdx.x;
                float pr = 0, w = 0;
                if (t < a.tq && sees(a, keep, b, h, t, s)) {
                    const float *qr = q + b * a.q[0] + h * a.q[1] + t * a.q[2], *gr = dy + b * a.y[0] + h * a.y[1] + t * a.y[2];
                    row_state r = state[(b * a.heads + h) * a.tq + t];
                    pr = expf(a.scale * dot(qr, kr, a.dk) - r.m) * r.inv;
                    w = a.scale * pr * (dot(gr, vr, a.dv) - r.dot);
                }
                FL_BARRIER();
                prob[threadIdx.x] = pr;
                ds[threadIdx.x] = w;
                FL_BARRIER();
                int64_t here = a.tq - tile < FL_BLOCK ? a.tq - tile : FL_BLOCK;
                for (int64_t d = threadIdx.x; d < a.dk; d += FL_BLOCK) {
                    float acc = dkr[d];
                    for (int64_t j = 0; j < here; j++)
                        acc += ds[j] * q[b * a.q[0] + h * a.q[1] + (tile + j) * a.q[2] + d];
                    dkr[d] = acc;
                }
                for (int64_t d = threadIdx.x; d < a.dv; d += FL_BLOCK) {
                    float acc = dvr[d];
                    for (int64_t j = 0; j < here; j++)
                        acc += prob[j] * dy[b * a.y[0] + h * a.y[1] + (tile + j) * a.y[2] + d];
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
        FL_LAUNCH_GRID(attention_kernel, fl_blocks_for(queries, 1), FL_BLOCK, y, q, k, v, keep, *a);
}

extern "C" void fl_attention_grad(float *dq, float *dk, float *dv, const float *dy, const float *q, const float *k, const float *v,
                                  const uint8_t *keep, const struct fl_attention *a)
{
    int64_t queries = a->batch * a->heads * a->tq, keys = a->batch * a->kv_heads * a->tk;
    row_state *state = (row_state *)fl_workspace(0, sizeof *state * (size_t)(queries > 0 ? queries : 1));
    if (queries > 0)
        FL_LAUNCH_GRID(attention_grad_q, fl_blocks_for(queries, 1), FL_BLOCK, dq, state, dy, q, k, v, keep, *a);
    if (keys > 0)
        FL_LAUNCH_GRID(attention_grad_kv, fl_blocks_for(keys, 1), FL_BLOCK, dk, dv, state, dy, q, k, v, keep, *a);
}
