/* The parts of --emit=schedule; plan.json shares the orders. */
#ifndef FLOWC_SCHEDULE_DUMP_H
#define FLOWC_SCHEDULE_DUMP_H
#include "../module.h"
#include "../physical.h"
#include <jansson.h>

json_t *order_json(const struct rolled *o);          /* laps of rolls of firings, as struct rolled says */

/* What a schedule would do with a plan's stages and micro-batches (compare.c). */
struct comparison {
    const char *name;
    double bubble, span;                             /* of the step; of the worst stage from its first work to its last */
    double most, first;                              /* micro-batches kept for the backward, of a whole stage: at most, and
                                                        on stage 0 */
    bool chosen;
};
struct comparison *schedules_compare(const struct plan *plan);           /* stb_ds array */
void comparison_text(FILE *to, const struct plan *plan);
json_t *comparison_json(const struct plan *plan);
#endif
