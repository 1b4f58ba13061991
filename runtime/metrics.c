/* The metrics file; see metrics.h. What was written of steps that are made again is taken out at the start. */
#include "metrics.h"
#include "check.h"
#include "slow.h"
#include "target.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static FILE *metrics;
static const char *metrics_name;

/* A run that died may have gone on behind its last checkpoint: those steps are made again, and stand in the file
 * once. */
static char *take_back(const char *name, int64_t done)
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
    char *complaint = NULL;
    if (from && ferror(from))
        complaint = fl_printf("--metrics: cannot read %s: %s", name, strerror(errno));
    if (from)
        fclose(from);
    if (from && !to)
        complaint = fl_printf("--metrics: cannot write %s: %s", part, strerror(errno));
    if (to && (fclose(to) || !fine || (!complaint && rename(part, name))))
        complaint = fl_printf("--metrics: cannot write %s: %s", part, strerror(errno));
    if (to && complaint)
        remove(part);
    free(text);
    free(part);
    return complaint;
}

char *fl_metrics_start(const char *name, int64_t done)
{
    metrics_name = name;
    if (!name)
        return NULL;
    char *complaint = done > 0 ? take_back(name, done) : NULL;
    if (complaint)
        return complaint;
    metrics = fopen(name, done > 0 ? "a" : "w");
    return metrics ? NULL : fl_printf("--metrics: cannot write %s: %s", name, strerror(errno));
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

/* What all ranks had in the step before. */
static void write_load(const struct fl_load *l)
{
    number("comm_share", l->comm);
    number("use_share", l->use);
    number("memory_share", l->memory > 0 ? l->memory : NAN);
    fprintf(metrics, ", \"wait_s\": {");
    for (int k = 0; k < fl_kinds(); k++)
        fprintf(metrics, "%s\"%s\": {\"mean\": %.6g, \"most\": %.6g, \"rank\": %d}", k ? ", " : "", fl_kind_name(k),
                l->wait[k].mean, l->wait[k].most, l->wait[k].rank);
    fprintf(metrics, "}");
    struct fl_slow slow = fl_slow_find();
    if (slow.what != FL_NOBODY)
        fprintf(metrics, ", \"slow\": {\"who\": \"%s\", \"axis\": \"%s\", \"s\": %.6g}", slow.name,
                fl_kind_name(slow.kind), slow.seconds);
}

void fl_metrics_step(const struct fl_report_step *s)
{
    if (!metrics)
        return;
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
    number("tokens_per_s", s->tokens_per_s);
    number("step_s", s->seconds);
    number("comm_s", s->comm_seconds);
    number("compute_s", s->measured ? s->times.compute : NAN);
    number("input_s", s->measured ? s->times.input : NAN);
    number("mfu", s->mfu);
    number("step_variation", s->variation);
    if (s->load)
        write_load(s->load);
    fprintf(metrics, ", \"peak_bytes\": %lld", (long long)fl_target_peak_bytes());
    int64_t resident, library;
    if (fl_target_resident(&resident, &library))
        fprintf(metrics, ", \"resident_bytes\": %lld, \"library_bytes\": %lld", (long long)resident,
                (long long)library);
    end_object();
}

void fl_metrics_evaluation(const struct fl_report_evaluation *e)
{
    if (!metrics)
        return;
    fprintf(metrics, "{\"step\": %lld", (long long)e->step);
    number("eval_loss", e->loss);
    if (e->tokens)
        number("eval_perplexity", exp(e->loss));
    for (int i = 0; i < e->nmetric; i++) {
        char *full = fl_printf("eval_%s", e->name[i]);
        number(full, e->value[i]);
        free(full);
    }
    end_object();
}

void fl_metrics_warning(int64_t step, const char *text)
{
    if (!metrics)
        return;
    fprintf(metrics, "{\"step\": %lld, \"warning\": \"", (long long)step);
    for (; *text; text++)
        fprintf(metrics, strchr("\"\\", *text) ? "\\%c" : "%c", *text);
    fprintf(metrics, "\"");
    end_object();
}

void fl_metrics_stop(void)
{
    if (metrics && fclose(metrics))
        FL_FAIL("is the disk full?", "cannot write %s: %s", metrics_name, strerror(errno));
    metrics = NULL;
}
