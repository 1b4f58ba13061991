/* The pass: a layout for every tensor along every mesh axis. See shard.h for its parts.
 *
 * The time axis comes first, because it settles phases. Then the other axes in turn, each solved exactly with the rest
 * held, until none changes. Parameters have one storage layout for all entries: from their line, else B. */
#include "shard.h"

static void give_needs(struct sharding *s, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        n->need = NULL;
        for (int k = 0; k < arrlen(n->in); k++)
            arrput(n->need, (struct layout){ 0 });
        if (n->op == &op_param)
            n->out[0]->lay = node_param(s, n)->lay;
        if (n->body)
            give_needs(s, n->body);
    }
}

/* A parameter has its layout from its line already; `pin` binds those who read it too. */
static void pin_parameter(struct sharding *s, const struct value *v)
{
    const struct param *p = v->def ? node_param(s, v->def) : NULL;
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

static void solve_entry(struct sharding *s)
{
    const struct mesh *m = s->mesh;
    lines_on_values(s);
    if (diag_errors())
        return;
    start_from_lines(s);
    microbatch_solve(s);
    if (diag_errors())
        return;
    int order[MAX_AXIS], n = 0;                      /* axes that split inputs, then the others */
    for (int turn = 0; turn < 2; turn++)
        for (int a = 0; a < m->naxis; a++)
            if (m->axis[a].size > 1 && a != m->pipe && a != m->mb && splits_inputs(s, a) == !turn)
                order[n++] = a;
    for (int k = 0, idle = 0, tries = 0; idle < n && tries < 4 * n; k = (k + 1) % n, tries++) {
        bool changed = false;
        if (!axis_solve(s, order[k], &changed))
            return;
        idle = changed ? 1 : idle + 1;               /* others' costs change with this one's layouts */
    }
    settle(s);
    lines_drop_idle(s);
}

void shard(struct module *m)
{
    if (!m->plan)
        return;
    struct sharding s = { .m = m, .mesh = &m->plan->mesh, .exact = true };
    lines_on_params(&s);
    lines_on_inputs(&s);
    for (int e = 0; e < ENTRIES && diag_errors(); e++)       /* the faults of all lines in one run */
        if ((s.g = m->graph[e]))
            lines_on_values(&s);
    if (diag_errors())
        return;
    settle_dims(&s);
    for (int e = 0; e < ENTRIES && !diag_errors(); e++) {
        s.g = m->graph[e];
        if (s.g)
            solve_entry(&s);
    }
    if (!diag_errors())
        settle_dims(&s);
}
