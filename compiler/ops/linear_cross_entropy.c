/* linear_cross_entropy(x, w, targets): cross_entropy(x w^T, targets) without its logits, as rewrite/loss.c makes it
 * where nothing but the loss reads them. Its gradient makes the loss too: in one go over the rows, some at a time,
 * come their logits, their losses, the gradient of these logits in their place, and from it the shares of dx and
 * dw. So a training step makes every logit once, and of all of them only those of a few rows are ever in memory, in
 * f32.
 *
 * Why rows and not classes at a time: a row's gradient needs its maximum and sum over all classes. Over rows these
 * are at hand when the logits are; over classes every logit would be made twice, half as much work again for the
 * same room.
 *
 * For the same reason no signature of these two splits the classes: a maximum and a sum over ranks would stand
 * between. Two more ops do without that, rewrite/loss_parts.c says where. linear_ce_parts makes what a row's loss
 * is added up of, for each of G groups of classes by itself: a dim of the results that is split as the classes are,
 * so that ordinary ops join them. And with maximum and sum of whole rows known, linear_ce_parts_grad makes the
 * logits once more for their gradient.
 *
 * Attribute "classes": the dim of w that holds them, 0 ([V, D]) or 1 ([D, V]). "groups": G; "ranks_of": the mesh
 * axis that has as many ranks, or left out. Of n classes that a rank has in G' groups, the first n mod G' groups
 * have one more, as the parts of an uneven split. */
#include "nn.h"
#include "target.h"
#include <float.h>

static int classes_of(const struct node *n)
{
    return (int)node_int(n, "classes", 0);
}

static const char *rule_of(const struct node *n)
{
    return classes_of(n) ? "b.. d^, d^ v^, b.. -> b.." : "b.. d^, v^ d^, b.. -> b..";
}

static const char *rule_of_grad(const struct node *n)
{
    return classes_of(n) ? "b..+ d^, d^ v^, b.., b.. -> b.., b.. d^, d^ v^"
                         : "b..+ d^, v^ d^, b.., b.. -> b.., b.. d^, v^ d^";
}

static bool shape(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0], *w = n->in[1];
    if (!expect_float(n, 0) || !expect_float(n, 1) || !expect_type(n, 2, TYPE_I32) ||
        !op_expect(n, 1, x->ndim >= 1 && w->ndim == 2 && dim_same(x->dim[x->ndim - 1], w->dim[1 - classes_of(n)]),
                   "does not fit the other operand"))
        return false;
    for (int k = 2; k < arrlen(n->in); k++)
        if (!expect_dims(n, k, x->ndim - 1, (struct dim *const *)x->dim))
            return false;
    node_out(g, n, TYPE_F32, x->ndim - 1, (struct dim *const *)x->dim);
    return true;
}

static bool shape_grad(struct graph *g, struct node *n)
{
    if (!shape(g, n))
        return false;
    for (int k = 0; k < 2; k++)
        node_out(g, n, n->in[k]->type, n->in[k]->ndim, (struct dim *const *)n->in[k]->dim);
    return true;
}

/* dx and dw are linear in dy; the loss does not depend on it. */
static void extra_grad(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.in[3] = s.out[1] = s.out[2] = sbp_partial(REDUCE_SUM);
    arrput(*sigs, s);
}

/* most, sum, below and weight of each group. */
static bool shape_parts(struct graph *g, struct node *n)
{
    const struct value *x = n->in[0];
    if (!shape(g, n))
        return false;
    arrsetlen(n->out, 0);
    struct dim *dims[MAX_DIM] = {dim_anonymous(node_int(n, "groups", 1))};
    dims[0]->ranks_of = (int)node_int(n, "ranks_of", -1) + 1;
    for (int d = 0; d < x->ndim - 1; d++)
        dims[d + 1] = x->dim[d];
    for (int k = 0; k < 4; k++)
        node_out(g, n, TYPE_F32, x->ndim, dims);
    return true;
}

static bool shape_parts_grad(struct graph *g, struct node *n)
{
    if (!shape(g, n))
        return false;
    arrsetlen(n->out, 0);
    for (int k = 0; k < 2; k++)
        node_out(g, n, n->in[k]->type, n->in[k]->ndim, (struct dim *const *)n->in[k]->dim);
    return true;
}

static const char *rule_of_parts(const struct node *n)
{
    return classes_of(n) ? "b.. d^, d^ v^, b.. -> _ b.., _ b.., _ b.., _ b.."
                         : "b.. d^, v^ d^, b.. -> _ b.., _ b.., _ b.., _ b..";
}

static const char *rule_of_parts_grad(const struct node *n)
{
    return classes_of(n) ? "b..+ d^, d^ v^, b.., b.., b.., b.. -> b.. d^, d^ v^"
                         : "b..+ d^, v^ d^, b.., b.., b.., b.. -> b.. d^, v^ d^";
}

/* A group is what one rank holds: so it is for the parts of any split, even or not. */
static void extra_parts(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n);
    if (node_int(n, "groups", 1) != parts)
        return;
    s.in[1] = sbp_split(classes_of(n));
    for (int k = 0; k < arrlen(n->out); k++)
        s.out[k] = sbp_split(0);
    s.coords = true;
    arrput(*sigs, s);
}

/* Linear in dy; each part of the classes has a share of dx and its own of dw. */
static void extra_parts_grad(const struct node *n, int parts, struct sig **sigs)
{
    struct sig s = sig_new(n), split = sig_new(n);
    s.in[3] = s.out[0] = s.out[1] = sbp_partial(REDUCE_SUM);
    arrput(*sigs, s);
    split.in[1] = split.out[1] = sbp_split(classes_of(n));
    split.out[0] = sbp_partial(REDUCE_SUM);
    split.coords = true;
    arrput(*sigs, split);
}

static void grad(struct grad *c)
{
    struct node *n = node_new(c->g, c->at, &op_linear_cross_entropy_grad, c->node->span);
    for (int k = 0; k < 3; k++)
        node_in(n, c->node->in[k]);
    node_in(n, c->dout[0]);
    n->attr = c->node->attr;
    if (!node_finish(c->g, n))
        BUG("linear_cross_entropy has no gradient");
    c->din[0] = n->out[1];
    c->din[1] = n->out[2];
}

static double products(const struct node *n)
{
    return (double)value_count(n->in[0]) * (double)n->in[1]->dim[classes_of(n)]->size;
}

static double flops(const struct node *n) { return 2 * products(n); }
static double flops_grad(const struct node *n) { return 6 * products(n); }

static int64_t index_limit(const struct node *n, int k)
{
    return k == 2 ? n->in[1]->dim[classes_of(n)]->size : 0;
}

/* ---- references ---- */

struct head { const double *x, *w; int64_t rows, d, n, base, valid, classes, by_class, by_width; };

static struct head head_of(const struct reference *r)
{
    int classes = classes_of(r->node);
    const struct tensor *x = &r->in[0], *w = &r->in[1];
    struct head h = {.x = x->data, .w = w->data, .rows = 1, .d = x->n[x->ndim - 1], .n = w->n[classes],
                     .base = w->base[classes], .valid = tensor_valid(w, classes), .classes = w->valid[classes]};
    for (int i = 0; i < x->ndim - 1; i++)
        h.rows *= x->n[i];
    h.by_class = classes ? 1 : h.d;
    h.by_width = classes ? h.n : 1;
    return h;
}

static double logit(const struct head *h, int64_t i, int64_t v)
{
    double l = 0;
    for (int64_t k = 0; k < h->d; k++)
        l += h->x[i * h->d + k] * h->w[v * h->by_class + k * h->by_width];
    return l;
}

static bool ignored(const struct reference *r, int64_t i)
{
    return node_attr(r->node, "ignore") && r->in[2].data[i] == node_num(r->node, "ignore", 0);
}

/* A row's logits become their softmax; the result is log(sum exp l) - (1 - s) l[target] - s mean l, or 0 where
 * ignored. */
static double row(const struct reference *r, const struct head *h, int64_t i, double *l)
{
    double most = -INFINITY, sum = 0, mean = 0, smoothing = node_num(r->node, "smoothing", 0), at = r->in[2].data[i];
    for (int64_t v = 0; v < h->valid; v++) {
        l[v] = logit(h, i, v);
        most = fmax(most, l[v]);
        mean += l[v] / (double)h->valid;
    }
    double hit = at >= 0 && at < (double)h->valid ? l[(int64_t)at] - most : 0;
    for (int64_t v = 0; v < h->valid; v++)
        sum += l[v] = exp(l[v] - most);
    for (int64_t v = 0; v < h->valid; v++)
        l[v] /= sum;
    return ignored(r, i) ? 0 : log(sum) - (1 - smoothing) * hit - smoothing * (mean - most);
}

static void ref(struct reference *r)
{
    struct head h = head_of(r);
    double *l = NEW_ARRAY(double, h.valid + 1);
    for (int64_t i = 0; i < h.rows; i++)
        r->out[0].data[i] = row(r, &h, i, l);
}

static void ref_grad(struct reference *r)
{
    struct head h = head_of(r);
    double *l = NEW_ARRAY(double, h.valid + 1), *dx = r->out[1].data, *dw = r->out[2].data;
    double smoothing = node_num(r->node, "smoothing", 0);
    for (int64_t i = 0; i < h.rows; i++) {
        double at = r->in[2].data[i];
        r->out[0].data[i] = row(r, &h, i, l);
        if (ignored(r, i))
            continue;
        for (int64_t v = 0; v < h.valid; v++) {
            double g = r->in[3].data[i] * (l[v] - ((double)v == at ? 1 - smoothing : 0) - smoothing / (double)h.valid);
            for (int64_t k = 0; k < h.d; k++) {
                dx[i * h.d + k] += g * h.w[v * h.by_class + k * h.by_width];
                dw[v * h.by_class + k * h.by_width] += g * h.x[i * h.d + k];
            }
        }
    }
}

static void ref_parts(struct reference *r)
{
    struct head h = head_of(r);
    int64_t groups = r->out[0].n[0];
    double *l = NEW_ARRAY(double, h.valid + 1), smoothing = node_num(r->node, "smoothing", 0);
    for (int64_t i = 0; i < h.rows; i++) {
        double target = r->in[2].data[i] - (double)h.base;
        for (int64_t v = 0; v < h.valid; v++)
            l[v] = logit(&h, i, v);
        for (int64_t g = 0, first = 0, next; g < groups; g++, first = next) {
            double most = -FLT_MAX, sum = 0, below = 0, weight = 0;
            next = first + h.n / groups + (g < h.n % groups);
            int64_t end = next < h.valid ? next : h.valid;
            for (int64_t v = first; v < end; v++)
                most = fmax(most, l[v]);
            for (int64_t v = first; v < end; v++) {
                double share = ((double)v == target ? 1 - smoothing : 0) + smoothing / (double)h.classes;
                sum += exp(l[v] - most);
                below += share * (most - l[v]);
                weight += share;
            }
            double x[] = {most, sum, ignored(r, i) ? 0 : below, ignored(r, i) ? 0 : weight};
            for (int k = 0; k < 4; k++)
                r->out[k].data[g * h.rows + i] = x[k];
        }
    }
}

static void ref_parts_grad(struct reference *r)
{
    struct head h = head_of(r);
    double smoothing = node_num(r->node, "smoothing", 0), *dx = r->out[0].data, *dw = r->out[1].data;
    for (int64_t i = 0; i < h.rows; i++)
        for (int64_t v = 0; v < h.valid && !ignored(r, i); v++) {
            bool hit = (double)(v + h.base) == r->in[2].data[i];
            double of = exp(logit(&h, i, v) - r->in[4].data[i]) / r->in[5].data[i];
            double g = r->in[3].data[i] * (of - (hit ? 1 - smoothing : 0) - smoothing / (double)h.classes);
            for (int64_t k = 0; k < h.d; k++) {
                dx[i * h.d + k] += g * h.w[v * h.by_class + k * h.by_width];
                dw[v * h.by_class + k * h.by_width] += g * h.x[i * h.d + k];
            }
        }
}

/* ---- emitted calls ---- */

/* Rows at a time: as many as have logits of LINEAR_CE_PIECE, which a cache still holds, but t->rows or more, so
 * that the products are not slowed down by reading w and adding to dw once more for each. */
static int64_t room(struct node *n, const struct mesh *m, const struct target *t)
{
    enum { MOST = LINEAR_CE_PIECE / 4 };
    int64_t rows = room_count(n->in[0], 0, n->in[0]->ndim - 1, m);
    int64_t classes = value_extent(n->in[1], classes_of(n), m, NULL);
    int64_t most = MOST / (classes > 0 ? classes : 1), chunk = most > t->rows ? most : t->rows;
    int64_t chunks = rows > chunk ? (rows + chunk - 1) / chunk : 1;
    chunk = (rows + chunks - 1) / chunks;
    node_set_int(n, "chunk", chunk > 0 ? chunk : 1);
    return chunk * classes;
}

#define SETTINGS                                                                                                       \
    "%room, FL_REF(struct fl_linear_ce, .rows = %rows(i0), .chunk = %int(chunk), .d = %last(i0), " \
    ".n = %extent(i1,classes), .base = %base(i1,classes), .valid = %size(i1,classes), " \
    ".turned = %bool(classes), .add = %again, .ignore = %skip, " \
    ".smoothing = %num(smoothing,0))"

const struct op op_linear_cross_entropy = {
    .part_of = "cross_entropy", .name = "linear_cross_entropy",
    .doc = "x [.., D], w [V, D], targets [..] -> [..]: cross_entropy of x w^T, a few rows of it at a time",
    .args = "x, w, targets, smoothing:num=0",
    .rule = "b.. d^, v^ d^, b.. -> b..",
    .rule_of = rule_of,
    .factors = "those of the rows",
    .flags = OP_INTERNAL | OP_CONTRACTION,
    .shape = shape,
    .grad = grad,
    .flops = flops,
    .index_limit = index_limit,
    .ref = ref,
    .room = room,
    .call = "fl_linear_cross_entropy%mixed()(%o0, NULL, NULL, %i0, %i1, NULL, %i2, " SETTINGS "%types(i0,i1,i0,i1))",
};

const struct op op_linear_cross_entropy_grad = {
    .part_of = "cross_entropy", .name = "linear_cross_entropy_grad",
    .doc = "x, w, targets, dy -> the loss itself, dx, dw of linear_cross_entropy",
    .args = "x, w, targets, dy, smoothing:num=0",
    .rule = "b..+ d^, v^ d^, b.., b.. -> b.., b.. d^, v^ d^",
    .rule_of = rule_of_grad,
    .factors = "those of the rows",
    .flags = OP_INTERNAL | OP_CONTRACTION | OP_ZEROES_PADDING | OP_FORWARD_TOO | OP_SPARES,
    .adds = 3,
    .shape = shape_grad,
    .extra = extra_grad,
    .flops = flops_grad,
    .index_limit = index_limit,
    .ref = ref_grad,
    .room = room,
    .call = "fl_linear_cross_entropy%mixed()(%o0, %o1, %o2, %i0, %i1, %i3, %i2, " SETTINGS "%types(i0,i1,o1,o2))",
};

const struct op op_linear_ce_parts = {
    .part_of = "cross_entropy", .name = "linear_ce_parts",
    .doc = "x [.., D], w [V, D], targets [..] -> of each of G groups of classes of x w^T, [G, ..] each: most = max l, "
           "sum = sum exp(l - most), below = sum t (most - l) and weight = sum t, with t = (1 - s) [target] + s / V, 0 "
           "where ignored",
    .args = "x, w, targets, smoothing:num=0",
    .rule = "b.. d^, v^ d^, b.. -> _ b.., _ b.., _ b.., _ b..",
    .rule_of = rule_of_parts,
    .factors = "those of the rows",
    .more = "V in G parts: each makes its own group",
    .flags = OP_INTERNAL | OP_CONTRACTION,
    .shape = shape_parts,
    .extra = extra_parts,
    .flops = flops,
    .index_limit = index_limit,
    .ref = ref_parts,
    .room = room,
    .call = "fl_linear_ce_parts%mixed()(%o0, %o1, %o2, %o3, %i0, %i1, %i2, %extent(o0,0), " SETTINGS "%types(i0,i1))",
};

const struct op op_linear_ce_parts_grad = {
    .part_of = "cross_entropy", .name = "linear_ce_parts_grad",
    .doc = "x, w, targets, dy, max, sum -> dx, dw of linear_cross_entropy, its rows' maximum and sum of "
           "exp(l - max) being known",
    .args = "x, w, targets, dy, max, sum, smoothing:num=0",
    .rule = "b..+ d^, v^ d^, b.., b.., b.., b.. -> b.. d^, v^ d^",
    .rule_of = rule_of_parts_grad,
    .factors = "those of the rows",
    .more = "V: dx is P(sum)",
    .flags = OP_INTERNAL | OP_CONTRACTION | OP_ZEROES_PADDING | OP_SPARES,
    .adds = 2,
    .shape = shape_parts_grad,
    .extra = extra_parts_grad,
    .flops = flops_grad,
    .index_limit = index_limit,
    .ref = ref_parts_grad,
    .room = room,
    .call = "fl_linear_ce_parts_grad%mixed()(%o0, %o1, %i0, %i1, %i3, %i4, %i5, %i2, " SETTINGS "%types(i0,i1,o0,o1))",
};
