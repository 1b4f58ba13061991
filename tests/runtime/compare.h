/* Test data and comparisons for the tests of the runtime. */
#ifndef COMPARE_H
#define COMPARE_H
#include "flow_rt.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* The library of the runtime without main() wants a program; the tests that call kernels only give an empty one. */
#ifndef HAS_PROGRAM
const struct fl_program_spec fl_program = { .name = "test", .nranks = 1, .pipe = -1, .mb = -1 };
const struct fl_rank *const fl_ranks[] = { NULL };
const int fl_rank_count = 0;
#endif

static inline float noise(uint64_t *state)           /* in (-1, 1), the same on every run */
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*state >> 11) / (double)(1ull << 52) - 1);
}

static inline float *random_array(int64_t n, uint64_t seed)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    uint64_t state = seed * 77 + 1;
    noise(&state);
    for (int64_t i = 0; i < n; i++)
        x[i] = noise(&state);
    return x;
}

static inline float *blank(int64_t n)                /* NaN: what a kernel forgets to write shows */
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

static inline void check_close(const char *what, const float *got, const double *want, int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s[%lld] is %.9g, expected %.9g", what, (long long)i, got[i], want[i]);
}
#endif
