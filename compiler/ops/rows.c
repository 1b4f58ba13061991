/* Row work joined by fuse/rows.c: ops that look at one row (all leading dims by the last one) at a time, in one kernel that keeps
 * the row where it is fast. Attributes: "nodes", what was joined, in order (stb array of struct node *); "results", the values it
 * leaves in memory, as out; "hidden", those it does not; "like", a value with the shape of all rows. Every value on the way is like
 * that one, has an element for each row (its last dim dropped, or of size 1), or is a sum over all rows. The reference runs the
 * nodes one after the other. Layouts are settled before fuse: no signature is ever asked. */
#include "joined.h"
#include "target.h"

static bool shape(struct graph *g, struct node *n)
{
    return true;
}

/* The rows' tensor: of whatever operand or result has their shape. */
static struct tensor whole(const struct reference *r, const struct value *like)
{
    const struct node *n = r->node;
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k]->ndim == like->ndim && rows_shape(n->in[k], like) == ROWS_WHOLE)
            return r->in[k];
    for (int k = 0; k < arrlen(n->out); k++)
        if (rows_shape(n->out[k], like) == ROWS_WHOLE)
            return r->out[k];
    BUG("row work without a tensor of its rows");
}

/* Like the rows, an element of each, or the sum of all. */
static struct tensor shape_of(const struct reference *r, const struct node *n, int k)
{
    const struct value *v = n->out[k], *like = node_ptr(r->node, "like");
    int last = like->ndim - 1;
    struct tensor t = whole(r, like), s = t;
    if (rows_makes_column(n, k)) {
        s = (struct tensor){.ndim = v->ndim};
        for (int d = 0; d < v->ndim; d++)
            s.n[d] = s.full[d] = s.valid[d] = 1;
        int at = v->ndim - 1;
        s.n[at] = t.n[last];
        s.base[at] = t.base[last];
        s.full[at] = t.full[last];
        s.valid[at] = t.valid[last];
    } else if (rows_shape(v, like) == ROWS_EACH) {
        s.ndim = v->ndim;
        s.n[last] = s.full[last] = s.valid[last] = 1;
        s.base[last] = 0;
    }
    return s;
}

static void ref(struct reference *r) { joined_reference(r, shape_of); }

enum rows_shape rows_shape(const struct value *v, const struct value *like)
{
    int last = like->ndim - 1;
    bool lead = v->ndim >= last && v->ndim <= like->ndim;
    for (int d = 0; d < last && lead; d++)
        lead = v->dim[d] == like->dim[d] || (v->dim[d]->size == like->dim[d]->size && v->dim[d]->phys == like->dim[d]->phys);
    if (lead && v->ndim == like->ndim && v->dim[last] == like->dim[last])
        return ROWS_WHOLE;
    return lead && (v->ndim == last || v->dim[last]->phys == 1) ? ROWS_EACH : ROWS_OTHER;
}

bool rows_makes_column(const struct node *n, int k)
{
    if (n->op->rows)
        return strstr(n->op->rows, mem_printf("^%d = columns", k));
    return n->op == &op_sum && !(node_axes(n) >> (n->in[0]->ndim - 1) & 1);
}

/* Sums of chunks of rows, of each sum of all rows that the nodes make. */
static int64_t room(struct node *n, const struct mesh *m, const struct target *t)
{
    struct node **nodes = node_ptr(n, "nodes");
    const struct value *like = node_ptr(n, "like");
    int64_t rows = room_count(like, 0, like->ndim - 1, m), width = room_count(like, like->ndim - 1, like->ndim, m), columns = 0;
    for (int i = 0; i < arrlen(nodes); i++)
        for (int k = 0; k < arrlen(nodes[i]->out); k++)
            columns += rows_makes_column(nodes[i], k);
    return columns * width * ((rows + t->chunk - 1) / t->chunk);
}

const struct op op_rows = {
    .name = "rows", .doc = "ops on one row at a time, in one kernel", .args = "x...",
    .flags = OP_INTERNAL | OP_VARIADIC | OP_STRIDED | OP_DENSE_ROWS, .shape = shape, .flops = joined_flops, .ref = ref,
    .room = room,
};
