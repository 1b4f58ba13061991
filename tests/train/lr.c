/* The schedules of the learning rate, at steps whose rates are worked out by hand. */
#include "fl_lr.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void is(enum fl_lr kind, int64_t warmup, int64_t decay, int64_t k, double wanted)
{
    assert_float_equal(fl_lr_of(kind, 0.8, 0.1, warmup, decay, 100, k), wanted, 1e-12);
}

static void test_rates(void **state)
{
    (void)state;
    for (int kind = FL_LR_CONSTANT; kind <= FL_LR_WARMUP_STABLE_DECAY; kind++) {
        is((enum fl_lr)kind, 20, 30, 0, 0.04);               /* all warm up alike */
        is((enum fl_lr)kind, 20, 30, 19, 0.8);
        is((enum fl_lr)kind, 20, 30, 20, 0.8);
    }
    is(FL_LR_CONSTANT, 20, 0, 99, 0.8);
    is(FL_LR_COSINE, 20, 0, 60, 0.45);
    is(FL_LR_COSINE, 20, 0, 40, 0.1 + 0.7 * 0.8535533905932737);     /* (1 + cos(pi / 4)) / 2 */
    is(FL_LR_COSINE, 20, 0, 150, 0.1);
    is(FL_LR_LINEAR, 20, 0, 40, 0.625);
    is(FL_LR_LINEAR, 20, 0, 100, 0.1);
    is(FL_LR_INVERSE_SQRT, 20, 0, 80, 0.4);
    is(FL_LR_INVERSE_SQRT, 20, 0, 20 * 64, 0.1);
    is(FL_LR_INVERSE_SQRT, 20, 0, 20 * 100, 0.1);            /* 0.08 is below the floor */
    is(FL_LR_INVERSE_SQRT, 0, 0, 0, 0.8);
    is(FL_LR_INVERSE_SQRT, 0, 0, 16, 0.2);
    is(FL_LR_WARMUP_STABLE_DECAY, 20, 30, 70, 0.8);
    is(FL_LR_WARMUP_STABLE_DECAY, 20, 30, 85, 0.45);
    is(FL_LR_WARMUP_STABLE_DECAY, 20, 30, 97, 0.17);
    is(FL_LR_WARMUP_STABLE_DECAY, 20, 30, 200, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
