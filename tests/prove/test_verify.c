/* The verifier of the physical graph takes the example after allocate, and stops at each mutant of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/diag.h"
#include "op.h"
#include "passes.h"

static struct options options;
static struct physical *p;

static int compile_plan(const char *file, const char *plan)
{
    mem_release();
    diag_reset();
    source_reset();
    options = (struct options){.file = file, .plan = plan, .target = "cpu"};
    struct module *m = NEW(struct module);
    m->options = &options;
    arrput(m->programs, parse(source_open(file)));
    passes_run(m, elaborate, allocate);
    p = m->physical;
    return diag_errors();
}

static int compile(void **state) { return compile_plan(EXAMPLE, "tp2_pp2"); }
static int compile_count(void **state) { return compile_plan(COUNT_CROSSES, NULL); }

/* What a process ends with that verifies: 0, or 70 for a defect. */
static int verdict(void)
{
    pid_t child = fork();
    if (!child) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        physical_verify(p, "the test");
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void example_is_fine(void **state) { assert_int_equal(verdict(), 0); }

static void overlap_is_found(void **state)
{
    struct buffer **b = p->stages[1].buffers, *a = NULL, *c = NULL;
    for (int i = 0; i < arrlen(b) && !c; i++)
        if (b[i]->bytes && !b[i]->persistent) {
            c = a && a->first <= b[i]->last && b[i]->first <= a->last ? b[i] : NULL;
            a = a ? a : b[i];
        }
    assert_non_null(c);
    c->offset = a->offset;
    assert_int_equal(verdict(), 70);
}

static void end_of_arena_is_found(void **state)
{
    p->stages[0].arena_bytes -= 64;
    assert_int_equal(verdict(), 70);
}

static void wrong_order_is_found(void **state)
{
    struct region *r = p->stages[0].phase[ENTRY_TRAIN][PHASE_UPDATE][0];
    for (int i = 0, n = (int)arrlen(r->nodes); i < n / 2; i++) {
        struct node *t = r->nodes[i];
        r->nodes[i] = r->nodes[n - 1 - i];
        r->nodes[n - 1 - i] = t;
    }
    assert_int_equal(verdict(), 70);
}

static void other_layout_is_found(void **state)
{
    int tp = mesh_axis(p->mesh, "tp");
    struct region *r = p->stages[1].phase[ENTRY_TRAIN][PHASE_FORWARD][0];
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i]->need && arrlen(r->nodes[i]->in) && r->nodes[i]->need[0].ax[tp].kind == SBP_B) {
            r->nodes[i]->need[0].ax[tp] = (struct sbp){.kind = SBP_P};
            break;
        }
    assert_int_equal(verdict(), 70);
}

/* As it was once: the sum so far of a count goes to the other stage with each micro-batch. */
static void count_so_far_is_found(void **state)
{
    assert_int_equal(verdict(), 0);
    int moved = 0;
    struct region *r = p->stages[1].phase[ENTRY_TRAIN][PHASE_SETUP][0];
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i]->op == &op_box_recv) {
            r->nodes[i]->phase = PHASE_COUNT;
            moved++;
        }
    assert_int_equal(moved, 1);
    assert_int_equal(verdict(), 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(example_is_fine, compile), cmocka_unit_test_setup(overlap_is_found, compile),
        cmocka_unit_test_setup(end_of_arena_is_found, compile), cmocka_unit_test_setup(wrong_order_is_found, compile),
        cmocka_unit_test_setup(other_layout_is_found, compile),
        cmocka_unit_test_setup(count_so_far_is_found, compile_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
