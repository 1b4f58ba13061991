/* The passes in pipeline order, once, and the way through them. */
#include "passes.h"
#include "base/diag.h"
#include <time.h>

static void read_program(struct module *m)
{
    int file = source_open(m->options->file);
    if (!file) {
        struct diag *d = diag_error(E_FILE, (struct span){0}, "cannot read '%s'", m->options->file);
        diag_help(d, "give the path of a .flow file, such as examples/gpt/gpt.flow");
        return;
    }
    arrput(m->programs, parse(file));
}

const struct pass passes[PASS_COUNT] = {
    {"parse", read_program}, {"elaborate", elaborate}, {"differentiate", differentiate}, {"rewrite", rewrite},
    {"place", place},        {"shard", shard},         {"box", box},                     {"fuse", fuse},
    {"layout", layout},      {"schedule", schedule},   {"allocate", allocate},           {"prove", prove},
    {"emit", emit},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void verify_graphs(const struct module *m, const struct pass *after)
{
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            graph_verify(m->graph[e], after->name);
    if (m->physical && after->run != box)                  /* which looks itself */
        physical_verify(m->physical, after->name);
}

bool passes_run(struct module *m, pass_function *first, pass_function *last)
{
    const struct pass *p = passes, *end = passes + PASS_COUNT;
    while (first && p < end && p->run != first)
        p++;
    for (; p < end && !diag_errors(); p++) {
        double start = now();
        p->run(m);
        if (m->options->time)
            fprintf(stderr, "%-14s %8.3f ms\n", p->name, (now() - start) * 1e3);
        if (diag_errors())
            return false;
        verify_graphs(m, p);
        if (p->run == last)
            return true;
    }
    return false;
}
