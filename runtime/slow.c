/* Finding who is slow. A rank that comes late spends the least time in communication, whatever the axis, since it
 * never waits; what it does to one group goes on to the next, so the sum over all kinds tells who it is. A slow link
 * takes the time of all its ranks alike, and the others make up for it elsewhere: it shows against the groups along
 * the same axes. Both leave a trace of the other, a small one: the larger of the two is what it is. */
#include "slow.h"
#include "check.h"
#include "flow_rt.h"
#include "times.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 3, ENOUGH = 10 };          /* steps that make buffers; before anything is said, and until the next look */
static const double least_share = 0.1;   /* of the step, below which nobody is slow */

static double *mean;                     /* smoothed, as fl_slow_add gets them */
static int width, first, nkind, seen;

void fl_slow_add(const double *ranks, int of_width, int of_first)
{
    int64_t n = (int64_t)fl_program.nranks * of_width;
    width = of_width;
    first = of_first;
    nkind = width - first;
    if (!mean)
        mean = fl_alloc(n * (int64_t)sizeof *mean);
    for (int64_t i = 0; i < n; i++)
        mean[i] = seen < WARM ? ranks[i] : 0.9 * mean[i] + 0.1 * ranks[i];
    seen++;
}

static double step_of(int rank) { return mean[(int64_t)rank * width]; }
static double comm_of(int rank, int kind) { return mean[(int64_t)rank * width + first + kind]; }

static double total_of(int rank)
{
    double sum = 0;
    for (int k = 0; k < nkind; k++)
        sum += comm_of(rank, k);
    return sum;
}

static int coordinate(int rank, int axis)
{
    int stride = fl_program.axis_stride[axis];
    return stride ? rank / stride % fl_program.axis_size[axis] : 0;
}

/* The lowest rank that differs from this one along the kind's axes only. */
static int group_of(int rank, int kind)
{
    int low = rank;
    for (int a = 0; a < fl_program.naxis; a++)
        if (fl_kind_axes(kind) >> a & 1)
            low -= coordinate(rank, a) * fl_program.axis_stride[a];
    return low;
}

static void name_ranks(struct fl_slow *s, const char *before, const bool *is)
{
    int n = 0, shown = 0, stage = -1;
    bool one_stage = fl_program.pipe >= 0;
    char list[80] = "";
    size_t at = 0;
    for (int r = 0; r < fl_program.nranks; r++) {
        if (!is[r])
            continue;
        if (n++ < 4)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", shown++ ? ", " : "", r);
        if (one_stage) {
            int here = coordinate(r, fl_program.pipe);
            one_stage = stage < 0 || stage == here;
            stage = here;
        }
    }
    if (n > shown)
        snprintf(list + at, sizeof list - at, " and %d more", n - shown);
    at = (size_t)snprintf(s->name, sizeof s->name, "%srank%s %s", before, n == 1 ? "" : "s", list);
    if (one_stage && at < sizeof s->name)
        snprintf(s->name + at, sizeof s->name - at, " (stage %d)", stage);
}

/* The kind in which the others wait longest beyond what these spend. */
static int kind_of(const bool *slow, double *group)
{
    int best = 0, n = fl_program.nranks;
    double most = -1;
    for (int k = 0; k < nkind; k++) {
        double sum = 0;
        for (int r = 0; r < n; r++)
            group[r] = -1;
        for (int r = 0; r < n; r++)
            if (slow[r])
                group[group_of(r, k)] = comm_of(r, k);
        for (int r = 0; r < n; r++)
            if (!slow[r] && group[group_of(r, k)] >= 0)
                sum += comm_of(r, k) - group[group_of(r, k)];
        if (sum > most) {
            most = sum;
            best = k;
        }
    }
    return best;
}

static bool slow_rank(struct fl_slow *s, bool *is, double *group)
{
    int n = fl_program.nranks, count = 0;
    double least = total_of(0), most = least, others = 0, own = 0;
    for (int r = 1; r < n; r++) {
        double t = total_of(r);
        least = t < least ? t : least;
        most = t > most ? t : most;
    }
    for (int r = 0; r < n; r++) {
        double t = total_of(r);
        is[r] = t <= least + 0.25 * (most - least);
        count += is[r];
        *(is[r] ? &own : &others) += t;
    }
    if (count == n || 2 * count > n)
        return false;
    s->seconds = others / (n - count) - own / count;
    if (s->seconds < least_share * step_of(0))
        return false;                                /* s->what says so */
    s->what = FL_SLOW_RANK;
    s->kind = kind_of(is, group);
    name_ranks(s, "", is);
    return true;
}

/* What the fastest rank of a group spends in a kind is what its link takes. */
static bool slow_link(struct fl_slow *s, bool *is, double *group)
{
    int n = fl_program.nranks;
    for (int k = 0; k < nkind; k++) {
        int groups = 0, worst = -1;
        double sum = 0;
        for (int r = 0; r < n; r++)
            group[r] = -1;
        for (int r = 0; r < n; r++) {
            double *g = &group[group_of(r, k)], t = comm_of(r, k);
            if (t > 0 && (*g < 0 || t < *g))
                *g = t;
        }
        for (int r = 0; r < n; r++)
            if (group[r] >= 0) {
                groups++;
                sum += group[r];
                worst = worst < 0 || group[r] > group[worst] ? r : worst;
            }
        if (groups < 2)
            continue;
        double more = group[worst] - (sum - group[worst]) / (groups - 1);
        if (more < least_share * step_of(0) || more < 0.5 * group[worst] || more < s->seconds)
            continue;
        *s = (struct fl_slow){ .what = FL_SLOW_LINK, .kind = k, .seconds = more };
        for (int r = 0; r < n; r++)
            is[r] = group_of(r, k) == worst;
        name_ranks(s, "the link of ", is);
    }
    return s->what != FL_NOBODY;
}

/* A pass over all ranks: not in each step. */
struct fl_slow fl_slow_find(void)
{
    static struct fl_slow s;
    static int looked;
    int n = fl_program.nranks;
    if (seen < looked + ENOUGH || n < 2)
        return s;
    looked = seen;
    struct fl_slow link = { .what = FL_NOBODY }, rank = { .what = FL_NOBODY };
    bool *is = fl_alloc(n);
    double *group = fl_alloc(n * (int64_t)sizeof *group);
    bool of_link = slow_link(&link, is, group), of_rank = slow_rank(&rank, is, group);
    s = of_link && (!of_rank || link.seconds > rank.seconds) ? link : rank;
    free(is);
    free(group);
    return s;
}

void fl_slow_stop(void)
{
    free(mean);
    mean = NULL;
    seen = 0;
}
