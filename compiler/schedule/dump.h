/* What the schedule pass shares with its dump. */
#ifndef FLOWC_SCHEDULE_DUMP_H
#define FLOWC_SCHEDULE_DUMP_H
#include "../module.h"
#include "simulate.h"

struct actors *schedule_actors(const struct plan *plan, int stages);   /* run; NULL when the registers block each other */
void timeline_draw(FILE *to, const struct actors *a, int columns);     /* a row per stage, a column per unit time */
#endif
