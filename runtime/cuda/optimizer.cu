/* Optimizer steps (formulas of PyTorch) and dropout: one thread per element. Learning rate, step and seed are read from device
 * memory: they are the next step's when a captured step is replayed. The redo of a step whose norm is known only
 * after it is the same kernel, so that it gives the same bits: it reads what was kept, and ends at once where the factor,
 * which lies in device memory, is 1. */
#include "../flow_rt.h"
#include "../fl_random.h"

__global__ void adamw_kernel(float *w, const float *g, float *m, float *v, const float *scale, const float *from_w,
                             const float *from_m, const float *from_v, bool redo, int64_t n, const struct fl_step *s, float beta1,
                             float beta2, float eps, float decay)
{
    FL_SHARED(float, correct, 2);
    float by = scale ? *scale : 1.0f, lr = s->lr;
    if (redo && by >= 1.0f)
        return;
    if (threadIdx.x == 0) {
        correct[0] = (float)(1 - pow((double)beta1, (double)s->step + 1));
        correct[1] = (float)sqrt(1 - pow((double)beta2, (double)s->step + 1));
    }
    FL_BARRIER();
    float correct1 = correct[0], correct2 = correct[1];
    FL_GRID_FOR(i, n) {
        float gi = g[i] * by, wi = from_w[i] - lr * decay * from_w[i];
        float mi = m[i] = beta1 * from_m[i] + (1 - beta1) * gi;
        float vi = v[i] = beta2 * from_v[i] + (1 - beta2) * gi * gi;
        w[i] = wi - lr / correct1 * mi / (sqrtf(vi) / correct2 + eps);
    }
}

__global__ void sgd_kernel(float *w, const float *g, float *buffer, const float *scale, const float *from_w,
                           const float *from_buffer, bool redo, int64_t n, const struct fl_step *s, float momentum, float decay)
{
    float by = scale ? *scale : 1.0f, lr = s->lr;
    if (redo && by >= 1.0f)
        return;
    FL_GRID_FOR(i, n) {
        float wi = from_w[i], gi = g[i] * by + decay * wi;
        if (buffer)
            gi = buffer[i] = momentum * from_buffer[i] + gi;
        w[i] = wi - lr * gi;
    }
}

/* An element is kept when its uniform number is not below p; numbers go by the index in the unpadded logical tensor. */
template <typename T>
__global__ void dropout_kernel(T *y, const T *x, int64_t count, const struct fl_step *s, uint64_t path_hash, uint32_t block,
                               float p, struct fl_place at)
{
    uint64_t key = fl_key(s->seed, path_hash);
    FL_GRID_FOR(i, count) {
        uint64_t index = 0, scale = 1;
        int64_t rest = i;
        for (int d = at.ndim - 1; d >= 0; d--) {
            index += (uint64_t)(at.base[d] + rest % at.n[d]) * scale;
            rest /= at.n[d];
            scale *= (uint64_t)at.size[d];
        }
        y[i] = fl_store<T>(fl_uniform(key, s->step, block, index) >= (double)p ? fl_load(x[i]) * (1.0f / (1.0f - p)) : 0.0f);
    }
}

extern "C" void fl_dropout_as(void *y, const void *x, enum fl_type t, const struct fl_step *s, uint64_t path_hash, int64_t block,
                              float p, const struct fl_place *at)
{
    int64_t count = 1;
    for (int d = 0; d < at->ndim; d++)
        count *= at->n[d];
    if (count > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(dropout_kernel<T>, fl_blocks_for(count, FL_BLOCK), FL_BLOCK, (T *)y, (const T *)x, count,
                                        fl_step_on_device(s), path_hash, (uint32_t)block, p, *at))
}

extern "C" void fl_dropout(float *y, const float *x, const struct fl_step *s, uint64_t path_hash, int64_t block, float p,
                           const struct fl_place *at)
{
    fl_dropout_as(y, x, FL_F32, s, path_hash, block, p, at);
}

static void adamw(const struct fl_step *s, float *w, const float *g, float *m, float *v, const float *scale, const float *from_w,
                  const float *from_m, const float *from_v, bool redo, int64_t n, float beta1, float beta2, float eps, float decay)
{
    if (n > 0)
        FL_LAUNCH_GRID(adamw_kernel, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, w, g, m, v, scale, from_w, from_m, from_v, redo, n,
                       fl_step_on_device(s), beta1, beta2, eps, decay);
}

extern "C" void fl_adamw(const struct fl_step *s, float *w, const float *g, float *m, float *v, const float *scale, int64_t n,
                         float beta1, float beta2, float eps, float decay)
{
    adamw(s, w, g, m, v, scale, w, m, v, false, n, beta1, beta2, eps, decay);
}

extern "C" void fl_adamw_redo(const struct fl_step *s, float *w, const float *g, float *m, float *v, const float *scale,
                              const float *kept_w, const float *kept_m, const float *kept_v, int64_t n, float beta1, float beta2,
                              float eps, float decay)
{
    adamw(s, w, g, m, v, scale, kept_w, kept_m, kept_v, true, n, beta1, beta2, eps, decay);
}

static void sgd(const struct fl_step *s, float *w, const float *g, float *buffer, const float *scale, const float *from_w,
                const float *from_buffer, bool redo, int64_t n, float momentum, float decay)
{
    if (n > 0)
        FL_LAUNCH_GRID(sgd_kernel, fl_blocks_for(n, FL_BLOCK), FL_BLOCK, w, g, buffer, scale, from_w, from_buffer, redo, n,
                       fl_step_on_device(s), momentum, decay);
}

extern "C" void fl_sgd(const struct fl_step *s, float *w, const float *g, float *buffer, const float *scale, int64_t n,
                       float momentum, float decay)
{
    sgd(s, w, g, buffer, scale, w, buffer, false, n, momentum, decay);
}

extern "C" void fl_sgd_redo(const struct fl_step *s, float *w, const float *g, float *buffer, const float *scale,
                            const float *kept_w, const float *kept_buffer, int64_t n, float momentum, float decay)
{
    sgd(s, w, g, buffer, scale, kept_w, kept_buffer, true, n, momentum, decay);
}
