/* Dropout. A thread takes 16 bytes of neighbours, or 8 of f32, and draws four numbers at a time. Step and seed are read from device
 * memory: they are the next step's when a captured step is replayed. */
#include "../flow_rt.h"
#include "../fl_random.h"

/* Where element i is in the unpadded logical tensor. */
static __device__ __forceinline__ uint64_t logical_place(const struct fl_place &at, int64_t i)
{
    uint64_t index = 0, scale = 1;
    for (int d = at.ndim - 1; d >= 0; d--) {
        index += (uint64_t)(at.base[d] + i % at.n[d]) * scale;
        i /= at.n[d];
        scale *= (uint64_t)at.size[d];
    }
    return index;
}

/* An element is kept when its word is not below `least`; words go by the place in the logical tensor, where neighbours in a row of
 * `row` elements are neighbours too. */
template <typename T>
__global__ void dropout_kernel(T *y, const T *x, int64_t count, int64_t row, const struct fl_step *s, uint64_t path_hash, uint32_t block,
                               uint64_t least, float by, struct fl_place at)
{
    constexpr int W = 8;
    uint64_t key = fl_key(s->seed, path_hash), drawn = ~(uint64_t)0, place = 0;
    int64_t step = s->step;
    uint32_t word[4] = {};
    FL_VECTORS1(W, i, count) {
        int64_t left = 0;                            /* of the row, from the next element on */
        fl_vector<T, W> v = fl_vector_load<W>(x, i, count);
        FL_LANES(e, W, i, count) {
            if (left == 0) {
                place = logical_place(at, i + e);
                left = row - (i + e) % row;
            }
            if (place >> 2 != drawn) {
                drawn = place >> 2;
                fl_random_4(key, step, block, drawn, word);
            }
            uint32_t w = (place & 2) != 0 ? (place & 1) != 0 ? word[3] : word[2] : (place & 1) != 0 ? word[1] : word[0];
            v.at[e] = fl_store<T>(w >= least ? fl_load(v.at[e]) * by : 0.0f);
            place++;
            left--;
        }
        fl_vector_store(y, i, count, v);
    }
}

extern "C" void fl_dropout_as(void *y, const void *x, enum fl_type t, const struct fl_step *s, uint64_t path_hash, int64_t block,
                              float p, const struct fl_place *at)
{
    int64_t count = 1;
    for (int d = 0; d < at->ndim; d++)
        count *= at->n[d];
    if (count > 0)
        FL_BY_TYPE(t, T, FL_LAUNCH_GRID(dropout_kernel<T>, fl_blocks_for(count, 8 * FL_BLOCK), FL_BLOCK, (T *)y, (const T *)x, count,
                                        at->ndim ? at->n[at->ndim - 1] : 1, fl_step_on_device(s), path_hash, (uint32_t)block,
                                        fl_least_kept(p), 1.0f / (1.0f - p), *at))
}

extern "C" void fl_dropout(float *y, const float *x, const struct fl_step *s, uint64_t path_hash, int64_t block, float p,
                           const struct fl_place *at)
{
    fl_dropout_as(y, x, FL_F32, s, path_hash, block, p, at);
}
