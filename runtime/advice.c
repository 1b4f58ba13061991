/* The limits, and what to do about them. Shares are means of the last ten steps or so, over all ranks; nothing is
 * said in the first twenty steps, nor of what a run cannot change. */
#include "advice.h"
#include "slow.h"
#include <stdio.h>
#include <string.h>

static const double most_comm = 0.25, least_use = 0.70, most_memory = 0.85, most_variation = 0.15;
enum { ENOUGH = 20 };

static int64_t now;                      /* the step that is looked at */
static double comm, use, input, wait[FL_MAX_KIND];
static struct { bool comm, use, memory, variation; char slow[sizeof ((struct fl_slow *)0)->name]; } said;

static void smooth(double *to, double x, bool first) { *to = first ? x : 0.9 * *to + 0.1 * x; }

static int longest(void)
{
    int k = 0;
    for (int i = 1; i < fl_kinds(); i++)
        k = wait[i] > wait[k] ? i : k;
    return k;
}

/* What makes communication of a kind shorter. */
static const char *less_of(int kind, char *text, size_t n)
{
    const char *axis = fl_kind_name(kind);
    if (fl_kind_pipe(kind))
        snprintf(text, n,
                 "try more micro-batches (`microbatches`, now %d), `schedule = interleaved(2)` or `zb_h1`, or "
                 "another `split` of the blocks",
                 fl_program.microbatches);
    else if (!fl_kind_data(kind))
        snprintf(text, n,
                 "ranks meet %lld times a step: try a smaller '%s' and a larger axis for data, or '%s' as the last "
                 "axis of the mesh, so that it stays inside a host",
                 (long long)fl_kind_calls(kind), axis, axis);
    else
        snprintf(
            text, n,
            "try more rows in a step (a larger batch, or more of it for each rank), `buckets`, so that more of it "
            "goes beside the backward, or `precision bf16`, which halves the bytes");
    return text;
}

static void about_comm(void)
{
    char text[400];
    if (comm <= most_comm || said.comm)
        return;
    said.comm = true;
    fl_report_warning(now, "communication takes %.0f %% of the step (over %.0f %%), most of it along '%s': %s",
                   100 * comm, 100 * most_comm, fl_kind_name(longest()), less_of(longest(), text, sizeof text));
}

static void about_use(double seconds)
{
    char text[400];
    if (use >= least_use || said.use)
        return;
    said.use = true;
    if (input > 0.1 * seconds)
        fl_report_warning(now, "the devices work %.0f %% of the time (under %.0f %%), a rank waits %.3g s a step "
                       "for data: put the files on a faster disk, or try larger steps",
                       100 * use, 100 * least_use, input);
    else if (comm > 0.5 * (1 - use))
        fl_report_warning(now, "the devices work %.0f %% of the time (under %.0f %%), the most of the rest is "
                       "communication along '%s': %s",
                       100 * use, 100 * least_use, fl_kind_name(longest()), less_of(longest(), text, sizeof text));
    else
        fl_report_warning(now, "the devices work %.0f %% of the time (under %.0f %%), a step is too short for them: try fewer "
            "micro-batches (`microbatches`, now %d) or a larger batch",
            100 * use, 100 * least_use, fl_program.microbatches);
}

static void about_memory(const struct fl_load *l)
{
    if (l->memory <= most_memory || said.memory)
        return;
    said.memory = true;
    fl_report_warning(now, "the memory that rank %d runs in is %.0f %% full (over %.0f %%): try `recompute`, more "
        "micro-batches (now %d), `shard optimizer over` an axis for data, or `offload optimizer to host`",
        l->memory_rank, 100 * l->memory, 100 * most_memory, fl_program.microbatches);
}

static void about_variation(double variation, const struct fl_slow *slow)
{
    if (!(variation > most_variation) || said.variation)
        return;
    said.variation = true;
    if (slow->what != FL_NOBODY)
        fl_report_warning(now, "steps take unequal time, the deviation is %.2f of the mean (over %.2f), and %s keeps the "
            "others waiting: try a plan without it, or a smaller '%s'",
            variation, most_variation, slow->name, fl_kind_name(slow->kind));
    else
        fl_report_warning(now, "steps take unequal time, the deviation is %.2f of the mean (over %.2f): others use the "
            "machines or links as well; try fewer ranks on a host, or fewer micro-batches (now %d), so that ranks "
            "meet less often",
            variation, most_variation, fl_program.microbatches);
}

static void about_slow(const struct fl_slow *slow)
{
    static char before[sizeof slow->name];
    static int64_t times;
    times = slow->what != FL_NOBODY && !strcmp(before, slow->name) ? times + 1 : 0;
    memcpy(before, slow->name, sizeof before);
    if (times < ENOUGH / 2 || !strcmp(said.slow, slow->name))
        return;
    memcpy(said.slow, slow->name, sizeof said.slow);
    if (slow->what == FL_SLOW_LINK)
        fl_report_warning(now, "%s along '%s' is slow: they spend %.3g s a step more in communication than others "
                       "along that axis",
                       slow->name, fl_kind_name(slow->kind), slow->seconds);
    else
        fl_report_warning(now, "%s is slow: the others wait %.3g s a step more in communication, most along '%s'",
                       slow->name, slow->seconds, fl_kind_name(slow->kind));
}

void fl_advise(const struct fl_report_step *s)
{
    const struct fl_load *l = s->load;
    if (!l)
        return;
    now = s->step;
    bool first = l->steps <= 2;                      /* the first two make buffers, and graphs */
    smooth(&comm, l->comm, first);
    smooth(&use, l->use, first);
    smooth(&input, l->input, first);
    for (int k = 0; k < fl_kinds(); k++)
        smooth(&wait[k], l->wait[k].mean, first);
    if (l->steps < ENOUGH)
        return;
    struct fl_slow slow = fl_slow_find();
    about_comm();
    about_use(s->seconds);
    about_memory(l);
    about_variation(s->variation, &slow);
    about_slow(&slow);
}
