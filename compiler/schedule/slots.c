/* Register slots, read off the order: nothing else says how many micro-batches are under way between two actors. */
#include "rolled.h"
#include <limits.h>

int schedule_slots(const struct stage *s, enum phase from, int from_chunk, enum phase to, int to_chunk)
{
    return rolled_slots(&s->order, from, from_chunk, to, to_chunk);
}

int schedule_group(const struct physical *p)
{
    int m = p->mesh->axis[p->mesh->mb].size;
    return p->nvirtual == p->nstage ? 1 : p->nstage < m ? p->nstage : m;
}

bool schedule_sequential(const struct stage *s)
{
    struct rolled order;                                 /* of two turns of a loop every other is an image */
    rolled_shorten(&s->order, INT_MAX, &order);
    struct firing a, b;
    struct rolled_walk w = {.of = &order};
    if (!rolled_next(&w, &a))
        return true;
    for (; rolled_next(&w, &b); a = b) {
        bool up = b.phase == PHASE_FORWARD;
        if (b.microbatch < a.microbatch)
            return false;
        if (a.microbatch == b.microbatch && (a.phase > b.phase || (a.phase == b.phase && (a.chunk > b.chunk) == up)))
            return false;
    }
    return true;
}
