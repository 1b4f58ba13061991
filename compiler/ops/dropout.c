/* dropout: x / (1 - p) where a random number is at least p, else 0. The numbers depend on seed, "key" (the path of
 * the call, and for a second one in it a number), step, block and place in the logical tensor, so that every plan drops the same elements and the gradient, which
 * is dropout of dy under the same key, finds them again. Outside train it is the identity (rewrite takes it away). */
#include "../../runtime/fl_random.h"
#include "nn.h"

/* Several in one call draw apart. They are counted in their region, so that pieces of a repeat give them the same keys. */
static const char *own_key(const struct node *n)
{
    const char *path = n->path ? n->path : n->op->name, *key = path;
    int number = 1;
    for (int i = 0; i < arrlen(n->region->nodes); i++) {
        const struct node *m = n->region->nodes[i];
        if (m != n && m->op == n->op && !strcmp(m->path ? m->path : m->op->name, path) && node_str(m, "key"))
            key = mem_printf("%s %d", path, ++number);
    }
    return key;
}

static bool shape(struct graph *g, struct node *n)
{
    double p = node_num(n, "p", 0);
    if (!expect_float(n, 0) || !op_expect(n, -1, p >= 0 && p < 1, "p = %g is not in [0, 1)", p))
        return false;
    if (!node_str(n, "key"))
        node_set_str(n, "key", own_key(n));
    return shape_same(g, n);
}

/* A part of the tensor must know where it lies; unequal draws on two ranks would be wrong numbers. */
static void extra(const struct node *n, int parts, struct sig **sigs)
{
    for (int d = 0; d < n->in[0]->ndim; d++) {
        struct sig s = sig_new(n);
        s.in[0] = s.out[0] = sbp_split(d);
        s.coords = true;
        arrput(*sigs, s);
    }
}

static void grad(struct grad *c)
{
    struct node *n = node_new(c->g, c->at, &op_dropout, c->node->span);
    node_in(n, c->dout[0]);
    node_set_num(n, "p", node_num(c->node, "p", 0));
    node_set_str(n, "key", node_str(c->node, "key"));
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void ref(struct reference *r)
{
    const struct tensor *x = &r->in[0];
    double p = node_num(r->node, "p", 0);
    uint64_t key = fl_key(r->seed, fl_hash(node_str(r->node, "key")));
    int64_t at[MAX_DIM] = {0}, o = 0;
    if (!tensor_count(x))
        return;
    do {
        int64_t index = 0;
        for (int d = 0; d < x->ndim; d++)
            index = index * x->valid[d] + x->base[d] + at[d];
        bool keep = fl_uniform(key, r->step, (uint32_t)r->block, (uint64_t)index) >= p;
        r->out[0].data[o] = keep ? x->data[o] / (1 - p) : 0;
        o++;
    } while (index_next(at, x->n, x->ndim));
}

const struct op op_dropout = {
    .name = "dropout",
    .doc = "x / (1 - p) or, with probability p, 0; the identity outside train",
    .args = "x, p:num",
    .linear = "{a} max{a} min{a}",
    .flags = OP_RANDOM | OP_TRAIN_ONLY,
    .shape = shape,
    .extra = extra,
    .grad = grad,
    .ref = ref,
    .rows = "^0 = drop %0",
    .call = "fl_dropout%as(o0,i0)(%o0, %i0%type(i0), %step, %key, %block, %num(p,0), %place(o0))",
    .shapes = "x -> the same",
    .more = "every dim: a rank draws for its part and knows where it lies",
};
