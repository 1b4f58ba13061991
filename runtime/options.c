/* Reading the command line. One table holds every option: its name, its argument, what it does and where it goes. */
#include "options.h"
#include "check.h"
#include "fl_defaults.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, OUTPUT, FOLDER, COUNT, SIZE, SEED, FLAG };
struct option { const char *name, *argument, *doc; enum kind kind; void *to; const char *needs; };
enum { MOST_OPTIONS = 64 };

static bool usage(const struct option *table, const char *program, const char *fact, const char *name)
{
    if (fl_rank_number != 0)
        return false;
    fprintf(stderr, "flow: %s%s\nusage: %s", fact, name, program);
    for (const struct option *t = table; t->name; t++)
        fprintf(stderr, "%s [%s%s%s]", (t - table) % 4 == 0 && t > table ? "\n         " : "", t->name,
                *t->argument ? " " : "", t->argument);
    fprintf(stderr, "\n");
    for (const struct option *t = table; t->name; t++) {
        int width = fprintf(stderr, "  %s %s", t->name, t->argument);
        fprintf(stderr, "%*s%s\n", width < 28 ? 28 - width : 1, "", t->doc);
    }
    return false;
}

static bool number(const char *text, bool is_signed, int64_t *v, uint64_t *u)
{
    char *end;
    errno = 0;
    if (is_signed)
        *v = strtoll(text, &end, 10);
    else
        *u = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && !errno;
}

/* "512M": bytes, or so many KiB, MiB, GiB. */
static bool size(const char *text, int64_t *v)
{
    static const char units[] = "KMG";
    char digits[32];
    size_t n = strlen(text);
    const char *unit = n > 1 ? strchr(units, text[n - 1]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    snprintf(digits, sizeof digits, "%.*s", (int)(unit ? n - 1 : n), text);
    if (!number(digits, true, v, NULL) || *v < 1 || *v > INT64_MAX >> shift)
        return false;
    *v <<= shift;
    return true;
}

/* Two files of one name: the second would replace the first. */
static const char *written_twice(const struct option *table)
{
    for (const struct option *t = table; t->name; t++)
        for (const struct option *u = t + 1; t->kind == OUTPUT && u->name; u++) {
            const char *one = *(const char **)t->to, *other = u->kind == OUTPUT ? *(const char **)u->to : NULL;
            if (one && other && !strcmp(one, other))
                return fl_printf("%s and %s both write %s", t->name, u->name, one);
        }
    return NULL;
}

/* "ck/" is "ck". */
static const char *without_slash(const char *folder)
{
    char *text = fl_printf("%s", folder);
    for (size_t n = strlen(text); n > 1 && text[n - 1] == '/'; n--)
        text[n - 1] = 0;
    return text;
}

bool fl_options_read(struct fl_options *o, int argc, char **argv)
{
    *o = (struct fl_options){ .steps = -1, .keep = 2, .trace_steps = 3, .save_memory = FL_SAVE_MEMORY };
    const struct option table[] = {
        { "--data", "F", "training data instead of the program's file", TEXT, &o->data, NULL },
        { "--eval-data", "F", "held-out data instead of the program's file", TEXT, &o->eval_data, NULL },
        { "--steps", "N", "stop once step N is done, counted from the start of training", COUNT, &o->steps, NULL },
        { "--load", "F.safetensors", "start from these weights: a file, an index, or a folder with either",
          TEXT, &o->load, NULL },
        { "--export", "F.safetensors", "write the weights at the end", OUTPUT, &o->export, NULL },
        { "--ema", "", "with --export: the moving averages of the weights", FLAG, &o->ema, "--export" },
        { "--export-limit", "SIZE", "in files of at most so many bytes (512M, 5G), with an index",
          SIZE, &o->export_limit, "--export" },
        { "--save", "DIR", "write a checkpoint at the end", FOLDER, &o->save, NULL },
        { "--save-every", "N", "and every N steps", COUNT, &o->save_every, "--save" },
        { "--keep", "N", "the last N checkpoints stay (default 2)", COUNT, &o->keep, "--save" },
        { "--keep-every", "N", "and those of every N-th step", COUNT, &o->keep_every, "--save" },
        { "--save-memory", "SIZE", "what may wait for the disk on each rank while training goes on (default 1G)",
          SIZE, &o->save_memory, "--save" },
        { "--resume", "DIR", "go on from a checkpoint", FOLDER, &o->resume, NULL },
        { "--metrics", "F.jsonl", "write one JSON object per step", OUTPUT, &o->metrics, NULL },
        { "--dump", "PATTERNS", "write what these values of a step hold: 'h[*].attn, *#grad'", TEXT, &o->dump, NULL },
        { "-o", "F", "where to: a .safetensors file", OUTPUT, &o->to, NULL },
        { "--dump-step", "N", "of step N instead of the first", COUNT, &o->dump_step, "--dump" },
        { "--check-finite", "", "stop at the first NaN or infinity and say where it is made",
          FLAG, &o->check_finite, NULL },
        { "--check-replicas", "", "stop where ranks that hold the same no longer do", FLAG, &o->check_replicas, NULL },
        { "--prometheus", "F.prom", "keep gauges of the last step in a file, for Prometheus",
          OUTPUT, &o->prometheus, NULL },
        { "--tensorboard", "DIR", "write event files for TensorBoard", FOLDER, &o->tensorboard, NULL },
        { "--trace", "F.json", "write what each rank does when, for Perfetto or chrome://tracing",
          OUTPUT, &o->trace, NULL },
        { "--trace-steps", "N", "in N steps, the third of the run and on (default 3)",
          COUNT, &o->trace_steps, "--trace" },
        { "--seed", "S", "instead of the program's", SEED, &o->seed, NULL },
        { "--check-cluster", "", "measure ranks and links, write cluster.json (or -o F) for flowc --cluster, and end",
          FLAG, &o->check_cluster, NULL },
        { "--selftest", "", "check kernels and collectives on this machine, and end", FLAG, &o->selftest, NULL },
        { "--no-graph", "", "cuda: queue every step call by call", FLAG, &o->no_graph, NULL },
        { "--quiet", "", "no step lines", FLAG, &o->quiet, NULL },
        { 0 },
    };
    bool given[MOST_OPTIONS] = { false };
    for (int i = 1; i < argc; i++) {
        const struct option *t = table;
        while (t->name && strcmp(t->name, argv[i]))
            t++;
        if (!t->name)
            return usage(table, argv[0], "unknown option ", argv[i]);
        given[t - table] = true;
        if (t->kind == FLAG) {
            *(bool *)t->to = true;
            continue;
        }
        if (++i == argc)
            return usage(table, argv[0], "missing argument of ", t->name);
        bool is_name = t->kind == TEXT || t->kind == OUTPUT || t->kind == FOLDER;
        if (is_name && !*argv[i])                        /* an unset variable of the shell */
            return usage(table, argv[0], "an empty name for ", t->name);
        if (is_name)
            *(const char **)t->to = t->kind == FOLDER ? without_slash(argv[i]) : argv[i];
        else if (t->kind == COUNT && !number(argv[i], true, t->to, NULL))
            return usage(table, argv[0], "not a count: ", argv[i]);
        else if (t->kind == SIZE && !size(argv[i], t->to))
            return usage(table, argv[0], "not a size: ", argv[i]);
        else if (t->kind == SEED && !number(argv[i], false, NULL, t->to))
            return usage(table, argv[0], "not a seed: ", argv[i]);
        o->has_seed |= t->kind == SEED;
    }
    for (const struct option *t = table; t->name; t++)
        for (const struct option *u = table; given[t - table] && t->needs && u->name; u++)
            if (!strcmp(u->name, t->needs) && !given[u - table])
                return usage(table, argv[0], fl_printf("%s needs ", t->name), t->needs);
    if (o->selftest && o->check_cluster)
        return usage(table, argv[0], "--selftest and --check-cluster each end the run: one at a time", "");
    if (written_twice(table))
        return usage(table, argv[0], written_twice(table), "");
    if (!o->check_cluster && !o->dump != !o->to)
        return usage(table, argv[0], "--dump PATTERNS and -o F.safetensors go together", "");
    if (o->keep < 1)
        return usage(table, argv[0], "the last checkpoint always stays: ", "--keep 0");
    if (o->trace_steps < 1)
        return usage(table, argv[0], "one step is the least that can be traced: ", "--trace-steps 0");
    return true;
}
