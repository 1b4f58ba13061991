/* What is settled once kinds of layouts are chosen: which of several axes that split one dim is the major one, and the
 * stored size of padded dims. */
#include "shard.h"
#include <string.h>

/* ---- order of axes ---- */

struct ranking { bool before[MAX_AXIS][MAX_AXIS]; };

static void set_order(struct layout *l, const struct ranking *r, int naxis)
{
    for (int a = 0; a < naxis; a++) {
        int order = 0;
        for (int b = 0; b < naxis; b++)
            if (b != a && l->ax[a].kind == SBP_S && l->ax[b].kind == SBP_S && l->ax[a].dim == l->ax[b].dim && r->before[b][a])
                order++;
        l->ax[a].order = (uint8_t)order;
    }
}

/* A node takes the order of its first operand that is stored split over both axes, else mesh order. */
static void order_node(struct sharding *s, struct node *n)
{
    int naxis = s->mesh->naxis;
    struct ranking r;
    const struct fixed *f = arrlen(n->out) ? &s->fixed[n->out[0]->id] : NULL;
    bool fixed = n->op == &op_to && f->axes;
    for (int a = 0; a < naxis; a++)
        for (int b = 0; b < naxis; b++) {
            r.before[a][b] = a < b;
            for (int k = 0; a != b && k < arrlen(n->in) + (fixed ? 1 : 0); k++) {
                const struct layout *l = fixed ? &f->lay : n->in[k] ? &n->in[k]->lay : NULL;
                if (!l || l->ax[a].kind != SBP_S || l->ax[b].kind != SBP_S || l->ax[a].dim != l->ax[b].dim)
                    continue;
                r.before[a][b] = l->ax[a].order < l->ax[b].order;
                break;
            }
        }
    for (int k = 0; k < arrlen(n->in); k++)
        set_order(&n->need[k], &r, naxis);
    for (int k = 0; k < arrlen(n->out); k++)
        set_order(&n->out[k]->lay, &r, naxis);
    for (int k = 0; n->body && k < arrlen(n->body->args); k++)
        n->body->args[k]->lay = n->need[k];
}

static void order_region(struct sharding *s, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->op == &op_param) {
            n->out[0]->lay = node_param(n)->lay;
        } else if (n->op == &op_input) {
            n->out[0]->lay = s->fixed[n->out[0]->id].lay;
            layout_normalise(&n->out[0]->lay, s->mesh);
        } else {
            order_node(s, n);
        }
        if (n->body)
            order_region(s, n->body);
    }
}

void settle(struct sharding *s)
{
    order_region(s, s->g->root);
}

/* ---- padded dims ---- */

struct padding { struct dim *key; int64_t value; };

static void need_parts(struct padding **pads, struct sharding *s, int ndim, struct dim *const *dim, const struct layout *l)
{
    for (int d = 0; d < ndim; d++) {
        if (dim[d]->pad <= 0)
            continue;
        ptrdiff_t at = hmgeti(*pads, dim[d]);
        int64_t multiple = at < 0 ? dim[d]->pad : (*pads)[at].value;
        multiple = common_multiple(multiple, layout_parts(l, d, s->mesh));
        hmput(*pads, dim[d], multiple);
    }
}

static void walk(struct padding **pads, struct sharding *s, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; n->need && k < arrlen(n->in); k++)
            if (n->in[k])
                need_parts(pads, s, n->in[k]->ndim, n->in[k]->dim, &n->need[k]);
        for (int k = 0; k < arrlen(n->out); k++)
            need_parts(pads, s, n->out[k]->ndim, n->out[k]->dim, &n->out[k]->lay);
        if (n->body)
            walk(pads, s, n->body);
    }
}

/* Elaborate has made sure that what is named can be counted; padding comes on top. */
static bool countable(int ndim, struct dim *const *dim, const char *path, struct span at)
{
    enum { LARGEST_BITS = 54 };
    const struct dim *padded = NULL;
    int64_t count = 1;
    bool fits = true;
    for (int d = 0; d < ndim; d++) {
        fits = fits && !__builtin_mul_overflow(count, dim[d]->phys, &count) && count <= (int64_t)1 << LARGEST_BITS;
        padded = dim[d]->phys > dim[d]->size ? dim[d] : padded;
    }
    if (fits)
        return true;
    struct diag *d = diag_error(E_SHAPE, at, "'%s' with its padding has more than the 2^%d elements that can be "
                                "counted", path ? path : "this", LARGEST_BITS);
    if (padded)
        diag_label(d, padded->span, "%lld stored as %lld", (long long)padded->size, (long long)padded->phys);
    return false;
}

static bool countable_region(const struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->out); k++)
            if (!countable(n->out[k]->ndim, n->out[k]->dim, n->out[k]->path, n->out[k]->span))
                return false;
        if (n->body && !countable_region(n->body))
            return false;
    }
    return true;
}

void settle_dims(struct sharding *s)
{
    struct padding *pads = NULL;
    for (int k = 0; k < arrlen(s->m->params); k++) {
        struct param *p = s->m->params[k];
        need_parts(&pads, s, p->ndim, p->dim, &p->lay);
    }
    for (int e = 0; e < ENTRIES; e++)
        if (s->m->graph[e])
            walk(&pads, s, s->m->graph[e]->root);
    for (int k = 0; k < hmlen(pads); k++) {
        struct dim *d = pads[k].key;
        d->phys = (d->size + pads[k].value - 1) / pads[k].value * pads[k].value;
    }
    for (int e = 0; e < ENTRIES; e++)
        if (s->m->graph[e] && !countable_region(s->m->graph[e]->root))
            return;
}
