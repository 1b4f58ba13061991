/* Long loops of a rolled order made short, and what can be read off the short ones. A loop here is a lap, or the only roll
 * of a lap of one turn. It may be shortened when each of its turns does as many micro-batches of all it fires, in the same
 * step; every phase and chunk is shortened in one loop, its longest. */
#include "rolled.h"
#include <limits.h>

struct loops {
    struct rolled *r;
    int kinds;                   /* phases times chunks */
    struct roll **loop;          /* stb_ds array: those to shorten .. */
    int *step;                   /* .. and by how much each moves on in a turn */
};

static int kind_of(const struct firing *f)
{
    return f->chunk * PHASES + (int)f->phase;
}

/* The loop that a lap is. */
static struct roll *loop_of(const struct rolled *r, struct roll *lap)
{
    return lap->times == 1 && lap->len == 1 ? &r->rolls[lap->start] : lap;
}

/* By how much a turn of the loop moves a beat on. */
static int step_of(const struct loops *l, const struct roll *lap, const struct beat *b)
{
    return loop_of(l->r, (struct roll *)lap) == lap ? b->lap_step : b->step;
}

/* How often each kind fires in one turn of the loop of a lap. */
static int *turn_of(const struct loops *l, struct roll *lap)
{
    int *turn = NEW_ARRAY(int, l->kinds);
    bool whole = loop_of(l->r, lap) == lap;
    for (int k = lap->start; k < lap->start + lap->len; k++)
        for (int f = 0; f < l->r->rolls[k].len; f++)
            turn[kind_of(&l->r->beats[l->r->rolls[k].start + f].what)] += whole ? l->r->rolls[k].times : 1;
    return turn;
}

/* The step of the loop of a lap, or 0 when its beats do not all move on alike. */
static int even_step(const struct loops *l, const struct roll *lap)
{
    int step = -1;
    for (int k = lap->start; k < lap->start + lap->len; k++)
        for (int f = 0; f < l->r->rolls[k].len; f++) {
            int here = step_of(l, lap, &l->r->beats[l->r->rolls[k].start + f]);
            if (step != -1 && here != step)
                return 0;
            step = here;
        }
    return step;
}

/* Finds the loops, longest first; false when a phase of a chunk is in none. */
static bool find_loops(struct loops *l)
{
    bool *covered = NEW_ARRAY(bool, l->kinds), complete = true;
    for (;;) {
        struct roll *best = NULL;
        int *best_turn = NULL, best_step = 0;
        for (int i = 0; i < arrlen(l->r->laps); i++) {
            struct roll *it = loop_of(l->r, &l->r->laps[i]);
            int *turn = turn_of(l, &l->r->laps[i]);
            int step = even_step(l, &l->r->laps[i]);
            bool fit = it->times > 2 && step > 0;
            for (int k = 0; k < l->kinds && fit; k++)
                fit = !turn[k] || (turn[k] == step && !covered[k]);
            if (fit && (!best || (int64_t)it->times * step > (int64_t)best->times * best_step)) {
                best = it;
                best_step = step;
                best_turn = turn;
            }
        }
        if (!best)
            break;
        for (int k = 0; k < l->kinds; k++)
            covered[k] |= best_turn[k] > 0;
        arrput(l->loop, best);
        arrput(l->step, best_step);
    }
    for (int i = 0; i < arrlen(l->r->beats); i++)
        complete &= covered[kind_of(&l->r->beats[i].what)];
    return complete && arrlen(l->loop);
}

static void cut_loops(struct loops *l, int cut)
{
    int *moved = NEW_ARRAY(int, l->kinds);               /* what comes after a shortened loop moves up */
    for (int i = 0; i < arrlen(l->r->laps); i++) {
        struct roll *lap = &l->r->laps[i], *it = loop_of(l->r, lap);
        bool shorter = false;
        for (int k = 0; k < arrlen(l->loop); k++)
            if (l->loop[k] == it) {
                it->times -= cut / l->step[k];
                shorter = true;
            }
        int *turn = turn_of(l, lap);
        for (int k = lap->start; k < lap->start + lap->len; k++)
            for (int f = 0; f < l->r->rolls[k].len; f++) {
                struct firing *x = &l->r->beats[l->r->rolls[k].start + f].what;
                x->microbatch -= moved[kind_of(x)];
            }
        for (int k = 0; k < l->kinds && shorter; k++)
            moved[k] = turn[k] ? cut : moved[k];
    }
}

int rolled_shorten(const struct rolled *r, int skip, struct rolled *out)
{
    struct loops l = {.r = out, .kinds = PHASES};
    int period = 1, most = skip;
    *out = (struct rolled){0};
    for (int i = 0; i < arrlen(r->beats); i++) {
        int kinds = (r->beats[i].what.chunk + 1) * PHASES;
        arrput(out->beats, r->beats[i]);
        l.kinds = kinds > l.kinds ? kinds : l.kinds;
    }
    for (int i = 0; i < arrlen(r->rolls); i++)
        arrput(out->rolls, r->rolls[i]);
    for (int i = 0; i < arrlen(r->laps); i++)
        arrput(out->laps, r->laps[i]);
    if (!find_loops(&l))
        return 0;
    for (int i = 0; i < arrlen(l.loop); i++) {
        int spare = (l.loop[i]->times - 2) * l.step[i];
        period = (int)common_multiple(period, l.step[i]);
        most = spare < most ? spare : most;
    }
    if (most < period)
        return 0;
    cut_loops(&l, most / period * period);
    return most / period * period;
}

static int slots_walked(const struct rolled *r, enum phase from, int from_chunk, enum phase to, int to_chunk)
{
    int count = 0, slots = 1, oldest = 0, newest = -1;
    struct firing f;
    for (struct rolled_walk w = {.of = r}; rolled_next(&w, &f);)
        count = f.microbatch >= count ? f.microbatch + 1 : count;
    bool *done = NEW_ARRAY(bool, count + 1);
    for (struct rolled_walk w = {.of = r}; rolled_next(&w, &f);) {
        if (f.phase == from && f.chunk == from_chunk && f.microbatch > newest)
            newest = f.microbatch;
        slots = newest - oldest + 1 > slots ? newest - oldest + 1 : slots;
        if (f.phase == to && f.chunk == to_chunk)
            done[f.microbatch] = true;
        while (oldest < count && done[oldest])
            oldest++;
    }
    return slots;
}

/* The slots of an order are linear in the length of its loops: constant in a steady state, one per turn in gpipe. */
int rolled_slots(const struct rolled *r, enum phase from, int from_chunk, enum phase to, int to_chunk)
{
    struct rolled a, b;
    int cut = rolled_shorten(r, INT_MAX, &a), less = cut ? rolled_shorten(r, cut - 1, &b) : 0;
    if (!less)
        return slots_walked(r, from, from_chunk, to, to_chunk);
    int few = slots_walked(&a, from, from_chunk, to, to_chunk), more = slots_walked(&b, from, from_chunk, to, to_chunk);
    return few + (more - few) * (cut / (cut - less));
}
