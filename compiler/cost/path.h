/* Private to cost: the ways between layouts without S(flat). */
#ifndef FLOWC_COST_PATH_H
#define FLOWC_COST_PATH_H
#include "convert.h"

/* step.c. `axis` goes from what it is before to `to`; S joins the dim as its minor axis. */
struct step step_make(const struct value *v, const struct layout *before, const struct mesh *m, int axis, struct sbp to);
bool axis_minor(const struct layout *l, const struct mesh *m, int axis);         /* only such an axis can leave its dim */

/* path.c. The steps of the cheapest way; -1 where there is none. */
int path_plain(const struct value *v, const struct layout *from, const struct layout *to, const struct mesh *m,
               struct step *steps, int max);
#endif
