/* Rolls a list into the fewest lines of text: first runs of short patterns of firings, then repeated runs of those. Both
 * are one problem over a list of items, of which some follow others some micro-batches on; it is solved from the end. */
#include "rolled.h"
#include <string.h>

enum { LONGEST_ROLL = 12, LONGEST_LAP = 96 };

struct items {
    const struct firing *firings;
    const struct roll *rolls;    /* NULL: the items are the firings */
    int count, longest;
    int *on;                     /* item * (longest + 1) + len: by how many micro-batches the item `len` further follows */
    bool *follows;               /* the same: whether it does */
};

static bool firing_follows(const struct firing *a, const struct firing *b, int *on)
{
    *on = b->microbatch - a->microbatch;
    return a->phase == b->phase && a->chunk == b->chunk;
}

/* Item j is item i, all of it as many micro-batches on; its own turns go on as those of i do. */
static bool item_follows(const struct items *it, int i, int j, int *on)
{
    if (!it->rolls)
        return firing_follows(&it->firings[i], &it->firings[j], on);
    const struct roll *a = &it->rolls[i], *b = &it->rolls[j];
    if (a->len != b->len || a->times != b->times)
        return false;
    int whole = a->len * (a->times > 1 ? 2 : 1);                 /* the second turn says how the turns go on */
    for (int k = 0; k < whole; k++) {
        int here;
        if (!firing_follows(&it->firings[a->start + k], &it->firings[b->start + k], &here) || (k && here != *on))
            return false;
        *on = here;
    }
    return true;
}

static int lines(const struct items *it, int i)
{
    return it->rolls ? it->rolls[i].len + (it->rolls[i].times > 1) : 1;
}

/* Turns that a loop of `len` items from i can have. Two turns need the same way on for all its items, or any two things
 * of one kind would do; more show each item's way on. run, steady: how many items from i on follow, evenly and each as the
 * turn before. */
static int turns(int len, int run, int steady)
{
    int even = 1 + run / len;
    return steady >= len && 2 + steady / len > even ? 2 + steady / len : even;
}

static struct roll *roll_items(struct items *it, int longest)
{
    int n = it->count, wide = longest + 1;
    int *cost = NEW_ARRAY(int, n + 1), *before = NEW_ARRAY(int, n + 1);
    int *run = NEW_ARRAY(int, wide), *steady = NEW_ARRAY(int, wide);
    struct roll *best = NEW_ARRAY(struct roll, n + 1), *rolls = NULL;
    it->on = NEW_ARRAY(int, n * wide + 1);
    it->follows = NEW_ARRAY(bool, n * wide + 1);
    for (int i = 0; i < n; i++)
        before[i + 1] = before[i] + lines(it, i);
    for (int i = n - 1; i >= 0; i--) {
        best[i] = (struct roll){i, 1, 1};
        cost[i] = lines(it, i) + cost[i + 1];
        for (int len = 1; len <= longest && i + len < n; len++) {
            int *on = &it->on[i * wide + len], next = (i + 1) * wide + len, then = (i + len) * wide + len;
            bool *here = &it->follows[i * wide + len];
            *here = item_follows(it, i, i + len, on);
            bool even = i + 1 < n && it->follows[next] && it->on[next] == *on;
            run[len] = !*here ? 0 : even ? run[len] + 1 : 1;
            steady[len] = *here && it->follows[then] && it->on[then] == *on ? steady[len] + 1 : 0;
            int times = turns(len, run[len], steady[len]);
            if (times == 1)
                continue;
            int c = before[i + len] - before[i] + 1 + cost[i + len * times];
            if (c < cost[i] || (c == cost[i] && best[i].times == 1)) {
                cost[i] = c;
                best[i] = (struct roll){i, len, times};
            }
        }
    }
    for (int i = 0; i < n; i += best[i].len * best[i].times)
        arrput(rolls, best[i]);
    return rolls;
}

struct rolled rolled_make(const struct firing *order, int count)
{
    struct rolled r = {0};
    struct items firings = {.firings = order, .count = count};
    struct roll *runs = roll_items(&firings, LONGEST_ROLL);
    struct items rolls = {.firings = order, .rolls = runs, .count = (int)arrlen(runs)};
    struct roll *laps = roll_items(&rolls, LONGEST_LAP);
    for (int i = 0; i < arrlen(laps); i++) {
        struct roll lap = laps[i];
        lap.start = (int)arrlen(r.rolls);
        for (int k = 0; k < lap.len; k++) {
            struct roll roll = runs[laps[i].start + k];
            const struct firing *from = order + roll.start;
            const struct firing *later = lap.times > 1 ? order + runs[laps[i].start + k + lap.len].start : from;
            roll.start = (int)arrlen(r.beats);
            for (int f = 0; f < roll.len; f++) {
                struct beat b = {.what = from[f], .lap_step = later[f].microbatch - from[f].microbatch};
                b.step = roll.times > 1 ? from[f + roll.len].microbatch - from[f].microbatch : 0;
                arrput(r.beats, b);
            }
            arrput(r.rolls, roll);
        }
        arrput(r.laps, lap);
    }
    return r;
}

int64_t rolled_count(const struct rolled *r)
{
    int64_t all = 0;
    for (int i = 0; i < arrlen(r->laps); i++) {
        int64_t one = 0;
        for (int k = 0; k < r->laps[i].len; k++)
            one += (int64_t)r->rolls[r->laps[i].start + k].len * r->rolls[r->laps[i].start + k].times;
        all += one * r->laps[i].times;
    }
    return all;
}

bool rolled_empty(const struct rolled *r)
{
    return !arrlen(r->laps);
}

bool rolled_next(struct rolled_walk *w, struct firing *f)
{
    if (w->lap >= arrlen(w->of->laps))
        return false;
    const struct roll *lap = &w->of->laps[w->lap], *roll = &w->of->rolls[lap->start + w->roll];
    const struct beat *b = &w->of->beats[roll->start + w->at];
    *f = b->what;
    f->microbatch += w->lap_turn * b->lap_step + w->roll_turn * b->step;
    if (++w->at < roll->len)
        return true;
    w->at = 0;
    if (++w->roll_turn < roll->times)
        return true;
    w->roll_turn = 0;
    if (++w->roll < lap->len)
        return true;
    w->roll = 0;
    if (++w->lap_turn < lap->times)
        return true;
    w->lap_turn = 0;
    w->lap++;
    return true;
}

static int beyond(int a, int b, int by)
{
    return a + by * (b - a);
}

static bool extend_rolls(const struct roll *a, const struct roll *b, int by, struct roll **out)
{
    if (arrlen(a) != arrlen(b))
        return false;
    for (int i = 0; i < arrlen(a); i++) {
        if (a[i].start != b[i].start || a[i].len != b[i].len || a[i].times > b[i].times ||
            (a[i].times == 1 && b[i].times > 1))
            return false;
        struct roll r = a[i];
        r.times = beyond(a[i].times, b[i].times, by);
        arrput(*out, r);
    }
    return true;
}

bool rolled_extend(const struct rolled *a, const struct rolled *b, int by, struct rolled *out)
{
    *out = (struct rolled){0};
    if (arrlen(a->beats) != arrlen(b->beats) || !extend_rolls(a->rolls, b->rolls, by, &out->rolls) ||
        !extend_rolls(a->laps, b->laps, by, &out->laps))
        return false;
    for (int i = 0; i < arrlen(a->beats); i++) {
        struct beat x = a->beats[i], y = b->beats[i];
        if (x.what.phase != y.what.phase || x.what.chunk != y.what.chunk || x.step != y.step || x.lap_step != y.lap_step)
            return false;
        x.what.microbatch = beyond(x.what.microbatch, y.what.microbatch, by);
        arrput(out->beats, x);
    }
    return true;
}
