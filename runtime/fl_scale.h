/* Dynamic loss scaling, for gradients in f16. Shared by the compiler's float64 reference and the runtime.
 *
 * The gradient of the loss starts as S, so that what is small stays above the least number of f16; the update divides by S
 * again. Where a gradient overflowed, the norm is not finite: that step changes nothing, and S is halved. After `growth` good
 * steps in a row it is doubled (Micikevicius et al., Mixed Precision Training, 2018, section 3.2; numbers of PyTorch's
 * GradScaler). S stays a power of two: it moves exponents and changes no digit. */
#ifndef FL_SCALE_H
#define FL_SCALE_H
#include <stdbool.h>
#include <stdint.h>

#define FL_SCALE_START 65536.0
#define FL_SCALE_MOST 16777216.0         /* and its inverse is the least */
#define FL_SCALE_GROWTH 2000

struct fl_scale { double now, good; };   /* S; good steps since it changed, a whole number */

static inline void fl_scale_next(struct fl_scale *s, bool finite, int64_t growth)
{
    if (!finite) {
        s->now = s->now > 1 / FL_SCALE_MOST ? s->now / 2 : s->now;
        s->good = 0;
    } else if (++s->good >= (double)growth) {
        s->now = s->now < FL_SCALE_MOST ? s->now * 2 : s->now;
        s->good = 0;
    }
}
#endif
