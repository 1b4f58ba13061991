/* Cloning logical nodes into stage programs. Operands come first (their links and conversions are appended where they
 * belong, which for a body under construction is before its repeat node), then the node itself. */
#include "boxer.h"

struct stage *boxer_stage(const struct boxer *b, int u)
{
    return &b->p->stages[stage_of(b->m->plan, u)];
}

struct region *boxer_root(struct boxer *b, int u, enum phase phase)
{
    int chunk = phase_has_chunks(phase) ? chunk_of(b->m->plan, u) : 0;
    struct region **root = &boxer_stage(b, u)->phase[b->g->entry][phase][chunk];
    if (!*root)
        *root = region_new(NULL, 1);
    return *root;
}

struct root boxer_find_root(const struct boxer *b, int u, struct region *r)
{
    while (r->parent)
        r = r->parent;
    const struct stage *s = boxer_stage(b, u);
    for (int phase = 0; phase < PHASES; phase++)
        for (int chunk = 0; chunk < s->nchunk; chunk++)
            if (s->phase[b->g->entry][phase][chunk] == r)
                return (struct root){(enum phase)phase, chunk, r};
    BUG("a region of another stage");
}

bool root_before(struct root a, struct root b)
{
    if (a.phase == PHASE_BACKWARD && (b.phase == PHASE_BACKWARD || b.phase == PHASE_WEIGHT))
        return a.chunk >= b.chunk;       /* the weight part of a chunk may run before the backward of others */
    if (a.phase == b.phase)
        return a.phase == PHASE_WEIGHT ? a.chunk == b.chunk : a.chunk <= b.chunk;
    return a.phase < b.phase;
}

struct value *boxer_read(struct boxer *b, int u, struct value *v, const struct layout *need, struct region *at,
                         enum phase phase)
{
    return boxer_convert(b, u, boxer_obtain(b, u, v, need, phase), need, at, phase);
}

struct value *clone_out(struct boxer *b, int u, struct node *n, const struct value *like, const struct layout *lay)
{
    struct value *v = node_out(boxer_stage(b, u)->graph, n, like->type, like->ndim, like->dim);
    v->path = like->path;
    v->span = like->span;
    v->has_ignore = like->has_ignore;
    v->ignore = like->ignore;
    v->call_output = like->call_output;
    v->alias = like->alias;
    v->keep = like->keep;
    v->anew = like->anew;
    v->lay = *lay;
    return v;
}

static struct value *clone_argument(struct boxer *b, int u, struct region *r, const struct value *like, int index)
{
    struct value *v = value_new(boxer_stage(b, u)->graph, r, like->type, like->ndim, like->dim);
    v->path = like->path;
    v->span = like->span;
    v->lay = like->lay;
    v->def_index = index;
    b->prime[(int64_t)u * arrlen(b->g->values) + like->id] = v;
    return v;
}

static void remember(struct boxer *b, int u, const struct node *n, struct node *clone)
{
    struct node **clones = hmget(b->nodes, n);
    if (!clones) {
        clones = NEW_ARRAY(struct node *, b->p->nvirtual);
        hmput(b->nodes, n, clones);
    }
    clones[u] = clone;
}

static struct region *clone_body(struct boxer *b, int u, struct region *r, struct region *parent, enum phase phase)
{
    struct region *body = region_new(parent, r->count);
    body->first = r->first;
    body->total = r->total;
    const int64_t *cut = b->p->nstage > 1 && !parent->parent ? region_cut(r) : NULL;
    if (cut) {
        body->count = cut[u + 1] - cut[u];
        body->first += cut[u];
    }
    body->reverse = r->reverse;
    if (r->mirror) {
        struct region **mirrors = hmget(b->regions, r->mirror);
        if (mirrors && mirrors[u])
            body->mirror = mirrors[u];
        else if (phase == PHASE_SETUP)   /* copies of parameters come before the blocks they are for */
            arrput(b->ahead, ((struct ahead){body, r->mirror, u}));
        else
            BUG("a repeat on virtual stage %d walks blocks that are elsewhere", u);
    }
    for (int i = 0; i < arrlen(b->ahead); i++)
        if (b->ahead[i].blocks == r && b->ahead[i].u == u)
            b->ahead[i].body->mirror = body;
    struct region **clones = hmget(b->regions, r);
    if (!clones) {
        clones = NEW_ARRAY(struct region *, b->p->nvirtual);
        hmput(b->regions, r, clones);
    }
    clones[u] = body;
    if (r->index)
        body->index = clone_argument(b, u, body, r->index, 0);
    for (int k = 0; k < arrlen(r->args); k++)
        arrput(body->args, clone_argument(b, u, body, r->args[k], k));
    for (int i = 0; i < arrlen(r->nodes); i++)
        boxer_clone(b, u, r->nodes[i], body, phase);
    for (int k = 0; k < arrlen(r->args); k++)
        arrput(body->results, boxer_read(b, u, r->results[k], &body->args[k]->lay, body, phase));
    return body;
}

/* carried: what a cut repeat starts from on this stage, or NULL for the logical operands */
static struct node *clone_with(struct boxer *b, int u, struct node *n, struct region *at, enum phase phase,
                               struct value **carried)
{
    struct graph *g = boxer_stage(b, u)->graph;
    struct value **in = NULL;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct layout *need = n->body ? &n->body->args[k]->lay : n->need ? &n->need[k] : NULL;
        if (carried)
            arrput(in, boxer_convert(b, u, carried[k], need, at, phase));
        else
            arrput(in, n->in[k] ? boxer_read(b, u, n->in[k], need ? need : &n->in[k]->lay, at, phase) : NULL);
    }
    struct region *body = n->body ? clone_body(b, u, n->body, at, phase) : NULL;
    if (n->op == &op_to) {               /* a conversion written by the user: done by boxer_convert, no node of its own */
        struct value *v = boxer_convert(b, u, in[0], &n->out[0]->lay, at, phase);
        b->prime[(int64_t)u * arrlen(b->g->values) + n->out[0]->id] = v;
        if (n->out[0]->keep)
            v->keep = n->out[0]->keep;
        return NULL;
    }
    struct node *c = node_new(g, at, n->op, n->span);
    c->in = in;
    c->path = n->path;
    c->phase = phase;
    c->stage = stage_of(b->m->plan, u);
    c->why = n->why;
    c->again = n->again;
    for (int i = 0; i < arrlen(n->attr); i++)
        arrput(c->attr, n->attr[i]);
    c->again = n->again;
    if (n->forward) {
        struct node **clones = hmget(b->nodes, n->forward);
        c->forward = clones ? clones[u] : NULL;
    }
    if (body) {
        c->body = body;
        body->owner = c;
    }
    c->logical = n;
    for (int k = 0; k < arrlen(n->out); k++) {
        struct value *v = clone_out(b, u, c, n->out[k], body ? &body->args[k]->lay : &n->out[k]->lay);
        b->prime[(int64_t)u * arrlen(b->g->values) + n->out[k]->id] = v;
        v->logical = body && body->count < n->body->count ? NULL : n->out[k];
    }
    remember(b, u, n, c);
    return c;
}

struct node *boxer_clone(struct boxer *b, int u, struct node *n, struct region *at, enum phase phase)
{
    return clone_with(b, u, n, at, phase, NULL);
}

/* A cut repeat on every virtual stage that has blocks, in the order they are walked; what it carries travels along. */
static void clone_cut(struct boxer *b, struct node *n, const int64_t *cut)
{
    int count = b->p->nvirtual, last = -1;
    struct node *before = NULL;
    for (int i = 0; i < count; i++) {
        int u = n->body->reverse ? count - 1 - i : i;
        if (cut[u + 1] == cut[u])
            continue;
        struct value **carried = NULL;
        for (int k = 0; before && k < arrlen(before->out); k++)
            arrput(carried, boxer_carry(b, last, u, before->out[k], n->phase));
        before = clone_with(b, u, n, boxer_root(b, u, n->phase), n->phase, carried);
        for (int k = 0; last >= 0 && k < arrlen(n->out); k++)      /* out[k] is what the last of them leaves */
            b->prime[(int64_t)last * arrlen(b->g->values) + n->out[k]->id] = NULL;
        last = u;
    }
}

/* Does the update of a parameter run here? Its optimizer, and what is kept for it, where the parameter is, a store where
 * what it stores is made: on the same stages. What a `state` becomes is made on one stage, and sent to all that hold it. */
static bool updates_here(const struct boxer *b, const struct node *n, int stage)
{
    const struct param *param = updated_param(n);
    if (n->op == &op_store && !param_is_state(param))
        return b->prime[(int64_t)stage * arrlen(b->g->values) + n->in[1]->id];
    return b->param_on[param->index * b->p->nstage + stage];
}

void boxer_clone_root(struct boxer *b, struct node *n)
{
    int stages = b->p->nstage;
    if (n->op->flags & OP_SOURCE)
        return;                          /* cloned by boxer_obtain where it is read */
    if (n->op == &op_norm_partials) {
        boxer_partials(b, n);
    } else if (b->sunk[n->id]) {
        boxer_sum_uses(b, n);
    } else if (n->op == &op_output) {
        boxer_output(b, n);
    } else if (n->body && stages > 1 && region_cut(n->body)) {
        clone_cut(b, n, region_cut(n->body));
    } else if (b->replicated[n->id]) {
        for (int s = 0; s < stages; s++)
            boxer_clone(b, s, n, boxer_root(b, s, n->phase), n->phase);
    } else if (updates_param(n) && updated_param(n)) {
        bool any = false;
        for (int s = 0; s < stages; s++)
            if (updates_here(b, n, s)) {
                boxer_clone(b, s, n, boxer_root(b, s, n->phase), n->phase);
                any = true;
            }
        if (!any)
            boxer_clone(b, home_of_node(b, n), n, boxer_root(b, home_of_node(b, n), n->phase), n->phase);
    } else {
        int u = home_of_node(b, n);
        boxer_clone(b, u, n, boxer_root(b, u, n->phase), n->phase);
    }
}
