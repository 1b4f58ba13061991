/* positions(T): the numbers 0 .. T - 1 as i32. A rank that holds a part of T starts at its own place. */
#include "nn.h"

static bool shape(struct graph *g, struct node *n)
{
    struct dim *dim = node_ptr(n, "dim");
    node_out(g, n, TYPE_I32, 1, &dim);
    return true;
}

static void extra(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.out[0] = sbp_split(0);
    s.coords = true;
    arrput(*sigs, s);
}

static void ref(struct reference *r)
{
    for (int64_t i = 0; i < r->out[0].n[0]; i++)
        r->out[0].data[i] = (double)(r->out[0].base[0] + i);
}

const struct op op_positions = {
    .name = "positions",
    .doc = "0, 1 .. T - 1 as i32 [T]",
    .args = "dim:dim",
    .rule = "-> _",
    .flags = OP_SOURCE,
    .shape = shape,
    .extra = extra,
    .ref = ref,
    .call = "fl_positions(%o0, %base(o0,0), %count(o0))",
    .shapes = "-> i32 [dim]",
    .more = "dim: a rank makes its part and knows where it begins",
};
