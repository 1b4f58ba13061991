/* What all element-wise ops share: broadcasting, types, the factor rule that follows from the shapes, and the loop of
 * the reference. */
#include "common.h"

/* The op as it is written: its name, or the expression around an operator. */
static const char *spoken(const struct node *n)
{
    const char *text = span_text(n->span);
    return !*text || !strncmp(text, n->op->name, strlen(n->op->name)) ? n->op->name : span_quoted(n->span);
}

static bool stretched(const struct dim *in, const struct dim *out)
{
    return !in->name && in->size == 1 && (out->name || out->size != 1);
}

static bool mismatch(const struct node *n, int a, int b, const struct dim *da, const struct dim *db)
{
    struct diag *d = diag_error(E_SHAPE, n->span, "%s: shapes %s and %s do not match", spoken(n),
                                value_type_text(n->in[a], NULL), value_type_text(n->in[b], NULL));
    diag_label(d, n->in[a]->span, "%s", value_type_text(n->in[a], NULL));
    diag_label(d, n->in[b]->span, "%s", value_type_text(n->in[b], NULL));
    if (da->name && db->name && da->size == db->size)
        diag_note(d, "%s and %s both have size %lld, but dims match by name", da->name, db->name, (long long)da->size);
    else if (da->size == db->size && da->pad != db->pad)
        diag_note(d, "%s is padded: only the dim itself matches it, no number", (da->pad ? da : db)->name);
    diag_help(d, "dims are aligned from the right; x[:, _, :] inserts an axis that is stretched");
    return false;
}

bool broadcast_dims(const struct node *n, int first, int count, struct dim **dims, int *ndim)
{
    int out = 0, from[MAX_DIM];
    for (int k = first; k < first + count; k++)
        if (n->in[k]->ndim > out)
            out = n->in[k]->ndim;
    for (int d = 0; d < out; d++) {
        struct dim *best = NULL;
        for (int k = first; k < first + count; k++) {
            int e = d - (out - n->in[k]->ndim);
            if (e < 0)
                continue;
            struct dim *x = n->in[k]->dim[e];
            bool take = !best || (dim_same(x, best) ? !best->name && x->name : stretched(best, x));
            if (best && !dim_same(x, best) && !stretched(x, best) && !stretched(best, x))
                return mismatch(n, from[d], k, best, x);
            if (take) {
                best = x;
                from[d] = k;
            }
        }
        dims[d] = best;
    }
    *ndim = out;
    return true;
}

bool expect_type(const struct node *n, int operand, enum type t)
{
    const struct value *v = n->in[operand];
    if (v->type == t)
        return true;
    struct diag *d = diag_error(E_TYPE, n->span, "%s: operand %d is %s, expected %s", spoken(n), operand + 1,
                                type_name[v->type], type_name[t]);
    diag_label(d, v->span, "%s", value_type_text(v, NULL));
    if (t != TYPE_BOOL)
        diag_help(d, "cast(x, %s) converts", type_name[t]);
    return false;
}

bool expect_float(const struct node *n, int operand)
{
    return type_is_float(n->in[operand]->type) || expect_type(n, operand, TYPE_F32);
}

static bool shape_typed(struct graph *g, struct node *n, enum type in, enum type out)
{
    struct dim *dims[MAX_DIM];
    int ndim, count = (int)arrlen(n->in);
    for (int k = 0; k < count; k++)
        if (!expect_type(n, k, in))
            return false;
    if (!broadcast_dims(n, 0, count, dims, &ndim))
        return false;
    node_out(g, n, out, ndim, dims);
    return true;
}

/* Numbers of the program have no type of their own. */
bool value_is_number(const struct value *v)
{
    return v->def && v->def->op == &op_constant && v->type == TYPE_F32 && !v->ndim;
}

/* All of one float type, which is the result's; a number beside it is read in f32. */
bool shape_float(struct graph *g, struct node *n)
{
    struct dim *dims[MAX_DIM];
    int ndim, count = (int)arrlen(n->in), typed = 0;
    while (typed < count - 1 && value_is_number(n->in[typed]))
        typed++;
    enum type t = n->in[typed]->type;
    if (!expect_float(n, typed))
        return false;
    for (int k = 0; k < count; k++)
        if (!value_is_number(n->in[k]) && !expect_type(n, k, t))
            return false;
    if (!broadcast_dims(n, 0, count, dims, &ndim))
        return false;
    node_out(g, n, t, ndim, dims);
    return true;
}

bool shape_compare(struct graph *g, struct node *n)
{
    /* A number is f32; compared with integers it is read as one. */
    struct dim *dims[MAX_DIM];
    int ndim = 0;
    enum type a = n->in[0]->type, b = n->in[1]->type;
    bool numbers = (type_is_float(a) || type_is_float(b)) && a != TYPE_BOOL && b != TYPE_BOOL;
    if (a != b && !(numbers && (n->in[0]->ndim == 0 || n->in[1]->ndim == 0)))
        return expect_type(n, n->in[1]->ndim ? 1 : 0, n->in[1]->ndim ? a : b);
    if (!broadcast_dims(n, 0, 2, dims, &ndim))
        return false;
    node_out(g, n, TYPE_BOOL, ndim, dims);
    return true;
}

bool shape_logical(struct graph *g, struct node *n)
{
    return shape_typed(g, n, TYPE_BOOL, TYPE_BOOL);
}

bool shape_same(struct graph *g, struct node *n)
{
    node_out(g, n, n->in[0]->type, n->in[0]->ndim, n->in[0]->dim);
    return true;
}

const char *rule_broadcast(const struct node *n)
{
    const struct value *out = n->out[0];
    char *text = "";
    for (int k = 0; k < arrlen(n->in); k++) {
        text = mem_printf("%s%s", text, k ? "," : "");
        const struct value *v = n->in[k];
        for (int d = 0; v && d < v->ndim; d++) {
            int e = d + out->ndim - v->ndim;
            text = stretched(v->dim[d], out->dim[e]) ? mem_printf("%s _", text) : mem_printf("%s d%d", text, e);
        }
    }
    text = mem_printf("%s ->", text);
    for (int d = 0; d < out->ndim; d++)
        text = mem_printf("%s d%d", text, d);
    return text;
}

const char *rule_source(const struct node *n)
{
    char *text = "->";
    for (int d = 0; d < n->out[0]->ndim; d++)
        text = mem_printf("%s d%d", text, d);
    return text;
}

const char *rule_same(const struct node *n)
{
    char *dims = "";
    for (int d = 0; d < n->in[0]->ndim; d++)
        dims = mem_printf("%s d%d", dims, d);
    char *text = mem_printf("%s ->%s", dims, dims);
    for (int k = 1; k < arrlen(n->out); k++)
        text = mem_printf("%s,%s", text, dims);
    return text;
}

int64_t tensor_count(const struct tensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        count *= t->n[d];
    return count;
}

bool index_next(int64_t *at, const int64_t *n, int ndim)
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++at[d] < n[d])
            return true;
        at[d] = 0;
    }
    return false;
}

bool tensor_is_valid(const struct tensor *t, const int64_t *at)
{
    for (int d = 0; d < t->ndim; d++)
        if (t->base[d] + at[d] >= t->valid[d])
            return false;
    return true;
}

double tensor_broadcast(const struct tensor *t, const int64_t *at, int ndim)
{
    int64_t i = 0;
    for (int d = 0; d < t->ndim; d++) {
        int64_t x = at[d + ndim - t->ndim];
        i = i * t->n[d] + (t->n[d] == 1 ? 0 : x);
    }
    return t->data[i];
}

void ref_elementwise(struct reference *r, double (*f)(const double *x))
{
    int nin = (int)arrlen(r->node->in);
    int64_t at[MAX_DIM] = {0}, i = 0;
    if (!tensor_count(&r->out[0]))
        return;
    do {
        double x[MAX_DIM];
        for (int k = 0; k < nin; k++)
            x[k] = tensor_broadcast(&r->in[k], at, r->out[0].ndim);
        r->out[0].data[i++] = f(x);
    } while (index_next(at, r->out[0].n, r->out[0].ndim));
}

void ref_view(struct reference *r)
{
    memcpy(r->out[0].data, r->in[0].data, sizeof(double) * (size_t)tensor_count(&r->out[0]));
}
