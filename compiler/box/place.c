/* Where logical nodes run: home stages, nodes that run on every stage, and gradient sums that wait for the update.
 *
 * A gradient sum ("sunk"): an add of two gradients whose only readers are in the update. Each use of a parameter then
 * accumulates over micro-batches on its own and they are summed once; the uses may be on different stages. */
#include "boxer.h"

bool axis_moves(const struct mesh *m, int axis)
{
    return m->axis[axis].size > 1 && axis != m->pipe;
}

enum phase node_root_phase(const struct node *n)
{
    return node_at_root(n)->phase;
}

const int64_t *region_cut(struct region *body)
{
    return region_origin(body)->cut;
}

int home_of_node(const struct boxer *b, const struct node *n)
{
    int count = b->p->nvirtual;
    n = node_at_root(n);
    if (count == 1)
        return 0;
    if (n->body) {
        const int64_t *cut = region_cut(n->body);
        if (cut) {                       /* the results are where the walk ends */
            bool reverse = n->body->reverse;
            for (int i = 0; i < count; i++) {
                int u = reverse ? i : count - 1 - i;
                if (cut[u + 1] > cut[u])
                    return u;
            }
        }
        const struct node *forward = region_origin(n->body)->owner;
        if (forward && node_at_root(forward)->stage >= 0)
            return node_at_root(forward)->stage;
    }
    return n->stage < 0 ? 0 : n->stage;
}

int home_of_value(const struct boxer *b, const struct value *v)
{
    const struct node *def = v->def ? v->def : v->region->owner;
    return home_of_node(b, def);
}

static void note_user(struct node *n, void *context)
{
    struct boxer *b = context;
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k])
            arrput(b->users[n->in[k]->id], n);
    for (int k = 0; n->body && k < arrlen(n->body->results); k++)
        arrput(b->users[n->body->results[k]->id], n);
}

static bool plain_add(const struct node *n)
{
    if (n->op != &op_add || n->region->parent)
        return false;
    for (int k = 0; k < 2; k++) {
        if (n->in[k]->ndim != n->out[0]->ndim)
            return false;
        for (int d = 0; d < n->out[0]->ndim; d++)
            if (!dim_same(n->in[k]->dim[d], n->out[0]->dim[d]))
                return false;
    }
    return true;
}

static bool is_backward(const struct node *n)
{
    return n->phase == PHASE_BACKWARD || n->phase == PHASE_WEIGHT;
}

static bool gradient_operand(const struct boxer *b, const struct value *v)
{
    return v->def && (is_backward(v->def) || b->sunk[v->def->id]);
}

static bool read_by_update_only(const struct boxer *b, const struct node *n)
{
    struct node **users = b->users[n->out[0]->id];
    for (int i = 0; i < arrlen(users); i++)
        if (node_root_phase(users[i]) != PHASE_UPDATE && !b->sunk[users[i]->id])
            return false;
    return arrlen(users) > 0;
}

static void sink(struct boxer *b, struct node *n)
{
    int mb = b->mesh->mb;
    b->sunk[n->id] = true;
    n->phase = PHASE_UPDATE;
    n->out[0]->lay.ax[mb] = (struct sbp){.kind = SBP_B};
    for (int k = 0; n->need && k < arrlen(n->in); k++)
        n->need[k].ax[mb] = (struct sbp){.kind = SBP_B};
}

/* Runs on every stage: what follows from the norm's partial sums alone. */
static bool follows_norm(const struct boxer *b, const struct node *n)
{
    if (n->op == &op_norm_partials)
        return true;
    if (n->phase != PHASE_UPDATE || n->body || (n->op->flags & (OP_EFFECT | OP_SOURCE)))
        return false;
    bool any = false;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct node *def = n->in[k] ? n->in[k]->def : NULL;
        if (n->in[k] && !def)
            return false;
        if (def && b->replicated[def->id])
            any = true;
        else if (def && !(def->op->flags & OP_SOURCE))
            return false;
    }
    return any;
}

void boxer_analyse(struct boxer *b)
{
    struct node **nodes = b->g->root->nodes;
    b->users = NEW_ARRAY(struct node **, arrlen(b->g->values));
    b->sunk = NEW_ARRAY(bool, b->g->nnode);
    b->replicated = NEW_ARRAY(bool, b->g->nnode);
    region_walk(b->g->root, note_user, b);
    for (int i = (int)arrlen(nodes) - 1; i >= 0; i--)
        if (is_backward(nodes[i]) && plain_add(nodes[i]) && read_by_update_only(b, nodes[i]))
            sink(b, nodes[i]);
    for (int i = 0; i < arrlen(nodes); i++) {
        struct node *n = nodes[i];
        if (n->phase == PHASE_UPDATE && !b->sunk[n->id] && plain_add(n) && gradient_operand(b, n->in[0]) &&
            gradient_operand(b, n->in[1]))
            sink(b, n);
        b->replicated[n->id] = follows_norm(b, n);
    }
}

/* ---- which stages hold a parameter ---- */

/* A `state` of the model, which its update may read too; the states of an optimizer go with their parameter. */
bool param_is_state(const struct param *p) { return p && p->is_state && !p->of; }

struct param_walk {
    struct boxer *b;
    const int64_t *cut;
    int home;
};

static void note_params(struct node *n, void *context)
{
    struct param_walk *w = context;
    int stages = w->b->p->nstage;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct value *v = n->in[k];
        const struct param *param = v && !v->region->parent ? value_param(v) : NULL;
        if (!param || (node_root_phase(n) == PHASE_UPDATE && (n->op == &op_store || !param_is_state(param))))
            continue;
        for (int u = 0; u < w->b->p->nvirtual; u++)
            if (w->cut ? w->cut[u + 1] > w->cut[u] : u == w->home) {
                int stage = stage_of(w->b->m->plan, u);
                w->b->param_on[param->index * stages + stage] = true;
                if (param->of)                   /* an average is made where its parameter is */
                    w->b->param_on[param->of->index * stages + stage] = true;
            }
    }
}

void boxer_find_params(struct boxer *b)
{
    int count = 0;
    for (int i = 0; i < arrlen(b->m->params); i++)
        if (b->m->params[i]->index >= count)
            count = b->m->params[i]->index + 1;
    b->param_on = NEW_ARRAY(bool, count * b->p->nstage);
    for (int e = 0; e < ENTRIES; e++) {
        struct graph *g = b->m->graph[e];
        for (int i = 0; g && i < arrlen(g->root->nodes); i++) {
            struct node *n = g->root->nodes[i];
            struct param_walk w = {.b = b, .home = home_of_node(b, n)};
            note_params(n, &w);
            if (n->body) {
                w.cut = b->p->nstage > 1 ? region_cut(n->body) : NULL;
                region_walk(n->body, note_params, &w);
            }
        }
    }
}
