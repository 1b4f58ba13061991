/* The check that all ranks belong together: emitted programs carry a number over all their sources. Command lines may
 * differ in the program's place and in data files, which a host may have by another name. */
#include "identity.h"
#include "check.h"
#include "flow_rt.h"
#include "manifest.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const uint64_t fl_build __attribute__((weak));                /* in program.c */

struct identity { uint64_t build, arguments; int64_t nranks; char program[64], plan[64]; };

static uint64_t sum_of(int argc, char **argv)
{
    struct fl_sum s;
    fl_sum_begin(&s);
    for (int i = 1; i < argc; i++) {
        fl_sum_add(&s, argv[i], (int64_t)strlen(argv[i]) + 1);
        i += !strcmp(argv[i], "--data") || !strcmp(argv[i], "--eval-data");
    }
    return fl_sum_end(&s);
}

void fl_identity_check(int argc, char **argv)
{
    struct identity mine = { &fl_build ? fl_build : 0, sum_of(argc, argv), fl_program.nranks, "", "" };
    int size;
    snprintf(mine.program, sizeof mine.program, "%s", fl_program.name);
    snprintf(mine.plan, sizeof mine.plan, "%s", fl_program.plan);
    FL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    struct identity *all = fl_alloc(size * (int64_t)sizeof *all), *first = &all[0];
    FL_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD));
    for (int r = 1; r < size; r++) {
        const struct identity *a = &all[r];
        if (strcmp(a->program, first->program) || strcmp(a->plan, first->plan) || a->nranks != first->nranks)
            fl_refuse("rank %d runs %s, plan %s for %lld ranks, but rank 0 runs %s, plan %s for %lld: start all ranks "
                      "from one output", r, a->program, a->plan, (long long)a->nranks, first->program, first->plan,
                      (long long)first->nranks);
        if (a->build != first->build)
            fl_refuse("rank %d runs another build of %s, plan %s, than rank 0 (%016llx, %016llx): copy one output to "
                      "all hosts", r, a->program, a->plan, (unsigned long long)a->build,
                      (unsigned long long)first->build);
        if (a->arguments != first->arguments)
            fl_refuse("rank %d was started with other arguments than rank 0: only --data and --eval-data may differ",
                      r);
    }
    free(all);
}
