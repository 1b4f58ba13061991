/* Optimizer steps (formulas of PyTorch) and dropout: one thread per element. */
#include "../flow_rt.h"
#include "../fl_random.h"

__global__ void adamw_kernel(float *w, const float *g, float *m, float *v, const float *scale, int64_t n, float lr, float beta1,
                             float beta2, float eps, float decay, float correct1, float correct2)
{
    float by = scale ? *scale : 1.0f;
    FL_GRID_FOR(i, n) {
        float gi = g[i] * by, wi = w[i] - lr * decay * w[i];
        float mi = m[i] = beta1 * m[i] + (1 - beta1) * gi;
        float vi = v[i] = beta2 * v[i] + (1 - beta2) * gi * gi;
        w[i] = wi - lr / correct1 * mi / (sqrtf(vi) / correct2 + eps);
    }
}

__global__ void sgd_kernel(float *w, const float *g, float *buffer, const float *scale, int64_t n, float lr, float momentum, float decay)
{
    float by = scale ? *scale : 1.0f;
    FL_GRID_FOR(i, n) {
        float gi = g[i] * by + decay * w[i];
        if (buffer)
            gi = buffer[i] = momentum * buffer[i] + gi;
        w[i] -= lr * gi;
    }
}

/* An element is kept when its uniform number is not below p; numbers go by the index in the unpadded logical tensor. */
__global__ void dropout_kernel(float *y, const float *x, int64_t count, uint64_t key, int64_t step, uint32_t block, float p,
                               struct fl_place at)
{
    FL_GRID_FOR(i, count) {
        uint64_t index = 0, scale = 1;
        int64_t rest = i;
        for (int d = at.ndim - 1; d >= 0; d--) {
            index += (uint64_t)(at.base[d] + rest % at.n[d]) * scale;
            rest /= at.n[d];
            scale *= (uint64_t)at.size[d];
        }
        y[i] = fl_uniform(key, step, block, index) >= (double)p ? x[i] * (1.0f / (1.0f - p)) : 0.0f;
    }
}

extern "C" void fl_dropout(float *y, const float *x, const struct fl_step *s, uint64_t path_hash, int64_t block, float p,
                           const struct fl_place *at)
{
    int64_t count = 1;
    for (int d = 0; d < at->ndim; d++)
        count *= at->n[d];
    if (count > 0)
        FL_LAUNCH_GRID(dropout_kernel, fl_blocks_for(count, FL_BLOCK), FL_BLOCK, y, x, count, fl_key(s->seed, path_hash), s->step,
                       (uint32_t)block, p, *at);
}

extern "C" void fl_adamw(const struct fl_step *s, float *w, const float *g, float *m, float *v, const float *scale, int64_t n,
                         float beta1, float beta2, float eps, float decay)
{
    double t = (double)s->step + 1;
    float correct1 = (float)(1 - pow((double)beta1, t)), correct2 = (float)sqrt(1 - pow((double)beta2, t));
    if (n > 0)
        FL_LAUNCH_GRID(adamw_kernel, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, w, g, m, v, scale, n, s->lr, beta1, beta2, eps, decay,
                       correct1, correct2);
}

extern "C" void fl_sgd(const struct fl_step *s, float *w, const float *g, float *buffer, const float *scale, int64_t n,
                       float momentum, float decay)
{
    if (n > 0)
        FL_LAUNCH_GRID(sgd_kernel, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, w, g, buffer, scale, n, s->lr, momentum, decay);
}
