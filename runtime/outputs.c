/* Outputs of steps. A scalar may be computed on some stages only; the lowest rank that has it gives it to rank 0, which
 * is found out at the first step of each entry and then needs one small message a step, or none. */
#include "outputs.h"
#include "check.h"
#include "place.h"
#include "target.h"
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct output {
    void *staging;                       /* of a scalar; not NULL once this rank has handed it over: it does so in each step */
    bool have;
    double value;
    int owner;
};
static struct output *outputs;           /* one per fl_program.output */
static bool known[FL_ENTRIES];           /* owners found out */

static struct {
    int output;                          /* -1: off */
    int64_t position, n;
    float *values;
    void *staging;                       /* what is copied out of this rank's part, `n` elements at most */
    int64_t base, count;                 /* of that part; count 0: none */
} row = { .output = -1 };

static bool is_scalar(const struct fl_output_spec *o) { return fl_tensor_count(&o->tensor) == 1; }

static bool is_short(enum fl_type type) { return type == FL_BF16 || type == FL_F16; }

/* Element i of what was copied out. */
static double taken(const void *staging, enum fl_type type, int64_t i)
{
    switch (type) {
    case FL_BF16: return fl_from_bf16(((const fl_bf16 *)staging)[i]);
    case FL_F16: return fl_from_f16(((const fl_f16 *)staging)[i]);
    case FL_I32: return ((const int32_t *)staging)[i];
    default: return ((const float *)staging)[i];
    }
}

/* Sequence 0 is in micro-batch 0 of the ranks whose part starts there; of replicas the first gives it. */
static void take_row(struct fl_run *run, const struct fl_tensor *t, int microbatch, const void *src)
{
    struct fl_box box = fl_box_of(t, run->rank->coord, microbatch);
    int last = t->ndim - 1;
    int64_t at = 0;
    for (int d = 0; d < last; d++) {
        int64_t want = d == last - 1 ? row.position : 0;
        if (want < box.base[d] || want >= box.base[d] + box.n[d])
            return;
        at = at * box.n[d] + want - box.base[d];
    }
    int64_t n = t->dim[last].size - box.base[last];
    n = n < box.n[last] ? n : box.n[last];
    int bytes = is_short(t->type) ? 2 : 4;
    if (n > 0 && fl_box_first(t, run->rank->coord)) {
        fl_copy_out(row.staging, (const char *)src + at * box.n[last] * bytes, n * bytes);
        row.base = box.base[last];
        row.count = n;
    }
}

void fl_write_output(struct fl_run *run, int k, int microbatch, const void *src)
{
    const struct fl_output_spec *o = &fl_program.output[k];
    if (!outputs)
        outputs = fl_alloc(fl_program.noutput * (int64_t)sizeof *outputs);
    if (k == row.output)
        take_row(run, &o->tensor, microbatch, src);
    if (!is_scalar(o))
        return;
    if (!outputs[k].staging)
        outputs[k].staging = fl_staging_new(4);
    fl_copy_out(outputs[k].staging, src, is_short(o->tensor.type) ? 2 : 4);
}

/* What the step has copied out, as numbers. */
static void collect(enum fl_entry entry)
{
    for (int k = 0; k < fl_program.noutput; k++) {
        const struct fl_output_spec *o = &fl_program.output[k];
        if (o->entry != entry || !outputs[k].staging)
            continue;
        outputs[k].have = true;
        outputs[k].value = taken(outputs[k].staging, o->tensor.type, 0);
    }
    for (int64_t i = 0; row.output >= 0 && i < row.count; i++)
        row.values[row.base + i] = (float)taken(row.staging, fl_program.output[row.output].tensor.type, i);
}

static void share(enum fl_entry entry)
{
    int n = fl_program.noutput;
    if (!known[entry]) {
        int *mine = fl_alloc(n * (int64_t)sizeof(int)), *lowest = fl_alloc(n * (int64_t)sizeof(int));
        for (int k = 0; k < n; k++)
            mine[k] = outputs[k].have && fl_program.output[k].entry == entry ? fl_rank_number : INT_MAX;
        FL_MPI(MPI_Allreduce(mine, lowest, n, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        for (int k = 0; k < n; k++)
            if (fl_program.output[k].entry == entry)
                outputs[k].owner = lowest[k];
        free(mine);
        free(lowest);
        known[entry] = true;
    }
    for (int k = 0; k < n; k++) {
        int owner = outputs[k].owner;
        if (fl_program.output[k].entry != entry || owner == INT_MAX || owner == 0)
            continue;
        if (fl_rank_number == owner)
            FL_MPI(MPI_Send(&outputs[k].value, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD));
        else if (fl_rank_number == 0)
            FL_MPI(MPI_Recv(&outputs[k].value, 1, MPI_DOUBLE, owner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        outputs[k].have |= fl_rank_number == 0;
    }
}

void fl_outputs_run(struct fl_run *run, enum fl_entry entry)
{
    if (!outputs)
        outputs = fl_alloc(fl_program.noutput * (int64_t)sizeof *outputs);
    for (int k = 0; k < fl_program.noutput; k++)
        outputs[k].have &= fl_program.output[k].entry != entry;
    if (row.output >= 0)
        memset(row.values, 0, (size_t)row.n * sizeof(float));
    row.count = 0;
    fl_target_run(run, entry, row.output < 0);
    fl_target_sync();
    collect(entry);
    fl_at("the end of the step", "collecting outputs");
    fl_waiting("any rank");
    share(entry);
    if (row.output >= 0)                             /* one rank has each entry, the others hold 0 */
        FL_MPI(MPI_Allreduce(MPI_IN_PLACE, row.values, (int)row.n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    fl_waiting(NULL);
}

double fl_outputs_scalar(enum fl_entry entry, const char *name, bool *have)
{
    *have = false;
    for (int k = 0; outputs && k < fl_program.noutput; k++)
        if (fl_program.output[k].entry == entry && outputs[k].have && !strcmp(fl_program.output[k].name, name)) {
            *have = true;
            return outputs[k].value;
        }
    return 0;
}

int64_t fl_outputs_row(enum fl_entry entry, const char *name, int64_t position)
{
    row.output = -1;
    for (int k = 0; name && k < fl_program.noutput; k++)
        if (fl_program.output[k].entry == entry && !strcmp(fl_program.output[k].name, name))
            row.output = k;
    if (row.output < 0) {
        free(row.values);
        row.values = NULL;
        return row.n = 0;
    }
    const struct fl_tensor *t = &fl_program.output[row.output].tensor;
    if (!row.values)
        row.values = fl_alloc(t->dim[t->ndim - 1].size * (int64_t)sizeof(float));
    if (!row.staging)
        row.staging = fl_staging_new(t->dim[t->ndim - 1].size * (int64_t)sizeof(float));
    row.n = t->dim[t->ndim - 1].size;
    row.position = position;
    return row.n;
}

const float *fl_outputs_row_values(void) { return row.values; }
