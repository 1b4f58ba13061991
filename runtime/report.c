/* Step lines and notes, and what is worked out from the steps for all who show them. On a terminal a step rewrites
 * the line of the one before, ten times a second at most; elsewhere each is a line. */
#define _GNU_SOURCE
#include "report.h"
#include "advice.h"
#include "check.h"
#include "metrics.h"
#include "prometheus.h"
#include "tensorboard.h"
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool live, quiet, open_line;

/* Is a person watching? mpirun gives its ranks a terminal of their own whatever its output is, so there its output
 * counts: rank 0 is its child, or that of a daemon without a terminal on another host. */
static bool watched(void)
{
    char name[64], to[64];
    if (!isatty(STDOUT_FILENO) || !getenv("OMPI_COMM_WORLD_SIZE"))
        return isatty(STDOUT_FILENO);
    snprintf(name, sizeof name, "/proc/%d/fd/1", (int)getppid());
    ssize_t n = readlink(name, to, sizeof to - 1);
    to[n > 0 ? n : 0] = 0;
    return !strncmp(to, "/dev/pts/", 9) || !strncmp(to, "/dev/tty", 8);
}

bool fl_report_measures(const struct fl_options *o)
{
    return !o->quiet || o->metrics || o->trace || o->prometheus || o->tensorboard;
}

/* The metrics last: what an earlier run wrote there goes only when all is well. */
char *fl_report_start(const struct fl_options *o, int64_t done)
{
    if (fl_rank_number != 0)
        return NULL;
    live = watched();
    quiet = o->quiet;
    char *complaint = fl_prometheus_start(o->prometheus);
    complaint = complaint ? complaint : fl_tensorboard_start(o->tensorboard, done);
    return complaint ? complaint : fl_metrics_start(o->metrics, done);
}

/* "nan", where C prints "-nan" of some. */
static double plain(double x) { return isnan(x) ? NAN : x; }

static void end_line(void)
{
    if (open_line)
        printf("\n");
    open_line = false;
}

static const char *duration(char *text, size_t n, double seconds)
{
    long s = lround(seconds);
    if (s >= 3600)
        snprintf(text, n, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, n, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(text, n, "%lds", s);
    return text;
}

/* A loss that is no number stays none: said once when it happens, and how often at the end. */
static struct { int64_t first, steps, all, skipped, first_skipped; } lost;

static void watch_numbers(const struct fl_report_step *s)
{
    bool bad = (s->has_loss && !isfinite(s->loss)) || (s->has_norm && !isfinite(s->norm));
    lost.all++;
    if (!bad)
        return;
    if (fl_program.skips && s->has_norm && !isfinite(s->norm)) {         /* every rank has this norm */
        if (!lost.skipped++) {
            lost.first_skipped = s->step;
            fl_report_note("step %lld is skipped: the gradient norm is %g; weights and states stay as they were%s",
                           (long long)s->step, plain(s->norm), s->loss_scale > 0 ? ", the loss scale is halved" : "");
        }
        return;
    }
    if (!lost.steps++) {
        lost.first = s->step;
        fl_report_note(
            "warning: step %lld: %s is %g; the weights may be lost (lower lr, clip_norm, or a longer warmup)",
            (long long)s->step, s->has_loss && !isfinite(s->loss) ? "the loss" : "the gradient norm",
            plain(s->has_loss && !isfinite(s->loss) ? s->loss : s->norm));
    }
}

/* Seconds of the last steps. The first two are left out: they make buffers, and graphs. */
static struct { double seconds[50]; int64_t seen; } recent;

static double variation(double seconds)
{
    int room = (int)(sizeof recent.seconds / sizeof *recent.seconds);
    if (recent.seen++ < 2)
        return NAN;
    recent.seconds[(recent.seen - 3) % room] = seconds;
    int n = recent.seen - 2 < room ? (int)recent.seen - 2 : room;
    double mean = 0, square = 0;
    if (n < 10)
        return NAN;
    for (int i = 0; i < n; i++)
        mean += recent.seconds[i] / n;
    for (int i = 0; i < n; i++)
        square += (recent.seconds[i] - mean) * (recent.seconds[i] - mean) / n;
    return mean > 0 ? sqrt(square) / mean : NAN;
}

static void work_out(struct fl_report_step *s)
{
    s->tokens_per_s = (double)fl_program.tokens / s->seconds;
    s->mfu = fl_program.flops > 0 && fl_program.peak_flops > 0 ?
             fl_program.flops / (s->seconds * fl_program.peak_flops) : NAN;
    s->variation = variation(s->seconds);
    s->comm_seconds = NAN;
    if (s->measured) {
        s->comm_seconds = 0;
        for (int k = 0; k < fl_kinds(); k++)
            s->comm_seconds += s->times.comm[k];
    }
}

/* A line that is longer than the terminal is wide is cut there, and not wrapped: else it could not be rewritten. */
static void step_line(const struct fl_report_step *s, double left)
{
    char eta[32];
    printf("%sstep %lld/%lld", live ? "\r\033[?7l" : "", (long long)s->step, (long long)s->last);
    if (s->has_loss)
        printf("  loss %.6f", plain(s->loss));
    if (s->has_norm)
        printf("  norm %.4f", plain(s->norm));
    printf("  lr %.2e  %.0f tok/s", s->lr, s->tokens_per_s);
    if (isfinite(s->mfu))
        printf("  mfu %.3g%%", 100 * s->mfu);
    if (isfinite(s->comm_seconds))
        printf("  comm %.0f%%", 100 * s->comm_seconds / s->seconds);
    printf("  eta %s%s", duration(eta, sizeof eta, left), live ? "\033[K\033[?7h" : "\n");
    open_line = live;
    fflush(stdout);
}

void fl_report_step(struct fl_report_step *s)
{
    static double mean, shown = -1;      /* seconds per step, smoothed, for the eta; time of the last line */
    if (fl_rank_number != 0)
        return;
    watch_numbers(s);
    work_out(s);
    mean = mean == 0 ? s->seconds : 0.9 * mean + 0.1 * s->seconds;
    fl_advise(s);
    fl_metrics_step(s);
    fl_prometheus_step(s);
    fl_tensorboard_step(s);
    double now = MPI_Wtime();
    if (quiet || (live && shown >= 0 && now - shown < 0.1 && s->step < s->last))
        return;
    shown = now;
    step_line(s, mean * (double)(s->last - s->step));
}

void fl_report_evaluation(int64_t step, int64_t last, double loss, int nmetric, const char *const *name,
                          const double *value)
{
    if (fl_rank_number != 0)
        return;
    end_line();
    struct fl_report_evaluation e = {
        .step = step, .last = last, .loss = loss, .nmetric = nmetric, .name = name, .value = value
    };
    for (int i = 0; i < fl_program.ndata; i++)
        e.tokens |= fl_program.data[i].entry == FL_EVALUATE && fl_program.data[i].reader == FL_READER_NEXT_TOKEN;
    printf("evaluate %lld/%lld  loss %.6f", (long long)step, (long long)last, plain(loss));
    if (e.tokens)
        printf("  perplexity %.4f", plain(exp(loss)));
    for (int i = 0; i < nmetric; i++)
        printf("  %s %.6g", name[i], plain(value[i]));
    printf("\n");
    fflush(stdout);
    fl_metrics_evaluation(&e);
    fl_prometheus_evaluation(&e);
    fl_tensorboard_evaluation(&e);
}

void fl_report_note(const char *format, ...)
{
    if (fl_rank_number != 0)
        return;
    end_line();
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) >= 0)
        fprintf(stderr, "flow: %s\n", text);      /* in one piece: other ranks write too */
    va_end(args);
    free(text);
}

enum { MOST_HELD = 8 };
static char *held;                       /* the first warnings of a quiet run */
static int nheld;

void fl_report_warning(int64_t step, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        FL_FAIL(NULL, "out of memory");
    va_end(args);
    fl_metrics_warning(step, text);
    if (!quiet) {
        fl_report_note("warning: %s", text);
    } else if (nheld++ < MOST_HELD) {
        char *before = held;
        held = fl_printf("%s%sstep %lld: %s", before ? before : "", before ? "; " : "", (long long)step, text);
        free(before);
    }
    free(text);
}

void fl_report_stop(void)
{
    end_line();
    if (held)
        fl_report_note("%d warning%s: %s%s", nheld, nheld > 1 ? "s" : "", held, nheld > MOST_HELD ? "; .." : "");
    free(held);
    held = NULL;
    if (lost.skipped)
        fl_report_note("%lld of %lld steps were skipped, the first of them step %lld", (long long)lost.skipped,
                       (long long)lost.all, (long long)lost.first_skipped);
    if (lost.steps)
        fl_report_note("warning: loss or gradient norm was not finite in %lld of %lld steps, first in step %lld",
                       (long long)lost.steps, (long long)lost.all, (long long)lost.first);
    fflush(stdout);
    fl_metrics_stop();
    fl_prometheus_stop();
    fl_tensorboard_stop();
}
