/* Precision: what the plan's `precision` line says is computed in a shorter type. The model is written in f32; here every
 * tensor of the forward and backward gets the type it is held in, and casts stand where two types meet:
 *
 *   - tensors are in the plan's type, scalars, inputs and what `keep f32 on` names stay f32;
 *   - results of ops that add up (OP_WIDE: sums, the parts of cross_entropy) are f32, whatever they read;
 *   - a view has the type of what it views, unless one of the two is a scalar; element-wise ops and OP_WIDE read any type,
 *     stack, concat and the gradient of slice the type of their result, all other ops the type they compute in, so their
 *     other operands are cast, once for all readers in the blocks;
 *   - gradients of parameters are made and accumulated in the type of `grads`, and what a `state` becomes in its own;
 *   - a parameter is stored in the type of `master`. With f32 the forward and backward read a copy in the plan's type, cast
 *     once per step in phase SETUP: a layout of its own (gathered in the short type where `shard` splits the master).
 *
 * Sums within an op are f32 always; that is the kernels' matter. */
#include "../module.h"
#include "rewrite.h"

struct precising {
    struct graph *g;
    const struct precision *p;
    bool *fixed;                 /* by value id: type decided (gradients of parameters) */
    struct value **cast;         /* by value id: its copy in the other type, or NULL */
    int count;                   /* values that existed before */
    struct { const struct param *key; struct value *value; } *copy;    /* parameter -> copy made in SETUP */
};

static bool computes(const struct node *n)
{
    enum phase f = node_at_root(n)->phase;
    return f == PHASE_FORWARD || f == PHASE_BACKWARD || f == PHASE_WEIGHT;
}

/* A gradient goes by the path of what it is of. */
static bool kept(const struct precising *r, const char *path, const struct region *at)
{
    struct block_ranges b;
    const char *mark = path ? strchr(path, '#') : NULL;
    const char *of = mark ? mem_printf("%.*s", (int)(mark - path), path) : path;
    for (int i = 0; i < arrlen(r->p->keep); i++)
        if (pattern_covers(r->p->keep[i], of, &b) && region_meant(at, &b))
            return true;
    return false;
}

static bool reads_any(const struct node *n)
{
    return n->op->flags & (OP_ELEMENTWISE | OP_VIEW | OP_WIDE | OP_EFFECT | OP_ANY_FLOAT);
}

/* What only puts entries elsewhere reads them in the type that it gives them. */
static bool moves(const struct node *n)
{
    return n->op == &op_stack || n->op == &op_concat || n->op == &op_slice_grad;
}

/* The type a node computes in; a backward node goes with its forward. */
static enum type type_of_node(const struct precising *r, const struct node *n)
{
    const struct node *f = n->forward ? n->forward : n;
    bool f32 = n->op->flags & OP_F32 || kept(r, f->path, f->region);
    for (int k = 0; k < arrlen(f->out) && !f32; k++)
        f32 = kept(r, f->out[k]->path, f->region);
    return f32 ? TYPE_F32 : r->p->type;
}

/* The type of its results, but for those that a `keep` names. */
static enum type type_of_results(const struct precising *r, const struct node *n)
{
    bool tensors = false, all_f32 = true;
    if (n->op->flags & OP_WIDE)
        return TYPE_F32;
    if (n->op->flags & OP_VIEW && n->in[0])
        return n->in[0]->type;
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k] && n->in[k]->ndim && type_is_float(n->in[k]->type)) {
            tensors = true;
            all_f32 &= n->in[k]->type == TYPE_F32;
        }
    if (n->op->flags & OP_ELEMENTWISE && tensors && all_f32)
        return TYPE_F32;
    return n->forward && reads_any(n) ? r->p->type : type_of_node(r, n);
}

static void set(struct precising *r, struct value *v, enum type t)
{
    if (v->type == TYPE_F32 && v->ndim && !(v->id < r->count && r->fixed[v->id]))
        v->type = t;
}

/* ---- gradients of parameters ---- */

static void fix(struct precising *r, struct value *v);

/* Also what it is a sum of, over uses and over blocks, and what it is put together of. */
static void fix_parts(struct precising *r, struct value *v)
{
    if (!v->def) {
        struct region *body = v->region;
        fix(r, body->results[v->def_index]);
        fix(r, body->owner->in[v->def_index]);
        fix(r, body->owner->out[v->def_index]);
    } else if (v->def->body) {
        fix(r, v->def->body->args[v->def_index]);
        fix(r, v->def->body->results[v->def_index]);
        fix(r, v->def->in[v->def_index]);
    } else if (v->def->op == &op_add || v->def->op->flags & OP_VIEW || moves(v->def)) {
        for (int k = 0; k < arrlen(v->def->in); k++)
            fix(r, v->def->in[k]);
    }
}

static void fix(struct precising *r, struct value *v)
{
    if (r->fixed[v->id] || v->type != TYPE_F32)
        return;
    r->fixed[v->id] = true;
    v->type = r->p->grads;
    fix_parts(r, v);
}

static void fix_gradients(struct precising *r, struct region *at)
{
    for (int i = 0; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i];
        if (n->op->optimizer && !n->op->optimizer->follows)
            fix(r, n->in[1]);
        if (n->body)
            fix_gradients(r, n->body);
    }
}

/* ---- states of the model ---- */

static bool is_state(const struct value *v)
{
    const struct param *p = v->def && v->def->op == &op_param ? node_ptr(v->def, "param") : NULL;
    return p && p->is_state && !p->of;
}

/* What a state becomes is held in its own type: an average of many steps is lost in 16 bits. */
static void fix_states(struct precising *r, struct region *at)
{
    for (int i = 0; i < arrlen(at->nodes); i++) {
        const struct node *n = at->nodes[i];
        if (n->body)
            fix_states(r, n->body);
        if (n->op != &op_store || !is_state(n->in[0]))
            continue;
        const struct value *v = n->in[1];
        if (v->def && v->def->op == &op_where && !computes(v->def))      /* the step may be skipped */
            v = v->def->in[1];
        r->fixed[v->id] |= v->def && v->def->op->flags & OP_ELEMENTWISE && computes(v->def);
    }
}

/* ---- types ---- */

static void set_types(struct precising *r, struct region *at)
{
    for (int i = 0; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i];
        if (!computes(n) || n->op->flags & (OP_SOURCE | OP_EFFECT))
            continue;
        if (n->body) {
            for (int k = 0; k < arrlen(n->in); k++) {
                set(r, n->body->args[k], kept(r, n->body->args[k]->path, n->body) ? TYPE_F32 : r->p->type);
                n->out[k]->type = n->body->args[k]->type;
            }
            set_types(r, n->body);
            continue;
        }
        if (n->op == &op_cast) {         /* the model says the type; the gradient goes back to that of what was cast */
            if (n->phase != PHASE_FORWARD && n->forward && n->forward->op == &op_cast && n->out[0]->type == TYPE_F32) {
                set(r, n->out[0], n->forward->in[0]->type);
                node_set_int(n, "type", n->out[0]->type);
            }
            continue;
        }
        enum type t = type_of_results(r, n);
        for (int k = 0; k < arrlen(n->out); k++)
            set(r, n->out[k], kept(r, n->out[k]->path, n->region) && !(n->op->flags & OP_VIEW) ? TYPE_F32 : t);
    }
}

/* ---- copies of parameters ---- */

static struct node *source(struct precising *r, struct region *at, struct param *p, struct span span)
{
    struct node *n = node_new(r->g, at, &op_param, span);
    n->phase = PHASE_SETUP;
    n->path = p->path;
    node_set_ptr(n, "param", p);
    if (!node_finish(r->g, n))
        BUG("a parameter cannot be read");
    return n;
}

static struct value *cast_to(struct precising *r, struct region *at, struct value *v, enum type t)
{
    struct node *n = node_new(r->g, at, &op_cast, v->span);
    node_in(n, v);
    node_set_int(n, "type", t);
    n->path = v->def ? v->def->path : NULL;
    if (!node_finish(r->g, n))
        BUG("a cast was refused");
    n->out[0]->path = mem_printf("%s~%s", v->path ? v->path : "value", type_name[t]);
    return n->out[0];
}

static bool wants_copy(const struct precising *r, const struct node *n)
{
    const struct param *p = n->op == &op_param ? node_ptr(n, "param") : NULL;
    return p && n->phase == PHASE_FORWARD && p->type == TYPE_F32 && (!p->is_state || p->of) && p->ndim && !kept(r, p->path, n->region);
}

static bool has_copies(const struct precising *r, const struct region *forward)
{
    for (int i = 0; i < arrlen(forward->nodes); i++)
        if (wants_copy(r, forward->nodes[i]) || (forward->nodes[i]->body && has_copies(r, forward->nodes[i]->body)))
            return true;
    return false;
}

/* The copies of the parameters of `forward`, in a region of SETUP that walks the same blocks. */
static void copy_params(struct precising *r, struct region *forward, struct region *at)
{
    for (int i = 0, count = (int)arrlen(forward->nodes); i < count; i++) {
        struct node *f = forward->nodes[i];
        if (wants_copy(r, f)) {
            struct param *p = node_ptr(f, "param");
            if (hmgeti(r->copy, p) >= 0)
                continue;
            struct value *v = cast_to(r, at, source(r, at, p, f->span)->out[0], r->p->type);
            v->def->phase = PHASE_SETUP;
            hmput(r->copy, p, v);
        } else if (f->body && f->phase == PHASE_FORWARD && has_copies(r, f->body)) {
            struct region *body = region_new(at, f->body->count);
            struct node *n = node_new(r->g, at, &op_repeat, f->span);
            body->mirror = f->body;
            body->first = f->body->first;
            body->total = f->body->total;
            body->owner = n;
            n->phase = PHASE_SETUP;
            n->path = f->path;
            n->body = body;
            copy_params(r, f->body, body);
        }
    }
}

/* What SETUP does stands first in the program. */
static void setup_first(struct region *root, int from)
{
    struct node **nodes = NULL;
    for (int i = from; i < arrlen(root->nodes); i++)
        arrput(nodes, root->nodes[i]);
    for (int i = 0; i < from; i++)
        arrput(nodes, root->nodes[i]);
    root->nodes = nodes;
}

static void read_copies(struct precising *r, struct region *at)
{
    for (int i = 0; i < arrlen(at->nodes); i++) {
        struct node *n = at->nodes[i];
        if (!computes(n))
            continue;
        for (int k = 0; k < arrlen(n->in); k++) {
            const struct node *def = n->in[k] ? n->in[k]->def : NULL;
            struct value *copy = def && def->op == &op_param ? hmget(r->copy, (const struct param *)node_ptr(def, "param")) : NULL;
            if (copy)
                n->in[k] = copy;
        }
        if (n->body)
            read_copies(r, n->body);
    }
}

/* ---- casts ---- */

/* v in another type, made behind v's definition, for all who read it in the same blocks. */
static struct value *other_type(struct precising *r, struct value *v, enum type t)
{
    if (v->id < r->count && r->cast[v->id] && r->cast[v->id]->type == t)
        return r->cast[v->id];
    struct region *at = v->region;
    int place = 0;
    while (v->def && place < arrlen(at->nodes) && at->nodes[place] != v->def)
        place++;
    place += v->def != NULL;
    struct value *c = cast_to(r, at, v, t);
    struct node *n = arrpop(at->nodes);
    const struct node *near = v->def ? v->def : at->owner;
    n->phase = near->op->flags & OP_SOURCE && !near->region->parent ? PHASE_FORWARD : near->phase;
    n->forward = v->def ? v->def->forward : NULL;
    n->path = near->path;
    arrins(at->nodes, place, n);
    if (v->id < r->count)
        r->cast[v->id] = c;
    return c;
}

static void add_casts(struct precising *r, struct region *at)
{
    struct node **nodes = NULL;          /* casts go into at->nodes */
    for (int i = 0; i < arrlen(at->nodes); i++)
        arrput(nodes, at->nodes[i]);
    for (int i = 0; i < arrlen(nodes); i++) {
        struct node *n = nodes[i];
        if (n->op == &op_store && is_state(n->in[0]) && n->in[1]->type != n->in[0]->type)
            n->in[1] = other_type(r, n->in[1], n->in[0]->type);
        if (n->body)
            add_casts(r, n->body);
        if (!computes(n) || (n->op->flags & OP_SOURCE))
            continue;
        for (int k = 0; k < arrlen(n->in); k++) {
            struct value *v = n->in[k];
            bool view = n->op->flags & OP_VIEW && !k;        /* of a tensor as a scalar, or of a scalar as a gradient */
            if (!v || !type_is_float(v->type) || (!view && (!v->ndim || (!n->body && reads_any(n)))))
                continue;
            enum type t = n->body ? n->body->args[k]->type : view || moves(n) ? n->out[0]->type : type_of_node(r, n);
            if (v->type != t)
                n->in[k] = other_type(r, v, t);
        }
        for (int k = 0; n->body && k < arrlen(n->body->results); k++) {
            struct value *v = n->body->results[k];
            if (v->type != n->body->args[k]->type)
                n->body->results[k] = other_type(r, v, n->body->args[k]->type);
        }
    }
}

void set_precision(struct graph *g)
{
    const struct precision *p = &g->module->plan->precision;
    struct precising r = {.g = g, .p = p, .count = (int)arrlen(g->values)};
    if (p->type == TYPE_F32)
        return;
    r.fixed = NEW_ARRAY(bool, r.count + 1);
    r.cast = NEW_ARRAY(struct value *, r.count + 1);
    fix_gradients(&r, g->root);
    fix_states(&r, g->root);
    int from = (int)arrlen(g->root->nodes);
    copy_params(&r, g->root, g->root);
    setup_first(g->root, from);
    read_copies(&r, g->root);
    set_types(&r, g->root);
    add_casts(&r, g->root);
}
