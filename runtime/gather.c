/* Bringing blocks together. Every rank knows what all hold, so that all agree on who sends what without a word: of the
 * replicas of a block, the one the receiver itself belongs to sends, else the lowest. */
#include "gather.h"
#include "check.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 28 };                /* floats in one message */

/* Equal on ranks that hold different parts of the same copy. */
static int replica_of(const struct fl_param *p, const int *coord)
{
    int replica = 0;
    for (int axis = 0; axis < fl_program.naxis; axis++) {
        bool splits = axis == fl_program.mb;
        for (int d = 0; d < p->tensor.ndim; d++)
            for (int i = 0; i < p->tensor.dim[d].nsplit; i++)
                splits |= p->tensor.dim[d].axis[i] == axis;
        for (int i = 0; i < p->nflat; i++)
            splits |= p->flat[i] == axis;
        if (!splits)
            replica += coord[axis] * fl_program.axis_stride[axis];
    }
    return replica;
}

struct fl_family fl_family_of(struct fl_run *run, int first)
{
    const struct fl_class *class = run->rank->class_;
    struct fl_family f = { .p = &class->param[first], .count = fl_family_end(class, first) - first };
    FL_WORLD(MPI_Allreduce(&f.count, &f.most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    struct fl_holding *mine = fl_alloc(f.most * (int64_t)sizeof *mine);
    f.all = fl_alloc(fl_program.nranks * f.most * (int64_t)sizeof *f.all);
    for (int k = 0; k < f.count; k++) {
        const struct fl_param *p = &f.p[k];
        mine[k].box = fl_box_of(&p->tensor, run->rank->coord, 0);
        mine[k].held = fl_held_of(p, run->rank->coord, &mine[k].box);
        mine[k].replica = replica_of(p, run->rank->coord);
        memcpy(mine[k].first, p->first, sizeof p->first);
        memcpy(mine[k].count, p->count, sizeof p->count);
    }
    int bytes = f.most * (int)sizeof *mine;
    FL_WORLD(MPI_Allgather(mine, bytes, MPI_BYTE, f.all, bytes, MPI_BYTE, MPI_COMM_WORLD));
    free(mine);
    return f;
}

void fl_family_free(struct fl_family *f)
{
    free(f->all);
    f->all = NULL;
}

/* The holding of a rank that has a part of the block, or NULL. */
static const struct fl_holding *holding(const struct fl_family *f, int rank, int64_t block, int *entry, int64_t *own)
{
    for (int k = 0; k < f->most; k++) {
        const struct fl_holding *h = &f->all[rank * f->most + k];
        *own = fl_block_within(f->p, h->first, h->count, block);
        *entry = k;
        if (*own >= 0)
            return h;
    }
    return NULL;
}

bool fl_family_holds(const struct fl_family *f, int rank, int64_t block)
{
    int entry;
    int64_t own;
    return holding(f, rank, block, &entry, &own) != NULL;
}

static _Noreturn void nobody(const struct fl_family *f, int64_t block)
{
    FL_FAIL("the program's tables are damaged: compile it again", "no rank holds block %lld of %s", (long long)block,
            f->p->tensor.path);
}

int fl_family_writer(const struct fl_family *f, int64_t block, const int64_t *load)
{
    int best = -1;
    for (int r = 0; r < fl_program.nranks; r++)
        if (fl_family_holds(f, r, block) && (best < 0 || load[r] < load[best]))
            best = r;
    if (best < 0)
        nobody(f, block);
    return best;
}

static void pass(float *part, int64_t n, int peer, bool sends)
{
    for (int64_t at = 0; at < n; at += PIECE) {
        int count = (int)(n - at < PIECE ? n - at : PIECE);
        if (sends)
            FL_WORLD(MPI_Send(part + at, count, MPI_FLOAT, peer, 1, MPI_COMM_WORLD));
        else
            FL_WORLD(MPI_Recv(part + at, count, MPI_FLOAT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

void fl_family_bring(struct fl_run *run, const struct fl_family *f, int64_t block, int to, float *whole)
{
    int k, replica = -1;
    int64_t own, got = 0;
    const struct fl_holding *h = holding(f, to, block, &k, &own);
    for (int r = 0; !h && r < fl_program.nranks; r++)
        h = holding(f, r, block, &k, &own);
    if (!h)
        nobody(f, block);
    replica = h->replica;
    for (int r = 0; r < fl_program.nranks; r++) {
        if (r != fl_rank_number && to != fl_rank_number)
            continue;
        h = holding(f, r, block, &k, &own);
        if (!h || h->replica != replica)
            continue;
        float *part = fl_alloc(h->held.n * (int64_t)sizeof(float));
        if (r == fl_rank_number)
            fl_block_get(part, run, &f->p[k], own, h->held.n);
        if (r != to)
            pass(part, h->held.n, r == fl_rank_number ? to : r, r == fl_rank_number);
        if (to == fl_rank_number)
            fl_held_put(whole, part, &f->p->tensor, &h->box, &h->held);
        got += h->held.n;
        free(part);
    }
    if (to == fl_rank_number && got == 0 && fl_tensor_count(&f->p->tensor) > 0)
        nobody(f, block);
}
