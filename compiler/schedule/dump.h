/* What the dump of the schedule shares with plan.json. */
#ifndef FLOWC_SCHEDULE_DUMP_H
#define FLOWC_SCHEDULE_DUMP_H
#include "../physical.h"
#include <jansson.h>

json_t *order_json(const struct rolled *o);          /* laps of rolls of firings, as struct rolled says */
#endif
