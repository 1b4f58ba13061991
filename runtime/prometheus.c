/* See prometheus.h. One table names each gauge, with its help; those by rank and axis come from all ranks, a step
 * late. */
#include "prometheus.h"
#include "check.h"
#include "safetensors.h"
#include "slow.h"
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name;
static char *beside;
static double eval_loss = NAN, written = -1;
static struct fl_report_step now;        /* the last one, its load copied */
static struct fl_load load;
static bool fresh;                       /* it is not in the file yet */

char *fl_prometheus_start(const char *file)
{
    char *complaint = file ? fl_st_refuse(file) : NULL;      /* better now than after the first step */
    if (!file || complaint)
        return complaint ? fl_printf("--prometheus: %s", complaint) : NULL;
    name = file;
    beside = fl_printf("%s.part", name);
    return NULL;
}

static void head(FILE *to, const char *metric, const char *help)
{
    fprintf(to, "# HELP flow_%s %s\n# TYPE flow_%s %s\n", metric, help, metric,
            strstr(metric, "_total") ? "counter" : "gauge");
}

/* Within quotes of a label. */
static void escaped(FILE *to, const char *s)
{
    for (; *s; s++)
        if (*s == '\n')
            fputs("\\n", to);
        else
            fprintf(to, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
}

/* The file's own name tells runs of one program on a host apart: the collector refuses a series that two files hold. */
static void run_name(FILE *to)
{
    const char *slash = strrchr(name, '/'), *own = slash ? slash + 1 : name, *end = strrchr(own, '.');
    char *stem = fl_printf("%.*s", end && end > own ? (int)(end - own) : (int)strlen(own), own);
    escaped(to, stem);
    free(stem);
}

static void labels(FILE *to)
{
    fputs("{run=\"", to);
    run_name(to);
    fputs("\",program=\"", to);
    escaped(to, fl_program.name);
    fputs("\",plan=\"", to);
    escaped(to, fl_program.plan);
    fputc('"', to);
}

static void value(FILE *to, double x)
{
    if (isfinite(x))
        fprintf(to, "} %.9g\n", x);
    else
        fprintf(to, "} %s\n", isnan(x) ? "NaN" : x > 0 ? "+Inf" : "-Inf");
}

static void gauge(FILE *to, const char *metric, const char *help, double x)
{
    head(to, metric, help);
    fprintf(to, "flow_%s", metric);
    labels(to);
    value(to, x);
}

static void of_rank(FILE *to, const char *metric, int rank, const char *axis, double x)
{
    fprintf(to, "flow_%s", metric);
    labels(to);
    fprintf(to, ",rank=\"%d\"", rank);
    if (axis) {
        fputs(",axis=\"", to);
        escaped(to, axis);
        fputc('"', to);
    }
    value(to, x);
}

static void all_ranks(FILE *to)
{
    int n = fl_program.nranks;
    gauge(to, "communication_ratio", "Share of the step in which ranks stood in communication, mean over the ranks.",
          load.comm);
    head(to, "device_use_ratio", "Share of the step in which the device of a rank worked.");
    for (int r = 0; r < n; r++) {
        struct fl_times t = fl_times_of(&load, r);
        of_rank(to, "device_use_ratio", r, NULL, t.step > 0 ? t.compute / t.step : NAN);
    }
    head(to, "memory_used_ratio", "Share of the memory of a rank's device, or host, that is in use.");
    for (int r = 0; r < n; r++)
        of_rank(to, "memory_used_ratio", r, NULL, fl_times_of(&load, r).memory);
    head(to, "input_wait_seconds", "Seconds of the step in which a rank waited for data.");
    for (int r = 0; r < n; r++)
        of_rank(to, "input_wait_seconds", r, NULL, fl_times_of(&load, r).input);
    head(to, "wait_seconds", "Seconds of the step in which a rank stood in communication along an axis, or axes.");
    for (int r = 0; r < n; r++)
        for (int k = 0; k < fl_kinds(); k++)
            of_rank(to, "wait_seconds", r, fl_kind_name(k), fl_times_of(&load, r).comm[k]);
    struct fl_slow slow = fl_slow_find();
    if (slow.what == FL_NOBODY)
        return;
    head(to, "slow_seconds",
         "Seconds a step that the others wait longer than the rank or link named here; absent where there is none.");
    fputs("flow_slow_seconds", to);
    labels(to);
    fputs(",who=\"", to);
    escaped(to, slow.name);
    fputs("\",axis=\"", to);
    escaped(to, fl_kind_name(slow.kind));
    fputc('"', to);
    value(to, slow.seconds);
}

static void write_file(void)
{
    FILE *to = fopen(beside, "w");
    bool fine = to != NULL;
    if (fine) {
        gauge(to, "step", "Number of the last step.", (double)now.step);
        gauge(to, "loss", "Loss of the last step.", now.has_loss ? now.loss : NAN);
        gauge(to, "eval_loss", "Loss of the last evaluation.", eval_loss);
        gauge(to, "grad_norm", "Norm of the gradients before clipping.", now.has_norm ? now.norm : NAN);
        gauge(to, "learning_rate", "Learning rate.", now.lr);
        gauge(to, "tokens_per_second", "Tokens, or rows, a second.", now.tokens_per_s);
        gauge(to, "step_seconds", "Seconds of the last step.", now.seconds);
        gauge(to, "step_variation_ratio", "Standard deviation of the seconds of the last 50 steps by their mean.",
              now.variation);
        gauge(to, "mfu_ratio", "Operations of the model by those that the machines could have done meanwhile.",
              now.mfu);
        gauge(to, "skipped_steps_total", "Steps that were skipped because a gradient was not finite.",
              (double)now.skipped);
        if (load.steps)
            all_ranks(to);
        fine = !ferror(to);
        fine &= !fclose(to);
    }
    if (!fine || rename(beside, name)) {
        fl_report_note("cannot write %s any more: %s", name, strerror(errno));
        name = NULL;
    }
    fresh = false;
    written = MPI_Wtime();
}

void fl_prometheus_step(const struct fl_report_step *s)
{
    if (!name)
        return;
    now = *s;
    if (s->load)
        load = *s->load;
    fresh = true;
    if (written < 0 || MPI_Wtime() - written > 1)
        write_file();
}

void fl_prometheus_evaluation(const struct fl_report_evaluation *e) { eval_loss = e->loss; }

void fl_prometheus_stop(void)
{
    if (name && fresh)
        write_file();
    free(beside);
    beside = NULL;
    name = NULL;
}
