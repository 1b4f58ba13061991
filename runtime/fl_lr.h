/* The learning rate of a step. Shared by the compiler's float64 reference and the runtime. */
#ifndef FL_LR_H
#define FL_LR_H
#include <math.h>
#include <stdint.h>

/* The kinds, once: LR(ID, as in the language, the rate after the warm-up), with
 *     peak, floor_, k   of step k >= warmup
 *     part              of the way from the end of the warm-up to the last step, 0 to 1
 *     late              of the last `decay` steps, 0 to 1; 0 before them
 * cosine: Loshchilov and Hutter, SGDR, 2017, one period. inverse_sqrt: Vaswani et al., Attention Is All You Need, 2017, 5.3,
 * with its peak named. warmup_stable_decay: Hu et al., MiniCPM, 2024, section 4, with a linear decay. */
#define FL_LR_KINDS(LR)                                                                                          \
    LR(CONSTANT, constant, peak)                                                                                 \
    LR(COSINE, cosine, floor_ + (peak - floor_) * (1 + cos(3.14159265358979323846 * part)) / 2)                  \
    LR(LINEAR, linear, floor_ + (peak - floor_) * (1 - part))                                                    \
    LR(INVERSE_SQRT, inverse_sqrt, fmax(floor_, peak * sqrt((warmup > 1 ? (double)warmup : 1) / (k > 1 ? (double)k : 1)))) \
    LR(WARMUP_STABLE_DECAY, warmup_stable_decay, floor_ + (peak - floor_) * (1 - late))
enum fl_lr {
#define FL_LR_ID(id, name, rate) FL_LR_##id,
    FL_LR_KINDS(FL_LR_ID)
#undef FL_LR_ID
};

/* Of step k, from 0: up to the peak in `warmup` steps, then by its kind; from step `steps` on it stays what it is there. */
static inline double fl_lr_of(enum fl_lr kind, double peak, double floor_, int64_t warmup, int64_t decay,
                              int64_t steps, int64_t k)
{
    if (k < warmup)
        return peak * (double)(k + 1) / (double)warmup;
    double whole = (double)(steps - warmup), part = whole > 0 ? fmin(1, (double)(k - warmup) / whole) : 1;
    double late = decay > 0 ? fmin(1, fmax(0, (double)(k - (steps - decay)) / (double)decay)) : 0;
    switch (kind) {
#define FL_LR_RATE(id, name, rate) case FL_LR_##id: return rate;
        FL_LR_KINDS(FL_LR_RATE)
#undef FL_LR_RATE
    }
    (void)late;
    return peak;
}
#endif
