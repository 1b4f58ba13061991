/* Patterns against paths: what `*`, indices and ranges mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "module.h"

static void stars_stand_for_any_text(void **state)
{
    assert_true(pattern_match("*_weight", "h[*].attn.qkv_weight", NULL, NULL));
    assert_true(pattern_match("h[*].*.up_*", "h[*].mlp.up_bias", NULL, NULL));
    assert_true(pattern_match("*", "", NULL, NULL));
    assert_false(pattern_match("*_weight", "wte.weight", NULL, NULL));
    assert_false(pattern_match("h[*].attn", "h[*].attn.y", NULL, NULL));
    assert_false(pattern_match("h", "h[*]", NULL, NULL));
    assert_false(pattern_match("h[*]", "h", NULL, NULL));
    assert_true(pattern_match("a*b*c", "aXbXbXc", NULL, NULL));
    assert_false(pattern_match("a*b*c", "aXbXbX", NULL, NULL));
}

static void indices_narrow_the_blocks(void **state)
{
    int64_t low, high;
    assert_true(pattern_match("h[*].w", "h[*].w", &low, &high));
    assert_int_equal(low, 0);
    assert_true(high == INT64_MAX);
    assert_true(pattern_match("h[i].w", "h[*].w", &low, &high));
    assert_true(high == INT64_MAX);
    assert_true(pattern_match("h[3].w", "h[*].w", &low, &high));
    assert_int_equal(low, 3);
    assert_int_equal(high, 4);
    assert_true(pattern_match("h[2..5].*", "h[*].attn.w", &low, &high));
    assert_int_equal(low, 2);
    assert_int_equal(high, 5);
    assert_true(pattern_match("h[4..].w", "h[*].w", &low, &high));
    assert_int_equal(low, 4);
    assert_true(high == INT64_MAX);
    assert_true(pattern_match("h[..4].w", "h[*].w", &low, &high));
    assert_int_equal(low, 0);
    assert_int_equal(high, 4);
    assert_true(pattern_match("*[1].g[*].w", "h[*].g[*].w", &low, &high));
    assert_int_equal(low, 1);
}

static void calls_cover_what_is_beneath(void **state)
{
    assert_true(pattern_covers("wte", "wte.weight", NULL, NULL));
    assert_true(pattern_covers("h[*].attn", "h[*].attn.qkv_weight", NULL, NULL));
    assert_true(pattern_covers("h[*]", "h[*]", NULL, NULL));
    assert_true(pattern_covers("*.ln_*", "h[*].ln_1.weight", NULL, NULL));
    assert_false(pattern_covers("wt", "wte.weight", NULL, NULL));
    assert_false(pattern_covers("wte.weight.x", "wte.weight", NULL, NULL));
}

static void values_go_by_all_their_names(void **state)
{
    struct value v = {.path = "h[*]"};
    arrput(v.alias, "x@2");
    assert_true(value_matches(&v, "h[*]", NULL, NULL));
    assert_true(value_matches(&v, "x@2", NULL, NULL));
    assert_true(value_matches(&v, "x@*", NULL, NULL));
    assert_false(value_matches(&v, "x@1", NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stars_stand_for_any_text),
        cmocka_unit_test(indices_narrow_the_blocks),
        cmocka_unit_test(calls_cover_what_is_beneath),
        cmocka_unit_test(values_go_by_all_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
