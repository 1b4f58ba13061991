/* Memory of a rank that is known but not in its arena. */
#ifndef FLOWC_ALLOCATE_OUTSIDE_H
#define FLOWC_ALLOCATE_OUTSIDE_H
#include "../physical.h"

int64_t outside_links(const struct physical *p, const struct stage *s);
int64_t outside_packing(const struct physical *p, struct stage *s);    /* fills s->rooms too */
int64_t outside_meeting(const struct physical *p, const struct stage *s);
int64_t outside_bytes(const struct stage *s);          /* what counts with the arena, after allocate */
#endif
