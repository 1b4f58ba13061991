/* Box-Muller over arrays: one counter gives four words, that is two pairs of numbers. Logarithm, sine and cosine are polynomials
 * without branches, good to 1e-15, so that the loops become vector code on any machine: a model of 10^8 parameters starts
 * in less than a second. */
#include "normals.h"
#include "fl_random.h"
#include <string.h>

enum { COUNTERS = 128, NUMBERS = 4 * COUNTERS };

/* log of u in (0, 1): u = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)) */
static inline double log_of(double u)
{
    union { double d; int64_t i; } x = { u };
    int64_t e = (x.i - 0x3fe6a09e667f3bcd) >> 52;
    x.i -= (int64_t)((uint64_t)e << 52);
    double z = (x.d - 1) / (x.d + 1), y = z * z, p = 1.0 / 19;
    p = p * y + 1.0 / 17, p = p * y + 1.0 / 15, p = p * y + 1.0 / 13, p = p * y + 1.0 / 11, p = p * y + 1.0 / 9;
    p = p * y + 1.0 / 7, p = p * y + 1.0 / 5, p = p * y + 1.0 / 3;
    return (double)(int32_t)e * 0.693147180559945309417 + 2 * (z + z * y * p);
}

/* r times cosine and sine of 2 pi v, v in (0, 1): a quarter turn at a time, then series around its middle. */
static inline void turn(double r, double v, double *cosine, double *sine)
{
    double q = rint(4 * v), a = (4 * v - q) * 1.57079632679489661923, y = a * a;
    double s = -1.0 / 1307674368000, c = 1.0 / 20922789888000;
    s = s * y + 1.0 / 6227020800, s = s * y - 1.0 / 39916800, s = s * y + 1.0 / 362880, s = s * y - 1.0 / 5040;
    s = s * y + 1.0 / 120, s = s * y - 1.0 / 6, s = a + a * y * s;
    c = c * y - 1.0 / 87178291200, c = c * y + 1.0 / 479001600, c = c * y - 1.0 / 3628800, c = c * y + 1.0 / 40320;
    c = c * y - 1.0 / 720, c = c * y + 1.0 / 24, c = c * y - 0.5, c = 1 + y * c;
    int32_t k = (int32_t)q;
    double odd = (double)(k & 1), even = 1 - odd, x = odd * s + even * c, w = odd * c + even * s;
    *cosine = r * x * (double)(1 - ((k + 1) & 2));
    *sine = r * w * (double)(1 - (k & 2));
}

static inline double unit(uint32_t word) { return ((double)word + 0.5) * (1.0 / 4294967296.0); }

/* The four numbers of each of `count` counters from `first`. */
static void draw(float *to, double std, uint64_t key, int64_t step, uint32_t block, uint64_t first, int64_t count)
{
    uint32_t word[4][COUNTERS];
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = first + (uint64_t)i;
        uint32_t counter[4] = { (uint32_t)at, (uint32_t)(at >> 32), block, (uint32_t)step }, w[4];
        fl_philox4x32_10(counter, key, w);
        word[0][i] = w[0], word[1][i] = w[1], word[2][i] = w[2], word[3][i] = w[3];
    }
    for (int half = 0; half < 4; half += 2) {
        double r[COUNTERS];
        for (int64_t i = 0; i < count; i++)
            r[i] = -2 * log_of(unit(word[half][i]));
        for (int64_t i = 0; i < count; i++)          /* alone: it may set errno, and so stays scalar */
            r[i] = sqrt(r[i]);
        for (int64_t i = 0; i < count; i++) {
            double cosine, sine;
            turn(r[i], unit(word[half + 1][i]), &cosine, &sine);
            to[4 * i + half] = (float)(std * cosine);
            to[4 * i + half + 1] = (float)(std * sine);
        }
    }
}

void fl_normals(float *to, double std, uint64_t key, int64_t step, uint32_t block, uint64_t index, int64_t n)
{
    float part[NUMBERS];
    for (int64_t i = 0; i < n;) {
        int64_t skipped = (int64_t)((index + (uint64_t)i) & 3), here = NUMBERS - skipped < n - i ? NUMBERS - skipped : n - i;
        int64_t count = (skipped + here + 3) / 4;
        draw(part, std, key, step, block, (index + (uint64_t)i) >> 2, count);
        memcpy(to + i, part + skipped, (size_t)here * sizeof *to);
        i += here;
    }
}
