/* Walks over a stage program. */
#include "physical.h"

bool phase_has_chunks(enum phase p)
{
    return p == PHASE_FORWARD || p == PHASE_BACKWARD || p == PHASE_WEIGHT;
}

struct root *stage_roots(const struct stage *s, enum entry entry)
{
    struct root *list = NULL;
    for (int f = 0; f < PHASES; f++)
        for (int i = 0; i < s->nchunk; i++) {
            int chunk = f == PHASE_BACKWARD || f == PHASE_WEIGHT ? s->nchunk - 1 - i : i;
            if (s->phase[entry][f][chunk])
                arrput(list, ((struct root){(enum phase)f, chunk, s->phase[entry][f][chunk]}));
        }
    return list;
}
