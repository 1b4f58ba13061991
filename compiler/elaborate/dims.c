/* Dim and const expressions. A dim expression is arithmetic on whole numbers, exact: what does not divide is an error,
 * not a rounding, because two sizes that should agree then would not. A const expression is arithmetic on real
 * numbers. */
#include "elaborate.h"
#include <math.h>
#include <string.h>

const char *const_text(double v)
{
    return v == floor(v) && fabs(v) < 1e15 ? mem_printf("%lld", (long long)v) : mem_printf("%.9g", v);
}

bool fold_binary(const char *op, double a, double b, double *to)
{
    if (op[1] && strcmp(op, "<=") && strcmp(op, ">=") && strcmp(op, "==") && strcmp(op, "!="))
        return false;
    switch (op[0]) {
    case '+': *to = a + b; return true;
    case '-': *to = a - b; return true;
    case '*': *to = a * b; return true;
    case '/': *to = a / b; return true;
    case '<': *to = op[1] ? a <= b : a < b; return true;
    case '>': *to = op[1] ? a >= b : a > b; return true;
    case '=': *to = a == b; return true;
    case '!': *to = a != b; return true;
    default: return false;
    }
}

static const struct { const char *name; double (*of_one)(double), (*of_two)(double, double); } foldable[] = {
    {"sqrt", sqrt, NULL}, {"log", log, NULL}, {"exp", exp, NULL}, {"ceil", ceil, NULL}, {"min", NULL, fmin}, {"max", NULL, fmax},
};

bool fold_known(const char *name)
{
    for (size_t i = 0; i < sizeof foldable / sizeof *foldable; i++)
        if (!strcmp(foldable[i].name, name))
            return true;
    return false;
}

bool fold_call(const char *name, const double *x, int n, double *to)
{
    for (size_t i = 0; i < sizeof foldable / sizeof *foldable; i++) {
        if (strcmp(foldable[i].name, name) != 0)
            continue;
        if (n == 1 && foldable[i].of_one)
            *to = foldable[i].of_one(x[0]);
        else if (n == 2 && foldable[i].of_two)
            *to = foldable[i].of_two(x[0], x[1]);
        else
            return false;
        return true;
    }
    return false;
}

/* What a name means as a number. */
static bool name_number(struct frame *f, struct ast *a, double *to)
{
    struct binding *b = scope_find(f, a->name);
    if (b) {
        if (b->item.kind == ITEM_DIM || b->item.kind == ITEM_NUM) {
            *to = b->item.num;
            return true;
        }
        if (b->kind == BIND_INDEX) {
            struct diag *d = diag_error(E_TYPE, a->span,
                                        "'%s' changes from block to block, but a fixed number is needed here",
                                        a->name);
            diag_label(d, b->span, "the index of this repeat");
            diag_help(d, "a layer takes it as a tensor: `layer Block(x: f32[..], %s: i32)`", a->name);
        } else if (b->item.kind != ITEM_POISON) {
            struct diag *d = diag_error(E_TYPE, a->span, "'%s' is %s, but a number is needed here", a->name,
                                        item_text(b->item));
            diag_label(d, b->span, "declared here");
        }
        return false;
    }
    struct decl *d = names_find(f->e, a->name);
    if (d && (d->kind == DECL_DIM || d->kind == DECL_CONST)) {
        if (!decl_ready(f, d, a->span))
            return false;
        *to = d->num;
        return true;
    }
    if (d) {
        struct diag *g = diag_error(E_TYPE, a->span, "'%s' is %s, but a number is needed here", a->name,
                                    d->kind == DECL_LAYER ? "a layer" : d->kind == DECL_OP ? "an op" : "a model");
        diag_label(g, d->ast->name_span, "declared here");
        return false;
    }
    scope_unknown(f, "name", a->name, a->span);
    return false;
}

static bool no_number(struct ast *a, const char *what)
{
    diag_error(E_DIM_VALUE, a->span, "this is not %s", what);
    return false;
}

static bool dim_divide(struct ast *a, int64_t l, int64_t r, bool up, int64_t *to)
{
    if (r == 0) {
        struct diag *d = diag_error(E_DIM_VALUE, a->span, "division by 0");
        if (ast_kid(a, 1) && ast_kid(a, 1)->span.file)
            diag_help(d, "`%s` is 0 here: change what it is made of", span_text(ast_kid(a, 1)->span));
        return false;
    }
    if (l % r && !up) {
        struct diag *d = diag_error(E_DIM_VALUE, a->span, "%s is not exact: %lld / %lld leaves %lld",
                                    span_text(a->span),
                                    (long long)l, (long long)r, (long long)(l % r));
        diag_help(d, "change one of them, or write ceil(%s) if rounding up is meant", span_text(a->span));
        return false;
    }
    *to = l / r + (l % r && (l > 0) == (r > 0) && up);
    return true;
}

static bool dim_call(struct frame *f, struct ast *a, int64_t *to)
{
    struct ast *callee = ast_kid(a, 0);
    const char *name = callee && callee->kind == AST_NAME ? callee->name : "";
    int64_t l, r;
    if (!strcmp(name, "ceil") && ast_count(a) == 2) {
        struct ast *q = ast_kid(a, 1);
        if (q->kind != AST_BINARY || strcmp(q->name, "/") != 0)
            return dim_eval(f, q, to);
        return dim_eval(f, ast_kid(q, 0), &l) && dim_eval(f, ast_kid(q, 1), &r) && dim_divide(q, l, r, true, to);
    }
    if ((!strcmp(name, "min") || !strcmp(name, "max")) && ast_count(a) == 3) {
        if (!dim_eval(f, ast_kid(a, 1), &l) || !dim_eval(f, ast_kid(a, 2), &r))
            return false;
        *to = (name[1] == 'i') == (l < r) ? l : r;
        return true;
    }
    struct diag *d = diag_error(E_DIM_VALUE, a->span, "a dim expression cannot hold this call");
    diag_help(d, "it may hold + - * / ceil(a/b) min(a, b) max(a, b)");
    return false;
}

bool dim_eval(struct frame *f, struct ast *a, int64_t *to)
{
    double v;
    int64_t l, r;
    bool over;
    switch (a ? a->kind : AST_KINDS) {
    case AST_NUMBER:
    case AST_NAME:
        if (a->kind == AST_NAME) {
            if (!name_number(f, a, &v))
                return false;
        } else {
            v = a->num;
        }
        if (v != floor(v) || fabs(v) > 9e15) {
            if (v == floor(v))
                diag_error(E_DIM_VALUE, a->span, "%s is too large for a dim", span_text(a->span));
            else if (a->kind == AST_NUMBER)
                diag_error(E_DIM_VALUE, a->span, "%s is no whole number, as a dim is", span_text(a->span));
            else
                diag_error(E_DIM_VALUE, a->span, "%s is %s, but a dim is a whole number", span_text(a->span), const_text(v));
            return false;
        }
        *to = (int64_t)v;
        return true;
    case AST_UNARY:
        if (strcmp(a->name, "-") != 0)
            return no_number(a, "a dim");
        if (!dim_eval(f, ast_kid(a, 0), &l))
            return false;
        *to = -l;
        return true;
    case AST_BINARY: {
        bool left = dim_eval(f, ast_kid(a, 0), &l), right = dim_eval(f, ast_kid(a, 1), &r);
        if (!left || !right)
            return false;
        switch (a->name[1] ? 0 : a->name[0]) {
        case '+': over = __builtin_add_overflow(l, r, to); break;
        case '-': over = __builtin_sub_overflow(l, r, to); break;
        case '*': over = __builtin_mul_overflow(l, r, to); break;
        case '/': return dim_divide(a, l, r, false, to);
        default: return no_number(a, "a dim");
        }
        if (over)
            diag_error(E_DIM_VALUE, a->span, "%s is too large", span_text(a->span));
        return !over;
    }
    case AST_CALL:
        return dim_call(f, a, to);
    case AST_KINDS:
        return false;
    default:
        return no_number(a, "a dim");
    }
}

bool const_eval(struct frame *f, struct ast *a, double *to)
{
    double x[2] = {0, 0};
    switch (a ? a->kind : AST_KINDS) {
    case AST_NUMBER:
        *to = a->num;
        return true;
    case AST_NAME:
        if (!strcmp(a->name, "true") || !strcmp(a->name, "false")) {
            *to = a->name[0] == 't';
            return true;
        }
        return name_number(f, a, to);
    case AST_UNARY:
        if (strcmp(a->name, "-") != 0)
            return no_number(a, "a number");
        if (!const_eval(f, ast_kid(a, 0), &x[0]))
            return false;
        *to = -x[0];
        return true;
    case AST_BINARY: {
        bool left = const_eval(f, ast_kid(a, 0), &x[0]), right = const_eval(f, ast_kid(a, 1), &x[1]);
        if (!left || !right)
            return false;
        if (!fold_binary(a->name, x[0], x[1], to))
            return no_number(a, "a number");
        break;
    }
    case AST_CALL: {
        struct ast *callee = ast_kid(a, 0);
        int n = ast_count(a) - 1;
        for (int i = 0; i < n && i < 2; i++)
            if (!const_eval(f, ast_kid(a, i + 1), &x[i]))
                return false;
        if (!callee || callee->kind != AST_NAME || !fold_call(callee->name, x, n, to)) {
            struct diag *d = diag_error(E_DIM_VALUE, a->span, "a const expression cannot hold this call");
            diag_help(d, "it may hold + - * / sqrt(a) log(a) exp(a) ceil(a) min(a, b) max(a, b)");
            return false;
        }
        break;
    }
    case AST_KINDS:
        return false;
    default:
        return no_number(a, "a number");
    }
    if (!isfinite(*to)) {
        diag_error(E_DIM_VALUE, a->span, "%s is not a finite number", span_text(a->span));
        return false;
    }
    return true;
}

bool const_int(struct frame *f, struct ast *a, int64_t low, const char *what, int64_t *to)
{
    double v;
    if (!const_eval(f, a, &v))
        return false;
    if (v != floor(v) || v < (double)low || v > 9e15) {
        diag_error(E_DIM_VALUE, a->span, "%s is a whole number, %lld or more, not %s", what, (long long)low,
                   const_text(v));
        return false;
    }
    *to = (int64_t)v;
    return true;
}

bool dim_size_legal(const char *what, int64_t size, struct span at)
{
    if (size < 1)
        diag_error(E_DIM_VALUE, at, "%s is %lld, but a dim is 1 or more", what, (long long)size);
    else if (size > (int64_t)1 << LARGEST_DIM_BITS)
        diag_error(E_DIM_VALUE, at, "%s is %lld, but a dim is at most 2^%d", what, (long long)size, LARGEST_DIM_BITS);
    else
        return true;
    return false;
}

bool tensor_countable(struct frame *f, int ndim, struct dim *const *dims, struct span at)
{
    double count = 1;
    for (int i = 0; i < ndim; i++)
        count *= (double)dims[i]->size;
    for (const struct region *r = f->at; r && r->parent; r = r->parent)
        count *= (double)r->count;
    if (count <= ldexp(1, LARGEST_TENSOR_BITS))
        return true;
    diag_error(E_SHAPE, at, "a tensor of %.2g elements, its blocks together, but at most 2^%d can be counted", count,
               LARGEST_TENSOR_BITS);
    return false;
}

struct dim *dim_of(struct frame *f, struct ast *a)
{
    if (a->kind == AST_NAME) {
        struct binding *b = scope_find(f, a->name);
        if (b && b->item.kind == ITEM_DIM)
            return b->item.dim;
        struct decl *d = b ? NULL : names_find(f->e, a->name);
        if (d && d->kind == DECL_DIM)
            return decl_ready(f, d, a->span) ? d->dim : NULL;
    }
    int64_t size;
    if (!dim_eval(f, a, &size))
        return NULL;
    return dim_size_legal(span_text(a->span), size, a->span) ? dim_anonymous(size) : NULL;
}
