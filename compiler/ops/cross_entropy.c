/* cross_entropy(logits, targets): per token log(sum_v exp l_v) - l_target over the last dim, 0 where the target is the
 * ignore value; with smoothing s the target is (1 - s) one-hot + s / V. Padding columns of a padded V take no part.
 *
 * Over a split vocabulary the row maximum and the row sum need communication in the middle. So the op is never placed
 * whole: rewrite replaces it (lower) by parts whose layouts are exact,
 *     max = ce_max(logits)               split V: P(max)
 *     sum = ce_sum(logits, max)          split V: P(sum)
 *     below = ce_below(logits, targets, max)   split V: P(sum): max minus the target's logit, where this rank holds it
 *     loss = log(sum) + below, or 0 where ignored
 * so that what is added over ranks is as small as the loss: large logits cancel on one rank, as they do without a split.
 * And the communication between them is ordinary boxing. cross_entropy_grad becomes ce_grad, which is local and reads
 * the max and sum of its forward node. */
#include "nn.h"

static bool shape(struct graph *g, struct node *n)
{
    const struct value *logits = n->in[0], *targets = n->in[1];
    double smoothing = node_num(n, "smoothing", 0);
    if (!expect_float(n, 0) || !expect_type(n, 1, TYPE_I32) ||
        !op_expect(n, 0, logits->ndim >= 1, "needs a dim of classes") ||
        !op_expect(n, -1, smoothing >= 0 && smoothing < 1, "smoothing %g is not in [0, 1)", smoothing))
        return false;
    bool same = targets->ndim == logits->ndim - 1;
    for (int i = 0; same && i < targets->ndim; i++)
        same = dim_same(targets->dim[i], logits->dim[i]);
    if (!op_expect(n, 1, same, "targets %s are not the leading dims of logits %s", value_type_text(targets, NULL),
                   value_type_text(logits, NULL)))
        return false;
    node_out(g, n, logits->type, targets->ndim, (struct dim *const *)logits->dim);
    return true;
}

static void copy_attrs(struct node *to, const struct node *from)
{
    node_set_num(to, "smoothing", node_num(from, "smoothing", 0));
    if (node_attr(from, "ignore"))
        node_set_num(to, "ignore", node_num(from, "ignore", 0));
}

static struct value *make(struct graph *g, struct region *at, const struct op *op, const struct node *from,
                          struct value *const *in, int count)
{
    struct node *n = node_new(g, at, op, from->span);
    for (int k = 0; k < count; k++)
        node_in(n, in[k]);
    copy_attrs(n, from);
    n->path = from->path;
    n->phase = from->phase;
    n->forward = from->forward;
    return node_finish(g, n) ? n->out[0] : NULL;
}

static void grad(struct grad *c)
{
    struct value *in[] = {c->node->in[0], c->node->in[1], c->dout[0]};
    c->din[0] = make(c->g, c->at, &op_cross_entropy_grad, c->node, in, 3);
}

/* The statistics of a row, kept on the node that was replaced, where its gradient finds them. */
static void statistics(struct graph *g, struct region *at, struct node *n, struct value **max, struct value **sum)
{
    *max = make(g, at, &op_ce_max, n, (struct value *[]){n->in[0]}, 1);
    *sum = make(g, at, &op_ce_sum, n, (struct value *[]){n->in[0], *max}, 2);
    node_set_ptr(n, "max", *max);
    node_set_ptr(n, "sum", *sum);
}

static void lower(struct graph *g, struct region *at, struct node *n, struct value **out)
{
    struct value *max, *sum;
    statistics(g, at, n, &max, &sum);
    struct value *below = make(g, at, &op_ce_below, n, (struct value *[]){n->in[0], n->in[1], max}, 3);
    struct value *loss = build(g, at, &op_add, n->span, 2, build(g, at, &op_log, n->span, 1, sum), below);
    if (node_attr(n, "ignore")) {
        struct value *ignore = build_constant(g, at, node_num(n, "ignore", 0), n->span);
        struct value *counts = build(g, at, &op_not_equal, n->span, 2, n->in[1], ignore);
        loss = build(g, at, &op_where, n->span, 3, counts, loss, build_constant(g, at, 0, n->span));
    }
    out[0] = loss;
}

static void lower_grad(struct graph *g, struct region *at, struct node *n, struct value **out)
{
    struct value *max = n->forward ? node_ptr(n->forward, "max") : NULL;
    struct value *sum = n->forward ? node_ptr(n->forward, "sum") : NULL;
    if (!max)
        statistics(g, at, n, &max, &sum);
    struct value *in[] = {n->in[0], n->in[1], max, sum, n->in[2]};
    out[0] = make(g, at, &op_ce_grad, n, in, 5);
}

/* ---- references ---- */

struct row {                     /* one token's logits, as far as they are local and not padding */
    const double *logits;
    int64_t base, count, classes, target;
    bool ignored;
};

static struct row row_of(const struct reference *r, int64_t i)
{
    const struct tensor *logits = &r->in[0];
    int last = logits->ndim - 1;
    struct row x = {.logits = logits->data + i * logits->n[last], .base = logits->base[last],
                    .count = tensor_valid(logits, last), .classes = logits->valid[last], .target = -1};
    if (arrlen(r->node->in) > 1 && r->node->in[1]->type == TYPE_I32) {
        x.target = (int64_t)r->in[1].data[i];
        x.ignored = node_attr(r->node, "ignore") && (double)x.target == node_num(r->node, "ignore", 0);
    }
    return x;
}

static int64_t rows(const struct tensor *logits)
{
    int64_t count = 1;
    for (int d = 0; d < logits->ndim - 1; d++)
        count *= logits->n[d];
    return count;
}

static double row_max(const struct row *x)
{
    double most = -INFINITY;
    for (int64_t v = 0; v < x->count; v++)
        most = fmax(most, x->logits[v]);
    return most;
}

static double row_sum(const struct row *x, double max)
{
    double sum = 0;
    for (int64_t v = 0; v < x->count; v++)
        sum += exp(x->logits[v] - max);
    return sum;
}

static double row_below(const struct row *x, double smoothing, double max)
{
    double below = 0;
    if (x->ignored)
        return 0;
    for (int64_t v = 0; v < x->count && smoothing > 0; v++)
        below += smoothing / (double)x->classes * (max - x->logits[v]);
    int64_t at = x->target - x->base;
    return at >= 0 && at < x->count ? below + (1 - smoothing) * (max - x->logits[at]) : below;
}

static void row_grad(const struct row *x, double smoothing, double max, double sum, double dy, double *dx)
{
    for (int64_t v = 0; v < x->count && !x->ignored; v++) {
        double hit = x->base + v == x->target ? 1 - smoothing : 0;
        dx[v] = dy * (exp(x->logits[v] - max) / sum - hit - smoothing / (double)x->classes);
    }
}

static void ref(struct reference *r)
{
    for (int64_t i = 0; i < rows(&r->in[0]); i++) {
        struct row x = row_of(r, i);
        double max = row_max(&x);
        if (!x.ignored)
            r->out[0].data[i] = log(row_sum(&x, max)) + row_below(&x, node_num(r->node, "smoothing", 0), max);
    }
}

static void ref_grad(struct reference *r)
{
    int64_t width = r->in[0].n[r->in[0].ndim - 1];
    for (int64_t i = 0; i < rows(&r->in[0]); i++) {
        struct row x = row_of(r, i);
        double max = row_max(&x);
        row_grad(&x, node_num(r->node, "smoothing", 0), max, row_sum(&x, max), r->in[2].data[i],
                 r->out[0].data + i * width);
    }
}

static int64_t index_limit(const struct node *n, int k)
{
    return k == 1 ? n->in[0]->dim[n->in[0]->ndim - 1]->size : 0;
}

const struct op op_cross_entropy = {
    .name = "cross_entropy",
    .doc = "logits [.., V], targets [..] -> [..]: log(sum exp l) - l[target] per token",
    .args = "logits, targets, smoothing:num=0",
    .rule = "b.. v^, b.. -> b..",
    .index_limit = index_limit,
    .shape = shape,
    .grad = grad,
    .lower = lower,
    .ref = ref,
    .shapes = "logits [.., V], targets i32 [..] -> f32 [..]",
    .more = "V, through the maximum, sum and distance it is made of: P(max) and P(sum)",
};

/* All operands but the first have one entry per token. */
static bool expect_rows(const struct node *n)
{
    struct value rows = *n->in[0];
    rows.ndim--;
    for (int k = 1; k < arrlen(n->in); k++)
        if (!expect_like(n, k, &rows))
            return false;
    return true;
}

static bool shape_like_logits(struct graph *g, struct node *n)
{
    return expect_rows(n) && shape_same(g, n);
}

const struct op op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .doc = "logits, targets, dy -> dlogits of cross_entropy",
    .args = "logits, targets, dy, smoothing:num=0",
    .rule = "b.. v^, b.., b.. -> b.. v^",
    .linear = "{c}",
    .flags = OP_INTERNAL | OP_ZEROES_PADDING | OP_ANY_FLOAT,
    .shape = shape_like_logits,
    .lower = lower_grad,
    .ref = ref_grad,
};

/* ---- the parts ---- */

static bool shape_row(struct graph *g, struct node *n)
{
    const struct value *logits = n->in[0];
    if (!expect_rows(n))
        return false;
    node_out(g, n, logits->type, logits->ndim - 1, (struct dim *const *)logits->dim);
    return true;
}

static void split_classes(const struct node *n, struct sbp out, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.in[0] = sbp_split(n->in[0]->ndim - 1);
    s.out[0] = out;
    s.coords = true;
    arrput(*sigs, s);
}

static void extra_max(const struct node *n, int parts, struct sig **sigs)
{
    split_classes(n, sbp_partial(REDUCE_MAX), sigs);
}

static void extra_sum(const struct node *n, int parts, struct sig **sigs)
{
    split_classes(n, sbp_partial(REDUCE_SUM), sigs);
}

/* Without smoothing a logit is only selected, which keeps the order of numbers; taken from max it turns it round. */
static void extra_below(const struct node *n, int parts, struct sig **sigs)
{
    split_classes(n, sbp_partial(REDUCE_SUM), sigs);
    for (enum reduce r = REDUCE_MAX; r <= REDUCE_MIN && node_num(n, "smoothing", 0) == 0; r++) {
        struct sig s = sig_new(n);
        s.in[0] = sbp_partial(r);
        s.out[0] = sbp_partial(r == REDUCE_MAX ? REDUCE_MIN : REDUCE_MAX);
        arrput(*sigs, s);
    }
}

static void extra_grad(const struct node *n, int parts, struct sig **sigs)
{
    split_classes(n, sbp_split(n->in[0]->ndim - 1), sigs);
}

static void ref_max(struct reference *r)
{
    for (int64_t i = 0; i < rows(&r->in[0]); i++) {
        struct row x = row_of(r, i);
        r->out[0].data[i] = row_max(&x);
    }
}

static void ref_sum(struct reference *r)
{
    for (int64_t i = 0; i < rows(&r->in[0]); i++) {
        struct row x = row_of(r, i);
        r->out[0].data[i] = row_sum(&x, r->in[1].data[i]);
    }
}

static void ref_below(struct reference *r)
{
    for (int64_t i = 0; i < rows(&r->in[0]); i++) {
        struct row x = row_of(r, i);
        r->out[0].data[i] = row_below(&x, node_num(r->node, "smoothing", 0), r->in[2].data[i]);
    }
}

static void ref_part_grad(struct reference *r)
{
    int64_t width = r->in[0].n[r->in[0].ndim - 1];
    for (int64_t i = 0; i < rows(&r->in[0]); i++) {
        struct row x = row_of(r, i);
        row_grad(&x, node_num(r->node, "smoothing", 0), r->in[2].data[i], r->in[3].data[i], r->in[4].data[i],
                 r->out[0].data + i * width);
    }
}

const struct op op_ce_max = {
    .part_of = "cross_entropy", .name = "ce_max",
    .doc = "logits [.., V] -> [..]: the largest over the classes; -inf where this rank holds none",
    .args = "logits",
    .rule = "b.. v^ -> b..",
    .linear = "max{a}",
    .flags = OP_INTERNAL | OP_WIDE,
    .shape = shape_row,
    .extra = extra_max,
    .ref = ref_max,
    .call = "fl_ce_max%as(i0)(%o0, %i0%type(i0), %rows(i0), %last(i0), %base(i0,-1), %size(i0,-1))",
};

const struct op op_ce_sum = {
    .part_of = "cross_entropy", .name = "ce_sum",
    .doc = "logits [.., V], max [..] -> [..]: sum of exp(l - max) over the classes",
    .args = "logits, max",
    .rule = "b.. v^, b.. -> b..",
    .linear = "max{b}:min min{b}:max",
    .flags = OP_INTERNAL | OP_WIDE,
    .shape = shape_row,
    .extra = extra_sum,
    .ref = ref_sum,
    .call = "fl_ce_sum_exp%as(i0)(%o0, %i0%type(i0), %i1, %rows(i0), %last(i0), %base(i0,-1), %size(i0,-1))",
};

const struct op op_ce_below = {
    .part_of = "cross_entropy", .name = "ce_below",
    .doc = "logits [.., V], targets, max [..] -> [..]: (1 - s) (max - l[target]) + s / V sum (max - l); 0 where ignored",
    .args = "logits, targets, max, smoothing:num=0",
    .rule = "b.. v^, b.., b.. -> b..",
    .linear = "{a,c} max{c} min{c}",
    .flags = OP_INTERNAL | OP_WIDE,
    .shape = shape_row,
    .extra = extra_below,
    .ref = ref_below,
    .call = "fl_ce_below%as(i0)(%o0, %i0%type(i0), %i2, %i1, %rows(i0), %last(i0), %base(i0,-1), %size(i0,-1), %skip, "
            "%num(smoothing,0))",
};

const struct op op_ce_grad = {
    .part_of = "cross_entropy", .name = "ce_grad",
    .doc = "logits, targets, max, sum, dy -> dlogits; 0 in padding and where ignored",
    .args = "logits, targets, max, sum, dy, smoothing:num=0",
    .rule = "b.. v^, b.., b.., b.., b.. -> b.. v^",
    .linear = "{e}",
    .flags = OP_INTERNAL | OP_ZEROES_PADDING | OP_ANY_FLOAT | OP_OVERWRITES,
    .shape = shape_like_logits,
    .extra = extra_grad,
    .ref = ref_part_grad,
    .call = "fl_ce_grad%as(i0,o0)(%o0, %i4, %i0%type(i0), %i2, %i3, %i1, %rows(i0), %last(i0), %base(i0,-1), %size(i0,-1), %skip, "
            "%num(smoothing,0))",
};
