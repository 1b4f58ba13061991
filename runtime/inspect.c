/* The options that look at steps, in one place for the loop. */
#include "inspect.h"
#include "finite.h"

static const struct fl_options *asked;

void fl_inspect_start(struct fl_run *run, const struct fl_options *o, int64_t done)
{
    (void)done;
    asked = o;
    if (o->check_finite)
        fl_finite_start(run);
}

void fl_inspect_step(struct fl_run *run)
{
    if (asked->check_finite)
        fl_finite_step(run);
}
