/* The room of all ops that programs declare: one shape rule and one gradient, driven by the declaration. Nothing is known
 * of what a kernel does with padding, so a padded dim must be a plain factor: one line of it cannot spoil another. */
#include "../user_op.h"
#include "rule.h"
#include <ctype.h>

struct bound { const char *name; struct dim *dim; int operand; };

static struct bound *find_bound(struct bound *b, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (b[i].name == name)
            return &b[i];
    return NULL;
}

static bool padding_is_free(const struct node *n)
{
    struct rule *r = rule_of_node(n);
    for (int k = 0; k < arrlen(n->in); k++)
        for (int d = 0; d < n->in[k]->ndim; d++) {
            int f = r ? r->in[k].factor[d] : -1;
            const struct dim *dim = n->in[k]->dim[d];
            if (!op_expect(n, k, !dim->pad || (f >= 0 && !r->factor[f].mark), "the padded dim %s is no plain factor of "
                           "its rule", dim->name ? dim->name : ""))
                return false;
        }
    return true;
}

bool user_op_shape(struct graph *g, struct node *n)
{
    const struct user_op *u = (const struct user_op *)n->op;
    struct bound bound[MAX_USER_TENSORS * MAX_DIM];
    int count = 0;
    for (int k = 0; k < u->nin; k++) {
        const struct user_tensor *t = &u->in[k];
        const struct value *v = n->in[k];
        if (!expect_type(n, k, t->type) ||
            !op_expect(n, k, v->ndim == t->ndim, "'%s' has %d dims, not %d", t->name, t->ndim, v->ndim))
            return false;
        for (int d = 0; d < v->ndim; d++) {
            struct bound *b = find_bound(bound, count, t->dim[d]);
            if (!b)
                bound[count++] = (struct bound){t->dim[d], v->dim[d], k};
            else if (!op_expect(n, k, dim_same(b->dim, v->dim[d]), "dim %s is %s = %lld in '%s' but %s = %lld in '%s'",
                                t->dim[d], b->dim->name ? b->dim->name : "a dim", (long long)b->dim->size,
                                u->in[b->operand].name, v->dim[d]->name ? v->dim[d]->name : "a dim",
                                (long long)v->dim[d]->size, t->name))
                return false;
            else if (!b->dim->name)
                b->dim = v->dim[d];
        }
    }
    for (int k = 0; k < u->nout; k++) {
        struct dim *dims[MAX_DIM];
        for (int d = 0; d < u->out[k].ndim; d++)
            dims[d] = find_bound(bound, count, u->out[k].dim[d])->dim;
        node_out(g, n, u->out[k].type, u->out[k].ndim, dims);
    }
    return padding_is_free(n);
}

void user_op_grad(struct grad *c)
{
    const struct user_op *u = (const struct user_op *)c->node->op;
    struct value *dy[MAX_USER_TENSORS];
    for (int k = 0; k < u->nout; k++)
        dy[k] = c->dout[k] ? c->dout[k] : build_zeros_like(c->g, c->at, c->node->out[k]);
    struct node *n = node_new(c->g, c->at, &u->grad->op, c->node->span);
    for (int k = 0; k < u->nin; k++)
        node_in(n, c->node->in[k]);
    for (int k = 0; k < u->nout; k++)
        node_in(n, dy[k]);
    for (int i = 0; i < arrlen(u->scalars); i++)
        node_set_num(n, u->scalars[i], node_num(c->node, u->scalars[i], 0));
    if (!node_finish(c->g, n))
        return;
    for (int k = 0, made = 0; k < u->nin; k++)
        if (type_is_float(u->in[k].type)) {
            c->din[k] = c->wanted[k] ? n->out[made] : NULL;
            made++;
        }
}

/* ---- is what the user wrote a rule? ---- */

static const char *skip_blanks(const char *s)
{
    while (*s == ' ')
        s++;
    return s;
}

struct seen { const char *name, *dim; char mark; bool in, out[MAX_USER_TENSORS]; };

/* Reads one term, "n t^ d"; the place after it, or NULL with *fault set. */
static const char *read_words(const char *s, const struct user_tensor *t, struct seen **seen, int result, const char **fault)
{
    int d = 0;
    s = skip_blanks(s);
    bool whole = *s == '-' && s[1] != '>';
    for (s += whole; !whole && (isalpha((unsigned char)*s) || *s == '_'); s = skip_blanks(s)) {
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        const char *word = intern_n(s, n);
        s += n;
        char mark = *s && strchr("+^<>", *s) && !(*s == '-') ? *s++ : 0;
        if (d == t->ndim) {
            *fault = mem_printf("a term names more dims than the %d of its tensor", t->ndim);
            return NULL;
        }
        const char *dim = t->dim[d++];
        if (!strcmp(word, "_"))
            continue;
        struct seen *f = NULL;
        for (int i = 0; i < arrlen(*seen); i++)
            f = (*seen)[i].name == word ? &(*seen)[i] : f;
        if (!f) {
            arrput(*seen, ((struct seen){.name = word, .dim = dim}));
            f = &arrlast(*seen);
        }
        if (f->dim != dim) {
            *fault = mem_printf("factor '%s' stands for the dims %s and %s", word, f->dim, dim);
            return NULL;
        }
        f->mark = mark ? mark : f->mark;
        if (result < 0)
            f->in = true;
        else
            f->out[result] = true;
    }
    if (!whole && d != t->ndim) {
        *fault = mem_printf("a term names %d of the %d dims of its tensor", d, t->ndim);
        return NULL;
    }
    return skip_blanks(s);
}

const char *user_rule_fault(const struct user_op *u)
{
    const char *s = u->op.rule, *fault = NULL;
    struct seen *seen = NULL;
    for (int k = 0; k < u->nin + u->nout; k++) {
        bool result = k >= u->nin;
        s = read_words(s, result ? &u->out[k - u->nin] : &u->in[k], &seen, result ? k - u->nin : -1, &fault);
        if (!s)
            return fault;
        const char *next = k == u->nin - 1 ? "->" : k == u->nin + u->nout - 1 ? "" : ",";
        if (strncmp(s, next, strlen(next)) != 0 || (!*next && *s))
            return mem_printf("expected %s after term %d, for %d operands and %d results",
                              *next ? mem_printf("'%s'", next) : "the end", k + 1, u->nin, u->nout);
        s += strlen(next);
    }
    for (int i = 0; i < arrlen(seen); i++)
        for (int k = 0; k < u->nout; k++)
            if (!seen[i].mark && !seen[i].out[k])
                return mem_printf("result %d lacks the factor '%s': mark it %s+ where it is summed, %s^ where it must be "
                                  "whole", k + 1, seen[i].name, seen[i].name, seen[i].name);
    return NULL;
}

const char *user_linear_fault(const struct user_op *u)
{
    const char *s = skip_blanks(u->op.linear);
    while (*s) {
        for (int i = 0; i < 2; i++)
            if (!strncmp(s, i ? "min" : "max", 3))
                s += 3;
        if (*s++ != '{')
            return "linear sets are written {a} {b}, or {a, b}";
        for (; *s && *s != '}'; s++)
            if (*s != ',' && *s != ' ' && *s != '*' && (*s < 'a' || *s - 'a' >= u->nin))
                return mem_printf("there is no operand %c; they are called a, b .. in order", *s);
        if (*s++ != '}')
            return "a linear set does not end";
        if (*s == ':') {
            if (strncmp(s + 1, "max", 3) && strncmp(s + 1, "min", 3) && strncmp(s + 1, "sum", 3))
                return "after ':' stands max, min or sum";
            s += 4;
        }
        s = skip_blanks(s);
    }
    return NULL;
}
