/* Clears padding where an op would count it. Parameters and gradients hold zeros in their padding and linear ops keep
 * them, but exp makes ones of them: an einsum over such a dim, a squared sum, an update must not see those. What is known
 * of every value's padding is worked out here (a repeat: to its fixpoint); a value that a reader cannot take as it is gets
 * a masked copy beside it, mask(x, positions(V) < size), which serves all such readers. */
#include "rewrite.h"

struct clearing {
    struct graph *g;
    int count;                   /* values that existed before */
    dims_padding *known;         /* by value id */
    struct value **cleared;      /* by value id */
    bool changed;
};

static const dims_padding *operands(const struct clearing *c, const struct node *n)
{
    dims_padding *in = (dims_padding *)mem_alloc(sizeof *in * (size_t)(arrlen(n->in) + 1));
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k])
            memcpy(in[k], c->known[n->in[k]->id], sizeof *in);
    return (const dims_padding *)in;
}

static void raise(struct clearing *c, const struct value *to, const enum pad_value *p)
{
    for (int d = 0; d < to->ndim; d++)
        if (p[d] > c->known[to->id][d]) {
            c->known[to->id][d] = p[d];
            c->changed = true;
        }
}

static void learn(struct clearing *c, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->body) {
            for (int k = 0; k < arrlen(n->in); k++)
                raise(c, n->body->args[k], c->known[n->in[k]->id]);
            learn(c, n->body);
            for (int k = 0; k < arrlen(n->in); k++) {
                raise(c, n->body->args[k], c->known[n->body->results[k]->id]);
                raise(c, n->out[k], c->known[n->body->args[k]->id]);
                raise(c, n->out[k], c->known[n->body->results[k]->id]);
            }
            continue;
        }
        dims_padding *out = (dims_padding *)mem_alloc(sizeof *out * (size_t)(arrlen(n->out) + 1));
        node_padding(n, operands(c, n), out);
        for (int k = 0; k < arrlen(n->out); k++)
            raise(c, n->out[k], out[k]);
    }
}

/* Makes `last` the node after v's definition: what was built at the end of the region moves there. */
static void move_behind(struct region *r, const struct value *v, int built)
{
    int at = 0, count = (int)arrlen(r->nodes) - built;
    while (v->def && at < built && r->nodes[at] != v->def)
        at++;
    at += v->def != NULL;
    struct node **moved = NEW_ARRAY(struct node *, count);
    memcpy(moved, r->nodes + built, sizeof *moved * (size_t)count);
    memmove(r->nodes + at + count, r->nodes + at, sizeof *moved * (size_t)(built - at));
    memcpy(r->nodes + at, moved, sizeof *moved * (size_t)count);
}

/* x where d's index is below d's size, else 0. */
static struct value *mask_dim(struct graph *g, struct region *r, struct value *x, int d)
{
    struct node *p = node_new(g, r, &op_positions, x->span);
    node_set_ptr(p, "dim", x->dim[d]);
    if (!node_finish(g, p))
        BUG("positions of a dim cannot be made");
    struct value *size = build_constant(g, r, (double)x->dim[d]->size, x->span);
    struct value *valid = build(g, r, &op_less, x->span, 2, p->out[0], size);
    for (int i = d + 1; i < x->ndim; i++) {
        struct node *n = node_new(g, r, &op_new_axis, x->span);
        node_in(n, valid);
        node_set_int(n, "axis", valid->ndim);
        if (!node_finish(g, n))
            BUG("an axis cannot be added");
        valid = n->out[0];
    }
    return build(g, r, &op_mask, x->span, 2, x, valid);
}

static struct value *clear(struct clearing *c, struct value *v)
{
    if (c->cleared[v->id])
        return c->cleared[v->id];
    struct region *r = v->region;
    int built = (int)arrlen(r->nodes);
    struct value *x = v;
    for (int d = 0; d < v->ndim; d++)
        if (c->known[v->id][d] != PADDING_ZERO)
            x = mask_dim(c->g, r, x, d);
    const struct node *near = v->def ? v->def : r->owner;
    for (int i = built; i < arrlen(r->nodes); i++) {
        r->nodes[i]->phase = near ? near->phase : PHASE_FORWARD;
        r->nodes[i]->path = near ? near->path : NULL;
        r->nodes[i]->forward = v->def ? v->def->forward : NULL;
    }
    x->path = mem_printf("%s.mask", v->path ? v->path : "value");
    move_behind(r, v, built);
    return c->cleared[v->id] = x;
}

static void use_cleared(struct clearing *c, struct region *r)
{
    struct node **nodes = NULL;  /* clearing adds to r->nodes */
    for (int i = 0; i < arrlen(r->nodes); i++)
        arrput(nodes, r->nodes[i]);
    for (int i = 0; i < arrlen(nodes); i++) {
        struct node *n = nodes[i];
        unsigned must = n->body ? 0 : node_must_clear(n, operands(c, n));
        for (int k = 0; k < arrlen(n->in); k++)
            if (must & operand_bit(k))
                n->in[k] = clear(c, n->in[k]);
        if (n->body)
            use_cleared(c, n->body);
    }
}

void clear_padding(struct graph *g)
{
    bool any = false;
    struct clearing c = {.g = g, .count = (int)arrlen(g->values)};
    for (int i = 0; i < c.count; i++)
        for (int d = 0; d < g->values[i]->ndim; d++)
            any |= g->values[i]->dim[d]->pad != 0;
    if (!any)
        return;
    c.known = (dims_padding *)mem_alloc(sizeof *c.known * (size_t)(c.count + 1));
    c.cleared = NEW_ARRAY(struct value *, c.count + 1);
    do {
        c.changed = false;
        learn(&c, g->root);
    } while (c.changed);
    use_cleared(&c, g->root);
}
