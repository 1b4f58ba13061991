/* Rolls a list of firings into loops: at each place the pattern that covers most, the shorter one on a tie. The steady
 * state of a periodic schedule is one such loop, so the emitted text does not grow with the number of micro-batches. */
#include "simulate.h"

static bool moved_on(const struct firing *a, const struct firing *b)
{
    return a->phase == b->phase && a->chunk == b->chunk && a->microbatch + 1 == b->microbatch;
}

static int repetitions(const struct firing *order, int count, int start, int len)
{
    int same = 0;
    while (start + len + same < count && moved_on(&order[start + same], &order[start + len + same]))
        same++;
    return 1 + same / len;
}

struct roll *roll_firings(const struct firing *order, int count)
{
    struct roll *rolls = NULL;
    for (int at = 0; at < count;) {
        struct roll best = {.start = at, .len = 1, .times = 1};
        for (int len = 1; at + 2 * len <= count && len <= 64; len++) {
            int times = repetitions(order, count, at, len);
            if (times > 1 && times * len > best.times * best.len)
                best = (struct roll){.start = at, .len = len, .times = times};
        }
        arrput(rolls, best);
        at += best.len * best.times;
    }
    return rolls;
}
