/* --check-replicas: each rank notes a hash of every value that others hold too, as it is made, and of its parts of the
 * parameters and states behind the update; behind the step the ranks along each axis compare their notes. Ranks of a
 * stage run the same text, so that their notes stand in the same order: the first that differs is where replicas part,
 * and what differs behind it follows from it. Values are bit-equal because collectives give every rank the same bits and
 * kernels do not depend on the number of threads. */
#include "replicas.h"
#include "agree.h"
#include "blocks.h"
#include "check.h"
#include "see.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct note {
    uint64_t hash;
    unsigned same;                       /* bit set of the axes along which it is the same */
    const char *path, *op, *where, *phase;
    const struct fl_value *value;        /* NULL: a parameter */
    const struct fl_param *param;
    int64_t block;
    int microbatch;
};
static struct note *note;
static int nnote, room;
static MPI_Comm along[FL_MAX_AXIS];

/* FNV-1a over 32-bit words. */
static uint64_t hash_of(const float *x, int64_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        h = (h ^ bits) * 0x100000001b3u;
    }
    return h;
}

static unsigned split_axes(const struct fl_tensor *t)
{
    unsigned axes = 0;
    for (int d = 0; d < t->ndim; d++)
        for (int i = 0; i < t->dim[d].nsplit; i++)
            axes |= 1u << t->dim[d].axis[i];
    return axes;
}

/* Axes with several ranks of this stage. */
static unsigned moving(void)
{
    unsigned axes = 0;
    for (int a = 0; a < fl_program.naxis; a++)
        if (a != fl_program.mb && a != fl_program.pipe && fl_program.axis_size[a] > 1)
            axes |= 1u << a;
    return axes;
}

static void add(struct note n)
{
    if (nnote == room && !(note = realloc(note, (size_t)(room = 2 * room + 256) * sizeof *note)))
        FL_FAIL("the host is out of memory", "cannot note what is compared");
    note[nnote++] = n;
}

static void look(struct fl_run *run, const struct fl_seen *s)
{
    for (int k = 0; k < s->node->nvalue && s->node->entry != FL_SAMPLE; k++) {
        const struct fl_value *v = &s->node->value[k];
        unsigned own = split_axes(&v->tensor) | v->partial[FL_SUM] | v->partial[FL_MAX] | v->partial[FL_MIN] | v->flat;
        if (!(moving() & ~own))
            continue;
        for (int64_t i = 0; i < v->blocks; i++) {
            struct fl_box box;
            int64_t n;
            const float *x = fl_seen_read(run, s, k, i, &box, &n);
            add((struct note){ .hash = hash_of(x, n), .same = moving() & ~own, .path = v->tensor.path, .op = s->node->op,
                               .where = s->node->where, .phase = s->node->phase, .value = v, .block = fl_seen_block(s, i),
                               .microbatch = s->microbatch });
        }
    }
}

static void note_parameters(struct fl_run *run, const char *when)
{
    const struct fl_class *class = run->rank->class_;
    for (int k = 0; k < class->nparam; k++) {
        const struct fl_param *p = &class->param[k];
        unsigned own = split_axes(&p->tensor);
        for (int i = 0; i < p->nflat; i++)
            own |= 1u << p->flat[i];
        struct fl_box box = fl_box_of(&p->tensor, run->rank->coord, 0);
        struct fl_held held = fl_held_of(p, run->rank->coord, &box);
        float *x = fl_alloc(held.n * (int64_t)sizeof *x);
        for (int64_t b = 0; b < fl_blocks_own(p) && moving() & ~own; b++) {
            fl_block_get(x, run, p, b, held.n);
            add((struct note){ .hash = hash_of(x, held.n), .same = moving() & ~own, .path = p->tensor.path, .phase = when,
                               .param = p, .block = fl_block_number(p, b) });
        }
        free(x);
    }
}

/* The first of n numbers that differs along the axis, on all its ranks alike; -1: none. there[i]: this rank has it. */
static int first_difference(int axis, int n, const uint64_t *hash, const bool *there)
{
    uint64_t *least = fl_alloc(n * (int64_t)sizeof *least), *most = fl_alloc(n * (int64_t)sizeof *most);
    int first = -1;
    for (int i = 0; i < n; i++) {
        least[i] = there[i] ? hash[i] : UINT64_MAX;
        most[i] = there[i] ? hash[i] : 0;
    }
    FL_WORLD(MPI_Allreduce(MPI_IN_PLACE, least, n, MPI_UINT64_T, MPI_MIN, along[axis]));
    FL_WORLD(MPI_Allreduce(MPI_IN_PLACE, most, n, MPI_UINT64_T, MPI_MAX, along[axis]));
    for (int i = 0; i < n && first < 0; i++)
        if (least[i] < most[i])
            first = i;
    free(least);
    free(most);
    return first;
}

/* ": ranks 0, 2 hold one, rank 4 another" */
static void put_holders(FILE *to, int axis, uint64_t mine, bool there)
{
    int n = fl_program.axis_size[axis], me[2] = { fl_rank_number, there };
    uint64_t *all = fl_alloc(n * (int64_t)sizeof *all);
    int(*who)[2] = fl_alloc(n * (int64_t)sizeof *who);
    bool *told = fl_alloc(n);
    FL_WORLD(MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, along[axis]));
    FL_WORLD(MPI_Allgather(me, 2, MPI_INT, who, 2, MPI_INT, along[axis]));
    for (int i = 0, groups = 0; i < n && groups < 4; i++) {
        int count = 0, shown = 0;
        if (told[i] || !who[i][1])
            continue;
        for (int k = i; k < n; k++)
            count += who[k][1] && all[k] == all[i];
        fprintf(to, "%s%s", groups ? ", " : ": ", count == 1 ? "rank" : "ranks");
        for (int k = i; k < n; k++)
            if (who[k][1] && all[k] == all[i]) {
                told[k] = true;
                if (shown++ < 16)
                    fprintf(to, "%s %d", shown > 1 ? "," : "", who[k][0]);
            }
        fprintf(to, groups ? " another" : count == 1 ? " holds one" : " hold one");
        groups++;
    }
    free(all);
    free(who);
    free(told);
}

static char *parameter_text(int axis, const struct fl_param *p, int64_t block, const char *when, uint64_t hash, bool there)
{
    char *text = NULL, *name = fl_block_name(p, block, 0, true);
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        FL_FAIL("the host is out of memory", "cannot write a report");
    fprintf(to, "%s: %s is not the same along %s", when, name, fl_program.axis_name[axis]);
    put_holders(to, axis, hash, there);
    fclose(to);
    free(name);
    return text;
}

static char *note_text(int axis, const struct note *n, int64_t step)
{
    if (n->param)
        return parameter_text(axis, n->param, n->block, n->phase, n->hash, true);
    char *text = NULL, *name = fl_seen_path(n->value, n->path, n->block);
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        FL_FAIL("the host is out of memory", "cannot write a report");
    fprintf(to, "step %lld: %s is not the same along %s, as %s makes it at %s, %s", (long long)step, name,
            fl_program.axis_name[axis], n->op, n->where, n->phase);
    if (fl_program.microbatches > 1)
        fprintf(to, ", micro-batch %d of %d", n->microbatch, fl_program.microbatches);
    put_holders(to, axis, n->hash, true);
    fclose(to);
    free(name);
    return text;
}

/* A parameter that several stages hold whole. */
static char *tied_text(struct fl_run *run, const char *when)
{
    const struct fl_class *class = run->rank->class_;
    int n = class->nparam, axis = fl_program.pipe, first;
    uint64_t *hash = fl_alloc(n * (int64_t)sizeof *hash);
    bool *there = fl_alloc(n + 1);
    for (int k = 0; k < n; k++) {
        const struct fl_param *p = &class->param[k];
        struct fl_box box = fl_box_of(&p->tensor, run->rank->coord, 0);
        struct fl_held held = fl_held_of(p, run->rank->coord, &box);
        there[k] = p->nstack == 0 && fl_blocks_own(p) > 0 && held.n > 0;
        if (!there[k])
            continue;
        float *x = fl_alloc(held.n * (int64_t)sizeof *x);
        fl_block_get(x, run, p, 0, held.n);
        hash[k] = hash_of(x, held.n);
        free(x);
    }
    first = first_difference(axis, n, hash, there);
    char *text = first < 0 ? NULL : parameter_text(axis, &class->param[first], 0, when, hash[first], there[first]);
    free(hash);
    free(there);
    return text;
}

/* All ranks: the earliest difference ends the run, with one report. Ranks along an axis look at it together. */
static void compare(struct fl_run *run, int64_t step, const char *when)
{
    char *text = NULL;
    struct { int at, rank; } own = { 1 << 30, fl_rank_number }, least;
    fl_at("behind the step", "comparing replicas");
    note_parameters(run, when);
    uint64_t *hash = fl_alloc(nnote * (int64_t)sizeof *hash);
    bool *there = fl_alloc(nnote + 1);
    for (int a = 0; a < fl_program.naxis; a++) {
        if (!(moving() >> a & 1))
            continue;
        for (int i = 0; i < nnote; i++) {
            hash[i] = note[i].hash;
            there[i] = note[i].same >> a & 1;
        }
        int i = first_difference(a, nnote, hash, there);
        char *found = i < 0 ? NULL : note_text(a, &note[i], step);
        if (found && i < own.at) {
            own.at = i;
            text = found;
        }
    }
    if (fl_program.pipe >= 0 && fl_program.axis_size[fl_program.pipe] > 1) {
        char *found = tied_text(run, when);
        if (found && !text) {
            text = found;
            own.at = (1 << 30) - 1;
        }
    }
    FL_WORLD(MPI_Allreduce(&own, &least, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD));
    fl_agree(least.at < 1 << 30 && least.rank == fl_rank_number ? text : NULL);
    nnote = 0;
    free(hash);
    free(there);
}

void fl_replicas_start(struct fl_run *run)
{
    for (int a = 0; a < fl_program.naxis; a++) {
        int colour = fl_rank_number - run->rank->coord[a] * fl_program.axis_stride[a];
        if (a != fl_program.mb && fl_program.axis_size[a] > 1)
            FL_WORLD(MPI_Comm_split(MPI_COMM_WORLD, colour, run->rank->coord[a], &along[a]));
    }
    compare(run, 0, "before the first step");
    fl_see_add(look, true);
}

void fl_replicas_step(struct fl_run *run)
{
    static char when[64];
    snprintf(when, sizeof when, "after the update of step %lld", (long long)run->step.step + 1);
    compare(run, run->step.step + 1, when);
}
