/* attention: softmax(q k^T scale + mask) v per sequence and head, and its gradient, which computes the probabilities
 * again, so that no T x S matrix is ever kept. Who sees whom: a query sees no later key (causal), none further away than
 * `window` - 1 positions, and only keys of its own document (documents: a number for each position). Queries may always
 * be split; where positions count, a rank must know where its queries begin. Grouped heads: query head h reads key head h G / H. Heads of queries and keys split together, which for G < H is
 * possible only where the parts divide G; with G = 1 the one key head may be on every rank. A query that may look at
 * nothing gives 0. */
#include "../../runtime/fl_rooms.h"
#include "nn.h"
#include "target.h"

/* Operands: q, k, v, keep_mask or none, documents or none; the gradient has dy before the masks. */
static int mask_operand(const struct node *n)
{
    return n->op == &op_attention ? 3 : 4;
}

static const struct value *operand(const struct node *n, int k)
{
    return k < arrlen(n->in) ? n->in[k] : NULL;
}

static const struct value *mask_of(const struct node *n)
{
    return operand(n, mask_operand(n));
}

static const struct value *documents_of(const struct node *n)
{
    return operand(n, mask_operand(n) + 1);
}

/* Does it matter where a query stands? Then queries and keys are positions of one sequence. */
static bool positional(const struct node *n)
{
    return node_int(n, "causal", 0) || node_int(n, "window", 0) || documents_of(n);
}

static bool operands_fit(const struct node *n)
{
    const struct value *q = n->in[0], *k = n->in[1], *v = n->in[2], *mask = mask_of(n);
    for (int i = 0; i < 3; i++)
        if (!expect_float(n, i) || !op_expect(n, i, n->in[i]->ndim == 4, "%c needs four dims: sequences, heads, "
                                              "positions, width", "qkv"[i]))
            return false;
    if (!op_expect(n, 1, dim_same(q->dim[0], k->dim[0]) && dim_same(q->dim[3], k->dim[3]),
                   "q %s and k %s differ in sequences or width", value_type_text(q, NULL), value_type_text(k, NULL)) ||
        !op_expect(n, 2, dim_same(k->dim[0], v->dim[0]) && dim_same(k->dim[1], v->dim[1]) &&
                   dim_same(k->dim[2], v->dim[2]), "k is %s, v is %s: sequences, heads and positions differ",
                   value_type_text(k, NULL), value_type_text(v, NULL)) ||
        !op_expect(n, 1, k->dim[1]->size == 0 || q->dim[1]->size % k->dim[1]->size == 0, "%lld query heads cannot share %lld key heads evenly: "
                   "that many can be %s", (long long)q->dim[1]->size, (long long)k->dim[1]->size, divisors_text(q->dim[1]->size)) ||
        !op_expect(n, 1, !positional(n) || dim_same(q->dim[2], k->dim[2]), "%s needs as many queries as keys: %s, %s",
                   node_int(n, "causal", 0) ? "causal" : documents_of(n) ? "documents" : "window",
                   value_type_text(q, NULL), value_type_text(k, NULL)) ||
        !op_expect(n, -1, node_int(n, "window", 0) >= 0, "a window cannot be negative"))
        return false;
    for (int i = 1; i < 4; i++)
        if (!op_expect(n, 0, !q->dim[i]->pad && !k->dim[i]->pad && !v->dim[i]->pad, "heads, positions and width cannot "
                       "be padded dims"))
            return false;
    if (mask) {
        bool rows = mask->ndim == 1 || (mask->ndim == 2 && (dim_same(mask->dim[0], q->dim[0]) ||
                                                            (!mask->dim[0]->name && mask->dim[0]->size == 1)));
        int at = mask_operand(n);
        if (!expect_type(n, at, TYPE_BOOL) ||
            !op_expect(n, at, rows && dim_same(mask->dim[mask->ndim - 1], k->dim[2]), "keep_mask is "
                       "[sequences, key positions] or [key positions], not %s", value_type_text(mask, NULL)))
            return false;
    }
    if (documents_of(n)) {
        int at = mask_operand(n) + 1;
        if (!expect_type(n, at, TYPE_I32) || !expect_dims(n, at, 2, (struct dim *[]){q->dim[0], k->dim[2]}))
            return false;
    }
    return true;
}

static bool shape(struct graph *g, struct node *n)
{
    if (!operands_fit(n))
        return false;
    const struct value *q = n->in[0], *v = n->in[2];
    struct dim *dim[4] = {q->dim[0], q->dim[1], q->dim[2], v->dim[3]};
    node_out(g, n, q->type, 4, dim);
    return true;
}

static bool grouped(const struct node *n)
{
    return n->in[0]->dim[1]->size != n->in[1]->dim[1]->size;
}

static const char *mask_rule(const struct node *n)
{
    const struct value *mask = mask_of(n);
    return !mask ? "-" : mask->ndim == 1 ? "s^" : dim_same(mask->dim[0], n->in[0]->dim[0]) ? "n s^" : "_ s^";
}

static const char *documents_rule(const struct node *n)
{
    return documents_of(n) ? "n s^" : "-";
}

static const char *rule_of(const struct node *n)
{
    const char *h = grouped(n) ? "_" : "h", *t = positional(n) ? "t^" : "t";
    return mem_printf("n %s %s k^, n %s s^ k^, n %s s^ j, %s, %s -> n %s %s j", h, t, h, h, mask_rule(n),
                      documents_rule(n), h, t);
}

static const char *rule_of_grad(const struct node *n)
{
    const char *h = grouped(n) ? "_" : "h", *t = positional(n) ? "t^" : "t+";
    return mem_printf("n %s %s k^, n %s s^ k^, n %s s^ j+, n %s %s j+, %s, %s -> n %s %s k^, n %s s^ k^, n %s s^ j",
                      h, t, h, h, h, t, mask_rule(n), documents_rule(n), h, t, h, h);
}

/* Queries split where positions count: each rank has all keys and knows where its queries stand. */
static void split_queries(const struct node *n, struct sig **sigs)
{
    struct sig s = sig_new(n);
    s.coords = true;
    s.in[0] = s.out[0] = sbp_split(2);
    if (n->op == &op_attention_grad) {
        s.in[3] = sbp_split(2);
        s.out[1] = s.out[2] = sbp_partial(REDUCE_SUM);
    }
    arrput(*sigs, s);
}

/* Grouped heads. The gradient has operand dy, which splits like q, and results like q, k, v. Its dq and dk are linear
 * in v, which dv does not see. */
static void extra(const struct node *n, int parts, struct sig **sigs)
{
    bool back = n->op == &op_attention_grad;
    if (back) {
        struct sig s = sig_new(n);
        s.in[2] = s.out[0] = s.out[1] = sbp_partial(REDUCE_SUM);
        arrput(*sigs, s);
    }
    if (positional(n))
        split_queries(n, sigs);
    if (!grouped(n))
        return;
    bool together = n->in[1]->dim[1]->size % parts == 0;
    bool shared = n->in[1]->dim[1]->size == 1;
    if (!together && !shared)
        return;
    struct sig s = sig_new(n);
    s.in[0] = s.out[0] = sbp_split(1);
    if (back)
        s.in[3] = sbp_split(1);
    for (int k = 1; k < 3; k++) {
        if (!shared)
            s.in[k] = sbp_split(1);
        if (back)
            s.out[k] = shared ? sbp_partial(REDUCE_SUM) : sbp_split(1);
    }
    s.even = !shared;
    arrput(*sigs, s);
}

static void grad(struct grad *c)
{
    const struct node *f = c->node;
    struct node *n = node_new(c->g, c->at, &op_attention_grad, f->span);
    for (int k = 0; k < 3; k++)
        node_in(n, f->in[k]);
    node_in(n, c->dout[0]);
    node_in(n, (struct value *)mask_of(f));
    node_in(n, (struct value *)documents_of(f));
    node_set_int(n, "causal", node_int(f, "causal", 0));
    node_set_int(n, "window", node_int(f, "window", 0));
    node_set_num(n, "scale", node_num(f, "scale", 0));
    if (!node_finish(c->g, n))
        return;
    for (int k = 0; k < 3; k++)
        c->din[k] = c->wanted[k] ? n->out[k] : NULL;
}

/* Multiply-adds of all T x S pairs; a causal program may do half of them. */
static double pairs(const struct node *n)
{
    const struct value *q = n->in[0], *v = n->in[2];
    return 2.0 * (double)q->dim[0]->size * (double)q->dim[1]->size * (double)q->dim[2]->size *
           (double)v->dim[2]->size;
}

static double flops(const struct node *n)
{
    return pairs(n) * (double)(n->in[0]->dim[3]->size + n->in[2]->dim[3]->size);
}

/* Five products of that size: scores again, dP, and the three results. */
static double flops_grad(const struct node *n)
{
    return pairs(n) * (double)(3 * n->in[0]->dim[3]->size + 2 * n->in[2]->dim[3]->size);
}

/* One query against all keys of its head: probabilities p[S]. */
struct query {
    const struct reference *r;
    const struct tensor *q, *k, *v;
    double scale;
    int64_t n, h, g, t;          /* sequence, query head, key head, position */
};

static double *row(const struct tensor *x, int64_t n, int64_t h, int64_t t)
{
    return x->data + ((n * x->n[1] + h) * x->n[2] + t) * x->n[3];
}

static bool keeps(const struct query *a, const struct tensor *mask, int64_t s)
{
    const struct node *n = a->r->node;
    int64_t t = a->t + a->q->base[2] - a->k->base[2], window = node_int(n, "window", 0);
    if ((node_int(n, "causal", 0) && s > t) || (window && (t - s >= window || s - t >= window)))
        return false;
    if (documents_of(n)) {
        const struct tensor *d = &a->r->in[mask_operand(n) + 1];
        if (d->data[a->n * d->n[1] + s] != d->data[a->n * d->n[1] + t])
            return false;
    }
    if (!mask)
        return true;
    int64_t line = mask->ndim == 2 && mask->n[0] > 1 ? a->n : 0;
    return mask->data[line * mask->n[mask->ndim - 1] + s] != 0;
}

static void probabilities(const struct query *a, const struct tensor *mask, double *p)
{
    int64_t count = a->k->n[2], width = a->q->n[3];
    const double *q = row(a->q, a->n, a->h, a->t);
    double most = -INFINITY, sum = 0;
    for (int64_t s = 0; s < count; s++) {
        const double *k = row(a->k, a->n, a->g, s);
        p[s] = 0;
        for (int64_t i = 0; i < width; i++)
            p[s] += q[i] * k[i];
        p[s] = keeps(a, mask, s) ? p[s] * a->scale : -INFINITY;
        most = fmax(most, p[s]);
    }
    for (int64_t s = 0; s < count; s++) {
        p[s] = isinf(most) ? 0 : exp(p[s] - most);
        sum += p[s];
    }
    for (int64_t s = 0; s < count && sum > 0; s++)
        p[s] /= sum;
}

static double scale_of(const struct node *n)
{
    double scale = node_num(n, "scale", 0);
    return scale != 0 ? scale : 1 / sqrt((double)n->in[0]->dim[3]->size);
}

static void forward(const struct query *a, const double *p)
{
    double *y = row(&a->r->out[0], a->n, a->h, a->t);
    for (int64_t s = 0; s < a->k->n[2]; s++)
        for (int64_t j = 0; j < a->v->n[3]; j++)
            y[j] += p[s] * row(a->v, a->n, a->g, s)[j];
}

static void backward(const struct query *a, const double *p)
{
    const struct tensor *out = a->r->out;
    const double *dy = row(&a->r->in[3], a->n, a->h, a->t), *q = row(a->q, a->n, a->h, a->t);
    double *dq = row(&out[0], a->n, a->h, a->t), mean = 0;
    int64_t count = a->k->n[2], width = a->q->n[3], wide = a->v->n[3];
    double *dp = NEW_ARRAY(double, count);
    for (int64_t s = 0; s < count; s++) {
        const double *v = row(a->v, a->n, a->g, s);
        for (int64_t j = 0; j < wide; j++)
            dp[s] += dy[j] * v[j];
        mean += p[s] * dp[s];
    }
    for (int64_t s = 0; s < count; s++) {
        double ds = p[s] * (dp[s] - mean) * a->scale;
        const double *k = row(a->k, a->n, a->g, s);
        double *dk = row(&out[1], a->n, a->g, s), *dv = row(&out[2], a->n, a->g, s);
        for (int64_t i = 0; i < width; i++) {
            dq[i] += ds * k[i];
            dk[i] += ds * q[i];
        }
        for (int64_t j = 0; j < wide; j++)
            dv[j] += p[s] * dy[j];
    }
}

static void walk(struct reference *r, void (*each)(const struct query *a, const double *p))
{
    const struct tensor *mask = mask_of(r->node) ? &r->in[mask_operand(r->node)] : NULL;
    struct query a = {.r = r, .q = &r->in[0], .k = &r->in[1], .v = &r->in[2], .scale = scale_of(r->node)};
    if (!a.q->n[1] || !a.k->n[1])
        return;
    int64_t share = a.q->n[1] / a.k->n[1];
    double *p = NEW_ARRAY(double, a.k->n[2]);
    for (a.n = 0; a.n < a.q->n[0]; a.n++)
        for (a.h = 0; a.h < a.q->n[1]; a.h++)
            for (a.t = 0; a.t < a.q->n[2]; a.t++) {
                a.g = a.h / share;
                probabilities(&a, mask, p);
                each(&a, p);
            }
}

static void ref(struct reference *r)
{
    walk(r, forward);
}

static void ref_grad(struct reference *r)
{
    walk(r, backward);
}

const struct op op_attention = {
    .name = "attention",
    .doc = "softmax(q k^T scale) v: q [N, H, T, K], k [N, G, S, K], v [N, G, S, J] -> [N, H, T, J]",
    .args = "q, k, v, keep_mask?, documents?, causal:bool=false, window:int=0, scale:num=0",
    .linear = "{c}",
    .flags = OP_CONTRACTION | OP_STRIDED | OP_DENSE_ROWS,
    .shape = shape,
    .rule_of = rule_of,
    .extra = extra,
    .grad = grad,
    .flops = flops,
    .ref = ref,
    .call = "fl_attention%as(o0,i0,i1,i2)(%o0, %i0, %i1, %i2, %i3%type(i0), %attention)",
    .shapes = "q [n, h, t, k], k [n, g, s, k], v [n, g, s, j], keep_mask bool [n, s] or [s], documents "
              "i32 [n, s] -> [n, h, t, j]",
    .factors = "n h t k^, n h s^ k^, n h s^ j, n s^, n s^ -> n h t j",
    .more = "t where positions count (causal, window, documents): a rank knows where its queries "
            "begin; grouped heads split together where the parts divide g, or with g = 1",
    .work = "2 n h t s (k + j)",
};

static bool shape_grad(struct graph *g, struct node *n)
{
    const struct value *q = n->in[0], *v = n->in[2];
    if (!operands_fit(n) || !expect_dims(n, 3, 4, (struct dim *[]){q->dim[0], q->dim[1], q->dim[2], v->dim[3]}))
        return false;
    for (int k = 0; k < 3; k++)
        node_out(g, n, n->in[k]->type, 4, n->in[k]->dim);
    return true;
}

/* On a processor sums of short gradients; on cuda, of each query the maximum and sum of its scores, and dy . y. */
static int64_t room_grad(struct node *n, const struct mesh *m, const struct target *t)
{
    const struct value *k = n->in[1], *v = n->in[2];
    if (!t->scratch)
        return room_lines(3 * room_count(n->in[0], 0, 3, m));
    if (!type_is_short(k->type) || n->wide)
        return 0;
    return room_bytes(fl_room_of_keys(room_count(k, 0, 3, m), room_count(k, 3, 4, m) + room_count(v, 3, 4, m)));
}

const struct op op_attention_grad = {
    .name = "attention_grad",
    .doc = "q, k, v, dy -> dq, dk, dv of attention",
    .args = "q, k, v, dy, keep_mask?, documents?, causal:bool=false, window:int=0, scale:num=0",
    .linear = "{d}",
    .flags = OP_INTERNAL | OP_CONTRACTION | OP_STRIDED | OP_DENSE_ROWS,
    .shape = shape_grad,
    .rule_of = rule_of_grad,
    .extra = extra,
    .flops = flops_grad,
    .ref = ref_grad,
    .room = room_grad,
    .call = "fl_attention_grad%as(o0,o1,o2,i0,i1,i2,i3)(%o0, %o1, %o2, %i3, %i0, %i1, %i2, %i4%type(i0), %attention)",
};
