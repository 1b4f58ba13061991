/* check_trace FILE RANKS FIRST LAST PATTERN [SHIFT]: is FILE a trace as chrome://tracing and Perfetto read it, with
 * steps FIRST to LAST of so many ranks? Every span on a known row of a known process, spans of a row within each
 * other or apart, compute and communication with source lines. The n-th span whose name begins with PATTERN is one
 * collective of all ranks, which none of them can leave before all have come: on aligned clocks these spans overlap.
 * SHIFT moves rank 1 by so many microseconds. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span { int pid, tid; double start, end; };
struct row { int pid, tid; };

static _Noreturn void fail(const char *what, json_t *event)
{
    char *text = event ? json_dumps(event, 0) : NULL;
    fprintf(stderr, "FAILED: %s%s%s\n", what, text ? ": " : "", text ? text : "");
    exit(1);
}

static const char *string(json_t *e, const char *key)
{
    json_t *v = json_object_get(e, key);
    if (!json_is_string(v))
        fail(key, e);
    return json_string_value(v);
}

static double number(json_t *e, const char *key)
{
    json_t *v = json_object_get(e, key);
    if (!json_is_number(v))
        fail(key, e);
    return json_number_value(v);
}

static int by_row_and_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->pid != y->pid || x->tid != y->tid)
        return x->pid != y->pid ? x->pid - y->pid : x->tid - y->tid;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* Start and end are rounded to nanoseconds. */
static void check_nesting(struct span *s, size_t n)
{
    const double rounding = 0.0021;
    double *open = calloc(n + 1, sizeof *open);
    size_t depth = 0;
    qsort(s, n, sizeof *s, by_row_and_start);
    for (size_t i = 0; i < n; i++) {
        if (i && (s[i].pid != s[i - 1].pid || s[i].tid != s[i - 1].tid))
            depth = 0;
        while (depth && open[depth - 1] <= s[i].start + rounding)
            depth--;
        if (depth && s[i].end > open[depth - 1] + rounding) {
            fprintf(stderr, "FAILED: rank %d, row %d: a span from %.3f to %.3f ends behind the one around it, %.3f\n",
                    s[i].pid, s[i].tid, s[i].start, s[i].end, open[depth - 1]);
            exit(1);
        }
        open[depth++] = s[i].end;
    }
    free(open);
}

/* "gpt.flow:29" */
static bool is_line(const char *s)
{
    const char *colon = strstr(s, ".flow:");
    return colon && strspn(colon + 6, "0123456789") == strlen(colon + 6) && strlen(colon) > 6;
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    int ranks = atoi(argv[2]), first = atoi(argv[3]), last = atoi(argv[4]);
    double shift = argc > 6 ? atof(argv[6]) : 0, within = 0;
    json_error_t error;
    json_t *all = json_load_file(argv[1], 0, &error), *event;
    if (!all)
        fail(error.text, NULL);
    json_t *events = json_object_get(all, "traceEvents");
    size_t n = json_array_size(events), i, nspan = 0, nrow = 0, *nmeet = calloc((size_t)ranks, sizeof *nmeet);
    struct span *spans = calloc(n + 1, sizeof *spans), *meet = calloc(n * (size_t)ranks + 1, sizeof *meet);
    struct row *rows = calloc(n + 1, sizeof *rows);
    struct { int name, steps, compute, comm; } *has = calloc((size_t)ranks, sizeof *has);
    json_array_foreach(events, i, event) {
        const char *ph = string(event, "ph"), *name = string(event, "name");
        int pid = (int)number(event, "pid");
        if (pid < 0 || pid >= ranks)
            fail("pid", event);
        json_t *args = json_object_get(event, "args");
        if (!strcmp(ph, "M")) {
            if (!strcmp(name, "process_name") && strstr(string(args, "name"), "rank "))
                has[pid].name++;
            double x = 0;
            if (!strcmp(name, "process_labels") &&
                sscanf(string(args, "labels"), "clock %*f us, within %lf us", &x) == 1)
                within = fmax(within, x);
            if (!strcmp(name, "thread_name"))
                rows[nrow++] = (struct row){pid, (int)number(event, "tid")};
            continue;
        }
        if (strcmp(ph, "X"))
            fail("ph", event);
        struct span s = {pid, (int)number(event, "tid"), number(event, "ts"), 0};
        s.end = s.start + number(event, "dur");
        if (s.start < 0 || s.end < s.start || s.end > 1e9)
            fail("ts, dur", event);
        spans[nspan++] = s;
        const char *cat = string(event, "cat"), *line = json_string_value(json_object_get(args, "line"));
        int step = (int)number(args, "step");
        if (step < first || step > last)
            fail("step", event);
        if (line && !is_line(line))
            fail("line", event);
        has[pid].steps += !strcmp(cat, "step");
        has[pid].compute += !strcmp(cat, "compute") && line;
        has[pid].comm += !strcmp(cat, "communication") && line;
        if (!strcmp(cat, "communication") && !line)
            fail("communication without a line", event);
        s.start += pid == 1 ? shift : 0;
        s.end += pid == 1 ? shift : 0;
        if (!strcmp(cat, "communication") && !strncmp(name, argv[5], strlen(argv[5])))
            meet[(size_t)pid * n + nmeet[pid]++] = s;
    }
    for (int r = 0; r < ranks; r++)
        if (has[r].name != 1 || has[r].steps != last - first + 1 || !has[r].compute || !has[r].comm) {
            fprintf(stderr, "FAILED: rank %d has %d names, %d steps, %d spans of compute, %d of communication\n", r,
                    has[r].name, has[r].steps, has[r].compute, has[r].comm);
            return 1;
        }
    for (size_t s = 0; s < nspan; s++) {
        size_t k = 0;
        while (k < nrow && (rows[k].pid != spans[s].pid || rows[k].tid != spans[s].tid))
            k++;
        if (k == nrow)
            fail("a span on a row without a name", NULL);
    }
    check_nesting(spans, nspan);
    if (!nmeet[0])
        fail("no such collective", NULL);
    for (int r = 1; r < ranks; r++)
        if (nmeet[r] != nmeet[0])
            fail("ranks have unequal numbers of it", NULL);
    for (size_t k = 0; k < nmeet[0]; k++) {
        double came = 0, left = 1e300;
        for (int r = 0; r < ranks; r++) {
            came = fmax(came, meet[(size_t)r * n + k].start);
            left = fmin(left, meet[(size_t)r * n + k].end);
        }
        if (came > left + within + 5) {
            fprintf(stderr,
                    "FAILED: collective %zu: one has left %.1f us before the last came (clocks within %.1f us)\n", k,
                    came - left, within);
            return 1;
        }
    }
    printf("%zu spans, %zu collectives met, clocks within %.1f us\n", nspan, nmeet[0], within);
    return 0;
}
