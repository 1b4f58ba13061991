/* The pass: a layout for every tensor along every mesh axis. See shard.h for its parts.
 *
 * The time axis comes first, because it settles phases. Then the other axes, in turn and together. Parameters have one
 * storage layout for all entries: from their line, else the one that is cheapest in training. */
#include "shard.h"
#include <stdlib.h>

static void give_needs(struct sharding *s, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        n->need = NULL;
        for (int k = 0; k < arrlen(n->in); k++)
            arrput(n->need, (struct layout){ 0 });
        if (n->op == &op_param)
            n->out[0]->lay = node_param(n)->lay;
        if (n->body)
            give_needs(s, n->body);
    }
}

/* A parameter has its layout from its line already; `pin` binds those who read it too. */
static void pin_parameter(struct sharding *s, const struct value *v)
{
    const struct param *p = v->def ? node_param(v->def) : NULL;
    if (!p || !p->line || p->line->kind != LINE_PIN || value_phase(v) != PHASE_FORWARD)
        return;
    struct fixed *f = &s->fixed[v->id];
    *f = (struct fixed){ .pin = true, .lay = p->lay, .span = p->line->span };
    for (int a = 0; a < s->mesh->naxis; a++)
        if (!s->mesh->axis[a].time)
            f->axes |= 1u << a;
}

/* Known layouts first: other axes see them before their own turn comes. */
static void start_from_lines(struct sharding *s)
{
    for (int k = 0; k < arrlen(s->g->values); k++)
        s->g->values[k]->lay = (struct layout){ 0 };
    give_needs(s, s->g->root);
    for (int k = 0; k < arrlen(s->g->values); k++)
        pin_parameter(s, s->g->values[k]);
    for (int k = 0; k < arrlen(s->g->values); k++)
        for (int a = 0; a < s->mesh->naxis; a++)
            if (s->fixed[k].axes >> a & 1)
                s->g->values[k]->lay.ax[a] = s->fixed[k].lay.ax[a];
}

static bool splits_inputs(const struct sharding *s, int axis)
{
    for (int k = 0; k < arrlen(s->data); k++)
        if (s->data[k].axis == axis)
            return true;
    return false;
}

/* The first entry, train where there is one, decides for all how parameters without a line are stored. */
static void store_params(struct sharding *s)
{
    for (int k = 0; k < arrlen(s->g->values) && !s->stored; k++) {
        const struct value *v = s->g->values[k];
        struct param *p = v->def ? node_param(v->def) : NULL;
        if (!p || p->line)
            continue;
        for (int a = 0; a < s->mesh->naxis; a++)
            if (!s->mesh->axis[a].time)
                p->lay.ax[a] = v->lay.ax[a];
        layout_normalise(&p->lay, s->mesh);
    }
    s->stored = true;
    for (int k = 0; k < arrlen(s->m->params); k++)           /* states are stored as their weights are */
        if (s->m->params[k]->of)
            s->m->params[k]->lay = s->m->params[k]->of->lay;
}

int shard_entry(struct sharding *s, struct graph *g, int *order)
{
    const struct mesh *m = s->mesh;
    int n = 0;
    s->g = g;
    lines_on_values(s);
    if (diag_errors())
        return -1;
    start_from_lines(s);
    microbatch_solve(s);
    for (int turn = 0; turn < 2; turn++)             /* axes that split inputs, then the others */
        for (int a = 0; a < m->naxis; a++)
            if (m->axis[a].size > 1 && a != m->pipe && a != m->mb && splits_inputs(s, a) == !turn)
                order[n++] = a;
    return diag_errors() ? -1 : n;
}

static void explain_name(struct sharding *s)
{
    if (reasons_find(s, s->m->options->explain))
        return;
    const char **names = NULL;
    for (int k = 0; k < arrlen(s->g->values); k++)
        if (s->g->values[k]->path)
            arrput(names, s->g->values[k]->path);
    struct diag *d = diag_error(E_UNKNOWN_NAME, (struct span){0}, "no tensor is called '%s'", s->m->options->explain);
    const char *near = suggest(s->m->options->explain, names);
    diag_help(d, near ? "did you mean '%s'?" : "--emit=sbp lists them all; * stands for any text%s", near ? near : "");
}

static void explain_put(struct sharding *s)
{
    size_t size;
    char *text = NULL;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return;
    reasons_put(s, to);
    fclose(to);
    s->m->explained = mem_strdup(text);
    free(text);
}

static void solve_entry(struct sharding *s, struct graph *g)
{
    int order[MAX_AXIS], n = shard_entry(s, g, order);
    s->choice.gap = 0;
    if (n < 0 || (n > 0 && !axes_solve(s, order, n)))
        return;
    s->joint = 0;
    s->m->plan->gap[g->entry] = s->choice.gap;
    store_params(s);
    settle(s);
    lines_drop_idle(s);
    if (s->m->options->explain && !arrlen(s->reasons))
        explain_name(s);
}

bool shard_begin(struct sharding *s, struct module *m)
{
    *s = (struct sharding){ .m = m, .mesh = &m->plan->mesh };
    lines_on_params(s);
    lines_on_inputs(s);
    for (int e = 0; e < ENTRIES && diag_errors(); e++)       /* the faults of all lines in one run */
        if ((s->g = m->graph[e]))
            lines_on_values(s);
    if (diag_errors())
        return false;
    settle_dims(s);
    return true;
}

void shard(struct module *m)
{
    struct sharding s;
    if (!m->plan || !shard_begin(&s, m))
        return;
    for (int e = 0; e < ENTRIES && !diag_errors(); e++)
        if (m->graph[e])
            solve_entry(&s, m->graph[e]);
    if (diag_errors())
        return;
    settle_dims(&s);
    shares_apply(&s);
    if (arrlen(s.reasons))
        explain_put(&s);
    warn_idle_axes(m);
}
