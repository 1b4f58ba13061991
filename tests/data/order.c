/* The order of rows: a permutation that is one for every size, positions that add up, shares that weights promise. */
#include "data_order.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "check.h"

void *fl_alloc(int64_t bytes) { return calloc(1, (size_t)bytes); }

static void test_permutation(void **state)
{
    (void)state;
    static char seen[3000];
    for (int64_t n = 1; n <= 2500; n += n < 70 ? 1 : 97) {
        for (uint64_t key = 0; key < 3; key++) {
            memset(seen, 0, sizeof seen);
            int64_t fixed = 0;
            for (int64_t i = 0; i < n; i++) {
                int64_t to = fl_permute(i, n, key);
                assert_in_range(to, 0, n - 1);
                assert_false(seen[to]);
                seen[to] = 1;
                fixed += to == i;
            }
            if (n > 100)
                assert_true(fixed < 12);         /* one is expected, whatever n */
        }
    }
    /* where row 0 of 16 goes is even over keys: 16 cells of 1000, standard deviation 31 */
    int count[16] = { 0 };
    for (uint64_t key = 0; key < 16000; key++)
        count[fl_permute(0, 16, key)]++;
    for (int i = 0; i < 16; i++)
        assert_in_range(count[i], 850, 1150);
}

static struct fl_order order(int nfile, const int64_t *length, int64_t n, bool shuffle)
{
    struct fl_order o = { .nfile = nfile, .width = 5, .after = 1, .n = n, .shuffle = shuffle, .seed = 7 };
    o.span = calloc((size_t)nfile, sizeof *o.span);
    for (int f = 0; f < nfile; f++)
        o.span[f] = (struct fl_span){ 3, 3 + length[f] };
    return o;
}

static void drop(struct fl_order *o)
{
    free(o->span);
    free(o->pattern);
    free(o->rank);
    free(o->share);
}

static const int64_t lengths[] = { 101, 16, 5, 56 };     /* 20, 3, 0 and 11 rows of 5 with one element behind */

/* Every row once in an epoch, the last incomplete batch left out, each epoch in an order of its own. */
static void test_epochs(void **state)
{
    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        struct fl_order o = order(4, lengths, 4, shuffle);
        int64_t before[34] = { 0 };
        assert_int_equal(fl_order_epoch(&o), 34);
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            bool seen[4][21] = { { false } };
            int64_t now[34] = { 0 }, same = 0;
            for (int64_t s = 0; s < 8; s++) {
                struct fl_position p = fl_order_ahead(&o, (struct fl_position){ 0, 0 }, epoch * 8 + s);
                assert_int_equal(p.epoch, epoch);
                assert_int_equal(p.at, s * 4 * 5);
                for (int64_t i = 0; i < 4; i++) {
                    int f;
                    int64_t at = fl_order_find(&o, p, i, &f);
                    assert_int_equal((at - 3) % 5, 0);
                    assert_true(at + 5 + 1 <= 3 + lengths[f]);
                    assert_false(seen[f][(at - 3) / 5]);
                    seen[f][(at - 3) / 5] = true;
                    now[s * 4 + i] = f * 100 + at;
                    same += now[s * 4 + i] == before[s * 4 + i];
                }
            }
            assert_true(epoch == 0 || (shuffle ? same < 10 : same == 32));
            memcpy(before, now, sizeof now);
        }
        free(o.span);
    }
}

/* Positions add up, also from one that another N or T left behind. */
static void test_positions(void **state)
{
    (void)state;
    const double weight[] = { 1, 2, 1, 4 };
    for (int weighted = 0; weighted < 2; weighted++) {
        struct fl_order o = order(4, (int64_t[]){ 101, 16, 6, 56 }, 3, true);
        if (weighted)
            fl_order_weigh(&o, weight);
        for (int64_t at = 0; at < 60; at += 7)
            for (int64_t a = 0; a < 40; a++)
                for (int64_t b = 0; b < 40; b += 3) {
                    struct fl_position start = { 1, at }, once = fl_order_ahead(&o, start, a + b),
                                       twice = fl_order_ahead(&o, fl_order_ahead(&o, start, a), b);
                    assert_int_equal(once.epoch, twice.epoch);
                    assert_int_equal(once.at, twice.at);
                }
        drop(&o);
    }
}

static void test_weights(void **state)
{
    (void)state;
    struct fl_order o = order(4, (int64_t[]){ 101, 16, 6, 56 }, 1, true);
    fl_order_weigh(&o, (double[]){ 1, 0.5, 1e-9, 2 });
    int64_t count[4] = { 0 }, used[4][20] = { { 0 } };
    for (int64_t i = 0; i < 70000; i++) {
        int f;
        int64_t at = fl_order_find(&o, (struct fl_position){ 0, 0 }, i, &f);
        count[f]++;
        used[f][(at - 3) / 5]++;
        if (i % 100 == 99) {             /* never far from the share */
            assert_true(fabs((double)count[0] - (double)(i + 1) / 3.5) < 3 + (double)i * 1e-4);
            assert_true(fabs((double)count[1] - (double)(i + 1) / 7) < 3 + (double)i * 1e-4);
        }
    }
    assert_in_range(count[2], 6, 7);
    for (int r = 1; r < 20; r++)         /* all rows of a file before any of them again */
        assert_true(llabs(used[0][r] - used[0][0]) <= 1);
    drop(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
