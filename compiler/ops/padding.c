/* What padding holds. Stored dims may be longer than logical ones; parameters and gradients have zeros there, and ops
 * that add up over a dim trust that a product is 0 in its padding. Whether it is follows from what the table says of
 * each op: an element-wise op is evaluated at what its operands may hold, a linear op makes 0 of 0. */
#include "rule.h"

static bool padded(const struct value *v, int d)
{
    return v->dim[d]->pad != 0;
}

/* ---- element-wise: by evaluation ---- */

static const double zero[] = {0}, number[] = {0, 1.25, -0.75, 1, 3.5}, anything[] = {0, 1.25, -0.75, INFINITY, -INFINITY, NAN},
    truth[] = {0, 1};

struct samples { const double *x; int count; };

static struct samples samples_of(const struct value *v, enum pad_value p)
{
    if (p == PADDING_ZERO)
        return (struct samples){zero, 1};
    if (v->type == TYPE_BOOL)
        return (struct samples){truth, 2};
    return p == PADDING_FINITE ? (struct samples){number, sizeof number / sizeof *number}
                               : (struct samples){anything, sizeof anything / sizeof *anything};
}

static enum pad_value evaluate(const struct node *n, const enum pad_value *operand)
{
    int nin = (int)arrlen(n->in), at[MAX_DIM] = {0};
    double x[MAX_DIM], y;
    struct tensor in[MAX_DIM] = {0}, out = {.data = &y};
    struct samples s[MAX_DIM];
    enum pad_value worst = PADDING_ZERO;
    if (nin > MAX_DIM)
        return PADDING_ANY;
    for (int k = 0; k < nin; k++) {
        s[k] = samples_of(n->in[k], operand[k]);
        in[k].data = &x[k];
    }
    for (bool more = true; more;) {
        for (int k = 0; k < nin; k++)
            x[k] = s[k].x[at[k]];
        y = 0;
        n->op->ref(&(struct reference){.node = n, .in = in, .out = &out});
        enum pad_value here = y == 0 ? PADDING_ZERO : isfinite(y) ? PADDING_FINITE : PADDING_ANY;
        worst = here > worst ? here : worst;
        more = false;
        for (int k = nin - 1; k >= 0 && !more; k--) {
            more = ++at[k] < s[k].count;
            if (!more)
                at[k] = 0;
        }
    }
    return worst;
}

/* An operand that has not the dim: any of its entries may stand beside the padding. */
static enum pad_value worst_of(const struct value *v, const enum pad_value *p)
{
    enum pad_value worst = PADDING_FINITE;
    for (int d = 0; d < v->ndim; d++)
        worst = p[d] > worst ? p[d] : worst;
    return worst;
}

static enum pad_value elementwise(const struct node *n, const dims_padding *in, int d)
{
    enum pad_value operand[MAX_DIM] = {0};
    const struct value *out = n->out[0];
    for (int k = 0; k < arrlen(n->in) && k < MAX_DIM; k++) {
        const struct value *v = n->in[k];
        int e = d - (out->ndim - v->ndim);
        operand[k] = e >= 0 && dim_same(v->dim[e], out->dim[d]) ? in[k][e] : worst_of(v, in[k]);
    }
    return evaluate(n, operand);
}

/* ---- others: by rule ---- */

static bool plain(const struct rule *r, const struct term *t, int d)
{
    return t->factor[d] >= 0 && !r->factor[t->factor[d]].mark;
}

static bool read_somewhere(const struct node *n, const struct rule *r, int f)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (term_place(&r->in[k], f) != -1)
            return true;
    return false;
}

static bool set_is_zero(const struct node *n, const struct rule *r, const dims_padding *in, unsigned operands, int f)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (operands & operand_bit(k)) {
            int e = term_place(&r->in[k], f);
            if (e < 0 || in[k][e] != PADDING_ZERO)
                return false;
        }
    return operands != 0;
}

static bool some_set_is_zero(const struct node *n, const struct rule *r, const dims_padding *in, int f)
{
    struct linear_set *sets = linear_sets(n);
    for (int i = 0; i < arrlen(sets); i++)
        if (sets[i].in == REDUCE_SUM && set_is_zero(n, r, in, sets[i].operands, f))
            return true;
    return false;
}

static enum pad_value by_rule(const struct node *n, const struct rule *r, const dims_padding *in, const struct term *out,
                            int d)
{
    int f = r ? out->factor[d] : -1;
    if (n->op->flags & OP_ZEROES_PADDING && (f < 0 || r->factor[f].mark == '^' || !read_somewhere(n, r, f)))
        return PADDING_ZERO;
    enum pad_value worst = PADDING_FINITE;
    for (int k = 0; k < arrlen(n->in); k++)
        for (int e = 0; n->in[k] && e < n->in[k]->ndim; e++)
            if (in[k][e] == PADDING_ANY && (!r || (plain(r, &r->in[k], e) && (r->in[k].factor[e] == f ||
                                                                           term_place(&r->in[k], f) < 0))))
                worst = PADDING_ANY;
    return worst == PADDING_FINITE && f >= 0 && some_set_is_zero(n, r, in, f) ? PADDING_ZERO : worst;
}

void node_padding(const struct node *n, const dims_padding *in, dims_padding *out)
{
    bool pointwise = n->op->flags & OP_ELEMENTWISE && n->op->ref;
    struct rule *r = NULL;
    for (int k = 0; k < arrlen(n->out); k++)
        for (int d = 0; d < n->out[k]->ndim; d++) {
            out[k][d] = PADDING_ZERO;
            if (!padded(n->out[k], d) || n->op->optimizer)   /* of zeros, as node_must_clear asks, comes zero */
                continue;
            if (!pointwise && !r)
                r = rule_of_node(n);
            out[k][d] = pointwise ? elementwise(n, in, d) : by_rule(n, r, in, r ? &r->out[k] : NULL, d);
        }
}

/* ---- who trusts zeros ---- */

static unsigned holders(const struct node *n, const struct rule *r, int f)
{
    unsigned set = 0;
    for (int k = 0; k < arrlen(n->in); k++)
        for (int d = 0; n->in[k] && d < n->in[k]->ndim; d++)
            if (r->in[k].factor[d] == f && padded(n->in[k], d))
                set |= operand_bit(k);
    return set;
}

/* Operands to clear so that padding of factor f adds nothing: all that hold what is no number, and, where no linear set is
 * 0 there, the first set that can be (all holders where the op is linear in none). */
static unsigned clear_contracted(const struct node *n, const struct rule *r, const dims_padding *in, int f)
{
    unsigned have = holders(n, r, f), anything_in = 0, nonzero = 0;
    for (int k = 0; k < arrlen(n->in); k++)
        if (have & operand_bit(k)) {
            enum pad_value p = in[k][term_place(&r->in[k], f)];
            anything_in |= p == PADDING_ANY ? operand_bit(k) : 0;
            nonzero |= p != PADDING_ZERO ? operand_bit(k) : 0;
        }
    if (!have || some_set_is_zero(n, r, in, f))
        return anything_in;
    struct linear_set *sets = linear_sets(n);
    unsigned pick = have;
    for (int i = 0; i < arrlen(sets) && pick == have; i++)
        if (sets[i].in == REDUCE_SUM && !(sets[i].operands & ~have))
            pick = sets[i].operands;
    for (int i = 0; i < arrlen(sets); i++)               /* one that must be cleared anyway will do */
        if (sets[i].in == REDUCE_SUM && !(sets[i].operands & ~anything_in))
            pick = sets[i].operands;
    return anything_in | (pick & nonzero);
}

unsigned node_must_clear(const struct node *n, const dims_padding *in)
{
    unsigned clear = 0;
    if (n->op->flags & (OP_SKIPS_PADDING | OP_BOXING) || n->body)
        return 0;
    if (n->op->optimizer || n->op == &op_store)          /* a parameter keeps its zeros */
        for (int k = 0; k < arrlen(n->in); k++)
            for (int d = 0; n->in[k] && d < n->in[k]->ndim; d++)
                clear |= in[k][d] != PADDING_ZERO ? operand_bit(k) : 0;
    bool any_padded = false;
    for (int k = 0; k < arrlen(n->in); k++)
        for (int d = 0; n->in[k] && d < n->in[k]->ndim; d++)
            any_padded |= padded(n->in[k], d);
    struct rule *r = any_padded ? rule_of_node(n) : NULL;
    for (int f = 0; r && f < r->nfactor; f++)
        if (r->factor[f].mark == '+')
            clear |= clear_contracted(n, r, in, f);
    return clear;
}
