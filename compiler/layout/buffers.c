/* Buffers: who owns one, how large it is, of which class, and what a kernel needs beside its operands and results. */
#include "../target.h"
#include "buffers.h"
#include <string.h>

struct buffer *buffer_new(struct work *w, struct value *v, enum memory_class class)
{
    struct buffer *b = NEW(struct buffer);
    b->id = (int)arrlen(w->s->buffers);
    b->class = class;
    b->name = v->path ? v->path : v->def ? v->def->op->name : "value";
    b->span = v->span;
    b->type = v->type;
    b->blocks = 1;
    b->slots = 1;
    arrput(w->s->buffers, b);
    return b;
}

/* One copy per block of the repeats around region r. */
static void buffer_stack(struct buffer *b, const struct region *r)
{
    b->depth = region_depth(r);
    b->blocks = 1;
    for (int d = b->depth; d > 0; d--, r = r->parent) {
        b->count[d - 1] = r->count;
        b->blocks *= r->count;
    }
}

/* A view lies in what its owner has made, which is the same for all blocks of a repeat that the owner is outside of: where the
 * view is read in another walk of these blocks, that needs no copy for each; what is read outside of the owner's blocks does. */
void buffer_enter(const struct work *w, struct buffer *b, struct value *v)
{
    if (v->type != b->type)
        BUG("%%%d is %s, but lies in a buffer of %s", v->id, type_name[v->type], type_name[b->type]);
    v->buffer = b;
    arrput(b->values, v);
    const struct region *home = v->region, *owner = b->values[0]->region;
    while (home->parent && !region_within(owner, home))
        home = home->parent;
    if (!region_within(owner, home) && region_depth(owner))
        home = v->region;                /* both walk the same blocks, in two phases */
    bool stacked = v->stacked;
    if (home != v->region && stacked) {
        stacked = false;
        for (int i = 0; i < arrlen(w->readers[v->id]); i++)
            stacked |= !region_within(w->readers[v->id][i]->region, home);
    }
    if (stacked && !b->depth && region_depth(home) && !b->persistent)
        buffer_stack(b, home);
}

static bool wants_plain(const struct work *w, const struct value *v)
{
    if (v->def && !op_takes_strides(v->def->op))
        return true;
    for (int i = 0; i < arrlen(w->readers[v->id]); i++)
        if (!op_takes_strides(w->readers[v->id][i]->op))
            return true;
    return false;
}

/* A share takes the same room on every rank, and a piece that is put together of shares all of theirs. */
static void own_shares(const struct work *w, const struct value *v, struct buffer *b)
{
    const struct mesh *m = w->p->mesh;
    const struct node *def = v->def;
    struct value cut = *v;
    unsigned axes = layout_flat(&v->lay, m);
    if (axes)
        b->elements = value_share(v, m);
    else if (def && def->op == &op_param)
        axes = ((struct param *)node_ptr(def, "param"))->flat;
    else if (def && def->op == &op_box_all_gather && node_int(def, "dim", 0) == DIM_FLAT)
        axes = (unsigned)node_int(def, "axes", 0);
    if (!axes)
        return;
    b->shares = true;
    for (int a = 0, order = 0; a < m->naxis; a++)
        if (axes >> a & 1)
            cut.lay.ax[a] = (struct sbp){SBP_S, DIM_FLAT, (uint8_t)order++};
    if (!layout_flat(&v->lay, m))
        b->elements = value_share(&cut, m) * layout_parts(&cut.lay, DIM_FLAT, m);
}

struct buffer *buffer_own_as(struct work *w, struct value *v, enum memory_class class, bool plain)
{
    int perm[MAX_DIM];
    order_choose(v, w->readers, plain, perm);
    place_dense(w->p, v, perm);
    struct buffer *b = buffer_new(w, v, class);
    b->elements = 1;
    for (int d = 0; d < v->ndim; d++)
        b->elements *= sym_max(w->p, v->place->extent[d]);
    own_shares(w, v, b);
    buffer_enter(w, b, v);
    return b;
}

struct buffer *buffer_own(struct work *w, struct value *v, enum memory_class class)
{
    return buffer_own_as(w, v, class, wants_plain(w, v));
}

void buffer_of_param(struct work *w, struct value *v)
{
    struct param *q = node_ptr(v->def, "param");
    const struct region *outermost = v->region;
    while (region_depth(outermost) > 1)
        outermost = outermost->parent;
    struct held held;
    memset(&held, 0, sizeof held);
    held.param = q;
    held.first = outermost->first;
    struct buffer *b = hmget(w->params, held);
    if (!b) {
        b = buffer_own(w, v, q->is_state ? MEM_STATE : MEM_PARAM);
        b->param = q;
        b->name = param_text(q);
        b->persistent = b->constant = true;
        if (v->host) {
            b->class = MEM_HOST;
            b->host = true;
        }
        buffer_stack(b, v->region);
        hmput(w->params, held, b);
        return;
    }
    int perm[MAX_DIM];
    for (int d = 0; d < v->ndim; d++)
        perm[d] = d;
    place_dense(w->p, v, perm);
    buffer_enter(w, b, v);
}

enum memory_class buffer_class(const struct work *w, const struct node *n)
{
    if (n->op == &op_box_accumulate)
        return MEM_GRAD;
    const struct value *v = n->op == &op_box_all_gather ? n->in[0] : n->out[0];
    bool gathered = v != n->out[0];
    if (value_is_copy(v) && (gathered ? !v->anew : v->anew || !layout_flat(&v->lay, w->p->mesh)))
        return MEM_PARAM;        /* as the model reads the parameter the whole step long */
    return n->op->flags & OP_BOXING ? MEM_COMM : MEM_LOCAL;
}

/* A reduction of several values in place makes their buffers a bucket. */
static void note_bucket(struct node *n)
{
    if (n->op != &op_box_all_reduce || arrlen(n->in) < 2 || node_attr(n, "posted"))
        return;
    for (int k = 0; k < arrlen(n->in); k++) {
        const struct buffer *b = n->in[k]->buffer;
        if (b != n->out[k]->buffer || b->type != TYPE_F32 || n->in[k]->offset || b->bucket)
            return;
    }
    for (int k = 0; k < arrlen(n->in); k++)
        n->in[k]->buffer->bucket = n;
}

/* Room for the f32 copies that its kernel works on. */
static void note_wide(struct work *w, struct node *n)
{
    int64_t elements = 0;
    for (int k = 0; k < arrlen(n->in); k++)
        elements += goes_wide(n, n->in[k]) ? wide_elements(w->p, n->in[k]) : 0;
    for (int k = 0; k < arrlen(n->out); k++)
        elements += goes_wide(n, n->out[k]) ? wide_elements(w->p, n->out[k]) : 0;
    if (!elements)
        return;
    struct value *like = arrlen(n->out) ? n->out[0] : n->in[0];
    struct buffer *b = buffer_new(w, like, MEM_LOCAL);
    b->name = mem_printf("f32 copies for %s of %s", n->op->name, b->name);
    b->type = TYPE_F32;
    b->elements = elements;
    b->scratch = b->constant = true;
    n->wide = b;
}

/* Room that its call asks for. */
static void note_room(struct work *w, struct node *n)
{
    int64_t elements = n->op->room ? n->op->room(n, w->p->mesh, target_of(w->p->module)) : 0;
    if (!elements)
        return;
    struct buffer *b = buffer_new(w, n->out[0], MEM_LOCAL);
    b->elements = elements;
    b->name = mem_printf("room of %s", n->op->name);
    b->span = n->span;
    b->type = TYPE_F32;
    b->scratch = b->constant = true;
    n->room = b;
}

void buffers_beside(struct work *w, struct node *n)
{
    note_bucket(n);
    note_wide(w, n);
    note_room(w, n);
}
