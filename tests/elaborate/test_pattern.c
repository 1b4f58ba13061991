/* Patterns against paths: what `*`, indices and ranges mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "module.h"

static void stars_stand_for_any_text(void **state)
{
    assert_true(pattern_match("*_weight", "h[*].attn.qkv_weight", NULL));
    assert_true(pattern_match("h[*].*.up_*", "h[*].mlp.up_bias", NULL));
    assert_true(pattern_match("*", "", NULL));
    assert_false(pattern_match("*_weight", "wte.weight", NULL));
    assert_false(pattern_match("h[*].attn", "h[*].attn.y", NULL));
    assert_false(pattern_match("h", "h[*]", NULL));
    assert_false(pattern_match("h[*]", "h", NULL));
    assert_true(pattern_match("a*b*c", "aXbXbXc", NULL));
    assert_false(pattern_match("a*b*c", "aXbXbX", NULL));
}

static void indices_narrow_the_blocks(void **state)
{
    struct block_ranges b;
    assert_true(pattern_match("h[*].w", "h[*].w", &b));
    assert_int_equal(b.low[0], 0);
    assert_true(b.high[0] == INT64_MAX);
    assert_true(pattern_match("h[i].w", "h[*].w", &b));
    assert_true(b.high[0] == INT64_MAX);
    assert_true(pattern_match("h[3].w", "h[*].w", &b));
    assert_int_equal(b.low[0], 3);
    assert_int_equal(b.high[0], 4);
    assert_true(pattern_match("h[2..5].*", "h[*].attn.w", &b));
    assert_int_equal(b.low[0], 2);
    assert_int_equal(b.high[0], 5);
    assert_true(pattern_match("h[4..].w", "h[*].w", &b));
    assert_int_equal(b.low[0], 4);
    assert_true(b.high[0] == INT64_MAX);
    assert_true(pattern_match("h[..4].w", "h[*].w", &b));
    assert_int_equal(b.low[0], 0);
    assert_int_equal(b.high[0], 4);
}

static void each_index_narrows_its_own_repeat(void **state)
{
    struct block_ranges b;
    assert_true(pattern_match("h[1].g[2..4].w", "h[*].g[*].w", &b));
    assert_int_equal(b.low[0], 1);
    assert_int_equal(b.high[0], 2);
    assert_int_equal(b.low[1], 2);
    assert_int_equal(b.high[1], 4);
    assert_true(pattern_match("h[*].g[1].w", "h[*].g[*].w", &b));
    assert_true(b.high[0] == INT64_MAX);
    assert_int_equal(b.low[1], 1);
    assert_true(pattern_match("*[1].g[*].w", "h[*].g[*].w", &b));
    assert_int_equal(b.low[0], 1);
    assert_true(b.high[1] == INT64_MAX);
    assert_true(pattern_match("*.g[1].w", "h[*].g[*].w", &b));       /* the star takes h[*] */
    assert_true(b.high[0] == INT64_MAX);
    assert_int_equal(b.low[1], 1);
}

static void a_line_is_about_all_blocks_of_a_piece_or_none(void **state)
{
    struct region root = {0}, whole = {.parent = &root, .count = 4, .total = 4};
    struct region piece = {.parent = &root, .count = 2, .first = 2, .total = 4};
    struct value v = {.path = "h[*].w", .region = &piece};
    struct block_ranges b;
    assert_true(value_meant(&v, "h[2..4].w"));
    assert_true(value_meant(&v, "h[1..].w"));
    assert_false(value_meant(&v, "h[2].w"));
    assert_false(value_meant(&v, "h[0..2].w"));
    assert_true(pattern_match("h[3].w", "h[*].w", &b));
    assert_int_equal(region_touched(&piece, &b), 1);
    assert_int_equal(region_touched(&whole, &b), 1);
    assert_true(pattern_match("h[0..2].w", "h[*].w", &b));
    assert_int_equal(region_touched(&piece, &b), 0);
    assert_int_equal(region_touched(&whole, &b), 2);
}

static void calls_cover_what_is_beneath(void **state)
{
    assert_true(pattern_covers("wte", "wte.weight", NULL));
    assert_true(pattern_covers("h[*].attn", "h[*].attn.qkv_weight", NULL));
    assert_true(pattern_covers("h[*]", "h[*]", NULL));
    assert_true(pattern_covers("*.ln_*", "h[*].ln_1.weight", NULL));
    assert_false(pattern_covers("wt", "wte.weight", NULL));
    assert_false(pattern_covers("wte.weight.x", "wte.weight", NULL));
}

static void values_go_by_all_their_names(void **state)
{
    struct value v = {.path = "h[*]"};
    arrput(v.alias, "x@2");
    assert_true(value_matches(&v, "h[*]", NULL));
    assert_true(value_matches(&v, "x@2", NULL));
    assert_true(value_matches(&v, "x@*", NULL));
    assert_false(value_matches(&v, "x@1", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stars_stand_for_any_text),
        cmocka_unit_test(indices_narrow_the_blocks),
        cmocka_unit_test(each_index_narrows_its_own_repeat),
        cmocka_unit_test(a_line_is_about_all_blocks_of_a_piece_or_none),
        cmocka_unit_test(calls_cover_what_is_beneath),
        cmocka_unit_test(values_go_by_all_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
