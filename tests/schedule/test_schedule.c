/* The slot counts alone give the published bubbles, and rolled loops unroll to the order they came from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "schedule/simulate.h"

static const struct { int p, m; double bubble; } table[] = {
    {4, 8, .2727}, {4, 16, .1579}, {8, 16, .3043}, {8, 32, .1795}, {16, 48, .2381}, {1, 5, 0}, {5, 2, .6667},
};
enum { ROWS = sizeof table / sizeof *table };

static struct actors *run(int p, int m, bool gpipe)
{
    int slots[64];
    for (int s = 0; s < p; s++)
        slots[s] = gpipe ? m : p - s;
    struct actors *a = actors_pipeline(p, m, slots);
    assert_true(actors_run(a));
    return a;
}

static void bubbles(void **state)
{
    for (int i = 0; i < ROWS; i++)
        for (int gpipe = 0; gpipe < 2; gpipe++) {
            struct actors *a = run(table[i].p, table[i].m, gpipe);
            assert_true(fabs(a->bubble - table[i].bubble) < 6e-5);
            for (int s = 0; s < table[i].p; s++)
                assert_int_equal(arrlen(a->order[s]), 2 * table[i].m);
        }
}

/* one_f_one_b holds back: stage s never has more than p - s micro-batches in flight; gpipe runs all forwards first */
static void in_flight(void **state)
{
    for (int gpipe = 0; gpipe < 2; gpipe++) {
        struct actors *a = run(4, 8, gpipe);
        for (int s = 0; s < 4; s++) {
            int now = 0, most = 0;
            for (int i = 0; i < arrlen(a->order[s]); i++) {
                now += a->order[s][i].what.phase == PHASE_FORWARD ? 1 : -1;
                most = now > most ? now : most;
            }
            assert_int_equal(most, gpipe ? 8 : 4 - s);
        }
    }
}

static void no_slots_blocks(void **state)
{
    int slots[] = {1, 0};
    assert_false(actors_run(actors_pipeline(2, 2, slots)));
}

static void rolls_unroll(void **state)
{
    for (int i = 0; i < ROWS; i++)
        for (int gpipe = 0; gpipe < 2; gpipe++) {
            struct actors *a = run(table[i].p, table[i].m, gpipe);
            for (int s = 0; s < table[i].p; s++) {
                struct firing *order = NULL;
                for (int k = 0; k < arrlen(a->order[s]); k++)
                    arrput(order, a->order[s][k].what);
                int n = (int)arrlen(order), at = 0;
                struct roll *rolls = roll_firings(order, n);
                for (int r = 0; r < arrlen(rolls); r++) {
                    assert_int_equal(rolls[r].start, at);
                    for (int t = 0; t < rolls[r].times; t++)
                        for (int k = 0; k < rolls[r].len; k++, at++) {
                            const struct firing *f = &order[rolls[r].start + k];
                            assert_int_equal(f->phase, order[at].phase);
                            assert_int_equal(f->microbatch + t, order[at].microbatch);
                        }
                }
                assert_int_equal(at, n);
            }
        }
}

static void rolls_do_not_grow(void **state)
{
    long loops[2];
    for (int i = 0; i < 2; i++) {
        struct actors *a = run(4, i ? 512 : 16, false);
        struct firing *order = NULL;
        for (int k = 0; k < arrlen(a->order[1]); k++)
            arrput(order, a->order[1][k].what);
        loops[i] = (long)arrlen(roll_firings(order, (int)arrlen(order)));
    }
    assert_int_equal(loops[0], loops[1]);
    assert_true(loops[0] <= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles), cmocka_unit_test(in_flight), cmocka_unit_test(no_slots_blocks),
        cmocka_unit_test(rolls_unroll), cmocka_unit_test(rolls_do_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
