/* The slot counts alone give the published bubbles; every schedule runs to its end whatever the numbers; what is carried
 * on from few micro-batches equals a run of all; rolled orders unroll to what they came from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "schedule/policy.h"
#include "schedule/rolled.h"

static struct plan plan_of(enum schedule_kind schedule, int chunks, int p, int m)
{
    struct plan plan = {.schedule = schedule, .chunks = chunks, .microbatches = m};
    plan.mesh.axis[0].size = p;
    plan.vee = schedule == SCHEDULE_ZB_V;
    plan.split_backward = schedule == SCHEDULE_ZB_H1 || schedule == SCHEDULE_ZB_H2 || schedule == SCHEDULE_ZB_V;
    return plan;
}

static struct timetable *run(enum schedule_kind schedule, int chunks, int p, int m)
{
    struct plan plan = plan_of(schedule, chunks, p, m);
    struct timetable *t = timetable_make(&plan, NULL);
    assert_true(t->complete);
    return t;
}

static const int sizes[][2] = {{4, 8}, {4, 16}, {8, 16}, {8, 32}, {16, 48}};
static const struct { enum schedule_kind schedule; int chunks; double bubble[5]; } table[] = {
    {SCHEDULE_GPIPE, 1, {.2727, .1579, .3043, .1795, .2381}},
    {SCHEDULE_ONE_F_ONE_B, 1, {.2727, .1579, .3043, .1795, .2381}},
    {SCHEDULE_INTERLEAVED, 2, {.1579, .0857, .1795, .0986, .1351}},
    {SCHEDULE_INTERLEAVED, 4, {.0857, .0448, .0986, .0519, .0725}},
    {SCHEDULE_ZB_H1, 1, {.1111, .0588, .1273, .0680, .0943}},
    {SCHEDULE_ZB_H2, 1, {.1111, .0588, .1273, .0680, .0943}},
    {SCHEDULE_ZB_V, 2, {3 / 51., 3 / 99., 7 / 103., 7 / 199., 15 / 303.}},
};

static void bubbles(void **state)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        for (size_t i = 0; i < 5; i++) {
            int p = sizes[i][0], m = sizes[i][1];
            struct timetable *t = run(table[k].schedule, table[k].chunks, p, m);
            assert_true(fabs(timetable_bubble(t) - table[k].bubble[i]) < 6e-5);
            assert_int_equal(t->makespan, t->bound);
            for (int s = 0; s < p; s++) {
                double span = timetable_span_bubble(t, s);
                if (table[k].schedule == SCHEDULE_ZB_H2 || table[k].schedule == SCHEDULE_ZB_V)
                    assert_true(span == 0);
                assert_int_equal(rolled_count(&t->order[s]), (t->busy[s] == 3 * m ? 1 : table[k].chunks) * m *
                                 (table[k].schedule >= SCHEDULE_ZB_H1 ? 3 : 2));
            }
        }
}

/* The chunks of a stage together keep what is published: 2p half-size micro-batches under zb_v, the
 * warm-up and one more under interleaved; the tables of slots do not grow with micro-batches. */
static void chunks_share_slots(void **state)
{
    for (size_t i = 0; i < 5; i++) {
        int p = sizes[i][0], m = sizes[i][1];
        struct timetable *vee = run(SCHEDULE_ZB_V, 2, p, m);
        for (int s = 0; s < p; s++)
            assert_int_equal(rolled_kept(&vee->order[s], p, m, 2, true), 2 * p);
        for (int v = 2; v <= 4; v += 2) {
            struct timetable *t = run(SCHEDULE_INTERLEAVED, v, p, m);
            for (int s = 0; s < p; s++) {
                int most = 2 * (p - s - 1) + (v - 1) * p + 1;
                assert_int_equal(rolled_kept(&t->order[s], p, m, v, false), most < v * m ? most : v * m);
            }
        }
    }
    for (int m = 400; m <= 800; m += 400) {
        struct timetable *t = run(SCHEDULE_ZB_V, 2, 4, m);
        struct root *actors[2] = {NULL, NULL};
        for (int c = 0; c < 2; c++)
            for (enum phase f = PHASE_FORWARD; f <= PHASE_WEIGHT; f++)
                arrput(actors[c], ((struct root){.phase = f, .chunk = c}));
        struct slot_pool *pool = slot_pool_make(&t->order[0], 4, m, actors, 2);
        assert_non_null(pool);
        assert_int_equal(pool->slots, 8);
        assert_true(pool->places <= 16);
    }
}

/* Most firings of `from` under way on a stage, none of `to` done for them. */
static int in_flight(const struct rolled *order, enum phase from, enum phase to)
{
    int now = 0, most = 0;
    struct firing f;
    for (struct rolled_walk w = {.of = order}; rolled_next(&w, &f);) {
        now += f.phase == from ? 1 : f.phase == to ? -1 : 0;
        most = now > most ? now : most;
    }
    return most;
}

static void slots_are_kept(void **state)
{
    for (int s = 0; s < 4; s++) {
        assert_int_equal(in_flight(&run(SCHEDULE_GPIPE, 1, 4, 8)->order[s], PHASE_FORWARD, PHASE_BACKWARD), 8);
        assert_int_equal(in_flight(&run(SCHEDULE_ONE_F_ONE_B, 1, 4, 8)->order[s], PHASE_FORWARD, PHASE_BACKWARD), 4 - s);
        assert_int_equal(in_flight(&run(SCHEDULE_ZB_H1, 1, 4, 16)->order[s], PHASE_FORWARD, PHASE_BACKWARD), 4 - s);
        assert_true(in_flight(&run(SCHEDULE_ZB_H1, 1, 4, 16)->order[s], PHASE_FORWARD, PHASE_WEIGHT) <= 4);
        assert_true(in_flight(&run(SCHEDULE_ZB_H2, 1, 4, 16)->order[s], PHASE_FORWARD, PHASE_WEIGHT) <= 7);
        assert_true(in_flight(&run(SCHEDULE_ZB_V, 2, 4, 16)->order[s], PHASE_FORWARD, PHASE_BACKWARD) <= 8);
    }
}

/* Every phase of every micro-batch and chunk once, forward before backward before weight. */
static void check_order(const struct rolled *order, const struct plan *plan)
{
    int m = (int)plan->microbatches, chunks = plan_chunks(plan), count = 0;
    char *done = calloc((size_t)(m * chunks), 1);
    struct firing f;
    for (struct rolled_walk w = {.of = order}; rolled_next(&w, &f); count++) {
        assert_in_range(f.microbatch, 0, m - 1);
        assert_in_range(f.chunk, 0, chunks - 1);
        char *d = &done[f.chunk * m + f.microbatch];
        assert_int_equal(*d, f.phase == PHASE_FORWARD ? 0 : f.phase == PHASE_BACKWARD ? 1 : 2);
        ++*d;
    }
    assert_int_equal(count, m * chunks * (plan->split_backward ? 3 : 2));
    assert_int_equal(count, rolled_count(order));
    free(done);
}

static const enum schedule_kind kinds[] = {SCHEDULE_GPIPE, SCHEDULE_ONE_F_ONE_B, SCHEDULE_INTERLEAVED, SCHEDULE_ZB_H1,
                                           SCHEDULE_ZB_H2, SCHEDULE_ZB_V};

static struct plan random_plan(int stages, int microbatches)
{
    enum schedule_kind k = kinds[rand() % 6];
    int p = 1 + rand() % stages, m = 1 + rand() % microbatches;
    return plan_of(k, k == SCHEDULE_INTERLEAVED ? 2 + rand() % 5 : k == SCHEDULE_ZB_V ? 2 : 1, p, m);
}

static void any_numbers_run_to_the_end(void **state)
{
    srand(1);
    for (int i = 0; i < 1500; i++) {
        struct plan plan = random_plan(12, 30);
        if (i % 5 == 0)
            plan.split_backward = true;
        struct timetable *t = timetable_make(&plan, NULL);
        assert_true(t->complete);
        assert_true(t->makespan >= t->bound);
        for (int s = 0; s < t->stages; s++)
            check_order(&t->order[s], &plan);
        if (i % 100 == 99)
            mem_release();
    }
}

/* The same as a run with all micro-batches, firing by firing. */
static void carried_on_equals_run(void **state)
{
    srand(2);
    int carried = 0;
    for (int i = 0; i < 300; i++) {
        struct plan plan = random_plan(9, 250);
        struct timetable *t = timetable_make(&plan, NULL);
        struct actors *all = policy_actors(&plan, (int)plan.microbatches, NULL);
        assert_true(actors_run(all));
        assert_int_equal(t->makespan, all->makespan);
        assert_int_equal(t->bound, actors_bound(all));
        carried += t->sample->microbatches < plan.microbatches;
        for (int s = 0; s < t->stages; s++) {
            int k = 0;
            struct firing f;
            for (struct rolled_walk w = {.of = &t->order[s]}; rolled_next(&w, &f); k++) {
                assert_int_equal(f.phase, all->order[s][k].what.phase);
                assert_int_equal(f.microbatch, all->order[s][k].what.microbatch);
                assert_int_equal(f.chunk, all->order[s][k].what.chunk);
            }
            assert_int_equal(k, all->count[s]);
            assert_int_equal(t->busy[s], all->busy[s]);
            assert_int_equal(t->first[s], all->first[s]);
            assert_int_equal(t->last[s], all->last[s]);
        }
        mem_release();
    }
    assert_true(carried > 100);
}

static void rolls_unroll(void **state)
{
    srand(3);
    for (int i = 0; i < 400; i++) {
        struct firing *order = NULL;
        for (int n = rand() % 60; n > 0; n--)
            arrput(order, ((struct firing){rand() % 3 ? PHASE_FORWARD : PHASE_BACKWARD,
                                           rand() % 4 ? (int)arrlen(order) / 2 : rand() % 9, rand() % 5 == 0}));
        struct rolled r = rolled_make(order, (int)arrlen(order));
        assert_int_equal(rolled_count(&r), arrlen(order));
        struct firing f;
        int k = 0;
        for (struct rolled_walk w = {.of = &r}; rolled_next(&w, &f); k++)
            assert_memory_equal(&f, &order[k], sizeof f);
        assert_int_equal(k, arrlen(order));
    }
}

/* Lines of text of an order of 64 stages; equal for any number of micro-batches. */
static long lines(const struct rolled *r)
{
    return (long)(arrlen(r->beats) + arrlen(r->rolls) + arrlen(r->laps));
}

static void rolls_do_not_grow(void **state)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        struct timetable *a = run(table[k].schedule, table[k].chunks, 64, 640);
        struct timetable *b = run(table[k].schedule, table[k].chunks, 64, 64000000);
        for (int s = 0; s < 64; s++) {
            assert_int_equal(lines(&a->order[s]), lines(&b->order[s]));
            assert_true(lines(&a->order[s]) < 100);
        }
        mem_release();
    }
}

/* A shortened order is that of fewer micro-batches. */
static void shortened(void **state)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        struct timetable *t = run(table[k].schedule, table[k].chunks, 4, 1000);
        for (int s = 0; s < 4; s++) {
            struct rolled r;
            int cut = rolled_shorten(&t->order[s], 900, &r);
            assert_true(cut > 880);
            struct plan plan = plan_of(table[k].schedule, table[k].chunks, 4, 1000 - cut);
            check_order(&r, &plan);
            struct timetable *few = timetable_make(&plan, NULL);
            struct firing f, g;
            struct rolled_walk w = {.of = &few->order[s]};
            for (struct rolled_walk v = {.of = &r}; rolled_next(&v, &f);) {
                assert_true(rolled_next(&w, &g));
                assert_memory_equal(&f, &g, sizeof f);
            }
        }
    }
}

/* interleaved takes its order from a formula when the groups are full: as long as the slots alone make it. */
static void saturated_is_as_good(void **state)
{
    for (int p = 2; p < 9; p++)
        for (int v = 2; v < 5; v++)
            for (int groups = 1; groups < 5; groups++) {
                struct plan plan = plan_of(SCHEDULE_INTERLEAVED, v, p, p * groups);
                struct timetable *t = timetable_make(&plan, NULL);
                plan.split_backward = false;
                plan.microbatches++;
                struct timetable *more = timetable_make(&plan, NULL);
                assert_int_equal(t->makespan, t->bound);
                assert_true(more->makespan > t->makespan);
            }
}

static void no_slots_blocks(void **state)
{
    struct actors *a = actors_new(1, 2);
    int f = actors_add(a, 0, PHASE_FORWARD, 0, 1), b = actors_add(a, 0, PHASE_BACKWARD, 0, 2);
    struct queue *q = actors_queue(a, 0, 2);
    arrput(q->actors, f);
    q = actors_queue(a, 0, 2);
    arrput(q->actors, b);
    struct register_file *r = actors_register(a, 0);
    arrput(r->writers, f);
    arrput(r->readers, b);
    actors_need(a, b, f);
    assert_false(actors_run(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles), cmocka_unit_test(chunks_share_slots), cmocka_unit_test(slots_are_kept), cmocka_unit_test(any_numbers_run_to_the_end),
        cmocka_unit_test(carried_on_equals_run), cmocka_unit_test(rolls_unroll), cmocka_unit_test(rolls_do_not_grow),
        cmocka_unit_test(shortened), cmocka_unit_test(saturated_is_as_good),
        cmocka_unit_test(no_slots_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
