/* The learning rate of a step. Shared by the compiler's float64 reference and the runtime. */
#ifndef FL_LR_H
#define FL_LR_H
#include <math.h>
#include <stdint.h>

/* The kinds, once: LR(ID, as in the language). */
#define FL_LR_KINDS(LR) LR(CONSTANT, constant) LR(COSINE, cosine) LR(LINEAR, linear)
enum fl_lr {
#define FL_LR_ID(id, name) FL_LR_##id,
    FL_LR_KINDS(FL_LR_ID)
#undef FL_LR_ID
};

/* Of step k, from 0: up to the peak in `warmup` steps, then down to the floor at step `steps`, where it stays. */
static inline double fl_lr_of(enum fl_lr kind, double peak, double floor_, int64_t warmup, int64_t steps, int64_t k)
{
    if (k < warmup)
        return peak * (double)(k + 1) / (double)warmup;
    double whole = (double)(steps - warmup), part = whole > 0 ? fmin(1, (double)(k - warmup) / whole) : 1;
    switch (kind) {
    case FL_LR_COSINE: return floor_ + (peak - floor_) * (1 + cos(3.14159265358979323846 * part)) / 2;
    case FL_LR_LINEAR: return floor_ + (peak - floor_) * (1 - part);
    default: return peak;
    }
}
#endif
