/* The loop over steps. Files are opened and checked before the first step if their entry can run within the run. */
#include "loop.h"
#include "agree.h"
#include "check.h"
#include "checkpoint.h"
#include "fl_scale.h"
#include "inspect.h"
#include "outputs.h"
#include "reader.h"
#include "report.h"
#include "safetensors.h"
#include "sample.h"
#include "signals.h"
#include "state.h"
#include "target.h"
#include "times.h"
#include "trace.h"
#include "weights.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Learning rate of step k, from 0. The schedule runs over the program's steps, whatever --steps says. */
static double learning_rate(int64_t k)
{
    const struct fl_program_spec *p = &fl_program;
    return fl_lr_of(p->lr, p->lr_peak, p->lr_floor, p->lr_warmup, p->lr_decay, p->steps, k);
}

/* Mean of each scalar over the batches of the evaluation. */
static void evaluate(struct fl_run *run, int64_t done, int64_t last)
{
    const char **name = fl_alloc(fl_program.noutput * (int64_t)sizeof *name);
    double *value = fl_alloc(fl_program.noutput * (int64_t)sizeof *value), loss = 0;
    int n = 0;
    for (int k = 0; k < fl_program.noutput; k++) {
        const struct fl_output_spec *o = &fl_program.output[k];
        if (o->entry == FL_EVALUATE && o->tensor.ndim == 0 && strcmp(o->name, "loss"))
            name[n++] = o->name;
    }
    int64_t steps = fl_program.evaluate_steps > 0 ? fl_program.evaluate_steps : 1;
    for (int64_t s = 0; s < steps; s++) {
        bool have;
        fl_reader_seek(FL_EVALUATE, s);
        fl_inspect_before(run, FL_EVALUATE);
        fl_outputs_run(run, FL_EVALUATE);
        fl_inspect_behind(run, FL_EVALUATE);
        loss += fl_outputs_scalar(FL_EVALUATE, "loss", &have) / (double)steps;
        for (int i = 0; i < n; i++)
            value[i] += fl_outputs_scalar(FL_EVALUATE, name[i], &have) / (double)steps;
    }
    fl_report_evaluation(done, last, loss, n, name, value);
    free(name);
    free(value);
}

/* Steps so far that changed nothing, as their gradients were not finite. The learning rate and the data go on over them; an
 * optimizer's bias correction does not. Every rank has the norm and counts them alike. */
static double skipped;
static struct fl_scale scale;            /* the factor on the loss follows from the same norm; now 0: none */

static void count_skipped(const struct fl_report_step *s)
{
    if (fl_program.skips && !s->has_norm)
        FL_FAIL(NULL, "this rank does not have the gradient norm, on which skipping depends");
    skipped += fl_program.skips && !isfinite(s->norm);
    if (scale.now > 0)
        fl_scale_next(&scale, isfinite(s->norm), fl_program.growth_interval);
}

static void keep_numbers(void)
{
    fl_checkpoint_scalar("skipped_steps", &skipped);
    scale.now = fl_program.loss_scale;
    if (scale.now <= 0)
        return;
    fl_checkpoint_scalar("loss_scale", &scale.now);
    fl_checkpoint_scalar("loss_scale_good", &scale.good);
}

static void train_step(struct fl_run *run, int64_t k, int64_t last)
{
    struct fl_report_step s = { .step = k + 1, .last = last, .lr = learning_rate(k), .loss_scale = scale.now,
                                .measured = fl_measuring };
    double start = MPI_Wtime();
    run->step.step = k;
    run->step.update = k - (int64_t)skipped;
    run->step.lr = (float)s.lr;
    run->step.loss_scale = (float)scale.now;
    fl_trace_step(run);
    if (fl_measuring)
        fl_times_begin();
    fl_reader_seek(FL_TRAIN, k);
    fl_inspect_before(run, FL_TRAIN);
    fl_outputs_run(run, FL_TRAIN);
    s.seconds = MPI_Wtime() - start;
    if (fl_measuring) {
        fl_times_end(&s.times);
        fl_trace_stepped();
        s.load = fl_times_share(&s.times);
    }
    s.loss = fl_outputs_scalar(FL_TRAIN, "loss", &s.has_loss);
    s.norm = fl_outputs_scalar(FL_TRAIN, "grad_norm", &s.has_norm);
    count_skipped(&s);
    s.skipped = (int64_t)skipped;
    fl_report_step(&s);
    fl_inspect_behind(run, FL_TRAIN);
}

/* Beside a step, all ranks tell whether one of them was asked to stop, and whether one is still writing. */
static void ask(void) { fl_vote_begin((int[]){ fl_signals_asked(), fl_checkpoint_busy() }, 2); }

static bool answer(void)
{
    int all[2];
    fl_vote_end(all, 2);
    if (fl_checkpoint_pending() && !all[1])
        fl_checkpoint_advance();
    return all[0];
}

/* Better now than after the last step. */
static void check_outputs(const struct fl_run *run, const struct fl_options *o)
{
    if (o->ema && !fl_weights_averaged(run))
        fl_refuse("--ema: the program keeps no averages of its weights (add `ema 0.999` to its train block)");
    if (o->save || o->export)
        fl_weights_check_held(run);
    fl_agree(fl_rank_number == 0 && o->export ? fl_st_refuse(o->export) : NULL);
    if (o->save)
        fl_checkpoint_prepare(&(struct fl_checkpoint_to){ o->save, o->keep, o->keep_every, o->save_memory });
}

/* Fills the parameters; gives the number of steps already done. */
static int64_t begin(struct fl_run *run, const struct fl_options *o)
{
    int64_t done = 0;
    run->step.seed = o->has_seed ? o->seed : fl_program.seed;
    bool resume = o->resume && fl_checkpoint_exists(o->resume);
    if (o->resume && !resume && !o->load)
        fl_refuse("no checkpoint in %s (give --load F.safetensors as well to start anew where there is none)",
                  o->resume);
    fl_weights_init(run, run->step.seed);
    if (resume) {
        done = fl_checkpoint_load(run, o->resume);
        if (o->load)
            fl_report_note("going on behind step %lld of %s: --load %s is not read", (long long)done, o->resume, o->load);
        if (o->has_seed && o->seed != run->step.seed)
            fl_report_note("--seed %llu in place of the checkpoint's %llu: from here on other numbers are drawn, and shuffled data come "
                           "in another order", (unsigned long long)o->seed, (unsigned long long)run->step.seed);
        if (o->has_seed)
            run->step.seed = o->seed;
    } else if (o->load) {
        fl_weights_load(run, o->load);
    }
    return done;
}

/* Opens the evaluation's data. With --data the program's own may be absent: then there is no evaluation. */
static bool open_evaluation(const struct fl_run *run, const struct fl_options *o)
{
    int there = fl_reader_exists(FL_EVALUATE);
    FL_MPI(MPI_Allreduce(MPI_IN_PLACE, &there, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (o->data && !o->eval_data && !there) {
        if (!o->quiet)
            fl_report_note("no evaluation: the program's held-out data are not here (--eval-data F gives others)");
        return false;
    }
    fl_reader_open(FL_EVALUATE, o->eval_data, run->step.seed);
    return true;
}

/* The first two steps make buffers, and graphs: they are traced only where there are no others. */
static void trace(const struct fl_options *o, int64_t done, int64_t last)
{
    int64_t first = done + 2 + o->trace_steps <= last ? done + 2 : last - o->trace_steps;
    first = first > done ? first : done;
    fl_trace_start(o, first, first + o->trace_steps < last ? first + o->trace_steps : last);
}

void fl_loop(struct fl_run *run, const struct fl_options *o)
{
    const struct fl_program_spec *p = &fl_program;
    keep_numbers();
    check_outputs(run, o);
    fl_signals_watch(o->save != NULL);
    int64_t done = begin(run, o), last = !p->train ? 0 : o->steps >= 0 ? o->steps : p->steps;
    if (p->train && last > done) {
        fl_reader_open(FL_TRAIN, o->data, run->step.seed);
        fl_state_compare();
    }
    bool evaluates = p->evaluate && (last > done || !p->train) && open_evaluation(run, o);
    fl_measuring = fl_report_measures(o);
    trace(o, done, last);
    fl_inspect_start(run, o, done, last);
    fl_agree(fl_report_start(o, done));
    bool stop = false;
    int64_t reached = done;
    for (int64_t k = done; k < last && !stop; k++) {
        if (o->save)
            ask();
        train_step(run, k, last);
        bool end = k + 1 == last;
        stop = o->save && answer() && !end;
        if (evaluates && !stop && (end || (p->evaluate_every > 0 && (k + 1) % p->evaluate_every == 0)))
            evaluate(run, k + 1, last);
        if (p->sample && !stop && !end && p->sample_every > 0 && (k + 1) % p->sample_every == 0)
            fl_sample(run, k + 1);
        if (o->save && (end || stop || (o->save_every > 0 && (k + 1) % o->save_every == 0)))
            fl_checkpoint_save(run, k + 1);
        reached = k + 1;
    }
    if (o->save && last <= done && !(o->resume && !strcmp(o->save, o->resume)))
        fl_checkpoint_save(run, done);               /* nothing to train: a copy, or a start */
    if (o->save)
        fl_checkpoint_finish();
    if (stop)
        fl_report_note("asked to stop: the checkpoint of step %lld is in %s", (long long)reached, o->save);
    if (!p->train && evaluates)
        evaluate(run, 0, 0);
    if (p->sample && !o->quiet && !stop)
        fl_sample(run, last > done ? last : done);
    if (o->export && !stop)
        fl_weights_export(run, o->export, o->export_limit, o->ema);
    fl_inspect_stop();
    fl_trace_stop();
    fl_report_stop();                    /* it shows what the times have of all ranks */
    fl_times_stop();
    fl_reader_close();
}
