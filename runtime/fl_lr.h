/* The learning rate of a step. Shared by the compiler's float64 reference and the runtime. */
#ifndef FL_LR_H
#define FL_LR_H
#include <math.h>
#include <stdint.h>

enum fl_lr { FL_LR_CONSTANT, FL_LR_COSINE, FL_LR_LINEAR };

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
