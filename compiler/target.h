/* What differs between the targets, as facts: a line each in target.c. */
#ifndef FLOWC_TARGET_H
#define FLOWC_TARGET_H
#include "module.h"

struct target {
    const char *name;            /* as --target names it */
    const char *suffix;          /* of class files */
    const char *folder;          /* of its part of the runtime */
    const char *source;          /* suffix of the runtime files there */
    const char *makefile;        /* template in templates/ */
    bool posts_ahead;            /* receives are posted as soon as a slot is free, not when they are come to */
    bool packs;                  /* collectives of parts pack what they send and receive in room of their own */
    bool scratch;                /* kernels sort, tabulate and sum up pieces in memory; elsewhere in shared memory or registers */
    int64_t meeting_bytes;       /* of each rank for each communicator: shared memory in which ranks of one host meet */
    bool epilogues;              /* products take bias, activation and their gradients along (fuse/epilogue.c) */
    bool resident;               /* collectives under way at once must find room on the device together */
    bool vectors;                /* emitted kernels read and write 16 bytes at a time (flow_dev.h) */
    int rows;                    /* of a product, below which it is noticeably slower */
    int row_registers;           /* rows that a row kernel names, times the numbers that a thread has of each; 0: any. Not all are
                                  * live at once; with more nvcc says that it spills (tests/cuda, build_wide_rows) */
    int chunk;                   /* rows of which row kernels make one sum before the sums are added up */
    bool here;                   /* without a cluster of its own it is predicted for this machine */
};
extern const struct target targets[];                    /* NULL name at the end */
const struct target *target_named(const char *name);     /* or NULL */
const struct target *target_of(const struct module *m);  /* a module without options is for cpu */
#endif
