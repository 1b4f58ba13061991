/* --explain NAME: what layout a tensor and its gradient have, why, what it costs, and per axis the next best choice with
 * what it would cost more. For that the axis is solved again with the choice forbidden, the other axes held. What is read
 * and sent is told once shares are cut; of a parameter that is shared out (`shard`), also its states, its copy in a
 * shorter type, and what its update makes. */
#include "problem.h"
#include <stdlib.h>
#include <string.h>

struct reasoning {
    struct sharding *s;
    FILE *to;
};

static const char *bytes_of(double n)
{
    if (n < 1024)
        return mem_printf("%.0f bytes", n);
    return n < 1024 * 1024 ? mem_printf("%.1f KiB", n / 1024) : mem_printf("%.1f MiB", n / (1024 * 1024));
}

static const char *code_text(const struct value *v, int code)
{
    struct sbp x = code_sbp(code);
    static const char *const partial[] = { "P", "P(max)", "P(min)" };
    if (x.kind == SBP_S)
        return v->dim[x.dim]->name ? mem_printf("S(%s)", v->dim[x.dim]->name) : mem_printf("S(%d)", x.dim);
    return x.kind == SBP_P ? partial[x.dim] : "B";
}

/* ---- why ---- */

static const char *why(const struct sharding *s, const struct value *v, int axis)
{
    const struct fixed *f = &s->fixed[v->id];
    const struct param *p = v->def ? node_param(v->def) : NULL;
    if (p && p->line)
        return mem_printf("as the line at %s says", span_where(p->line->span));
    if (f->axes >> axis & 1 && v->def && v->def->op == &op_input && !f->line)
        return "as an input without a line";
    if (f->axes >> axis & 1)
        return f->line ? mem_printf("as the line at %s says", span_where(f->span)) : mem_printf("as to(..) at %s", span_where(f->span));
    for (int k = 0; k < arrlen(s->data); k++)
        for (int d = 0; d < v->ndim; d++)
            if (s->data[k].axis == axis && v->dim[d] == s->data[k].dim && v->lay.ax[axis].kind == SBP_S && v->lay.ax[axis].dim == d)
                return "with the split of the input";
    return "by cost";
}

/* ---- what else ---- */

static bool makes(const struct actor *a, const struct value *v)
{
    for (int k = 0; k < arrlen(a->out); k++)
        if (a->out[k] == v)
            return true;
    return false;
}

/* What the axis costs with v in another layout than now; *code is that layout. INFINITY when there is none. */
static double without(struct sharding *s, const struct value *v, int axis, double *now, int *code)
{
    struct problem p = { .s = s };
    int here = sbp_code(v->lay.ax[axis]);
    problem_actors(&p, 1u << axis);
    problem_build(&p);
    *now = solver_run(p.solver, 1e6).cost;
    s->freed = v;
    problem_actors(&p, 1u << axis);
    struct actor *maker = NULL;
    for (int i = 0; i < arrlen(p.part[0].actors); i++)
        if (makes(&p.part[0].actors[i], v))
            maker = &p.part[0].actors[i];
    for (int j = maker ? (int)arrlen(maker->choices) - 1 : -1; j >= 0; j--)
        for (int k = 0; k < arrlen(maker->out); k++)
            if (maker->out[k] == v && maker->choices[j].out[k] == here) {
                arrdel(maker->choices, j);
                break;
            }
    double cost = INFINITY;
    if (maker && arrlen(maker->choices)) {
        problem_build(&p);
        struct solution other = solver_run(p.solver, 1e6);
        for (int k = 0; other.feasible && k < arrlen(maker->out); k++)
            if (maker->out[k] == v)
                *code = maker->choices[other.choice[maker->var]].out[k];
        cost = other.feasible ? other.cost : INFINITY;
    }
    s->freed = NULL;
    return cost;
}

static void put_axis(struct reasoning *r, const struct value *v, int axis)
{
    int code = CODE_NONE;
    double now, other = without(r->s, v, axis, &now, &code), more = other - now;
    fprintf(r->to, "    %s: %s %s; ", r->s->mesh->axis[axis].name, code_text(v, sbp_code(v->lay.ax[axis])), why(r->s, v, axis));
    if (isinf(other) && v->def && v->def->op == &op_param)
        fprintf(r->to, "this axis splits an input, so only a line could split it\n");
    else if (isinf(other))
        fprintf(r->to, "nothing else can be made here\n");
    else if (more > 0.05)
        fprintf(r->to, "%s would go against a split that plan lines ask for\n", code_text(v, code));
    else if (fabs(more) < 1e-9)
        fprintf(r->to, "%s would cost the same\n", code_text(v, code));
    else
        fprintf(r->to, "next best %s, %.2f us %s a step\n", code_text(v, code), fabs(more) * 1e6, more < 0 ? "less" : "more");
}

/* ---- what it costs ---- */

struct reading { struct sharding *s; const struct value *v; struct reasoning *r; struct layout *seen; enum phase *when; int count; };

/* Once for each layout and phase: its readers share what is sent. */
static void put_conversion(struct reading *x, const struct layout *from, const struct layout *to, const struct node *n,
                           const char *how)
{
    const struct mesh *m = x->s->mesh;
    enum phase phase = x->v->anew ? node_phase(n) : conversion_phase(value_phase(x->v), node_phase(n));
    for (int i = 0; i < arrlen(x->seen); i++)
        if (x->when[i] == phase && layout_same(&x->seen[i], to, m->naxis))
            return;
    arrput(x->seen, *to);
    arrput(x->when, phase);
    struct step steps[MAX_STEP];
    int count = convert_path(x->v, from, to, m, steps, MAX_STEP);
    double times = (double)region_blocks(x->v->region) * (phase_per_microbatch(phase) ? m->axis[m->mb].size : 1);
    double bytes = 0, seconds = 0;
    const char *text = "";
    for (int i = 0; i < count; i++) {
        text = mem_printf("%s%s%s(%s)", text, *text ? " " : "", step_name[steps[i].kind], axis_names(m, steps[i].axes));
        bytes += steps[i].bytes;
        seconds += steps[i].seconds;
    }
    fprintf(x->r->to, "    %s in %s%s%s%s as %s: %s", how, phase_name[phase], *how == 'r' ? mem_printf(" by %s", n->op->name) : "",
            n->span.file ? " at " : "", n->span.file ? span_where(n->span) : "", layout_type_text(x->v, to, m), text);
    if (bytes > 0)
        fprintf(x->r->to, ", %s x %.0f a step, %.2f us", bytes_of(bytes), times, seconds * times * 1e6);
    fputc('\n', x->r->to);
}

static const struct param *stored(const struct value *v)
{
    return v && v->def && v->def->op == &op_param ? node_ptr(v->def, "param") : NULL;
}

/* One tensor: a parameter may have several nodes that read it. */
static bool same_tensor(const struct value *a, const struct value *b)
{
    return a == b || (stored(a) && stored(a) == stored(b));
}

static void put_reading(struct node *n, void *context)
{
    struct reading *x = context;
    for (int k = 0; n->need && k < arrlen(n->in); k++) {
        if (!same_tensor(x->v, n->in[k]))
            continue;
        int naxis = x->s->mesh->naxis;
        if (!layout_same(&x->v->lay, &n->need[k], naxis))
            put_conversion(x, &x->v->lay, &n->need[k], n, "read");
        else if (n->op == &op_to && !layout_same(&n->need[k], &n->out[0]->lay, naxis))
            put_conversion(x, &n->need[k], &n->out[0]->lay, n, "cut into shares");
    }
}

static void put_header(struct reasoning *r, const struct value *v, const char *word)
{
    const struct mesh *m = r->s->mesh;
    fprintf(r->to, "%s%s: %s", word, value_text(v), value_type_text(v, m));
    if (v->span.file)
        fprintf(r->to, "  %s", span_where(v->span));
    fprintf(r->to, "  %s on a rank\n", bytes_of(layout_bytes(v, &v->lay, m)));
}

static void put_readings(struct reasoning *r, const struct graph *g, const struct value *v)
{
    struct reading x = { .s = r->s, .v = v, .r = r };
    region_walk(g->root, put_reading, &x);
    if (!arrlen(x.seen))
        fprintf(r->to, "    read as it is stored: no communication\n");
}

static bool alive(const struct value *v)
{
    const struct region *r = v->region;
    bool found = !v->def && r;
    for (int i = 0; v->def && r && i < arrlen(r->nodes); i++)
        found |= r->nodes[i] == v->def;
    return found && v->path;
}

static bool found_before(const struct sharding *s, const struct value *v)
{
    for (int i = 0; i < arrlen(s->reasons); i++)
        if (same_tensor(s->reasons[i].value, v))
            return true;
    return false;
}

static void find_tensor(struct sharding *s, struct value *v, const char *word)
{
    const struct mesh *m = s->mesh;
    size_t size;
    char *text = NULL;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return;
    struct reasoning r = { s, to };
    for (int a = 0; a < m->naxis; a++)
        if (m->axis[a].size > 1 && a != m->pipe && a != m->mb)
            put_axis(&r, v, a);
    fclose(to);
    arrput(s->reasons, ((struct reason){ s->g, v, word, mem_strdup(text) }));
    free(text);
}

bool reasons_find(struct sharding *s, const char *name)
{
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < arrlen(s->g->values); k++) {
            struct value *v = s->g->values[k];
            if (!alive(v) || (v->def && v->def->op == &op_param && node_phase(v->def) == PHASE_UPDATE))
                continue;
            struct block_ranges b;
            if (turn == 0 ? !value_matches(v, name, &b) : !pattern_match(mem_printf("%s#grad", name), v->path, &b))
                continue;
            if (region_touched(v->region, &b) && !found_before(s, v))
                find_tensor(s, v, turn ? "gradient " : "");
        }
    return arrlen(s->reasons) > 0;
}

/* ---- shares ---- */

/* What is kept or made of a parameter that is shared out: NULL for other values, and for the parameter itself. */
static const char *share_word(const struct value *v, const struct param *p)
{
    const struct node *n = v->def;
    const struct param *q = stored(v);
    if (q && q->of == p)
        return "state ";
    if (n && n->op->optimizer && node_ptr(n, "param") == p && v == n->out[0])
        return n->op->optimizer->follows ? "new average of " : "updated ";
    if (n && n->op == &op_to && v->path && !strcmp(v->path, mem_printf("%s#grad", p->path)))
        return "gradient share ";
    return n && value_is_copy(v) && value_param(v) == p ? "copy " : NULL;
}

static void put_shares(struct reasoning *r, const struct graph *g, const struct param *p)
{
    const struct mesh *m = r->s->mesh;
    const struct value **known = NULL;
    for (int k = 0; k < arrlen(g->values); k++) {
        const struct value *v = g->values[k];
        const char *word = alive(v) ? share_word(v, p) : NULL;
        bool told = !word || (*word == 'g' && !layout_flat(&v->lay, m)) || found_before(r->s, v);
        for (int i = 0; i < arrlen(known) && !told; i++)
            told = same_tensor(known[i], v);
        if (told)
            continue;
        arrput(known, v);
        put_header(r, v, word);
        put_readings(r, g, v);
    }
}

void reasons_put(struct sharding *s, FILE *to)
{
    struct reasoning r = { s, to };
    for (int i = 0; i < arrlen(s->reasons); i++) {
        const struct reason *x = &s->reasons[i];
        const struct param *p = x->value->def ? node_param(x->value->def) : NULL;
        put_header(&r, x->value, x->word);
        fputs(x->axes, to);
        if (p && p->flat)
            fprintf(to, "    %s: %s in shares, S(flat), as the line at %s says\n", axis_names(s->mesh, p->flat),
                    layout_flat(&x->value->lay, s->mesh) ? "stored and updated" : "updated", span_where(s->m->plan->shard.span));
        put_readings(&r, x->g, x->value);
    }
    for (int i = 0; i < arrlen(s->reasons); i++) {
        const struct param *p = stored(s->reasons[i].value);
        if (p && p->flat && !p->is_state)
            put_shares(&r, s->reasons[i].g, p);
    }
}
