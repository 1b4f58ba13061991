/* Every conversion between layouts of two axes: the path ends where it should, each step is legal by itself, and cheap
 * cases have the shape one expects. What the steps do to data is checked where boxing is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "cost/convert.h"

static struct mesh mesh;
static struct value value;
static const struct sbp B = { 0 }, P = { SBP_P, REDUCE_SUM, 0 }, S0 = { SBP_S, 0, 0 }, S1 = { SBP_S, 1, 0 };

static void begin(int dp, int tp)
{
    mem_release();
    mesh = (struct mesh){ .name = "m", .naxis = 3, .mb = 2, .pipe = -1, .nranks = dp * tp };
    mesh.axis[0] = (struct axis){ .name = "dp", .size = dp, .stride = tp };
    mesh.axis[1] = (struct axis){ .name = "tp", .size = tp, .stride = 1 };
    mesh.axis[2] = (struct axis){ .name = "mb", .size = 4, .time = true };
    value = (struct value){ .type = TYPE_F32, .ndim = 2 };
    value.dim[0] = dim_anonymous(1024);
    value.dim[1] = dim_anonymous(512);
}

static struct layout lay(struct sbp dp, struct sbp tp)
{
    return (struct layout){ { dp, tp } };
}

static int path(struct layout from, struct layout to, struct step *steps)
{
    int n = convert_path(&value, &from, &to, &mesh, steps, MAX_STEP);
    layout_normalise(&to, &mesh);
    if (n > 0)
        assert_true(layout_same(&steps[n - 1].after, &to, mesh.naxis));
    return n;
}

static void all_pairs(void **unused)
{
    struct sbp kinds[] = { B, P, S0, S1, { SBP_S, 0, 1 }, { SBP_S, 1, 1 } };
    struct step steps[MAX_STEP];
    begin(3, 2);
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++)
            for (int c = 0; c < 6; c++)
                for (int d = 0; d < 6; d++) {
                    struct layout from = lay(kinds[a], kinds[b]), to = lay(kinds[c], kinds[d]);
                    int n = path(from, to, steps);
                    assert_true(n >= 0);
                    layout_normalise(&from, &mesh);
                    layout_normalise(&to, &mesh);
                    assert_int_equal(n == 0, layout_same(&from, &to, mesh.naxis));
                    assert_true(isfinite(convert_cost(&value, &from, &to, &mesh)));
                }
}

static void one_step(void **unused)
{
    struct step s[MAX_STEP];
    begin(2, 2);
    assert_int_equal(path(lay(B, P), lay(B, B), s), 1);
    assert_int_equal(s[0].kind, STEP_ALL_REDUCE);
    assert_int_equal(s[0].axes, 2);
    assert_true(s[0].bytes == 1024 * 512 * 4);
    assert_int_equal(path(lay(B, P), lay(B, S1), s), 1);
    assert_int_equal(s[0].kind, STEP_REDUCE_SCATTER);
    assert_int_equal(path(lay(S0, S1), lay(S0, B), s), 1);
    assert_int_equal(s[0].kind, STEP_ALL_GATHER);
    assert_true(s[0].bytes == 512 * 256 * 4);
    assert_int_equal(path(lay(S0, B), lay(S1, B), s), 1);
    assert_int_equal(s[0].kind, STEP_ALL_TO_ALL);
    assert_int_equal(path(lay(B, B), lay(P, S0), s), 2);
    assert_false(step_is_comm(s[0].kind) || step_is_comm(s[1].kind));
}

static void merged(void **unused)
{
    struct step s[MAX_STEP];
    begin(2, 3);
    assert_int_equal(path(lay(P, P), lay(B, B), s), 1);
    assert_int_equal(s[0].kind, STEP_ALL_REDUCE);
    assert_int_equal(s[0].axes, 3);
    assert_int_equal(path(lay(S0, S0), lay(B, B), s), 1);
    assert_int_equal(s[0].kind, STEP_ALL_GATHER);
    assert_int_equal(s[0].axes, 3);
}

/* Two axes that swap what they split, or their order on one dim, never make a rank hold everything. */
static void swapped(void **unused)
{
    struct sbp minor = { SBP_S, 0, 1 };
    struct { struct layout from, to; } swaps[] = {
        { lay(S0, S1), lay(S1, S0) }, { lay(S1, S0), lay(S0, S1) }, { lay(S0, minor), lay(minor, S0) },
        { lay(minor, S0), lay(S0, minor) },
    };
    for (int sizes = 0; sizes < 3; sizes++)
        for (size_t k = 0; k < sizeof swaps / sizeof *swaps; k++) {
            struct step s[MAX_STEP];
            begin(sizes == 1 ? 4 : 2, sizes == 2 ? 8 : 2);
            int n = path(swaps[k].from, swaps[k].to, s);
            assert_true(n > 0);
            for (int i = 0; i < n; i++)
                assert_true(layout_bytes(&value, &s[i].after, &mesh) < 1024 * 512 * 4);
        }
}

static void minor_leaves_first(void **unused)
{
    struct step s[MAX_STEP];
    begin(2, 2);
    /* dp is major on dim 0: it cannot leave alone while tp stays */
    int n = path(lay(S0, S0), lay(B, S0), s);
    assert_true(n >= 2);
    for (int k = 0; k < n; k++)
        assert_true(s[k].axes != 1 || k > 0);
}

static void time_axis(void **unused)
{
    struct step s[MAX_STEP];
    begin(2, 2);
    struct layout from = { { P, B, P } }, to = { { B, B, B } };
    assert_int_equal(path(from, to, s), 2);
    assert_int_equal(s[0].kind, STEP_ACCUMULATE);
    assert_int_equal(s[1].kind, STEP_ALL_REDUCE);
    struct layout split = { { B, B, S0 } };
    assert_int_equal(path(split, to, s), -1);
    assert_int_equal(path(to, split, s), 1);
    assert_int_equal(s[0].kind, STEP_SLICE);
}

static void axes_of_one_rank(void **unused)
{
    struct step s[MAX_STEP];
    begin(2, 1);
    assert_int_equal(path(lay(S0, P), lay(S0, S0), s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs), cmocka_unit_test(one_step), cmocka_unit_test(merged),
        cmocka_unit_test(swapped), cmocka_unit_test(minor_leaves_first), cmocka_unit_test(time_axis), cmocka_unit_test(axes_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
