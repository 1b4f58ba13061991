/* fl_normals draws what fl_normal does, wherever it starts and however many it draws. */
#include "compare.h"
#include "fl_random.h"
#include "normals.h"

static void same(void **s)
{
    (void)s;
    enum { MOST = 2000 };
    float x[MOST];
    static const int64_t counts[] = { 0, 1, 2, 3, 5, 511, 512, 513, MOST };
    int64_t off = 0, all = 0;
    for (int c = 0; c < 9; c++)
        for (uint64_t first = 0; first < 9; first++) {
            uint64_t key = fl_key(first, 99), index = first + (first > 6 ? 1ull << 33 : 0);
            fl_normals(x, 0.02, key, -1, 3, index, counts[c]);
            for (int64_t i = 0; i < counts[c]; i++) {
                double want = 0.02 * fl_normal(key, -1, 3, index + (uint64_t)i);
                off += x[i] != (float)want;
                assert_true(fabs(x[i] - want) <= 6.1e-8 * fabs(want));
            }
            all += counts[c];
        }
    assert_true(off * 10000 <= all);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
