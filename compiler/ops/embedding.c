/* embedding: rows of a table chosen by ids. Its gradient adds rows of dy where the ids say. With the table split by
 * rows every rank looks only at the ids it owns: what it does not own stays zero and the parts add up. An id outside the
 * table reads and changes nothing. */
#include "nn.h"
#include "target.h"

static bool shape(struct graph *g, struct node *n)
{
    const struct value *ids = n->in[0], *table = n->in[1];
    if (!expect_type(n, 0, TYPE_I32) || !expect_float(n, 1) ||
        !op_expect(n, 1, table->ndim == 2, "the table needs two dims, rows and width") ||
        !op_expect(n, 0, ids->ndim < MAX_DIM, "a tensor has at most %d dims", MAX_DIM))
        return false;
    struct dim *dim[MAX_DIM];
    for (int i = 0; i < ids->ndim; i++)
        dim[i] = ids->dim[i];
    dim[ids->ndim] = table->dim[1];
    node_out(g, n, table->type, ids->ndim + 1, dim);
    return true;
}

static void extra(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.in[1] = sbp_split(0);
    s.out[0] = sbp_partial(REDUCE_SUM);
    s.coords = true;
    arrput(*sigs, s);
}

static void grad(struct grad *c)
{
    if (!c->wanted[1])
        return;
    struct node *n = node_new(c->g, c->at, &op_embedding_grad, c->node->span);
    node_in(n, c->node->in[0]);
    node_in(n, c->dout[0]);
    node_set_ptr(n, "dim", c->node->in[1]->dim[0]);
    c->din[1] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void ref(struct reference *r)
{
    const struct tensor *ids = &r->in[0], *table = &r->in[1];
    int64_t count = tensor_count(ids), width = table->n[1];
    for (int64_t i = 0; i < count; i++) {
        int64_t row = (int64_t)ids->data[i] - table->base[0];
        if (row >= 0 && row < table->n[0])
            for (int64_t d = 0; d < width; d++)
                r->out[0].data[i * width + d] = table->data[row * width + d];
    }
}

static int64_t index_limit(const struct node *n, int k)
{
    return k == 0 ? n->in[1]->dim[0]->size : 0;
}

const struct op op_embedding = {
    .name = "embedding",
    .doc = "ids [..], table [R, D] -> [.., D]: row ids[..] of the table",
    .args = "ids, table",
    .rule = "b.., r^ d -> b.. d",
    .linear = "{b} max{b} min{b}",
    .shape = shape,
    .index_limit = index_limit,
    .extra = extra,
    .grad = grad,
    .ref = ref,
    .call = "fl_embedding%as(i1,o0)(%o0, %i0, %i1%type(i1), %count(i0), %base(i1,0), %extent(i1,0), %last(i1))",
    .shapes = "ids i32 [..], table [R, D] -> [.., D]",
    .more = "rows of the table: the result is P(sum); a rank knows its rows",
};

/* Attribute "dim": the rows of the table. */
static bool shape_grad(struct graph *g, struct node *n)
{
    const struct value *dy = n->in[1];
    struct value rows = *dy;
    rows.ndim--;
    if (!expect_like(n, 0, &rows))
        return false;
    struct dim *dim[2] = {node_ptr(n, "dim"), dy->dim[dy->ndim - 1]};
    node_out(g, n, dy->type, 2, dim);
    return true;
}

static void extra_grad(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.out[0] = sbp_split(0);
    s.coords = true;
    arrput(*sigs, s);
}

static void ref_grad(struct reference *r)
{
    const struct tensor *ids = &r->in[0], *dy = &r->in[1], *table = &r->out[0];
    int64_t count = tensor_count(ids), width = table->n[1];
    for (int64_t i = 0; i < count; i++) {
        int64_t row = (int64_t)ids->data[i] - table->base[0];
        if (row >= 0 && row < table->n[0])
            for (int64_t d = 0; d < width; d++)
                table->data[row * width + d] += dy->data[i * width + d];
    }
}

/* Its kernel on a processor sorts the ids by row. */
static int64_t room_grad(struct node *n, const struct mesh *m, const struct target *t)
{
    int64_t ids = room_count(n->in[0], 0, n->in[0]->ndim, m), rows = value_extent(n->out[0], 0, m, NULL);
    return t->scratch ? room_lines(rows + 2 + ids) : 0;
}

const struct op op_embedding_grad = {
    .name = "embedding_grad",
    .doc = "rows of dy [.., D] added up by ids [..] -> [R, D]",
    .args = "ids, dy",
    .rule = "b..+, b..+ d -> _ d",
    .linear = "{b}",
    .flags = OP_INTERNAL | OP_ZEROES_PADDING | OP_ANY_FLOAT,
    .shape = shape_grad,
    .extra = extra_grad,
    .ref = ref_grad,
    .room = room_grad,
    .call = "fl_embedding_grad%as(i1)(%o0, %i1%type(i1), %i0, %count(i0), %base(o0,0), %extent(o0,0), %last(o0))",
};
