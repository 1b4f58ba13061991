/* Register slots, read off the order: nothing else says how many micro-batches are under way between two actors. */
#include "../physical.h"

static bool is_firing(const struct firing *f, enum phase phase, int chunk)
{
    return f->phase == phase && f->chunk == chunk;
}

int schedule_slots(const struct stage *s, enum phase from, int from_chunk, enum phase to, int to_chunk)
{
    int count = 0, slots = 1, oldest = 0, newest = -1;
    for (int i = 0; i < arrlen(s->order); i++)
        count = s->order[i].microbatch >= count ? s->order[i].microbatch + 1 : count;
    bool *done = NEW_ARRAY(bool, count + 1);
    for (int i = 0; i < arrlen(s->order); i++) {
        const struct firing *f = &s->order[i];
        if (is_firing(f, from, from_chunk) && f->microbatch > newest)
            newest = f->microbatch;
        if (newest - oldest + 1 > slots)
            slots = newest - oldest + 1;
        if (is_firing(f, to, to_chunk))
            done[f->microbatch] = true;
        while (oldest < count && done[oldest])
            oldest++;
    }
    return slots;
}

bool schedule_sequential(const struct stage *s)
{
    for (int i = 1; i < arrlen(s->order); i++)
        if (s->order[i].microbatch < s->order[i - 1].microbatch)
            return false;
    for (int i = 1; i < arrlen(s->order); i++) {
        const struct firing *a = &s->order[i - 1], *b = &s->order[i];
        bool up = b->phase == PHASE_FORWARD;
        if (a->microbatch == b->microbatch && (a->phase > b->phase || (a->phase == b->phase && (a->chunk > b->chunk) == up)))
            return false;
    }
    return true;
}
