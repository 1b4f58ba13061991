/* Values in buffers of others: results that lie over an operand nobody else still needs, in their place of a stack, in an
 * accumulator, in a parameter; copies between the memories. None of them costs memory or a copy. */
#include "buffers.h"

/* The parameter in host memory that node n, a to_host, writes to; NULL: it writes to memory of its own. */
static const struct value *stored_place(const struct work *w, const struct node *n)
{
    struct node **readers = w->readers[n->out[0]->id];
    bool stored = arrlen(readers) == 1 && readers[0]->op == &op_store && readers[0]->in[0]->host;
    return stored ? readers[0]->in[0] : NULL;
}

/* May its kernel read v as it lies? Those of attention and of rows want its last dim dense. */
bool place_readable(const struct work *w, const struct node *n, const struct value *v)
{
    if (n->op == &op_box_slice && layout_flat(&n->out[0]->lay, w->p->mesh))
        return place_contiguous(v);
    if (n->op == &op_to_host)            /* bytes as they lie; a parameter's host memory is contiguous */
        return stored_place(w, n) ? place_contiguous(v) : place_whole(v);
    if (n->op->flags & OP_DENSE_ROWS)
        return v->ndim == 0 || sym_is(v->place->extent[v->ndim - 1], 1) || sym_is(v->place->stride[v->ndim - 1], 1);
    return op_takes_strides(n->op) || place_contiguous(v);
}

/* r is done with a micro-batch when n comes to it: it stands before n, or in its forward where n is in its backward. */
static bool runs_before(const struct work *w, const struct node *r, const struct node *n)
{
    const struct region *from = node_at_root(r)->region, *to = node_at_root(n)->region;
    if (from == to) {
        const struct node *first = node_at_root(r), *second = node_at_root(n);
        for (int i = 0; first != second && i < arrlen(from->nodes) && from->nodes[i] != second; i++)
            if (from->nodes[i] == first)
                return true;
        return false;
    }
    bool forward = false, backward = false;
    for (int c = 0; c < w->s->nchunk; c++) {
        forward |= from == w->s->phase[ENTRY_TRAIN][PHASE_FORWARD][c];
        backward |= to == w->s->phase[ENTRY_TRAIN][PHASE_BACKWARD][c];
    }
    return forward && backward;
}

/* Is v made once, and read by n for every micro-batch? */
static bool read_again(const struct value *v, const struct node *n)
{
    enum phase made = node_at_root(v->def)->phase, read = node_at_root(n)->phase;
    return phase_per_microbatch(read) && (made == PHASE_SETUP || (made == PHASE_COUNT && read != PHASE_COUNT));
}

/* Nobody but n still needs what in v's buffer is, so n may write its result over it. */
static bool may_take_over(const struct work *w, const struct value *v, const struct node *n)
{
    const struct buffer *b = v->buffer;
    bool over = n->op->flags & OP_OVERWRITES;            /* at root alone: in a body the next block may lie there already */
    if (!b || b->persistent || b->constant || !v->def || v->def->op == &op_input)
        return false;
    if ((over && (v->region->owner || n->region->owner)) || read_again(v, n))
        return false;
    int reads = 0;                                       /* n itself; a second one would find what the first has written */
    for (int i = 0; i < arrlen(b->values); i++)
        for (int k = 0; k < arrlen(n->in); k++)
            reads += n->in[k] == b->values[i];
    if (reads != 1)
        return false;
    for (int i = 0; i < arrlen(b->values); i++) {
        const struct value *u = b->values[i];
        if (!u->def || w->result[u->id] || u->region != v->region)
            return false;
        for (int k = 0; k < arrlen(w->readers[u->id]); k++) {
            const struct node *r = w->readers[u->id][k];
            bool view = arrlen(r->out) && r->out[0]->buffer == b && r != n;
            if (r != n && !view && node_ptr(r, "of") != n && !(over && runs_before(w, r, n)))  /* a post of n reads for it */
                return false;
        }
    }
    return true;
}

static void share(const struct work *w, struct value *v, const struct value *from)
{
    v->place = NEW(struct place);
    *v->place = *from->place;
    v->offset = from->offset;
    for (int d = 0; d < v->ndim; d++)
        v->stride[d] = from->stride[d];
    buffer_enter(w, from->buffer, v);
}

/* An entry-wise kernel that is the last to read its first operand writes its result there. */
static bool place_over_operand(struct work *w, struct node *n, int k)
{
    if (k || !(n->op->flags & OP_OVERWRITES))
        return false;
    struct value *v = n->out[k], *from = n->in[0];
    if (from->type != v->type || goes_wide(n, from) || goes_wide(n, v) || !place_contiguous(from) || !may_take_over(w, from, n))
        return false;
    share(w, v, from);
    return true;
}

/* A copy between the memories lies as what it is a copy of, or in its place of a parameter. */
void place_copy(struct work *w, struct node *n)
{
    struct value *v = n->out[0];
    const struct value *from = n->in[0], *param = n->op == &op_to_host ? stored_place(w, n) : NULL;
    if (param) {
        share(w, v, param);
        return;
    }
    v->place = NEW(struct place);
    *v->place = *from->place;
    v->place->offset = NULL;
    place_numbers(w->p, v);
    struct buffer *b = buffer_new(w, v, v->host ? MEM_HOST : MEM_LOCAL);
    b->host = v->host;
    b->elements = 1;
    for (int d = 0; d < v->ndim; d++)
        b->elements *= sym_max(w->p, v->place->extent[d]);
    b->shares = from->buffer->shares && from->buffer->elements >= b->elements && !arrlen(from->place->offset);
    if (b->shares)
        b->elements = from->buffer->elements;
    buffer_enter(w, b, v);
}

/* The one reader of v, when it is of this op, in v's region; NULL otherwise. */
static struct node *sole_reader(const struct work *w, const struct value *v, const struct op *op)
{
    struct node **readers = w->readers[v->id];
    bool sole = arrlen(readers) == 1 && readers[0]->op == op && readers[0]->region == v->region && !w->result[v->id];
    return sole ? readers[0] : NULL;
}

/* A kernel whose result is only stacked writes it into its place of the stack. */
static bool place_in_stack(struct work *w, struct value *v)
{
    struct node *s = sole_reader(w, v, &op_stack);
    const struct op *op = v->def->op;
    bool fills = op == &op_box_pad || op == &op_slice_grad;      /* the whole result, in one run, before what it has of its own */
    if (!s || fills || !op_takes_strides(op) || op->flags & OP_VIEW)
        return false;
    struct value *all = s->out[0];
    if (all->type != v->type)            /* a gradient made in 16 bits, of a parameter whose gradient is f32 */
        return false;
    int axis = (int)node_int(s, "axis", 0), at = 0;
    if (!all->place)
        buffer_own(w, all, MEM_LOCAL);
    while (s->in[at] != v)
        at++;
    struct place *l = NEW(struct place);
    for (int d = 0; d < v->ndim; d++) {
        l->extent[d] = sym_extent(w->p, v, d);
        l->stride[d] = all->place->stride[d + (d >= axis)];
    }
    if (at)
        arrput(l->offset, sym_mul(sym_int(at), all->place->stride[axis]));
    v->place = l;
    if (!place_readable(w, v->def, v)) {
        v->place = NULL;
        return false;
    }
    place_numbers(w->p, v);
    buffer_enter(w, all->buffer, v);
    return true;
}

/* A contraction whose result is only accumulated over micro-batches adds to the accumulator itself. */
static bool place_in_accumulator(struct work *w, struct value *v)
{
    bool adds = v->def->op->adds == v->def_index + 1 && !(v->def->op == &op_contraction && v->def->in[3]);
    struct node *a = adds ? sole_reader(w, v, &op_box_accumulate) : NULL;
    if (!a || arrlen(a->in) != 1 || node_int(a, "reduce", REDUCE_SUM) != REDUCE_SUM)
        return false;
    buffer_own(w, a->out[0], MEM_GRAD);
    share(w, v, a->out[0]);
    node_set_int(v->def, "accumulate", 1);
    node_set_int(v->def, "accumulated", v->def_index);
    return true;
}

/* An optimizer works in place: result 0 lies where the parameter does, the others where its states do. What it makes besides
 * (muon_momentum) has a place of its own. */
void place_updated(struct work *w, struct node *n, int k)
{
    int states = 0;
    while (n->op->optimizer->state[states])
        states++;
    if (k > states)
        buffer_own(w, n->out[k], MEM_LOCAL);
    else
        share(w, n->out[k], n->in[k ? k + 1 : 0]);
}

/* A parameter put together of its new shares is so in its place. */
static bool place_in_param(struct work *w, struct value *v)
{
    const struct node *s = v->def->op == &op_box_all_gather ? sole_reader(w, v, &op_store) : NULL;
    const struct value *param = s ? s->in[0] : NULL;
    if (!param || s->in[1] != v || node_int(v->def, "dim", 0) != DIM_FLAT || !param->buffer || !param->buffer->shares ||
        !place_contiguous(param))
        return false;
    share(w, v, param);
    return true;
}

/* A reduction over ranks of what is not needed otherwise is made in its place. */
static bool place_reduced(struct work *w, struct node *n, int k)
{
    if (n->op != &op_box_all_reduce || !place_contiguous(n->in[k]) || !may_take_over(w, n->in[k], n))
        return false;
    struct value *v = n->out[k];
    share(w, v, n->in[k]);
    if (v->buffer->class == MEM_LOCAL)
        v->buffer->class = MEM_COMM;
    return true;
}

bool place_within(struct work *w, struct node *n, int k)
{
    struct value *v = n->out[k];
    return place_in_stack(w, v) || place_in_accumulator(w, v) || place_in_param(w, v) || place_over_operand(w, n, k) ||
           place_reduced(w, n, k);
}
