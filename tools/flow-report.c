/* flow-report RUN.jsonl .. -o R.html: what --metrics wrote, as one HTML file that needs nothing else: a table and
 * curves of loss, learning rate, norm, throughput and what the machines do. Several runs are drawn into the same
 * charts. A last line that a run has not finished is left out; any other line that is no JSON object is an error. */
#include "report/chart.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 3 };                  /* two curves each have a colour */
struct run {
    const char *name;                    /* of its file */
    struct curve loss, eval, lr, norm, speed, comm, use, seconds;
    long long last, skipped, slow_steps;
    double peak;                         /* bytes */
    char slow[128];                      /* who was slow last */
    double mfu;                          /* last that is known */
};

static int usage(void)
{
    fprintf(stderr, "usage: flow-report RUN.jsonl .. -o R.html\n"
                    "  RUN.jsonl   what --metrics wrote; up to %d of them\n"
                    "  -o R.html   one file with curves of loss, learning rate, norm and throughput\n", MOST_RUNS);
    return 2;
}

static int fail(const char *what, const char *name, const char *why)
{
    fprintf(stderr, "flow-report: %s %s: %s\n", what, name, why);
    return 1;
}

/* null: not finite */
static void take(struct curve *c, const json_t *o, const char *key, double step)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_number(v) || json_is_null(v))
        curve_add(c, step, json_is_number(v) ? json_number_value(v) : NAN);
}

/* Where null says that nobody measured it. */
static void take_known(struct curve *c, const json_t *o, const char *key, double step)
{
    if (json_is_number(json_object_get(o, key)))
        take(c, o, key, step);
}

static void take_line(struct run *r, const json_t *o)
{
    double step = json_number_value(json_object_get(o, "step"));
    r->last = (long long)fmax((double)r->last, step);
    take(&r->loss, o, "loss", step);
    take(&r->eval, o, "eval_loss", step);
    take_known(&r->lr, o, "lr", step);
    take(&r->norm, o, "grad_norm", step);
    take_known(&r->speed, o, "tokens_per_s", step);
    take_known(&r->comm, o, "comm_share", step);
    take_known(&r->use, o, "use_share", step);
    take_known(&r->seconds, o, "step_s", step);
    const json_t *v = json_object_get(o, "skipped_steps");
    r->skipped = v ? (long long)json_integer_value(v) : r->skipped;
    r->peak = fmax(r->peak, json_number_value(json_object_get(o, "peak_bytes")));
    v = json_object_get(o, "mfu");
    r->mfu = json_is_number(v) ? json_number_value(v) : r->mfu;
    v = json_object_get(o, "slow");
    if (v && json_is_string(json_object_get(v, "who"))) {
        r->slow_steps++;
        snprintf(r->slow, sizeof r->slow, "%s", json_string_value(json_object_get(v, "who")));
    }
}

static int read_run(struct run *r, const char *name, int number)
{
    struct curve *const first[] = {&r->loss, &r->lr, &r->norm, &r->speed, &r->comm, &r->seconds};
    struct curve *const second[] = {&r->eval, &r->use};
    char *line = NULL;
    size_t room = 0, count = 0;
    ssize_t n;
    FILE *f = fopen(name, "r");
    if (!f)
        return fail("cannot read", name, strerror(errno));
    r->name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    for (size_t k = 0; k < sizeof first / sizeof *first; k++)
        first[k]->colour = number % CHART_COLOURS;
    for (size_t k = 0; k < sizeof second / sizeof *second; k++)
        second[k]->colour = (number + MOST_RUNS) % CHART_COLOURS;
    r->eval.dots = true;
    while ((n = getline(&line, &room, f)) > 0) {
        json_error_t error;
        json_t *o = json_loads(line, 0, &error);
        count++;
        if (!json_is_object(o) || !json_is_number(json_object_get(o, "step"))) {
            json_decref(o);
            if (line[n - 1] != '\n')
                break;
            char where[32];
            snprintf(where, sizeof where, "line %zu: no step", count);
            return fail("cannot read", name, o ? where : error.text);
        }
        take_line(r, o);
        json_decref(o);
    }
    free(line);
    if (ferror(f))
        return fail("cannot read", name, strerror(errno));
    fclose(f);
    return r->last ? 0 : fail("nothing in", name, "no steps");
}

static double mean(const struct curve *c, size_t skip)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = c->n > 2 * skip ? skip : 0; i < c->n; i++)
        if (isfinite(c->y[i])) {
            sum += c->y[i];
            n++;
        }
    return n ? sum / (double)n : NAN;
}

static void cell(FILE *to, const char *format, double x)
{
    fputs("<td>", to);
    if (isfinite(x))
        fprintf(to, format, x);
    else
        fputs("&#8211;", to);
    fputs("</td>", to);
}

static void table(FILE *to, const struct run *runs, int n)
{
    fputs(
        "<table>\n<tr><th>run</th><th>steps</th><th>loss</th><th>least evaluation</th><th>tokens/s</th><th>step, s</th>"
        "<th>communication</th><th>at work</th><th>mfu</th><th>peak, MiB</th><th>skipped</th><th>slow</th></tr>\n",
        to);
    for (int k = 0; k < n; k++) {
        const struct run *r = &runs[k];
        size_t best = 0;
        for (size_t i = 1; i < r->eval.n; i++)
            best = r->eval.y[i] < r->eval.y[best] || !isfinite(r->eval.y[best]) ? i : best;
        fputs("<tr><td>", to);
        chart_text(to, r->name);
        fprintf(to, "</td><td>%lld</td>", r->last);
        cell(to, "%.4f", r->loss.n ? r->loss.y[r->loss.n - 1] : NAN);
        if (r->eval.n && isfinite(r->eval.y[best]))
            fprintf(to, "<td>%.4f at %.0f</td>", r->eval.y[best], r->eval.x[best]);
        else
            cell(to, "%.4f", NAN);
        cell(to, "%.0f", mean(&r->speed, 2));
        cell(to, "%.4g", mean(&r->seconds, 2));
        cell(to, "%.0f %%", 100 * mean(&r->comm, 2));
        cell(to, "%.0f %%", 100 * mean(&r->use, 2));
        cell(to, "%.3g %%", 100 * r->mfu);
        cell(to, "%.1f", r->peak / 1048576);
        fprintf(to, "<td>%lld</td><td>", r->skipped);
        if (r->slow_steps) {
            chart_text(to, r->slow);
            fprintf(to, ", in %lld steps", r->slow_steps);
        } else {
            fputs("&#8211;", to);
        }
        fputs("</td></tr>\n", to);
    }
    fputs("</table>\n", to);
}

/* The curves of one chart, from all runs: the one at `offset`, and the one at `other` if it is another. */
static void chart(FILE *to, const char *title, const char *unit, struct run *runs, int n, size_t offset,
                  const char *called, size_t other, const char *other_called, bool log)
{
    const struct curve *list[2 * MOST_RUNS];
    char names[2 * MOST_RUNS][96];
    size_t count = 0;
    for (int k = 0; k < n; k++)
        for (int j = 0; j < (other == offset ? 1 : 2); j++) {
            struct curve *c = (struct curve *)(void *)((char *)&runs[k] + (j ? other : offset));
            if (!c->n)
                continue;
            const char *what = j ? other_called : called;
            snprintf(names[count], sizeof names[count], "%s%s%.40s", what, n > 1 && *what ? ", " : "",
                     n > 1 ? runs[k].name : "");
            c->name = names[count];
            list[count++] = c;
        }
    chart_write(to, title, unit, list, count, log);
}

static void page(FILE *to, struct run *runs, int n)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
          "content=\"width=device-width\"/>\n"
          "<title>Training: ",
          to);
    for (int k = 0; k < n; k++) {
        fputs(k ? ", " : "", to);
        chart_text(to, runs[k].name);
    }
    fprintf(to,
            "</title>\n<style>\n:root { --page: #fff; --text: #1f2328; --line: #8c959f; --grid: #eaeef2; }\n"
            "@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #e6edf3; --line: #6e7681; --grid: "
            "#21262d; } }\n"
            "body { background: var(--page); color: var(--text); font: 14px system-ui, sans-serif; margin: 2em auto; "
            "max-width: 1000px; "
            "padding: 0 1em; }\ntable { border-collapse: collapse; margin: 1em 0; } th, td { border-bottom: 1px solid "
            "var(--grid); "
            "padding: 3px 9px; text-align: right; } th:first-child, td:first-child { text-align: left; "
            "}\n%s</style>\n</head>\n<body>\n"
            "<h1>Training</h1>\n",
            chart_style);
    table(to, runs, n);
#define AT(field) offsetof(struct run, field)
    chart(to, "loss", "", runs, n, AT(loss), "training", AT(eval), "evaluation", false);
    chart(to, "learning rate", "", runs, n, AT(lr), "", AT(lr), "", false);
    chart(to, "gradient norm, before clipping", "", runs, n, AT(norm), "", AT(norm), "", true);
    chart(to, "throughput", "tokens/s", runs, n, AT(speed), "", AT(speed), "", false);
    chart(to, "time of a step", "s", runs, n, AT(seconds), "", AT(seconds), "", true);
    chart(to, "share of the step", "", runs, n, AT(comm), "communication", AT(use), "at work", false);
#undef AT
    fputs("</body>\n</html>\n", to);
}

int main(int argc, char **argv)
{
    struct run runs[MOST_RUNS] = {0};
    const char *out = NULL;
    int n = 0, bad = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-o") && i + 1 < argc) {
            out = argv[++i];
            continue;
        }
        if (argv[i][0] == '-' || n == MOST_RUNS)
            return usage();
        runs[n].mfu = NAN;
        if ((bad = read_run(&runs[n], argv[i], n)))
            return bad;
        n++;
    }
    if (!n || !out)
        return usage();
    FILE *to = fopen(out, "w");
    if (!to)
        return fail("cannot write", out, strerror(errno));
    page(to, runs, n);
    bool broken = ferror(to);
    if (fclose(to) || broken)
        return fail("cannot write", out, strerror(errno));
    for (int k = 0; k < n; k++) {
        struct curve *all[] = { &runs[k].loss,  &runs[k].eval, &runs[k].lr,  &runs[k].norm,
                                &runs[k].speed, &runs[k].comm, &runs[k].use, &runs[k].seconds };
        for (size_t c = 0; c < sizeof all / sizeof *all; c++)
            curve_free(all[c]);
    }
    return 0;
}
