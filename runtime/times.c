/* Measuring: what communication takes is added up where it is called, and the difference over a step is that step's.
 * What the ranks have measured goes to rank 0 beside the step that follows. */
#include "times.h"
#include "check.h"
#include "data_queue.h"
#include "flow_rt.h"
#include "slow.h"
#include "target.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fl_measuring;

static struct { unsigned axes; double seconds; int64_t calls; } kinds[FL_MAX_KIND];
static int nkind;
static struct { double at, input, comm[FL_MAX_KIND]; int64_t calls[FL_MAX_KIND]; } begun;
static int64_t calls[FL_MAX_KIND];       /* in the last step */

int fl_kind_of(unsigned axes)
{
    int k = 0;
    while (k < nkind && kinds[k].axes != axes)
        k++;
    if (k == FL_MAX_KIND)
        return k - 1;
    if (k == nkind)
        kinds[nkind++].axes = axes;
    return k;
}

int fl_kinds(void) { return nkind; }
unsigned fl_kind_axes(int kind) { return kinds[kind].axes; }
bool fl_kind_pipe(int kind) { return fl_program.pipe >= 0 && kinds[kind].axes >> fl_program.pipe & 1; }
bool fl_kind_data(int kind)
{
    for (int i = 0; i < fl_program.ninput; i++)
        for (int d = 0; d < fl_program.input[i].tensor.ndim; d++) {
            const struct fl_dim *dim = &fl_program.input[i].tensor.dim[d];
            for (int k = 0; k < dim->nsplit; k++)
                if (kinds[kind].axes >> dim->axis[k] & 1)
                    return true;
        }
    return false;
}

int64_t fl_kind_calls(int kind) { return calls[kind]; }

const char *fl_kind_name(int kind)
{
    static char text[256];
    int n = 0;
    text[0] = 0;
    for (int a = 0; a < fl_program.naxis && n < 200; a++)
        if (kinds[kind].axes >> a & 1)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", n ? "*" : "", fl_program.axis_name[a]);
    return text;
}

void fl_comm_add(int kind, double seconds)
{
    kinds[kind].seconds += seconds;
    kinds[kind].calls++;
}

double fl_comm_total(void)
{
    double sum = 0;
    for (int k = 0; k < FL_MAX_KIND; k++)
        sum += kinds[k].seconds;
    return sum;
}

void fl_times_begin(void)
{
    begun.at = MPI_Wtime();
    begun.input = fl_queue_waited();
    for (int k = 0; k < nkind; k++) {
        begun.comm[k] = kinds[k].seconds;
        begun.calls[k] = kinds[k].calls;
    }
}

void fl_times_end(struct fl_times *t)
{
    double busy = fl_target_busy();
    *t = (struct fl_times){ .step = MPI_Wtime() - begun.at, .input = fl_queue_waited() - begun.input,
                            .memory = fl_target_memory_share() };
    for (int k = 0; k < nkind; k++) {
        t->comm[k] = kinds[k].seconds - begun.comm[k];
        calls[k] = kinds[k].calls - begun.calls[k];
        busy -= t->comm[k];
    }
    t->compute = busy > 0 ? busy : 0;
}

/* ---- all ranks ---- */

enum { BEFORE_KINDS = 4 };               /* numbers of a rank: step, compute, input, memory, then its kinds */
static MPI_Comm world = MPI_COMM_NULL;
static MPI_Request request;
static double *sent, *received, *spare;      /* by rank; what arrives goes to spare */
static struct fl_load load;

static int width(void) { return BEFORE_KINDS + nkind; }

struct fl_times fl_times_of(const struct fl_load *l, int rank)
{
    const double *x = l->rank + (int64_t)rank * width();
    struct fl_times t = { .step = x[0], .compute = x[1], .input = x[2], .memory = x[3] };
    memcpy(t.comm, x + BEFORE_KINDS, (size_t)nkind * sizeof(double));
    return t;
}

static void look(void)
{
    int n = fl_program.nranks;
    load = (struct fl_load){ .steps = load.steps + 1, .rank = received };
    for (int r = 0; r < n; r++) {
        struct fl_times t = fl_times_of(&load, r);
        double step = t.step > 0 ? t.step : 1;
        load.use += t.compute / step / n;
        load.input = t.input > load.input ? t.input : load.input;
        if (t.memory > load.memory) {
            load.memory = t.memory;
            load.memory_rank = r;
        }
        for (int k = 0; k < nkind; k++) {
            load.comm += t.comm[k] / step / n;
            load.wait[k].mean += t.comm[k] / n;
            if (t.comm[k] > load.wait[k].most) {
                load.wait[k].most = t.comm[k];
                load.wait[k].rank = r;
            }
        }
    }
    fl_slow_add(received, width(), BEFORE_KINDS);
}

const struct fl_load *fl_times_share(const struct fl_times *mine)
{
    bool there = world != MPI_COMM_NULL;
    if (!there) {
        FL_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &world));
        sent = fl_alloc(width() * (int64_t)sizeof *sent);
        int64_t all = fl_rank_number ? 0 : (int64_t)fl_program.nranks * width() * (int64_t)sizeof *received;
        received = fl_alloc(all);
        spare = fl_alloc(all);
    } else {
        fl_at("the end of the step", "collecting times");
        FL_WORLD(MPI_Wait(&request, MPI_STATUS_IGNORE));
        double *come = spare;
        spare = received;
        received = come;
        if (!fl_rank_number)
            look();
    }
    sent[0] = mine->step;
    sent[1] = mine->compute;
    sent[2] = mine->input;
    sent[3] = mine->memory;
    memcpy(sent + BEFORE_KINDS, mine->comm, (size_t)nkind * sizeof(double));
    FL_MPI(MPI_Igather(sent, width(), MPI_DOUBLE, spare, width(), MPI_DOUBLE, 0, world, &request));
    return there && !fl_rank_number ? &load : NULL;
}

void fl_times_stop(void)
{
    if (world == MPI_COMM_NULL)
        return;
    FL_WORLD(MPI_Wait(&request, MPI_STATUS_IGNORE));
    FL_MPI(MPI_Comm_free(&world));
    free(sent);
    free(received);
    free(spare);
    fl_slow_stop();
}
