/* reshape: the same elements in the same order under other dims. Input and output dims fall into groups of equal
 * product; within a group a split may follow only the outermost dim, and only where it divides, because only then a
 * rank's elements stay together. A size that merely happens to fit further in would give wrong values. */
#include "nn.h"

/* One group: in[a0, a1) against out[b0, b1). `a` and `b` are its outermost dims of more than one element, or -1;
 * `plain` when there is just one such dim on each side, so that it is the same dim with the same split. */
struct group {
    int a0, a1, b0, b1;
    int a, b;
    bool plain;
};

static int outermost(struct dim *const *dim, int from, int to, int *count)
{
    int found = -1;
    *count = 0;
    for (int i = from; i < to; i++)
        if (dim[i]->size != 1) {
            if (found < 0)
                found = i;
            ++*count;
        }
    return found;
}

/* The finest grouping, left to right; the number of groups, or -1 when the products differ. */
static int groups(int na, struct dim *const *a, int nb, struct dim *const *b, struct group *group)
{
    int i = 0, j = 0, count = 0;
    while (i < na || j < nb) {
        struct group *x = &group[count++];
        *x = (struct group){.a0 = i, .b0 = j};
        int64_t pa = i < na ? a[i++]->size : 1, pb = j < nb ? b[j++]->size : 1;
        while (pa != pb) {
            if (pa < pb && i < na)
                pa *= a[i++]->size;
            else if (pb < pa && j < nb)
                pb *= b[j++]->size;
            else
                return -1;
        }
        if (i == na)
            while (j < nb && b[j]->size == 1)
                j++;
        if (j == nb)
            while (i < na && a[i]->size == 1)
                i++;
        x->a1 = i;
        x->b1 = j;
        int ca, cb;
        x->a = outermost(a, x->a0, x->a1, &ca);
        x->b = outermost(b, x->b0, x->b1, &cb);
        x->plain = ca == 1 && cb == 1;
    }
    return count;
}

static const char *product_text(int n, struct dim *const *dim)
{
    const char *text = "";
    int64_t product = 1;
    for (int i = 0; i < n; i++) {
        product *= dim[i]->size;
        text = mem_printf("%s%s%s", text, i ? " * " : "",
                          dim[i]->name ? dim[i]->name : mem_printf("%lld", (long long)dim[i]->size));
    }
    return n > 1 ? mem_printf("%s = %lld", text, (long long)product)
                 : mem_printf("%s%s%lld", text, n ? " = " : "", (long long)product);
}

static bool shape(struct graph *g, struct node *n)
{
    struct value *x = n->in[0];
    struct dim **dims = node_ptr(n, "dims");
    int ndim = (int)arrlen(dims);
    if (!op_expect(n, 0, ndim <= MAX_DIM, "%d dims; at most %d are possible", ndim, MAX_DIM))
        return false;
    struct group group[2 * MAX_DIM + 1];
    int count = groups(x->ndim, x->dim, ndim, dims, group);
    if (count < 0) {
        struct diag *d = diag_error(E_SHAPE, n->span, "reshape keeps the number of elements, but %s is not %s",
                                    product_text(x->ndim, x->dim), product_text(ndim, dims));
        diag_label(d, x->span, "%s", value_type_text(x, NULL));
        return false;
    }
    for (int i = 0; i < count; i++) {
        struct group *p = &group[i];
        const struct dim *padded = NULL;
        for (int k = p->a0; k < p->a1; k++)
            padded = x->dim[k]->pad ? x->dim[k] : padded;
        for (int k = p->b0; k < p->b1; k++)
            padded = dims[k]->pad ? dims[k] : padded;
        if (padded && !(p->plain && x->dim[p->a] == dims[p->b])) {
            struct diag *d = diag_error(E_SHAPE, n->span, "reshape cannot take apart or join the padded dim %s",
                                        padded->name ? padded->name : "");
            diag_label(d, x->span, "%s", value_type_text(x, NULL));
            diag_help(d, "keep a padded dim as it is, or slice it to its first %lld entries first",
                      (long long)padded->size);
            return false;
        }
    }
    node_out(g, n, x->type, ndim, dims);
    return true;
}

static int groups_of(const struct node *n, struct group *group)
{
    const struct value *x = n->in[0], *y = n->out[0];
    return groups(x->ndim, x->dim, y->ndim, y->dim, group);
}

/* A dim that stays itself is free; the others are whole here and get their splits from extra. */
static const char *rule_of(const struct node *n)
{
    const struct value *x = n->in[0], *y = n->out[0];
    struct group group[2 * MAX_DIM + 1];
    int count = groups_of(n, group);
    const char *rule = x->ndim ? "" : "-";
    for (int i = 0; i < x->ndim; i++) {
        const char *factor = mem_printf("x%d^", i);
        for (int k = 0; k < count; k++)
            if (group[k].plain && group[k].a == i)
                factor = mem_printf("g%d", k);
        rule = mem_printf("%s%s%s", rule, i ? " " : "", factor);
    }
    rule = mem_printf("%s ->", rule);
    for (int i = 0; i < y->ndim; i++) {
        const char *factor = mem_printf("y%d^", i);
        for (int k = 0; k < count; k++)
            if (group[k].plain && group[k].b == i)
                factor = mem_printf("g%d", k);
        rule = mem_printf("%s %s", rule, factor);
    }
    return rule;
}

static void extra(const struct node *n, int parts, struct sig **sigs)
{
    struct group group[2 * MAX_DIM + 1];
    int count = groups_of(n, group);
    for (int k = 0; k < count; k++)
        if (!group[k].plain && group[k].a >= 0 && group[k].b >= 0) {
            struct sig s = sig_new(n);
            s.in[0] = sbp_split(group[k].a);
            s.out[0] = sbp_split(group[k].b);
            s.even = true;
            arrput(*sigs, s);
        }
}

static void grad(struct grad *c)
{
    const struct value *x = c->node->in[0];
    struct node *n = node_new(c->g, c->at, &op_reshape, c->node->span);
    struct dim **dims = NULL;
    for (int i = 0; i < x->ndim; i++)
        arrput(dims, x->dim[i]);
    node_in(n, c->dout[0]);
    node_set_ptr(n, "dims", dims);
    c->din[0] = node_finish(c->g, n) ? n->out[0] : NULL;
}

static void ref(struct reference *r)
{
    memcpy(r->out[0].data, r->in[0].data, sizeof(double) * (size_t)tensor_count(&r->out[0]));
}

const struct op op_reshape = {
    .name = "reshape",
    .doc = "the same elements, in the same order, under other dims",
    .args = "x, dims:dims",
    .linear = "{a} max{a} min{a}",
    .flags = OP_VIEW,
    .shape = shape,
    .rule_of = rule_of,
    .extra = extra,
    .grad = grad,
    .ref = ref,
    .shapes = "x -> dims, as many elements",
    .factors = "a dim that stays itself",
    .more = "of dims taken apart or joined, the outermost, where the parts divide it",
};
