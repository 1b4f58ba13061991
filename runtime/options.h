/* The command line of an emitted program. */
#ifndef FL_OPTIONS_H
#define FL_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

struct fl_options {
    const char *data, *eval_data, *load, *save, *resume, *export, *metrics, *prometheus, *tensorboard, *trace;
    int64_t steps;                       /* -1: the program's */
    int64_t save_every;                  /* 0: at the end only */
    int64_t keep, keep_every, save_memory, export_limit;             /* memory and limit in bytes */
    int64_t trace_steps;
    bool has_seed, quiet, ema, no_graph, selftest;
    const char *dump, *to;
    int64_t dump_step;                   /* from 1; 0: the first */
    bool check_finite, check_replicas, check_cluster;
    uint64_t seed;
};
/* Fills o, or has rank 0 print what is wrong and the usage; false: end with exit code 2. */
bool fl_options_read(struct fl_options *o, int argc, char **argv);
#endif
