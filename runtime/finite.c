/* --check-finite: every value is read as soon as it is made, and the first that holds a NaN, or an infinity that is not
 * meant, ends the run with one report: which value of which op and source line, which rank, which micro-batch. A rank
 * stops before it passes on what it has found, so that nobody finds what another has made. Of ranks that find one at
 * the same time (they hold the same) the lowest speaks.
 *
 * Under a loss scale a gradient that overflows is no fault: that step is skipped, and the next has half the scale. So what is
 * made of gradients is told only once the scale is at its least, or when the run ends with such a step, or where the loss
 * itself (which may be made beside the backward) is no number: then by the rank that came upon it first. */
#define _GNU_SOURCE
#include "finite.h"
#include "blocks.h"
#include "check.h"
#include "fl_scale.h"
#include "outputs.h"
#include "peers.h"
#include "see.h"
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t step;
static struct { int64_t step; double at; char *text; } passed;       /* the first of the last skipped step; at: seconds into it */
static double begun;

struct found { int64_t first, count; float what; };

/* infinite: only NaNs count. */
static struct found search(const float *x, int64_t n, bool infinite)
{
    int64_t bad = 0, first = -1;
#pragma omp parallel for reduction(+ : bad) if (n > 65536)
    for (int64_t i = 0; i < n; i++)
        bad += infinite ? isnan(x[i]) != 0 : !isfinite(x[i]);
    for (int64_t i = 0; i < n && bad && first < 0; i++)
        if (infinite ? isnan(x[i]) : !isfinite(x[i]))
            first = i;
    return (struct found){ first, bad, first < 0 ? 0 : x[first] };
}

/* Waits its turn: a lower rank may have found the same. */
static bool another_speaks(void)
{
    int turns = 10 * (fl_rank_number < 40 ? fl_rank_number : 40);
    for (int i = 0; i < turns && !fl_peers_told(); i++)
        usleep(10000);
    return fl_peers_told();
}

/* "[0, 3, 17]": where element i of the part is in the logical tensor. */
static void place(FILE *to, const struct fl_tensor *t, const struct fl_box *b, int64_t i)
{
    int64_t at[FL_MAX_DIM];
    for (int d = t->ndim - 1; d >= 0; d--) {
        at[d] = b->base[d] + i % b->n[d];
        i /= b->n[d];
    }
    for (int d = 0; d < t->ndim; d++)
        fprintf(to, "%s%lld", d ? ", " : "[", (long long)at[d]);
    fprintf(to, t->ndim ? "]" : "it");
}

static _Noreturn void speak(const char *text)
{
    if (another_speaks()) {
        sleep(5);                                          /* it ends the job */
        fl_end_job();
    }
    fl_peers_tell();
    fputs(text, stderr);
    fl_end_job();
}

static char *describe(const struct fl_seen *s, const struct fl_value *v, int64_t block, const struct found *f,
                      const struct fl_box *box, int64_t n)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        fl_end_job();
    fprintf(to, "rank %d: step %lld: the first %s is in %s, which %s makes at %s", fl_rank_number, (long long)step,
            isnan(f->what) ? "NaN" : "infinity", fl_seen_path(v, v->tensor.path, block), s->node->op, s->node->where);
    fprintf(to, ", %s", s->node->phase);
    if (fl_program.microbatches > 1)
        fprintf(to, ", micro-batch %d of %d", s->microbatch, fl_program.microbatches);
    fprintf(to, ": %g at ", f->what);
    if (v->flat)
        fprintf(to, "element %lld of this rank's share", (long long)f->first);
    else
        place(to, &v->tensor, box, f->first);
    fprintf(to, ", %lld of %lld elements here are not finite", (long long)f->count, (long long)n);
    fclose(to);
    return text;
}

/* May half the scale mend it? What the forward makes does not depend on it. */
static bool may_pass(const struct fl_run *run, const struct fl_seen *s)
{
    const char *phase = s->node->phase;
    return run->step.loss_scale > 1 / FL_SCALE_MOST && (!strcmp(phase, "backward") || !strcmp(phase, "weight") || !strcmp(phase, "update"));
}

static void pass(char *text)
{
    free(passed.text);
    passed.step = step;
    passed.at = MPI_Wtime() - begun;
    passed.text = text;
}

static void look(struct fl_run *run, const struct fl_seen *s)
{
    if (step != run->step.step + 1)
        begun = MPI_Wtime();
    step = run->step.step + 1;
    for (int k = 0; k < s->node->nvalue; k++) {
        const struct fl_value *v = &s->node->value[k];
        if (v->tensor.type == FL_I32 || v->tensor.type == FL_U8 || v->tensor.type == FL_BOOL)
            continue;
        bool passes = may_pass(run, s);
        for (int64_t i = 0; i < v->blocks && !(passes && passed.step == step); i++) {
            struct fl_box box;
            int64_t n;
            const float *x = fl_seen_read(run, s, k, i, &box, &n);
            struct found f = search(x, n, v->infinite);
            if (!f.count)
                continue;
            char *text = describe(s, v, fl_seen_block(s, i), &f, &box, n);
            if (!passes)
                speak(fl_printf("flow: %s\n", text));
            pass(text);
            break;
        }
    }
}

static void look_at_parameters(struct fl_run *run, const char *when)
{
    const struct fl_class *class = run->rank->class_;
    for (int k = 0; k < class->nparam; k++) {
        const struct fl_param *p = &class->param[k];
        struct fl_box box = fl_box_of(&p->tensor, run->rank->coord, 0);
        struct fl_held held = fl_held_of(p, run->rank->coord, &box);
        float *part = fl_alloc(held.n * (int64_t)sizeof *part);
        for (int64_t own = 0; own < fl_blocks_own(p) && held.n > 0; own++) {
            fl_block_get(part, run, p, own, held.n);
            struct found f = search(part, held.n, false);
            if (f.count)
                speak(fl_printf("flow: rank %d: %s, %s holds the first %s: %lld of %lld elements here are not finite\n",
                                fl_rank_number, when, fl_block_name(p, fl_block_number(p, own), 0, true),
                                isnan(f.what) ? "NaN" : "infinity", (long long)f.count, (long long)held.n));
        }
        free(part);
    }
}

/* Does this rank have the first of what was passed over in the last step? */
static bool passed_first(void)
{
    struct { double at; int rank; } mine = { passed.text && passed.step == step ? passed.at : INFINITY, fl_rank_number }, first;
    FL_WORLD(MPI_Allreduce(&mine, &first, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
    return isfinite(first.at) && first.rank == fl_rank_number;
}

void fl_finite_stop(void)
{
    if (passed_first())
        fprintf(stderr, "flow: the last step was skipped: %s\n", passed.text);
    free(passed.text);
    passed.text = NULL;
}

void fl_finite_start(struct fl_run *run)
{
    look_at_parameters(run, "before the first step");
    fl_see_add(look, true);
}

void fl_finite_step(struct fl_run *run)
{
    char when[64];
    bool have;
    double loss = fl_outputs_scalar(FL_TRAIN, "loss", &have);
    int lost = have && !isfinite(loss), any = 0;
    if (run->step.loss_scale > 0)
        FL_WORLD(MPI_Allreduce(&lost, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    if (any && passed_first())
        speak(fl_printf("flow: %s\n", passed.text));
    snprintf(when, sizeof when, "after the update of step %lld", (long long)run->step.step + 1);
    look_at_parameters(run, when);
}
