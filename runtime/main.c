/* Start and end of an emitted program: ranks, arena, communicators, then the loop. */
#include "check.h"
#include "cluster.h"
#include "identity.h"
#include "loop.h"
#include "options.h"
#include "selftest.h"
#include "signals.h"
#include "target.h"
#include "times.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const struct fl_rank *own_rank(int rank, int size)
{
    if (size != fl_program.nranks)
        fl_refuse("%s was compiled with plan %s for %d rank%s, but %d %s started: use mpirun -n %d", fl_program.name,
                  fl_program.plan, fl_program.nranks, fl_program.nranks == 1 ? "" : "s", size,
                  size == 1 ? "was" : "were", fl_program.nranks);
    for (int i = 0; i < fl_rank_count; i++)
        if (fl_ranks[i]->rank == rank)
            return fl_ranks[i];
    FL_FAIL("start each rank's own binary, in order, as the application file of `make ranks` does",
            "this binary is not that of rank %d", rank);
}

/* A group is named by its lowest possible rank: the own one with the coordinates along the group's axes at 0. */
static struct fl_comm *make_comm(const struct fl_rank *r, const struct fl_comm_spec *s)
{
    int colour = r->rank, size = 1;
    for (int a = 0; a < fl_program.naxis; a++)
        if (s->axes >> a & 1) {
            colour -= r->coord[a] * fl_program.axis_stride[a];
            size *= a == fl_program.pipe && s->nstage ? s->nstage : fl_program.axis_size[a];
        }
    bool member = s->nstage == 0;
    for (int i = 0; i < s->nstage; i++)
        member |= fl_program.pipe < 0 || s->stage[i] == r->coord[fl_program.pipe];
    return fl_comm_new(s->name, member ? colour : -1, r->rank, size);
}

static struct fl_link *make_link(const struct fl_rank *r, int k)
{
    const struct fl_link_spec *s = &fl_program.link[k];
    int pipe = fl_program.pipe, at = pipe < 0 ? 0 : r->coord[pipe],
        stride = pipe < 0 ? 0 : fl_program.axis_stride[pipe];
    if (at == s->from)
        return fl_link_new(s, r->rank + (s->to - s->from) * stride, k + 1, true);
    if (at == s->to)
        return fl_link_new(s, r->rank + (s->from - s->to) * stride, k + 1, false);
    return NULL;
}

static void connect_ranks(struct fl_run *run)
{
    run->comm = fl_alloc(fl_program.ncomm * (int64_t)sizeof *run->comm);
    run->link = fl_alloc(fl_program.nlink * (int64_t)sizeof *run->link);
    fl_comms_start(fl_program.comm_streams);
    for (int i = 0; i < fl_program.ncomm; i++) {
        int kind = fl_kind_of(fl_program.comm[i].axes);
        run->comm[i] = make_comm(run->rank, &fl_program.comm[i]);
        if (!run->comm[i])
            continue;
        fl_comm_kind(run->comm[i], kind);
        fl_comm_room(run->comm[i], &run->rank->class_->room[i]);
    }
    fl_links_start();
    for (int i = 0; i < fl_program.nlink; i++) {
        int kind = fl_kind_of(fl_program.pipe < 0 ? 0 : 1u << fl_program.pipe);
        run->link[i] = make_link(run->rank, i);
        if (run->link[i])
            fl_link_kind(run->link[i], kind);
    }
}

int main(int argc, char **argv)
{
    int provided, size, local_rank, local_size;
    MPI_Comm local;
    struct fl_options options;
    fl_signals_first();
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        FL_FAIL("check the installation of Open MPI", "MPI does not start");
    FL_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &fl_rank_number));
    FL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    fl_identity_check(argc, argv);
    if (!fl_options_read(&options, argc, argv)) {
        MPI_Finalize();
        return 2;
    }
    struct fl_run run = { .rank = own_rank(fl_rank_number, size), .no_graph = options.no_graph };
    FL_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
    FL_MPI(MPI_Comm_rank(local, &local_rank));
    FL_MPI(MPI_Comm_size(local, &local_size));
    FL_MPI(MPI_Comm_free(&local));
    if (fl_program.spoilt && !fl_rank_number)
        fprintf(stderr, "spoilt on purpose (%s): the numbers are wrong\n", fl_program.spoilt);
    fl_watchdog_start();
    fl_target_start(local_rank, local_size);
    run.arena = fl_arena_new(run.rank->class_->arena_bytes);
    run.host = fl_host_new(run.rank->class_->host_bytes);
    fl_at("the start", "making communicators");
    fl_waiting("all ranks");
    connect_ranks(&run);
    fl_waiting(NULL);
    bool right = true;
    if (options.selftest) {
        fl_signals_watch(false);
        right = fl_selftest(&run);
    } else if (options.check_cluster) {
        fl_signals_watch(false);
        fl_cluster_check(&run, options.to ? options.to : "cluster.json");
    } else {
        fl_loop(&run, &options);
    }
    fl_comm_stop();
    fl_target_stop();
    fl_watchdog_stop();
    free(run.comm);
    free(run.link);
    FL_MPI(MPI_Finalize());
    return right ? 0 : 1;
}
