/* What no schedule of the same actors can beat: a stage cannot start before the first of its inputs can be there, has
 * all its work to do, and after its last work what follows from that on other stages remains; and one micro-batch alone
 * takes the longest chain of needs. */
#include "simulate.h"

/* Longest chain before (or after) every actor, itself left out. Needs point backwards or forwards: to a fixpoint. */
static int *chains(const struct actors *a, bool after)
{
    int n = (int)arrlen(a->actor);
    int *chain = NEW_ARRAY(int, n);
    for (bool changed = true; changed;) {
        changed = false;
        for (int j = 0; j < n; j++) {
            int i = after ? n - 1 - j : j;
            for (int k = 0; k < arrlen(a->actor[i].needs); k++) {
                int need = a->actor[i].needs[k], from = after ? i : need, to = after ? need : i;
                if (chain[from] + a->actor[from].time > chain[to]) {
                    chain[to] = chain[from] + a->actor[from].time;
                    changed = true;
                }
            }
        }
    }
    return chain;
}

int actors_bound(const struct actors *a)
{
    int n = (int)arrlen(a->actor), bound = 0;
    int *before = chains(a, false), *after = chains(a, true);
    int *head = NEW_ARRAY(int, a->stages), *tail = NEW_ARRAY(int, a->stages), *busy = NEW_ARRAY(int, a->stages);
    for (int i = 0; i < n; i++) {
        int s = a->actor[i].stage, all = before[i] + a->actor[i].time + after[i];
        bool first = !busy[s];
        head[s] = first || before[i] < head[s] ? before[i] : head[s];
        tail[s] = first || after[i] < tail[s] ? after[i] : tail[s];
        busy[s] += a->actor[i].time * a->microbatches;
        bound = all > bound ? all : bound;
    }
    for (int s = 0; s < a->stages; s++)
        bound = head[s] + busy[s] + tail[s] > bound ? head[s] + busy[s] + tail[s] : bound;
    return bound;
}
