/* The options that look at steps, in one place for the loop. */
#include "inspect.h"
#include "check.h"
#include "dump.h"
#include "finite.h"
#include "replicas.h"
#include "report.h"

static const struct fl_options *asked;
static enum { NO_DUMP, DUMP_LATER, DUMP_NOW } dump;
static int64_t dump_step;                            /* from 0, in train */

void fl_inspect_start(struct fl_run *run, const struct fl_options *o, int64_t done, int64_t last)
{
    asked = o;
    if (o->check_finite)
        fl_finite_start(run);
    if (o->check_replicas)
        fl_replicas_start(run);
    if (!o->dump)
        return;
    dump_step = o->dump_step ? o->dump_step - 1 : done;
    if (fl_program.train && dump_step < done)
        fl_refuse("--dump-step %lld has been made: the run goes on with step %lld", (long long)o->dump_step, (long long)done + 1);
    if (fl_program.train && dump_step >= last)
        fl_refuse("--dump: step %lld is not made, the run ends with step %lld", (long long)dump_step + 1, (long long)last);
    dump = DUMP_LATER;
    fl_dump_start(run, o->dump, o->to);
}

void fl_inspect_before(struct fl_run *run, enum fl_entry entry)
{
    bool due = fl_program.train ? entry == FL_TRAIN && run->step.step == dump_step : entry == FL_EVALUATE;
    if (dump == DUMP_LATER && due) {
        dump = DUMP_NOW;
        fl_dump_arm();
    }
}

void fl_inspect_behind(struct fl_run *run, enum fl_entry entry)
{
    if (dump == DUMP_NOW) {
        dump = NO_DUMP;
        fl_dump_write(run);
    }
    if (asked->check_finite && entry == FL_TRAIN)
        fl_finite_step(run);
    if (asked->check_replicas && (entry == FL_TRAIN || !fl_program.train))
        fl_replicas_step(run);
}

void fl_inspect_stop(void)
{
    if (asked->check_finite)
        fl_finite_stop();
    if (dump == DUMP_LATER)
        fl_report_note("--dump: the run has ended before its step, %s is not written", asked->to);
}
