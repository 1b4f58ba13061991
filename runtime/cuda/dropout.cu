/* Dropout: one thread per element. Step and seed are read from device memory: they are the next step's when a captured step is
 * replayed. */
#include "../flow_rt.h"
#include "../fl_random.h"

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
