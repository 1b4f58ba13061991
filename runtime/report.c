/* Step lines and metrics. On a terminal a step rewrites the line of the one before; elsewhere each is a line. */
#include "report.h"
#include "check.h"
#include "target.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *metrics;
static const char *metrics_name;
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

/* A run that died may have gone on behind its last checkpoint: those steps are made again, and stand in the file once. */
static void take_back(const char *name, int64_t done)
{
    struct stat s;
    char *part = fl_printf("%s.part", name), *text = NULL;
    size_t room = 0;
    FILE *from = !stat(name, &s) && S_ISREG(s.st_mode) ? fopen(name, "r") : NULL, *to = from ? fopen(part, "w") : NULL;
    bool fine = to != NULL;
    while (fine && getline(&text, &room, from) > 0) {
        long long step = 0;
        bool whole = text[strlen(text) - 1] == '\n';
        if (whole && (sscanf(text, "{\"step\": %lld", &step) != 1 || step <= done))
            fine = fputs(text, to) >= 0;
    }
    if (from && ferror(from))
        FL_FAIL("give another file with --metrics", "cannot read %s: %s", name, strerror(errno));
    if (from && !to)
        FL_FAIL("may files be made beside it?", "cannot write %s: %s", part, strerror(errno));
    if (from)
        fclose(from);
    if (to && (fclose(to) || !fine || rename(part, name)))
        FL_FAIL("is the disk full?", "cannot write %s: %s", part, strerror(errno));
    free(text);
    free(part);
}

void fl_report_start(const struct fl_options *o, int64_t done)
{
    if (fl_rank_number != 0)
        return;
    live = watched();
    quiet = o->quiet;
    if (!o->metrics)
        return;
    metrics_name = o->metrics;
    if (done > 0)
        take_back(o->metrics, done);
    metrics = fopen(o->metrics, done > 0 ? "a" : "w");
    if (!metrics)
        FL_FAIL("does its directory exist?", "cannot write %s: %s", o->metrics, strerror(errno));
}

static void end_line(void)
{
    if (open_line)
        printf("\n");
    open_line = false;
}

/* JSON has no NaN and no infinity. */
static void number(const char *name, double v)
{
    if (isfinite(v))
        fprintf(metrics, ", \"%s\": %.9g", name, v);
    else
        fprintf(metrics, ", \"%s\": null", name);
}

static void end_object(void)
{
    if (fprintf(metrics, "}\n") < 0 || fflush(metrics))
        FL_FAIL("is the disk full?", "cannot write %s: %s", metrics_name, strerror(errno));
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
                           (long long)s->step, s->norm, s->loss_scale > 0 ? ", the loss scale is halved" : "");
        }
        return;
    }
    if (!lost.steps++) {
        lost.first = s->step;
        fl_report_note("warning: step %lld: %s is %g; the weights may be lost (lower lr, clip_norm, or a longer warmup)",
                       (long long)s->step, s->has_loss && !isfinite(s->loss) ? "the loss" : "the gradient norm",
                       s->has_loss && !isfinite(s->loss) ? s->loss : s->norm);
    }
}

void fl_report_step(const struct fl_report_step *s)
{
    static double mean;                              /* seconds per step, smoothed, for the eta */
    if (fl_rank_number != 0)
        return;
    watch_numbers(s);
    mean = mean == 0 ? s->seconds : 0.9 * mean + 0.1 * s->seconds;
    double tokens = (double)fl_program.tokens / s->seconds;
    if (metrics) {
        fprintf(metrics, "{\"step\": %lld", (long long)s->step);
        if (s->has_loss)
            number("loss", s->loss);
        if (s->has_norm)
            number("grad_norm", s->norm);
        number("lr", s->lr);
        if (fl_program.skips)
            fprintf(metrics, ", \"skipped_steps\": %lld", (long long)s->skipped);
        if (s->loss_scale > 0)
            number("loss_scale", s->loss_scale);
        number("tokens_per_s", tokens);
        number("step_s", s->seconds);
        number("comm_s", s->comm_seconds < 0 ? NAN : s->comm_seconds);
        fprintf(metrics, ", \"peak_bytes\": %lld", (long long)fl_target_peak_bytes());
        int64_t resident, library;
        if (fl_target_resident(&resident, &library))
            fprintf(metrics, ", \"resident_bytes\": %lld, \"library_bytes\": %lld", (long long)resident,
                    (long long)library);
        end_object();
    }
    if (quiet)
        return;
    char eta[32];
    printf("%sstep %lld/%lld", live ? "\r" : "", (long long)s->step, (long long)s->last);
    if (s->has_loss)
        printf("  loss %.6f", s->loss);
    if (s->has_norm)
        printf("  norm %.4f", s->norm);
    char comm[16] = "-";
    if (s->comm_seconds >= 0)
        snprintf(comm, sizeof comm, "%.0f%%", 100 * s->comm_seconds / s->seconds);
    printf("  lr %.2e  %.0f tok/s  comm %s  eta %s%s", s->lr, tokens, comm,
           duration(eta, sizeof eta, mean * (double)(s->last - s->step)), live ? "\033[K" : "\n");
    open_line = live;
    fflush(stdout);
}

void fl_report_evaluation(int64_t step, int64_t last, double loss, int nmetric, const char *const *name,
                          const double *value)
{
    if (fl_rank_number != 0)
        return;
    end_line();
    bool tokens = false;                             /* the loss is in nats per token: its exponential says something */
    for (int i = 0; i < fl_program.ndata; i++)
        tokens |= fl_program.data[i].entry == FL_EVALUATE && fl_program.data[i].reader == FL_READER_NEXT_TOKEN;
    printf("evaluate %lld/%lld  loss %.6f", (long long)step, (long long)last, loss);
    if (tokens)
        printf("  perplexity %.4f", exp(loss));
    for (int i = 0; i < nmetric; i++)
        printf("  %s %.6g", name[i], value[i]);
    printf("\n");
    fflush(stdout);
    if (!metrics)
        return;
    fprintf(metrics, "{\"step\": %lld", (long long)step);
    number("eval_loss", loss);
    if (tokens)
        number("eval_perplexity", exp(loss));
    for (int i = 0; i < nmetric; i++) {
        char *full = fl_printf("eval_%s", name[i]);
        number(full, value[i]);
    }
    end_object();
}

void fl_report_note(const char *format, ...)
{
    if (fl_rank_number != 0)
        return;
    end_line();
    va_list args;
    va_start(args, format);
    fprintf(stderr, "flow: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

void fl_report_stop(void)
{
    end_line();
    if (lost.skipped)
        fl_report_note("%lld of %lld steps were skipped, the first of them step %lld", (long long)lost.skipped,
                       (long long)lost.all, (long long)lost.first_skipped);
    if (lost.steps)
        fl_report_note("warning: loss or gradient norm was not finite in %lld of %lld steps, first in step %lld",
                       (long long)lost.steps, (long long)lost.all, (long long)lost.first);
    fflush(stdout);
    if (metrics && fclose(metrics))
        FL_FAIL("is the disk full?", "cannot write %s: %s", metrics_name, strerror(errno));
    metrics = NULL;
}
