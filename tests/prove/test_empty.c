/* Parts that hold nothing are still there at the sizes at which ranks are compared with one: a fault that only such a rank
 * can show is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/diag.h"
#include "op.h"
#include "passes.h"
#include "prove/verify.h"

static struct options options;

static struct module *compiled(const char *plan)
{
    mem_release();
    diag_reset();
    source_reset();
    options = (struct options){.file = EMPTY, .plan = plan, .target = "cpu"};
    struct module *m = NEW(struct module);
    m->options = &options;
    arrput(m->programs, parse(source_open(EMPTY)));
    passes_run(m, elaborate, allocate);
    assert_int_equal(diag_errors(), 0);
    return m;
}

static void spoil_product(struct node *n, void *context)
{
    const char *path = context;
    const struct value *v = arrlen(n->out) ? n->out[0] : NULL;
    if (n->op == &op_einsum && v->path && !strcmp(v->path, path))
        n->spoilt = FAULT_IDLE;
}

static struct verdict look(const char *plan, const char *spoilt)
{
    struct module *m = compiled(plan);
    struct stage *s = &m->physical->stages[0];
    struct root *roots = stage_roots(s, ENTRY_TRAIN);
    for (int k = 0; spoilt && k < arrlen(roots); k++)
        region_walk(roots[k].region, spoil_product, (void *)spoilt);
    struct verdict v = verify_module(m, true, true);
    assert_true(v.looked);
    return v;
}

static void contracted(void **state)
{
    assert_true(look("four", NULL).equal);
    struct verdict v = look("four", "z");
    assert_false(v.equal);
    assert_non_null(strstr(v.mesh, "tp 4"));
}

static void rows(void **state)
{
    assert_true(look("rows", NULL).equal);
    assert_false(look("rows", "w#grad").equal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contracted), cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
