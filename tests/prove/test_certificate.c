/* The certificate of the example's pipelines, and of mutants of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/diag.h"
#include "op.h"
#include "passes.h"
#include "prove/certificate.h"
#include "schedule/rolled.h"

static struct options options;
static struct physical *p;

static void compile_with(const char *plan, const char *target, const char *microbatches)
{
    mem_release();
    diag_reset();
    source_reset();
    options = (struct options){.file = EXAMPLE, .plan = plan, .target = target};
    arrput(options.set, ((typeof(*options.set)){intern("N"), "512", false}));
    arrput(options.set, ((typeof(*options.set)){intern("M"), microbatches, false}));
    struct module *m = NEW(struct module);
    m->options = &options;
    arrput(m->programs, parse(source_open(EXAMPLE)));
    passes_run(m, elaborate, allocate);
    assert_int_equal(diag_errors(), 0);
    p = m->physical;
}

static void compile(const char *plan, const char *target) { compile_with(plan, target, "8"); }

static bool certified(void)
{
    return certificate_make(p, ENTRY_TRAIN)->complete;
}

static struct event *events_of(int stage)
{
    struct event *events = NULL;
    struct event_walk w;
    event_start(&w, p, ENTRY_TRAIN, stage, &p->stages[stage].order, (int)p->module->plan->microbatches);
    for (; !w.done; event_next(&w))
        arrput(events, w.now);
    return events;
}

static void examples_are_certified(void **state)
{
    static const char *const plan[] = {"single", "pp2", "pp4", "dp2_pp2", "tp2_pp2", "dp2_tp2_pp2"};
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
        compile(plan[i], "cpu");
        assert_true(certified());
        compile(plan[i], "cuda");
        assert_true(certified());
    }
}

/* What the runtime does at each call, and nothing else: a send waits for its slot, a receive that is taken posts the
 * next one, as many are posted before the step as there are slots. On cuda a receive is posted when it is come to. */
static void events_are_those_of_the_runtime(void **state)
{
    compile("pp2", "cpu");
    for (int i = 0; i < arrlen(p->links); i++) {
        p->links[i].slots_sent = 1;
        p->links[i].slots_received = 3;
    }
    for (int s = 0; s < 2; s++) {
        int posted = 0, sent = 0;
        struct event *events = events_of(s);
        for (int i = 0; i < arrlen(events); i++) {
            const struct event *e = &events[i], *before = i ? e - 1 : NULL;
            if (e->kind == EVENT_POST_RECV && before && before->kind == EVENT_WAIT_RECV)
                assert_int_equal(e->microbatch, before->microbatch + 3);
            posted += e->kind == EVENT_POST_RECV && !e->node;
            if (e->kind == EVENT_POST_SEND && e->microbatch > 0) {
                assert_int_equal(before->kind, EVENT_WAIT_SEND);
                assert_int_equal(before->microbatch, e->microbatch - 1);
                sent++;
            }
        }
        assert_true(posted > 0);
        assert_true(sent > 0);
    }
    compile("pp2", "cuda");
    for (int s = 0; s < 2; s++) {
        struct event *events = events_of(s);
        for (int i = 0; i < arrlen(events); i++)
            if (events[i].kind == EVENT_WAIT_RECV) {
                assert_int_equal(events[i - 1].kind, EVENT_POST_RECV);
                assert_int_equal(events[i - 1].microbatch, events[i].microbatch);
            }
    }
}

/* All forwards before all backwards on the first stage only: the second one then has nowhere to put its gradients. With
 * a slot for each it has. */
static void slots_count(void **state)
{
    compile("pp2", "cpu");
    struct firing order[16];
    int m = 8, count = 2 * m;
    assert_int_equal(rolled_count(&p->stages[0].order), count);
    for (int i = 0; i < count; i++)
        order[i] = (struct firing){i < m ? PHASE_FORWARD : PHASE_BACKWARD, i % m, 0};
    p->stages[0].order = rolled_make(order, count);
    for (int i = 0; i < arrlen(p->links); i++)
        p->links[i].slots_sent = p->links[i].slots_received = 1;
    assert_false(certified());
    for (int i = 0; i < arrlen(p->links); i++)
        p->links[i].slots_received = m;
    assert_true(certified());
}

/* Two reductions over the same stages change places on one of them: they would add wrong tensors. */
static void swapped_reductions_are_rejected(void **state)
{
    compile("dp2_tp2_pp2", "cpu");
    struct region *r = p->stages[1].phase[ENTRY_TRAIN][PHASE_UPDATE][0];
    int swapped = 0;
    for (int i = 0; i < arrlen(r->nodes); i++)
        for (int k = 0; k < i; k++) {
            struct node *a = r->nodes[k], *b = r->nodes[i];
            if (a->op != &op_box_stage_reduce || b->op != a->op || node_int(a, "comm", 0) != node_int(b, "comm", 0))
                continue;
            r->nodes[k] = b;
            r->nodes[i] = a;
            assert_false(certified());
            r->nodes[k] = a;
            r->nodes[i] = b;
            swapped++;
        }
    assert_true(swapped > 0);
    assert_true(certified());
}

/* Of a long steady state so much is looked at as a circle of waits can span. */
static void steady_state_is_cut_short(void **state)
{
    long events[2];
    for (int i = 0; i < 2; i++) {
        compile_with("pp2", "cpu", i ? "512" : "256");
        struct certificate *c = certificate_make(p, ENTRY_TRAIN);
        assert_true(c->complete);
        events[i] = (long)c->stage[0].passed;
    }
    assert_int_equal(events[0], events[1]);
    struct region *r = p->stages[0].phase[ENTRY_TRAIN][PHASE_FORWARD][0];
    assert_ptr_equal(arrlast(r->nodes)->op, &op_box_send);
    (void)arrpop(r->nodes);
    assert_false(certified());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_certified), cmocka_unit_test(events_are_those_of_the_runtime),
        cmocka_unit_test(slots_count), cmocka_unit_test(steady_state_is_cut_short),
        cmocka_unit_test(swapped_reductions_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
