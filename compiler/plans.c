/* --plans: a line for every plan of a program. Each is compiled by itself, with its diagnostics set aside; what a plan is
 * rejected for is its line. The figures are those of the memory, communication and schedule dumps, and of predict. */
#include "allocate/outside.h"
#include "base/diag.h"
#include "cost/cluster.h"
#include "cost/predict.h"
#include "module.h"
#include "passes.h"
#include "target.h"
#include <setjmp.h>
#include <string.h>

static const double gib = 1073741824.0;

/* A cpu plan without a cluster of its own is predicted for this machine. */
static void predict_here(struct module *m)
{
    struct mesh *mesh = &m->plan->mesh;
    if (!target_of(m)->here || (mesh->cluster && mesh->cluster->given))
        return;
    mesh->cluster = cluster_named("here");
    if (m->physical)
        m->physical->mesh->cluster = mesh->cluster;
}

static double worst_bytes(const struct physical *p)
{
    double worst = 0;
    for (int s = 0; s < p->nstage; s++) {
        const struct stage *x = &p->stages[s];
        double bytes = (double)(x->arena_bytes + outside_bytes(x));
        worst = bytes > worst ? bytes : worst;
    }
    return worst;
}

static void put_text(FILE *to, double seconds)
{
    if (seconds >= 100)
        fprintf(to, "%10.0f s ", seconds);
    else if (seconds >= 1)
        fprintf(to, "%10.2f s ", seconds);
    else
        fprintf(to, "%9.2f ms ", seconds * 1e3);
}

static void put_line(FILE *to, struct module *m, int errors, const char *fault)
{
    const struct physical *p = m->physical;
    bool placed = p && p->nstage && p->stages[0].arena_bytes > 0;
    double limit = m->plan->memory_bytes;
    fprintf(to, "%-18s %6d", m->plan->name, m->plan->mesh.nranks);
    if (!placed) {
        fprintf(to, "  rejected: %s\n", fault ? fault : "see --plan");
        return;
    }
    predict_here(m);
    struct prediction x = predict(m);
    double worst = worst_bytes(p);
    fprintf(to, " %9.3f %11.3f %7.1f%% ", worst / gib, x.comm_bytes / gib, x.bubble * 100);
    put_text(to, x.seconds);
    fprintf(to, "%6.1f%%  ", x.mfu * 100);
    if (limit > 0 && worst > limit)
        fprintf(to, "no: over %.4g GiB", limit / gib);
    else if (errors)
        fprintf(to, "rejected: %s", fault ? fault : "see --plan");
    else
        fprintf(to, "%s", limit > 0 ? "yes" : "no limit given");
    if (x.host_bytes > 0)
        fprintf(to, "; %.3f GiB to and from host memory", x.host_bytes / gib);
    fputc('\n', to);
}

static jmp_buf defect_seen;
static const char *defect;

static void note_defect(const char *fact)
{
    defect = fact;
    longjmp(defect_seen, 1);
}

/* NULL, or the defect of flowc that ended it: the other plans still have their lines. */
static const char *compile_guarded(struct module *m, bool (*compile)(struct module *m))
{
    bug_handler *before = bug_caught_by(note_defect);
    defect = NULL;
    if (!setjmp(defect_seen))
        compile(m);
    bug_caught_by(before);
    return defect;
}

int plans_table(FILE *to, struct module *first, bool (*compile)(struct module *m))
{
    int fits = 0;
    fprintf(to, "%-18s %6s %9s %11s %8s %12s %6s  %s\n", "plan", "ranks", "GiB/rank", "GiB moved", "bubble", "step", "MFU",
            "fits");
    struct module *shown = NULL;
    if (!arrlen(first->plans) && first->plan)        /* the plan of a program that writes none */
        arrput(first->plans, first->plan);
    for (int i = 0; i < arrlen(first->plans); i++) {
        struct module *m = NEW(struct module);
        struct options *o = NEW(struct options);
        *o = *first->options;
        o->plan = first->plans[i]->name;
        m->options = o;
        struct diag_held held = diag_hold();
        const char *bug = compile_guarded(m, compile), *fault = diag_first();
        int errors = diag_drop(held);
        fits += !errors && !bug;
        if (bug) {
            fprintf(to, "%-18s %6d  %s\n", o->plan, m->plan ? m->plan->mesh.nranks : 0, bug);
            continue;
        }
        if (!m->plan)
            continue;
        put_line(to, m, errors, fault);
        if (m->plan->mesh.cluster && m->physical)
            shown = m;
    }
    fputs("\nGiB/rank: of the rank that needs most. GiB moved: what a rank of the busiest stage sends and receives in a step.\n"
          "step, bubble, MFU: predicted; MFU counts three times the contractions of the forward.\n", to);
    if (shown)
        fprintf(to, "%s\n", cluster_text(shown->plan->mesh.cluster));
    return fits;
}
