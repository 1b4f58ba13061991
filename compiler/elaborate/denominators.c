/* Denominators. A loss divided by the wrong count is the commonest silent bug of training programs: a count of one row,
 * of one micro-batch, a mean of means. So every value carries what has been summed and what it has been divided by, as
 * sets of the dims of the model's inputs:
 *
 *   summed   an open sum over these dims, not divided by anything that covers them
 *   divided  divided by counts that cover these dims (a plain number covers all)
 *   rows     divided by a count that is kept apart along these dims: summing over them would add up quotients of
 *            different denominators
 *   counted  the value is a count, apart along `rows`, taken over `divided`
 *
 * Only what depends on an input has these; a sum over a parameter is no open sum. Nor is what a nonlinear op makes of rows:
 * pooled tokens behind a cross entropy are numbers of their own, one for a row, whatever each was summed over or divided by.
 * Counts that a mesh axis or the
 * micro-batches leave open are the business of shard, which sees them as partial values. */
#include "elaborate.h"

struct scale {
    uint64_t summed, divided, rows;
    bool counted, fixed;         /* fixed: a count times a number, which may stand for any further dim */
    bool closed;                 /* a quotient */
    bool mean;                   /* .. by its own count, over some dims: a sum over others of the batch opens it again */
    bool data;                   /* depends on an input */
    struct span count;           /* where the count is, for messages */
};

/* The dims of the inputs as bits; others do not matter here. */
static uint64_t bit_of(struct elab *e, const struct dim *d)
{
    int bit = 0;
    for (int i = 0; i < arrlen(e->inputs); i++)
        for (int k = 0; k < e->inputs[i]->ndim; k++, bit++)
            if (e->inputs[i]->dim[k] == d)
                return bit < 64 ? (uint64_t)1 << bit : 0;
    return 0;
}

static uint64_t dims_of(struct elab *e, const struct value *v)
{
    uint64_t set = 0;
    for (int i = 0; i < v->ndim; i++)
        set |= bit_of(e, v->dim[i]);
    return set;
}

/* The dims that surely run over the batch: those of inputs that are no features (ids, targets, masks). */
static uint64_t batch_dims(struct elab *e)
{
    uint64_t set = 0;
    for (int i = 0; i < arrlen(e->inputs); i++)
        if (!type_is_float(e->inputs[i]->type))
            set |= dims_of(e, e->inputs[i]);
    return set;
}

static const char *set_text(struct elab *e, uint64_t set)
{
    const char *text = "";
    for (int i = 0; i < arrlen(e->inputs); i++)
        for (int k = 0; k < e->inputs[i]->ndim; k++) {
            uint64_t bit = bit_of(e, e->inputs[i]->dim[k]);
            const struct dim *d = e->inputs[i]->dim[k];
            if (bit & set)
                text = mem_printf("%s%s%s", text, *text ? ", " : "",
                                  d->name ? d->name : mem_printf("a dim of %lld", (long long)d->size));
            set &= ~bit;
        }
    return text;
}

static struct scale scale_of(struct elab *e, const struct value *v)
{
    struct scale *s = v ? hmget(e->scales, v->id) : NULL;
    return s ? *s : (struct scale){0};
}

static void scale_put(struct elab *e, const struct value *v, struct scale s)
{
    struct scale *kept = NEW(struct scale);
    *kept = s;
    hmput(e->scales, v->id, kept);
}

void scale_copy(struct elab *e, const struct value *from, struct value *to)
{
    scale_put(e, to, scale_of(e, from));
}

void scale_input(struct elab *e, struct value *v)
{
    scale_put(e, v, (struct scale){.data = true});
}

/* How to say that it is meant: a sum that is no count divides at the user's word. */
static const char user_word[] = "where this is meant, divide by a sum in place of the count: sum(cast(mask, f32), axis = ..)";

/* Summing over dims along which the denominators differ. */
static void check_rows(struct elab *e, struct node *n, struct scale s, uint64_t over)
{
    uint64_t bad = s.rows & over;
    if (!bad || s.counted)
        return;
    struct diag *d = diag_error(E_DENOMINATOR, n->span, "this adds up quotients whose count is still open over %s",
                                set_text(e, bad));
    diag_label(d, s.count, "counted apart for every %s", set_text(e, bad));
    diag_help(d, "divide one sum over everything by one count over everything: sum(x) / count(y)");
    diag_note(d, user_word);
}

static struct scale follow_sum(struct elab *e, struct node *n, struct scale s, bool mean)
{
    uint64_t over = dims_of(e, n->in[0]) & ~dims_of(e, n->out[0]);
    check_rows(e, n, s, over);
    if (s.counted) {
        s.divided |= over;
        s.rows &= ~over;
        return s;
    }
    if (mean) {                          /* what was summed over features is a number for each row */
        s.summed &= batch_dims(e);
        s.mean = true;
    } else if (s.data) {
        s.summed |= over & ~s.divided;
    }
    s.rows &= ~over;
    return s;
}

static struct scale follow_count(struct elab *e, struct node *n)
{
    uint64_t all = dims_of(e, n->in[0]), kept = dims_of(e, n->out[0]);
    return (struct scale){.counted = true, .rows = kept, .divided = all & ~kept, .data = true, .count = n->span};
}

static struct scale follow_div(struct elab *e, struct node *n, struct scale a, struct scale b)
{
    struct scale s = a;
    s.data |= b.data;
    s.closed |= a.summed || b.counted || a.closed;
    if (!b.counted) {                     /* a number, or something that is no count: taken at the user's word */
        s.counted = false;
        s.summed = 0;
        if (b.data)                       /* rows that are scaled by what is theirs: to length 1, say */
            s.rows &= ~b.rows;
        if (!b.data && a.counted)
            s.counted = s.fixed = true;
        return s;
    }
    uint64_t bad = a.summed & (b.rows | (b.fixed ? 0 : ~b.divided & batch_dims(e)));
    if (bad) {
        struct diag *d = diag_error(E_DENOMINATOR, n->span, "a sum over %s is divided by a count still open over %s",
                                    set_text(e, a.summed), set_text(e, bad));
        diag_label(d, b.count, b.rows & bad ? "counted apart for every %s" : "this count does not cover %s",
                   set_text(e, bad));
        diag_help(d, "count over the same axes as the sum");
        diag_note(d, user_word);
    }
    s.counted = false;
    s.rows |= b.rows;
    s.divided |= b.fixed ? ~(uint64_t)0 : b.divided;
    s.summed = 0;
    s.count = b.count;
    return s;
}

static struct scale join(struct scale a, struct scale b)
{
    return (struct scale){.summed = a.summed | b.summed, .divided = a.divided | b.divided, .rows = a.rows | b.rows,
                          .closed = a.closed || b.closed, .mean = a.mean || b.mean, .data = a.data || b.data,
                          .count = a.count.file ? a.count : b.count};
}

/* The dims of sums that nothing divides. */
static uint64_t open_dims(struct elab *e, struct scale s)
{
    return s.closed ? 0 : s.mean ? s.summed & batch_dims(e) : s.summed;
}

static bool is_closed(struct scale s)
{
    return (s.closed || s.mean) && !s.summed;
}

static struct scale follow_add(struct elab *e, struct node *n, struct scale a, struct scale b)
{
    uint64_t a_open = open_dims(e, a), b_open = open_dims(e, b);
    if (n->out[0]->ndim == 0 && ((a_open && is_closed(b)) || (b_open && is_closed(a)))) {
        struct value *open = n->in[a_open ? 0 : 1], *closed = n->in[a_open ? 1 : 0];
        struct diag *d = diag_error(E_DENOMINATOR, n->span, "a sum still open over %s is added to a closed quotient",
                                    set_text(e, a_open ? a_open : b_open));
        diag_label(d, open->span, "this sum grows with the batch");
        diag_label(d, closed->span, "this quotient does not");
        diag_help(d, "divide the sum by its count first");
    }
    struct scale s = join(a, b);
    s.counted = a.counted && b.counted;
    return s;
}

static struct scale follow_mul(struct scale a, struct scale b)
{
    if (a.counted && !b.data) {
        a.fixed = true;
        return a;
    }
    if (b.counted && !a.data) {
        b.fixed = true;
        return b;
    }
    struct scale s = join(a, b);
    s.summed = (a.summed & ~b.divided) | (b.summed & ~a.divided);
    s.rows = a.rows ^ b.rows;            /* a product of two such quotients is none, as a square is none */
    return s;
}

/* Operand k as the node's result has it. A cast to another float is no linear op for layouts, as sums round, but the
 * quotients stay what they were. */
static struct scale passed_on(struct elab *e, const struct node *n, int k)
{
    struct scale s = scale_of(e, n->in[k]);
    bool rows = n->in[k] && n->in[k]->ndim && arrlen(n->out) && n->out[0]->ndim;
    bool same = node_linear_in(n, k) || (n->op == &op_cast && type_is_float(n->out[0]->type));
    if (rows && !s.counted && !same) {
        s.closed &= !s.rows;
        s.summed = s.rows = 0;
    }
    return s;
}

void scale_follow(struct frame *f, struct node *n)
{
    struct elab *e = f->e;
    struct scale s = {0};
    struct scale a = scale_of(e, arrlen(n->in) > 0 ? n->in[0] : NULL);
    struct scale b = scale_of(e, arrlen(n->in) > 1 ? n->in[1] : NULL);
    if (n->op == &op_count) {
        s = follow_count(e, n);
    } else if (n->op == &op_sum || n->op == &op_mean || (n->op == &op_einsum && arrlen(n->in) == 1)) {
        s = follow_sum(e, n, a, n->op == &op_mean);
    } else if (n->op == &op_div) {
        s = follow_div(e, n, a, b);
    } else if (n->op == &op_add || n->op == &op_sub) {
        s = follow_add(e, n, a, b);
    } else if (n->op == &op_mul) {
        s = follow_mul(a, b);
    } else if (arrlen(n->in) == 1) {
        s = passed_on(e, n, 0);
    } else if (n->op == &op_maximum && a.counted && !b.data) {       /* max(count, 1) is a count */
        s = a;
    } else {
        uint64_t in = 0, weighted = 0, rows = 0;
        for (int k = 0; k < arrlen(n->in); k++) {
            struct scale x = passed_on(e, n, k);
            rows ^= x.rows;
            s = join(s, x);
            in |= n->in[k] ? dims_of(e, n->in[k]) : 0;
            weighted |= n->in[k] && !scale_of(e, n->in[k]).data ? dims_of(e, n->in[k]) : 0;
        }
        if (n->op == &op_einsum) {           /* x @ w mixes features: over dims of a parameter no batch is summed */
            s.rows = rows;
            check_rows(e, n, s, in & ~dims_of(e, n->out[0]));
            if (s.data)
                s.summed |= in & ~weighted & ~dims_of(e, n->out[0]) & ~s.divided;
        }
    }
    for (int k = 0; k < arrlen(n->out); k++)
        scale_put(e, n->out[k], s);
}
