/* From plan lines and to(..) to fixed layouts. A line names every axis of its tensors: what it leaves out is B. to(..)
 * fixes only the axes it names. Behind a value that has a line an op_to is inserted, which takes whatever the op makes to
 * what the line says; all readers read its output. */
#include "shard.h"
#include <string.h>

static bool same_layout(const struct sharding *s, struct layout a, struct layout b)
{
    layout_normalise(&a, s->mesh);
    layout_normalise(&b, s->mesh);
    return layout_same(&a, &b, s->mesh->naxis);
}

/* Two lines that differ for many tensors do so for one reason. */
static void conflict(struct sharding *s, const struct plan_line *old, const struct plan_line *line, const char *name)
{
    if (hmgeti(s->refused, line->span) >= 0)
        return;
    hmput(s->refused, line->span, 1);
    struct diag *d = diag_error(E_CONFLICT, line->span, "'%s' gets two different layouts", name);
    diag_mark(d, "this one");
    diag_label(d, old->span, "and this one");
    if (strcmp(old->pattern, line->pattern))
        diag_note(d, "`%s` and `%s` both name it", line->pattern, old->pattern);
    diag_help(d, "keep one of the two, or narrow a pattern");
}

static bool about_layout(const struct plan_line *line)
{
    return line->kind == LINE_SBP || line->kind == LINE_PIN;
}

/* ---- parameters ---- */

struct param *node_param(const struct node *n)
{
    struct param *p = n->op == &op_param ? node_ptr(n, "param") : NULL;
    return p && p->of ? p->of : p;
}

void lines_on_params(struct sharding *s)
{
    struct plan *plan = s->m->plan;
    int n = (int)arrlen(s->m->params);
    for (int k = 0; k < n; k++) {
        struct param *p = s->m->params[k];
        p->lay = (struct layout){ 0 };
        if (p->of)
            continue;
        struct target t = { p->path, p->ndim, p->dim, p->span };
        for (int i = 0; i < arrlen(plan->lines); i++) {
            struct plan_line *line = &plan->lines[i];
            struct layout lay;
            unsigned axes;
            if (!about_layout(line) || !param_meant(p, line->pattern, false))
                continue;
            line->matches++;
            if (!layout_resolve(s, line->parts, &t, &lay, &axes))
                break;
            for (int a = 0; a < s->mesh->naxis; a++)
                if (lay.ax[a].kind == SBP_P) {
                    struct diag *d = diag_error(E_PARTIAL, line->span, "parameter '%s' cannot be stored as partial sums", p->path);
                    diag_label(d, p->span, "declared here");
                    diag_help(d, "store it whole, or split: {%s: S(%s)}", s->mesh->axis[a].name,
                              p->ndim && p->dim[0]->name ? p->dim[0]->name : "0");
                    return;
                }
            if (p->line && !same_layout(s, lay, p->lay))
                conflict(s, p->line, line, p->path);
            p->line = line;
            p->lay = lay;
        }
    }
    for (int k = 0; k < n; k++) {
        struct param *p = s->m->params[k];
        struct param *base = p->of ? p->of : p;
        layout_normalise(&base->lay, s->mesh);
        p->lay = base->lay;
        p->line = base->line;
    }
}

/* ---- values ---- */

static bool may_have_line(const struct value *v)
{
    if (!v->path || (v->def && (v->def->op == &op_param || v->def->forward || v->def->op == &op_output)))
        return false;
    enum phase phase = value_phase(v);
    return phase == PHASE_FORWARD || phase == PHASE_COUNT;
}

static void line_on_value(struct sharding *s, struct value *v, struct plan_line *line)
{
    struct target t = { v->path, v->ndim, v->dim, v->span };
    struct fixed *f = &s->fixed[v->id];
    struct layout lay;
    unsigned axes;
    line->matches++;
    if (!layout_resolve(s, line->parts, &t, &lay, &axes))
        return;
    if (f->line && !same_layout(s, lay, f->lay)) {
        conflict(s, f->line, line, v->path);
        return;
    }
    for (int a = 0; a < s->mesh->naxis; a++)
        if (v->def && v->def->op == &op_input && lay.ax[a].kind == SBP_P) {
            struct diag *d = diag_error(E_PARTIAL, line->span, "input '%s' cannot arrive as partial sums", v->path);
            diag_help(d, "inputs are whole or split, as in {%s: S(N)}", s->mesh->axis[a].name);
            return;
        }
    for (int a = 0; a < s->mesh->naxis; a++)
        if (!s->mesh->axis[a].time)
            f->axes |= 1u << a;
    f->pin |= line->kind == LINE_PIN;
    f->lay = lay;
    f->line = v->line = line;
    f->span = line->span;
}

/* Inputs are split over the micro-batch axis by their dim. */
static void input_over_time(struct sharding *s, struct value *v)
{
    int mb = s->mesh->mb;
    struct plan *plan = s->m->plan;
    struct fixed *f = &s->fixed[v->id];
    if (mb < 0)
        return;
    f->axes |= 1u << mb;
    for (int d = 0; d < v->ndim; d++) {
        if (v->dim[d] != plan->mb_dim || s->mesh->axis[mb].size == 1)
            continue;
        int64_t parts = s->mesh->axis[mb].size;
        unsigned split = 0;
        for (int a = 0; a < s->mesh->naxis; a++)
            if (a != mb && f->lay.ax[a].kind == SBP_S && f->lay.ax[a].dim == d) {
                parts *= s->mesh->axis[a].size;
                split |= 1u << a;
            }
        f->lay.ax[mb] = (struct sbp){ SBP_S, (uint8_t)d, MAX_AXIS };
        if (v->dim[d]->size % parts == 0)
            continue;
        long long n = (long long)v->dim[d]->size, m = s->mesh->axis[mb].size, ranks = (long long)parts / m;
        struct diag *e = split
            ? diag_error(E_MICROBATCH, plan->mb_span, "dim '%s' of size %lld cannot be cut into %lld micro-batches on %lld ranks of %s",
                         v->dim[d]->name, n, m, ranks, axis_names(s->mesh, split))
            : diag_error(E_MICROBATCH, plan->mb_span, "dim '%s' of size %lld cannot be cut into %lld micro-batches", v->dim[d]->name, n, m);
        if (f->span.file)
            diag_label(e, f->span, "'%s' is split here", v->path);
        if (n % ranks == 0)
            diag_help(e, "legal numbers of micro-batches here: %s; or take %s = %lld", divisors_text(n / ranks), v->dim[d]->name,
                      (n / (long long)parts + 1) * (long long)parts);
        else
            diag_help(e, "parts that are uneven over ranks cannot be cut again: use 1 micro-batch, or take %s = %lld",
                      v->dim[d]->name, (n / (long long)parts + 1) * (long long)parts);
        return;
    }
}

/* Puts op_to behind v; all that read v read its output instead. */
static void replace_reads(struct region *r, const struct value *v, struct value *by, const struct node *but)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] == v && n != but)
                n->in[k] = by;
        if (!n->body)
            continue;
        for (int k = 0; k < arrlen(n->body->results); k++)
            if (n->body->results[k] == v)
                n->body->results[k] = by;
        replace_reads(n->body, v, by, but);
    }
}

/* The stage on which v is made; a repeat that is cut ends where its last block is. */
static int stage_behind(const struct value *v)
{
    const struct node *n = v->def ? v->def : v->region->owner;
    const int64_t *cut = n && n->body && v->def && n->stage < 0 ? region_origin(n->body)->cut : NULL;
    for (int s = (int)arrlen(cut) - 2; s >= 0; s--)
        if (cut[s + 1] > cut[s])
            return s;
    return n ? n->stage : 0;
}

static bool in_graph(const struct node *n, int *at)
{
    for (int i = 0; i < arrlen(n->region->nodes); i++)
        if (n->region->nodes[i] == n) {
            *at = i;
            return !n->region->owner || in_graph(n->region->owner, &(int){0});
        }
    return false;
}

/* Is v still in the graph, and behind which node of its region is it there? -1: from the start. */
static bool is_live(const struct value *v, int *at)
{
    *at = -1;
    for (int k = 0; v->def && k < arrlen(v->def->out); k++)
        if (v->def->out[k] == v)
            return in_graph(v->def, at);
    for (int k = 0; !v->def && k < arrlen(v->region->args); k++)
        if (v->region->args[k] == v)
            return in_graph(v->region->owner, &(int){0});
    return false;
}

static void insert_to(struct sharding *s, struct value *v)
{
    int at;
    if (!is_live(v, &at))
        return;                                      /* nobody reads it */
    struct node *n = node_new(s->g, v->region, &op_to, s->fixed[v->id].span);
    node_in(n, v);
    node_set_int(n, "line", 1);
    n->path = v->path;
    n->phase = v->def ? v->def->phase : PHASE_FORWARD;
    n->stage = stage_behind(v);
    if (!node_finish(s->g, n))
        BUG("a conversion of %s cannot be built", v->path);
    struct value *by = n->out[0];
    by->path = v->path;
    by->span = v->span;
    by->call_output = v->call_output;
    by->alias = v->alias;
    by->lay = v->lay;
    by->line = v->line;
    v->line = NULL;
    (void)arrpop(v->region->nodes);
    arrins(v->region->nodes, at + 1, n);
    replace_reads(s->g->root, v, by, n);
    for (int k = 0; k < arrlen(s->g->outputs); k++)
        if (s->g->outputs[k].value == v)
            s->g->outputs[k].value = by;
    for (int k = 0; k < arrlen(s->g->metrics); k++)
        if (s->g->metrics[k].value == v)
            s->g->metrics[k].value = by;
    if (s->g->loss == v)
        s->g->loss = by;
    arrput(s->fixed, s->fixed[v->id]);
    s->fixed[v->id] = (struct fixed){ 0 };
}

static void fix_conversions(struct sharding *s, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->body)
            fix_conversions(s, n->body);
        if (n->op != &op_to || node_int(n, "line", 0))
            continue;
        struct fixed *f = &s->fixed[n->out[0]->id];
        if (n->again) {                              /* made again as it was made */
            *f = s->fixed[n->again->out[0]->id];
            continue;
        }
        struct target t = { n->out[0]->path ? n->out[0]->path : "to", n->out[0]->ndim, n->out[0]->dim, n->span };
        struct layout lay;
        unsigned axes;
        if (f->line || !layout_resolve(s, node_ptr(n, "parts"), &t, &lay, &axes))
            continue;
        f->axes = axes;
        f->lay = lay;
        f->span = n->span;
    }
}

/* Can each micro-batch's rows of v be split so? */
static bool divides_in_time(struct sharding *s, const struct value *v, const struct layout *lay, const struct plan_line *line)
{
    int64_t times = s->mesh->mb >= 0 ? s->mesh->axis[s->mesh->mb].size : 1;
    for (int d = 0; d < v->ndim && times > 1; d++) {
        int64_t parts = layout_parts(lay, d, s->mesh);
        if (v->dim[d] != s->m->plan->mb_dim || parts == 1 || v->dim[d]->size % (parts * times) == 0)
            continue;
        struct diag *e = diag_error(E_MICROBATCH, line->span,
                                    "dim '%s' of size %lld cannot be cut into %lld micro-batches and %lld parts",
                                    v->dim[d]->name, (long long)v->dim[d]->size, (long long)times, (long long)parts);
        diag_label(e, s->m->plan->mb_span, "cut here");
        diag_help(e, "take %s = %lld", v->dim[d]->name,
                  (long long)((v->dim[d]->size / (parts * times) + 1) * parts * times));
        return false;
    }
    return true;
}

/* save x = {..}: every value of the name that the backward may read. Axes it does not name are B, as in sbp. */
static void lines_on_saved(struct sharding *s)
{
    struct plan *plan = s->m->plan;
    for (int i = 0; i < arrlen(plan->lines); i++) {
        struct plan_line *line = &plan->lines[i];
        for (int k = 0; line->kind == LINE_SAVE && line->parts && k < arrlen(s->g->values); k++) {
            struct value *v = s->g->values[k];
            struct layout lay;
            unsigned axes;
            if (!may_have_line(v) || !v->def || !value_meant(v, line->pattern))
                continue;
            struct target t = { v->path, v->ndim, v->dim, v->span };
            line->matches++;
            if (!layout_resolve(s, line->parts, &t, &lay, &axes))
                return;
            if (s->mesh->mb >= 0)
                lay.ax[s->mesh->mb] = (struct sbp){ 0 };
            layout_normalise(&lay, s->mesh);
            if (!divides_in_time(s, v, &lay, line))
                return;
            struct layout *keep = NEW(struct layout);
            *keep = lay;
            v->keep = keep;
        }
    }
}

void lines_on_values(struct sharding *s)
{
    struct plan *plan = s->m->plan;
    int n = (int)arrlen(s->g->values);
    s->fixed = NULL;
    arrsetlen(s->fixed, n);
    memset(s->fixed, 0, sizeof *s->fixed * (size_t)n);
    for (int k = 0; k < n; k++) {
        struct value *v = s->g->values[k];
        for (int i = 0; i < arrlen(plan->lines) && may_have_line(v); i++)
            if (about_layout(&plan->lines[i]) && value_meant(v, plan->lines[i].pattern))
                line_on_value(s, v, &plan->lines[i]);
        if (v->def && v->def->op == &op_input)
            input_over_time(s, v);
    }
    fix_conversions(s, s->g->root);
    if (diag_errors())
        return;
    for (int k = 0; k < n; k++) {
        struct value *v = s->g->values[k];
        if (s->fixed[k].line && !(v->def && (v->def->op == &op_input || v->def->op == &op_to)))
            insert_to(s, v);
    }
    lines_on_saved(s);
}

void lines_drop_idle(struct sharding *s)
{
    for (int k = 0; k < arrlen(s->g->values); k++) {
        struct value *by = s->g->values[k];
        struct node *n = by->def;
        if (!n || n->op != &op_to || !node_int(n, "line", 0) || !n->in[0]->def)
            continue;
        struct value *v = n->in[0];
        bool taken = false;
        for (int i = 0; i < arrlen(n->region->nodes) && !taken; i++)
            if (n->region->nodes[i] == n && layout_same(&v->lay, &by->lay, s->mesh->naxis)) {
                arrdel(n->region->nodes, i);
                taken = true;
            }
        if (!taken)
            continue;
        replace_reads(s->g->root, by, v, NULL);
        for (int i = 0; i < arrlen(s->g->outputs); i++)
            if (s->g->outputs[i].value == by)
                s->g->outputs[i].value = v;
        for (int i = 0; i < arrlen(s->g->metrics); i++)
            if (s->g->metrics[i].value == by)
                s->g->metrics[i].value = v;
        if (s->g->loss == by)
            s->g->loss = v;
        s->fixed[v->id] = s->fixed[k];
        v->line = by->line;
    }
}

void lines_on_inputs(struct sharding *s)
{
    for (int e = 0; e < ENTRIES; e++) {
        struct graph *g = s->m->graph[e];
        for (int k = 0; g && k < arrlen(g->values); k++) {
            struct value *v = g->values[k];
            if (!v->def || v->def->op != &op_input)
                continue;
            for (int i = 0; i < arrlen(s->m->plan->lines); i++) {
                const struct plan_line *line = &s->m->plan->lines[i];
                if (!about_layout(line) || !value_meant(v, line->pattern))
                    continue;
                for (int j = 0; j < arrlen(line->parts); j++)
                    for (int a = 0; a < s->mesh->naxis; a++)
                        for (int d = 0; d < v->ndim; d++) {
                            const struct layout_part *part = &line->parts[j];
                            if (!(part->axes >> a & 1) || part->kind != SBP_S)
                                continue;
                            if (part->dim_name ? !v->dim[d]->name || strcmp(v->dim[d]->name, part->dim_name) != 0
                                               : part->dim_index != d)
                                continue;
                            bool known = false;
                            for (int x = 0; x < arrlen(s->data); x++)
                                known |= s->data[x].dim == v->dim[d] && s->data[x].axis == a;
                            if (known)
                                continue;
                            arraddn(s->data, 1);
                            arrlast(s->data).dim = v->dim[d];
                            arrlast(s->data).axis = a;
                        }
            }
        }
    }
}
