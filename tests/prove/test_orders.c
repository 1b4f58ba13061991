/* Does the certificate accept exactly the orders that run to their end? Random orders and random corruptions of good ones,
 * against a simulation of its own: messages are counted, a send goes when a slot is free at its end or the receiver has
 * room posted, a receive when its message has been sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "base/diag.h"
#include "passes.h"
#include "prove/certificate.h"
#include "schedule/rolled.h"

enum { STAGES = 4, MICROBATCHES = 8, MOST = 3 * 2 * MICROBATCHES, EACH = 250 };

static struct options options;
static struct physical *p;
static struct firing good[STAGES][MOST], tried[STAGES][MOST];
static int count[STAGES];

static void compile(const char *plan, const char *target)
{
    mem_release();
    diag_reset();
    source_reset();
    options = (struct options){.file = SCHEDULES_FLOW, .plan = plan, .target = target};
    struct module *m = NEW(struct module);
    m->options = &options;
    arrput(m->programs, parse(source_open(SCHEDULES_FLOW)));
    passes_run(m, elaborate, allocate);
    assert_int_equal(diag_errors(), 0);
    p = m->physical;
    for (int s = 0; s < STAGES; s++) {
        count[s] = 0;
        for (struct rolled_walk w = {.of = &p->stages[s].order}; rolled_next(&w, &good[s][count[s]]); count[s]++)
            assert_true(count[s] < MOST);
    }
}

/* ---- the simulation ---- */

/* What a stage does, step by step: 2 * link for a receive, 2 * link + 1 for a send. */
struct todo { int act[MOST * 8], n, at; };

static void list_acts(struct todo *t, int stage)
{
    t->n = t->at = 0;
    for (int i = 0; i < count[stage]; i++)
        for (int sends = 0; sends < 2; sends++)
            for (int k = 0; k < arrlen(p->links); k++) {
                const struct link *l = &p->links[k];
                bool here = sends ? l->from == stage && l->from_chunk == tried[stage][i].chunk
                                  : l->to == stage && l->to_chunk == tried[stage][i].chunk;
                if (here && l->entry == ENTRY_TRAIN && l->phase == tried[stage][i].phase)
                    t->act[t->n++] = 2 * k + sends;
            }
}

static bool completes(bool ahead)
{
    static struct todo todo[STAGES];
    int sent[64] = {0}, taken[64] = {0};
    for (int s = 0; s < STAGES; s++)
        list_acts(&todo[s], s);
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < STAGES; s++)
            while (todo[s].at < todo[s].n) {
                int act = todo[s].act[todo[s].at], k = act / 2;
                const struct link *l = &p->links[k];
                const struct todo *peer = &todo[l->to];
                bool waits_there = peer->at < peer->n && peer->act[peer->at] == 2 * k;
                int posted = ahead ? taken[k] + l->slots_received : taken[k] + waits_there;
                if (act % 2 ? sent[k] >= l->slots_sent + posted : sent[k] <= taken[k])
                    break;
                ++*(act % 2 ? &sent[k] : &taken[k]);
                todo[s].at++;
                moved = true;
            }
    }
    for (int s = 0; s < STAGES; s++)
        if (todo[s].at < todo[s].n)
            return false;
    return true;
}

/* ---- orders ---- */

static int turn_of(enum phase f)
{
    return f == PHASE_FORWARD ? 0 : f == PHASE_BACKWARD ? 1 : 2;
}

/* A random order of a stage's firings in which micro-batches go up and each phase comes after that before it. */
static void shuffle(int s)
{
    int next[2][3] = {{0}}, chunks = p->stages[s].nchunk, turns = count[s] / MICROBATCHES / chunks;
    static const enum phase phases[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT};
    int eager = rand() % 4;
    for (int n = 0; n < count[s];) {
        int c = rand() % chunks, t = rand() % 4 < eager ? turns - 1 : rand() % turns;
        if (next[c][t] == MICROBATCHES || (t && next[c][t] >= next[c][t - 1]))
            continue;
        tried[s][n++] = (struct firing){phases[t], next[c][t]++, c};
    }
}

static bool has_come(const int *sent, int stage, const struct firing *f)
{
    for (int k = 0; k < arrlen(p->links); k++) {
        const struct link *l = &p->links[k];
        if (l->entry == ENTRY_TRAIN && l->to == stage && l->phase == f->phase && l->to_chunk == f->chunk &&
            sent[k] <= f->microbatch)
            return false;
    }
    return true;
}

/* Random orders of all stages that some run with room for all messages has: with less room it may hang. */
static void draw(void)
{
    static const enum phase phases[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT};
    int next[STAGES][2][3] = {{{0}}}, n[STAGES] = {0}, sent[64] = {0}, left = 0, chunks = p->stages[0].nchunk;
    int turns = count[0] / MICROBATCHES / chunks, late = rand() % 4;
    for (int s = 0; s < STAGES; s++)
        left += count[s];
    while (left > 0) {
        int s = rand() % STAGES, c = rand() % chunks, t = rand() % 4 < late ? turns - 1 - rand() % 2 : rand() % turns;
        struct firing f = {phases[t], next[s][c][t], c};
        if (f.microbatch == MICROBATCHES || (t && f.microbatch >= next[s][c][t - 1]) || !has_come(sent, s, &f))
            continue;
        for (int k = 0; k < arrlen(p->links); k++) {
            const struct link *l = &p->links[k];
            sent[k] += l->entry == ENTRY_TRAIN && l->from == s && l->phase == f.phase && l->from_chunk == c;
        }
        tried[s][n[s]++] = f;
        next[s][c][t]++;
        left--;
    }
}

/* Some firings of a good order change places with a later one, as far as each stage can still do them. */
static void corrupt(void)
{
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < count[s]; i++)
            tried[s][i] = good[s][i];
    for (int n = 1 + rand() % 4; n > 0;) {
        int s = rand() % STAGES, i = rand() % (count[s] - 1), far = 1 + rand() % 4;
        for (; far > 0 && i + 1 < count[s]; far--, i++) {
            struct firing a = tried[s][i], b = tried[s][i + 1];
            if (a.chunk == b.chunk && (a.phase == b.phase || (a.microbatch == b.microbatch &&
                                                              turn_of(a.phase) < turn_of(b.phase))))
                break;
            tried[s][i] = b;
            tried[s][i + 1] = a;
        }
        n--;
    }
}

static void deal_slots(void)
{
    for (int k = 0; k < arrlen(p->links); k++) {
        p->links[k].slots_sent = 1 + rand() % 2;
        p->links[k].slots_received = 1 + rand() % 3;
    }
}

static void compare(bool random, const char *plan, const char *target, int *accepted, int *rejected)
{
    compile(plan, target);
    for (int i = 0; i < EACH; i++) {
        if (!random)
            corrupt();
        else if (i % 5)
            draw();
        for (int s = 0; s < STAGES; s++) {
            if (random && i % 5 == 0)
                shuffle(s);
            p->stages[s].order = rolled_make(tried[s], count[s]);
        }
        deal_slots();
        bool runs = completes(options.target[1] == 'p');
        struct certificate *c = certificate_make(p, ENTRY_TRAIN);
        assert_int_equal(c->complete, runs);
        assert_true(c->complete || arrlen(c->cycle) >= 2);
        ++*(runs ? accepted : rejected);
    }
}

static void certificate_is_exact(void **state)
{
    static const char *const plan[] = {"one_f_one_b", "interleaved", "zb_h1", "zb_v"};
    srand(4);
    for (int random = 0; random < 2; random++)
        for (int t = 0; t < 2; t++) {
            int accepted = 0, rejected = 0;
            for (int k = 0; k < 4; k++)
                compare(random, plan[k], t ? "cuda" : "cpu", &accepted, &rejected);
            print_message("%s, %s: %d run, %d hang\n", random ? "random orders" : "corruptions", t ? "cuda" : "cpu",
                          accepted, rejected);
            assert_true(rejected > 50);
            assert_true(accepted > 50);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(certificate_is_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
