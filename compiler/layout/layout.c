/* layout: gives every value of a stage program a buffer and a place in it. Sources, results of kernels and carried
 * values own their buffers; a view shares its operand's where strides can say it. Kernels that take plain pointers get
 * contiguous operands, if need be through an explicit copy node.
 *
 * A value that another region walking the same blocks reads (a saved activation, a gradient) is stacked: its buffer has
 * one copy per block of every repeat around it. */
#include "../base/diag.h"
#include "../op.h"
#include "../passes.h"
#include "../target.h"
#include "place.h"
#include <string.h>

/* A range of blocks of a parameter that lies together: that of one chunk, for one in the repeat that is cut. */
struct held { struct param *param; int64_t first; };

struct work {
    struct physical *p;
    struct stage *s;
    struct node ***readers;      /* by value id */
    bool *result;                /* by value id: read at the end of its body */
    struct { struct held key; struct buffer *value; } *params;     /* hash map */
};

bool op_takes_strides(const struct op *op)
{
    static const struct op *const strided[] = {
        &op_einsum, &op_contraction, &op_repeat, &op_attention, &op_attention_grad, &op_stack, &op_concat, &op_slice_grad, &op_copy,
        &op_sum, &op_rows, &op_box_pad, &op_to_host, &op_to_device, &op_copied,
    };
    for (size_t i = 0; i < sizeof strided / sizeof *strided; i++)
        if (op == strided[i])
            return true;
    return op->flags & (OP_ELEMENTWISE | OP_VIEW) || op == &op_box_slice;
}

/* The parameter in host memory that node n, a to_host, writes to; NULL: it writes to memory of its own. */
static const struct value *stored_place(const struct work *w, const struct node *n)
{
    struct node **readers = w->readers[n->out[0]->id];
    bool stored = arrlen(readers) == 1 && readers[0]->op == &op_store && readers[0]->in[0]->host;
    return stored ? readers[0]->in[0] : NULL;
}

/* May its kernel read v as it lies? Those of attention and of rows want its last dim dense. */
static bool readable(const struct work *w, const struct node *n, const struct value *v)
{
    if (n->op == &op_box_slice && layout_flat(&n->out[0]->lay, w->p->mesh))
        return place_contiguous(v);
    if (n->op == &op_to_host)            /* bytes as they lie; a parameter's host memory is contiguous */
        return stored_place(w, n) ? place_contiguous(v) : place_whole(v);
    if (n->op == &op_attention || n->op == &op_attention_grad || n->op == &op_rows)
        return v->ndim == 0 || sym_is(v->place->extent[v->ndim - 1], 1) || sym_is(v->place->stride[v->ndim - 1], 1);
    return op_takes_strides(n->op) || place_contiguous(v);
}

static void note_readers(struct work *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                arrput(w->readers[n->in[k]->id], n);
        if (n->body)
            note_readers(w, n->body);
    }
    for (int k = 0; k < arrlen(r->results); k++)
        w->result[r->results[k]->id] = true;
}

/* What a value that was offloaded is copied in for counts as a reader of it, so that it lies as it would without. */
static void note_far_readers(struct work *w)
{
    for (int i = 0; i < arrlen(w->readers); i++)
        for (int k = 0; k < arrlen(w->readers[i]); k++) {
            const struct node *out = w->readers[i][k];
            struct node **in = out->op == &op_to_host ? w->readers[out->out[0]->id] : NULL;
            for (int j = 0; j < arrlen(in); j++)
                for (int q = 0; in[j]->op == &op_to_device && q < arrlen(w->readers[in[j]->out[0]->id]); q++)
                    arrput(w->readers[i], w->readers[in[j]->out[0]->id][q]);
        }
}

static void note_stacked(struct work *w)
{
    for (int i = 0; i < arrlen(w->readers); i++) {
        struct value *v = w->s->graph->values[i];
        for (int k = 0; k < arrlen(w->readers[i]) && region_depth(v->region); k++)
            if (!region_within(w->readers[i][k]->region, v->region))
                v->stacked = true;
    }
}

static struct buffer *buffer_new(struct work *w, struct value *v, enum memory_class class)
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
static void enter(const struct work *w, struct buffer *b, struct value *v)
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

/* v gets a buffer of its own, dense in the best order of its dims, or in logical order where that is plain. */
static struct buffer *own_as(struct work *w, struct value *v, enum memory_class class, bool plain)
{
    int perm[MAX_DIM];
    order_choose(v, w->readers, plain, perm);
    place_dense(w->p, v, perm);
    struct buffer *b = buffer_new(w, v, class);
    b->elements = 1;
    for (int d = 0; d < v->ndim; d++)
        b->elements *= sym_max(w->p, v->place->extent[d]);
    own_shares(w, v, b);
    enter(w, b, v);
    return b;
}

static struct buffer *own(struct work *w, struct value *v, enum memory_class class)
{
    return own_as(w, v, class, wants_plain(w, v));
}

static void place_param(struct work *w, struct value *v)
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
        b = own(w, v, q->is_state ? MEM_STATE : MEM_PARAM);
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
    enter(w, b, v);
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

static struct node *sole_reader(const struct work *w, const struct value *v, const struct op *op);

static void share(const struct work *w, struct value *v, const struct value *from)
{
    v->place = NEW(struct place);
    *v->place = *from->place;
    v->offset = from->offset;
    for (int d = 0; d < v->ndim; d++)
        v->stride[d] = from->stride[d];
    enter(w, from->buffer, v);
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
static void place_copy(struct work *w, struct node *n)
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
    enter(w, b, v);
}

/* What a post starts its collective ends: both have the same operands. So the collective reads the copy too. */
static void give_to_collective(struct work *w, const struct node *post, const struct value *v, struct value *copy)
{
    struct node *of = node_ptr(post, "of");
    for (int i = 0; i < arrlen(post->in); i++)
        if (post->in[i] == v)
            of->in[node_ints(post, "operands")[i]] = copy;
    arrput(w->readers[copy->id], of);
    copy->stacked = region_depth(copy->region) && !region_within(of->region, copy->region);
}

/* Puts a copy of v, contiguous, before node n (index `at` of its region); the other operands of n share it. */
static struct value *insert_copy(struct work *w, struct node *n, int at, struct value *v)
{
    struct region *r = n->region;
    struct node *c = node_new(w->s->graph, r, &op_copy, n->span);
    node_in(c, v);
    if (!node_finish(w->s->graph, c))
        BUG("a copy of %%%d has no shape", v->id);
    c->phase = n->phase;
    c->stage = n->stage;
    c->path = n->path;
    c->why = mem_printf("%s takes contiguous operands", n->op->name);
    for (int i = (int)arrlen(r->nodes) - 1; i > at; i--)
        r->nodes[i] = r->nodes[i - 1];
    r->nodes[at] = c;
    struct value *copy = c->out[0];
    copy->lay = v->lay;
    copy->path = mem_printf("%s.copy", v->path ? v->path : "value");
    while (arrlen(w->readers) <= copy->id)
        arrput(w->readers, NULL);
    bool *grown = NEW_ARRAY(bool, arrlen(w->readers));
    for (int i = 0; i < copy->id; i++)
        grown[i] = w->result[i];
    w->result = grown;
    arrput(w->readers[copy->id], n);
    if (n->op == &op_box_post)
        give_to_collective(w, n, v, copy);
    own_as(w, copy, MEM_LOCAL, true);
    return copy;
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
    if (!s || fills || !op_takes_strides(op) || op->flags & OP_VIEW || op == &op_box_slice)
        return false;
    struct value *all = s->out[0];
    if (all->type != v->type)            /* a gradient made in 16 bits, of a parameter whose gradient is f32 */
        return false;
    int axis = (int)node_int(s, "axis", 0), at = 0;
    if (!all->place)
        own(w, all, MEM_LOCAL);
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
    if (!readable(w, v->def, v)) {
        v->place = NULL;
        return false;
    }
    place_numbers(w->p, v);
    enter(w, all->buffer, v);
    return true;
}

/* A contraction whose result is only accumulated over micro-batches adds to the accumulator itself. */
static bool place_in_accumulator(struct work *w, struct value *v)
{
    bool adds = v->def->op == &op_einsum || (v->def->op == &op_linear_cross_entropy_grad && v->def_index == 2) ||
                (v->def->op == &op_linear_ce_parts_grad && v->def_index == 1) ||
                (v->def->op == &op_contraction && !v->def_index && !v->def->in[3]);
    struct node *a = adds ? sole_reader(w, v, &op_box_accumulate) : NULL;
    if (!a || arrlen(a->in) != 1 || node_int(a, "reduce", REDUCE_SUM) != REDUCE_SUM)
        return false;
    own(w, a->out[0], MEM_GRAD);
    share(w, v, a->out[0]);
    node_set_int(v->def, "accumulate", 1);
    node_set_int(v->def, "accumulated", v->def_index);
    return true;
}

static enum memory_class class_of(const struct work *w, const struct node *n)
{
    if (n->op == &op_box_accumulate)
        return MEM_GRAD;
    const struct value *v = n->op == &op_box_all_gather ? n->in[0] : n->out[0];
    bool gathered = v != n->out[0];
    if (value_is_copy(v) && (gathered ? !v->anew : v->anew || !layout_flat(&v->lay, w->p->mesh)))
        return MEM_PARAM;        /* as the model reads the parameter the whole step long */
    return n->op->flags & OP_BOXING ? MEM_COMM : MEM_LOCAL;
}

/* An optimizer works in place: result 0 lies where the parameter does, the others where its states do. What it makes besides
 * (muon_momentum) has a place of its own. */
static void place_updated(struct work *w, struct node *n, int k)
{
    int states = 0;
    while (n->op->optimizer->state[states])
        states++;
    if (k > states)
        own(w, n->out[k], MEM_LOCAL);
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

/* A number that only element-wise kernels read stands in their text and needs no memory. */
static bool written_out(const struct work *w, const struct value *v)
{
    for (int i = 0; i < arrlen(w->readers[v->id]); i++)
        if (!(w->readers[v->id][i]->op->flags & OP_ELEMENTWISE) && w->readers[v->id][i]->op != &op_rows)
            return false;
    return !w->result[v->id];
}

/* One of several results, which nobody reads: its kernel is told not to make it. */
static bool unwanted(const struct work *w, const struct node *n, const struct value *v)
{
    return arrlen(n->out) > 1 && n->op->call &&
           (!(n->op->flags & OP_CONTRACTION) || n->op->flags & OP_FORWARD_TOO || n->op == &op_linear_ce_parts_grad) && !arrlen(w->readers[v->id]) && !w->result[v->id];
}

static void place_region(struct work *w, struct region *r);

static void place_node(struct work *w, struct node *n)
{
    if (n->body) {
        for (int k = 0; k < arrlen(n->body->args); k++)
            own(w, n->body->args[k], MEM_LOCAL);
        if (n->body->index)
            own(w, n->body->index, MEM_LOCAL);
        place_region(w, n->body);
        for (int k = 0; k < arrlen(n->out); k++)
            own(w, n->out[k], MEM_LOCAL);
        return;
    }
    if (n->op == &op_to_host || n->op == &op_to_device) {
        place_copy(w, n);
        return;
    }
    for (int k = 0; k < arrlen(n->out); k++) {
        struct value *v = n->out[k];
        if (v->place || place_in_stack(w, v) || place_in_accumulator(w, v) || place_in_param(w, v) ||
            place_over_operand(w, n, k))
            continue;
        if (n->op == &op_param) {
            place_param(w, v);
        } else if (n->op->optimizer) {
            place_updated(w, n, k);
        } else if (n->op == &op_constant) {
            v->stacked = false;
            if (written_out(w, v))
                place_dense(w->p, v, NULL);
            else
                own(w, v, MEM_LOCAL)->constant = true;
        } else if (unwanted(w, n, v)) {
            place_dense(w->p, v, (const int[MAX_DIM]){0, 1, 2, 3, 4, 5, 6, 7});
        } else if (n->op->flags & OP_VIEW || n->op == &op_box_slice) {
            if (view_place(w->p, n, k))
                enter(w, n->in[0]->buffer, v);
            else
                own_as(w, v, MEM_LOCAL, true);
        } else if (n->op == &op_box_all_reduce && place_contiguous(n->in[k]) && may_take_over(w, n->in[k], n)) {
            share(w, v, n->in[k]);
            if (v->buffer->class == MEM_LOCAL)
                v->buffer->class = MEM_COMM;
        } else {
            own(w, v, n->op == &op_input ? MEM_INPUT : class_of(w, n))->persistent = false;
        }
    }
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

static void place_region(struct work *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in) && n->op != &op_repeat && !(n->op->flags & OP_STACKED); k++) {
            struct value *v = n->in[k];
            if (!v || readable(w, n, v))
                continue;
            struct value *copy = insert_copy(w, n, i++, v);
            for (int j = k; j < arrlen(n->in); j++)
                if (n->in[j] == v)
                    n->in[j] = copy;
            node_rename_joined(n, v, copy);
        }
        place_node(w, n);
        note_bucket(n);
        note_wide(w, n);
        note_room(w, n);
    }
}

bool carry_through_out(const struct region *body, int k)
{
    for (int j = 0; j < arrlen(body->args); j++)
        if (j != k && body->results[k]->buffer == body->args[j]->buffer)
            return true;
    return false;
}

/* Views of a value may need it stacked although only they are read elsewhere. */
static void stack_views(struct stage *s)
{
    for (int i = 0; i < arrlen(s->buffers); i++) {
        struct buffer *b = s->buffers[i];
        for (int k = 0; k < arrlen(b->values); k++)
            if (b->values[k]->stacked && b->values[0]->region == b->values[k]->region)
                b->values[0]->stacked = true;
        for (int k = 0; k < arrlen(b->values); k++)
            if (b->depth && b->values[k]->region == b->values[0]->region)
                b->values[k]->stacked = true;
    }
}

/* Parameters are read from files and inputs from data as f32 and integers: a short type is what a plan computes in. */
static bool has_kernels(const struct graph *g)
{
    for (int i = 0; i < arrlen(g->values); i++) {
        const struct value *v = g->values[i];
        if ((v->type != TYPE_BF16 && v->type != TYPE_F16) || !v->def || (v->def->op != &op_param && v->def->op != &op_input))
            continue;
        struct diag *d = diag_error(E_TYPE, v->span, "%s '%s' is stored as %s", v->def->op->name, v->path ? v->path : "",
                                    type_name[v->type]);
        diag_mark(d, "this is %s", value_type_text(v, NULL));
        diag_help(d, "declare it f32 and write `precision %s` in the plan", type_name[v->type]);
        return false;
    }
    return true;
}

void layout(struct module *m)
{
    struct physical *p = m->physical;
    for (int i = 0; i < p->nstage; i++)
        if (!has_kernels(p->stages[i].graph))
            return;
    for (int i = 0; i < p->nstage; i++) {
        struct work w = {.p = p, .s = &p->stages[i]};
        offload(p, w.s);
        for (int v = 0; v < arrlen(w.s->graph->values); v++)
            arrput(w.readers, NULL);
        w.result = NEW_ARRAY(bool, arrlen(w.readers) + 1);
        struct root *roots = NULL;
        for (int e = 0; e < ENTRIES; e++) {
            struct root *more = stage_roots(w.s, (enum entry)e);
            for (int k = 0; k < arrlen(more); k++)
                arrput(roots, more[k]);
        }
        for (int k = 0; k < arrlen(roots); k++)
            note_readers(&w, roots[k].region);
        note_stacked(&w);
        note_far_readers(&w);
        for (int k = 0; k < arrlen(roots); k++)
            place_region(&w, roots[k].region);
        stack_views(w.s);
        for (int k = 0; k < arrlen(roots) && m->plan->shard.prefetch; k++)
            blocks_overlap(roots[k].region);
    }
}
