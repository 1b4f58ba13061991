/* --verify: all ranks compute what one would. Small sizes are found, all entries are run on one rank and on all, and
 * where they part a message names the tensor, its line, and the smallest case that still shows it. */
#include "../base/diag.h"
#include "../passes.h"
#include "verify.h"
#include <math.h>
#include <string.h>

enum { MOST_EVENNESS = 4 };
static const double CHEAP = 0.3;                     /* seconds that every compilation may spend */
static const double TWICE = 0.5;                     /* what takes less is run on other data too, where it is asked for */

static const char *mesh_text(const struct mesh *m)
{
    const char *text = "";
    for (int i = 0; i < m->naxis; i++)
        if (!m->axis[i].time)
            text = mem_printf("%s%s%s %d", text, *text ? ", " : "", m->axis[i].name, m->axis[i].size);
    return mem_printf("%s%s%d micro-batch%s", text, *text ? ", " : "", m->axis[m->mb].size,
                      m->axis[m->mb].size > 1 ? "es" : "");
}

static const char *rank_text(const struct mesh *m, int rank)
{
    const char *text = "";
    for (int i = 0; i < m->naxis && rank >= 0; i++)
        if (m->axis[i].size > 1 && !m->axis[i].time)
            text = mem_printf("%s%s%s %d", text, *text ? ", " : "", m->axis[i].name, mesh_coord(m, rank, i));
    return *text ? mem_printf(" on rank (%s)", text) : "";
}

static const char *dims_text(const struct module *m)
{
    const char *text = "";
    for (int i = 0; i < arrlen(m->dims); i++)
        text = mem_printf("%s%s%s = %lld", text, *text ? ", " : "", m->dims[i]->name, (long long)m->dims[i]->size);
    return text;
}

/* One look at these sizes, or, without any, at the program as it is. `most`: seconds it may take. */
static struct verdict look_at(struct module *m, const struct facts *f, const struct smallness *how, double most, bool where)
{
    struct verdict v = {.equal = true, .rank = ""};
    struct shrunk *s = how ? shrunk_make(m, f, how, &v.why_not) : NULL;
    if (how && !s)
        return v;
    double work = 0;
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            work += entry_work(m, (enum entry)e);
    v.work = work;
    if (work > most) {
        v.why_not = mem_printf("it would take about %.1f s", work);
        v.costly = true;
    } else {
        v.looked = true;
        v.sizes = s ? shrunk_text(s) : dims_text(m);
        v.mesh = mesh_text(m->physical->mesh);
        for (int e = 0; e < ENTRIES && v.equal; e++)
            if (m->graph[e])
                v.equal = entry_equal(m, (enum entry)e, how ? how->seed : 1, where, &v.first);
        if (m->options->verify == VERIFY_ALWAYS && m->graph[ENTRY_TRAIN] && v.equal)
            v.parted = training_rounded(m, how ? how->seed : 1);
        v.rank = rank_text(m->physical->mesh, v.first.rank);
    }
    if (s)
        shrunk_restore(s);
    return v;
}

/* Fewer ranks, micro-batches and blocks, one at a time, as long as the difference stays. */
static struct verdict counterexample(struct module *m, const struct facts *f, struct smallness how, struct verdict found)
{
    const double patience = 5;
    struct smallness least = how;
    for (int i = -1; i < f->mesh->naxis; i++) {
        struct smallness t = least;
        if (i == f->mesh->pipe || (i >= 0 && t.axis[i] == 1))
            continue;
        if (i >= 0)
            t.axis[i] = 1;
        else
            t.blocks = 1;
        struct verdict v = look_at(m, f, &t, patience, true);
        if (!v.looked || v.equal)
            continue;
        least = t;
        found = v;
    }
    for (least.evenness = 0; least.evenness < how.evenness; least.evenness++) {
        struct verdict v = look_at(m, f, &least, patience, true);
        if (v.looked && !v.equal)
            return v;
    }
    return found;
}

/* A user's op has kernels, but nothing that computes it here: the names of such, each once, as "run, run_grad". */
static void find_foreign(struct node *n, void *context)
{
    const char **names = context, *list = *names ? mem_printf(", %s, ", *names) : "";
    bool known = n->op->ref || n->op->flags & OP_BOXING || n->op == &op_repeat || n->op == &op_param ||
                 n->op == &op_input || n->op == &op_output;
    if (!known && !strstr(list, mem_printf(", %s, ", n->op->name)))
        *names = *names ? mem_printf("%s, %s", *names, n->op->name) : n->op->name;
}

/* Where no sizes were found: dims that stay even more often, then more ranks along the axes that leave some without a part,
 * where another dim divides by 4 but not by 3. False: there is nothing else to try. */
static bool try_next(const struct facts *f, struct smallness *how)
{
    enum { EMPTY = 3, FOUR = 4, MOST_PARTS = 8 };
    const struct mesh *m = f->mesh;
    bool more = false;
    if (how->evenness < MOST_EVENNESS) {
        how->evenness++;
        return true;
    }
    for (int i = 0; i < m->naxis; i++) {
        int most = how->axis[i] == EMPTY ? FOUR : MOST_PARTS;
        most = m->axis[i].size < most ? m->axis[i].size : most;
        if (i == m->pipe || m->axis[i].time || how->axis[i] < EMPTY || how->axis[i] >= most)
            continue;
        how->axis[i] = most;
        more = true;
    }
    how->evenness = 1;
    return more;
}

struct shrunk *verify_small(struct module *m, const char **why)
{
    struct facts *f = facts_collect(m);
    struct smallness *how = NEW(struct smallness);
    struct shrunk *s = NULL;
    *how = smallness_least(f);
    do
        s = shrunk_make(m, f, how, why);
    while (!s && try_next(f, how));
    return s;
}

struct verdict verify_module(struct module *m, bool all, bool where)
{
    struct facts *f = facts_collect(m);
    struct smallness how = smallness_least(f);
    struct verdict v = {.equal = true, .rank = ""};
    double most = all ? 1e9 : CHEAP;
    const char *foreign = NULL;
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            region_walk(m->graph[e]->root, find_foreign, &foreign);
    if (foreign) {
        v.why_not = mem_printf("only its own kernels compute %s; flow-gate FILE.flow tries the rules of a program's own ops",
                               foreign);
        return v;
    }
    do
        v = look_at(m, f, &how, most, false);
    while (!v.looked && !v.costly && try_next(f, &how));
    if (!v.looked && !v.costly) {                /* no small form: the program itself, where it is one */
        struct verdict as_is = look_at(m, f, NULL, most, false);
        if (as_is.looked && !as_is.equal && where) {
            struct verdict found = look_at(m, f, NULL, most, true);
            as_is = found.equal ? as_is : found;
        }
        return as_is.looked ? as_is : v;
    }
    if (v.looked && v.equal && all && v.work < TWICE) {
        how.seed++;                          /* what one set of data hides, another one may show */
        v = look_at(m, f, &how, most, false);
    }
    if (!v.looked || v.equal || !where)
        return v;
    struct verdict found = look_at(m, f, &how, 1e9, true);
    return counterexample(m, f, how, found.looked && !found.equal ? found : v);
}

/* ---- the message ---- */

static const char *index_text(const struct difference *d)
{
    const char *text = "";
    for (int k = 0; k < d->ndim; k++)
        text = mem_printf("%s%s%lld", text, k ? ", " : "", (long long)d->index[k]);
    return d->ndim ? mem_printf("[%s]", text) : "";
}

static void report(struct module *m, const struct verdict *v)
{
    const struct difference *d = &v->first;
    const char *path = d->value ? d->value->path : d->param ? d->param->path : d->output;
    struct span at = d->value ? d->value->span : d->param ? d->param->span : m->model_span;
    struct diag *g = diag_error(E_EQUIVALENCE, at, "'%s' is not what one rank computes", path ? path : "?");
    const char *when = "";
    if (d->value && phase_per_microbatch(d->phase))
        when = mem_printf(", micro-batch %lld", (long long)d->microbatch);
    if ((d->value && d->value->region->parent) || (d->param && arrlen(d->param->stack)))
        when = mem_printf("%s, block %lld", when, (long long)d->block);
    diag_note(g, "%s of %s, step %lld%s%s: %s%s is %.9g, should be %.9g", d->value ? phase_name[d->phase] : "after the update",
              entry_name[d->entry], (long long)d->step, when, v->rank, path ? path : "?", index_text(d), d->is, d->should);
    const struct node *def = d->physical ? d->physical->def : NULL;
    if (def && def->op->flags & OP_BOXING)
        diag_note(g, "it comes out of %s over %s", def->op->name + strlen("box_"),
                  mesh_axes_text(m->physical->mesh, (unsigned)node_int(def, "axes", 0), ", "));
    diag_note(g, "smallest case: %s; %s", v->sizes, v->mesh);
}

static void say_equal(const struct module *m, const struct verdict *v)
{
    fprintf(stderr, "verified: all ranks compute what one does (%s; %s)\n", v->sizes, v->mesh);
    if (!m->graph[ENTRY_TRAIN])
        return;
    const char *type = type_name[m->plan->precision.type];
    const struct parted *p = &v->parted;
    if (isfinite(p->loss) && isfinite(p->grad_norm) && isfinite(p->by_rounding))
        fprintf(stderr, "measured: with results rounded to %s, the loss parts from one rank's by %.1e of its size, the norm of the "
                "gradients by %.1e; rounding alone moves the loss by %.1e\n", type, p->loss, p->grad_norm, p->by_rounding);
    else
        fprintf(stderr, "not measured: at these sizes and weights a loss or norm is not finite in %s\n", type);
}

void verify(struct module *m)
{
    const char *fact;
    int rank;
    if (m->options->verify == VERIFY_NEVER)
        return;
    if (!images_hold(m, &fact, &rank)) {
        diag_note(diag_error(E_EQUIVALENCE, m->plan->mesh.span, "rank %d is not as the mesh has it", rank), "%s", fact);
        return;
    }
    bool asked = m->options->verify == VERIFY_ALWAYS;
    struct verdict *v = m->verdict = NEW(struct verdict);
    *v = verify_module(m, asked || m->options->spoil, true);
    if (v->looked && !v->equal)
        report(m, v);
    else if (v->looked && asked)
        say_equal(m, v);
    else if (!v->looked && asked)
        diag_warning(W_EQUIVALENCE, m->plan->span, "the plan was not compared with one rank: %s", v->why_not);
    else if (!v->looked)
        diag_remark("the plan was not compared with one rank: %s%s", v->why_not, v->costly ? "; --verify does it" : "");
}
