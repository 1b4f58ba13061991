/* Expressions to nodes. What is made of numbers alone is folded to a number; a number beside a tensor becomes a
 * constant node; the operators + - * / and the comparisons are ops like any other, a @ b is an einsum. */
#include "elaborate.h"
#include <math.h>
#include <string.h>

struct node *emit_node(struct frame *f, const struct op *op, struct span span)
{
    struct node *n = node_new(f->e->g, f->at, op, span);
    n->path = *f->inst->path ? f->inst->path : NULL;
    return n;
}

/* An ignore value belongs to the numbers themselves, so views of an input keep it. */
static void keep_ignore(struct node *n)
{
    struct value *from = arrlen(n->in) ? n->in[0] : NULL;
    if (!(n->op->flags & OP_VIEW) || !from || !from->has_ignore)
        return;
    for (int i = 0; i < arrlen(n->out); i++)
        if (n->out[i]->type == from->type) {
            n->out[i]->has_ignore = true;
            n->out[i]->ignore = from->ignore;
        }
}

bool emit_finish(struct frame *f, struct node *n)
{
    const struct value *ignoring = NULL;
    for (int i = 0; i < arrlen(n->in); i++)
        if (n->in[i] && n->in[i]->has_ignore)
            ignoring = n->in[i];
    if (ignoring && (n->op == &op_count || n->op == &op_cross_entropy))
        node_set_num(n, "ignore", ignoring->ignore);
    if (!node_finish(f->e->g, n))
        return false;
    for (int i = 0; i < arrlen(n->out); i++)
        if (!tensor_countable(f, n->out[i]->ndim, n->out[i]->dim, n->span))
            return false;
    keep_ignore(n);
    scale_follow(f, n);
    return true;
}

struct item emit_result(struct frame *f, struct node *n, struct ast *a)
{
    if (!emit_finish(f, n))
        return POISON;
    if (arrlen(n->out) == 1)
        return item_value(n->out[0], a);
    struct item list = {.kind = ITEM_LIST, .ast = a};
    for (int i = 0; i < arrlen(n->out); i++)
        arrput(list.items, item_value(n->out[i], a));
    return list;
}

struct value *item_tensor(struct frame *f, struct item item, struct ast *a)
{
    switch (item.kind) {
    case ITEM_VALUE:
        if (scope_visible(f, item.v))
            return item.v;
        diag_error(E_UNKNOWN_NAME, a->span, "'%s' exists only inside its repeat", span_text(a->span));
        return NULL;
    case ITEM_NUM:
    case ITEM_DIM: {
        struct value *v = build_constant(f->e->g, f->at, item.num, a->span);
        if (v)
            v->path = path_join(f->inst->path, "constant");
        return v;
    }
    case ITEM_LABEL:
        if (item.inst->output.kind == ITEM_VALUE)
            return item_tensor(f, item.inst->output, a);
        if (item.inst->output.kind == ITEM_POISON)
            return NULL;
        break;
    case ITEM_POISON:
        return NULL;
    default:
        break;
    }
    diag_error(E_TYPE, a->span, "a tensor is needed here, but this is %s", item_text(item));
    return NULL;
}

struct value *expr_value(struct frame *f, struct ast *a)
{
    return a ? item_tensor(f, expr(f, a), a) : NULL;
}

static bool is_number(struct item i)
{
    return i.kind == ITEM_NUM || i.kind == ITEM_DIM;
}

static const struct op *operator_op(const char *name)
{
    static const struct { const char *name; const struct op *op; } table[] = {
        {"+", &op_add}, {"-", &op_sub}, {"*", &op_mul}, {"/", &op_div}, {"<", &op_less}, {"<=", &op_less_equal},
        {">", &op_greater}, {">=", &op_greater_equal}, {"==", &op_equal}, {"!=", &op_not_equal},
        {"and", &op_logical_and}, {"or", &op_logical_or},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            return table[i].op;
    BUG("operator '%s' has no op", name);
}

/* Is this i32 scalar the index of a repeat, or made of it and of numbers? */
static bool counts_blocks(const struct value *v)
{
    if (v->type != TYPE_I32 || v->ndim)
        return false;
    if (!v->def)
        return v->region && v->region->index == v;
    bool counts = false;
    for (int i = 0; i < arrlen(v->def->in); i++) {
        if (!v->def->in[i] || (v->def->in[i]->def && v->def->in[i]->def->op == &op_constant))
            continue;
        if (!counts_blocks(v->def->in[i]))
            return false;
        counts = true;
    }
    return counts;
}

/* The index of a repeat is a number, as others are: beside a float, or divided, it is one. */
static struct value *as_number(struct frame *f, struct value *v, const struct value *other, bool divided)
{
    if (!v || !other || !counts_blocks(v) || !(divided || type_is_float(other->type)))
        return v;
    struct node *n = emit_node(f, &op_cast, v->span);
    node_set_int(n, "type", TYPE_F32);
    node_in(n, v);
    return emit_finish(f, n) ? n->out[0] : NULL;
}

static struct item binary(struct frame *f, struct ast *a)
{
    if (!strcmp(a->name, "@"))
        return expr_matmul(f, a);
    struct item l = expr(f, ast_kid(a, 0)), r = expr(f, ast_kid(a, 1));
    if (l.kind == ITEM_POISON || r.kind == ITEM_POISON)
        return POISON;
    double folded;
    if (is_number(l) && is_number(r) && fold_binary(a->name, l.num, r.num, &folded)) {
        if (isfinite(folded))
            return item_num(folded, a);
        diag_error(E_DIM_VALUE, a->span, "%s is not a finite number", span_text(a->span));
        return POISON;
    }
    struct value *x = item_tensor(f, l, ast_kid(a, 0)), *y = item_tensor(f, r, ast_kid(a, 1));
    bool divided = !strcmp(a->name, "/");
    x = as_number(f, x, y, divided);
    y = as_number(f, y, x, divided);
    if (!x || !y)
        return POISON;
    struct node *n = emit_node(f, operator_op(a->name), a->span);
    node_in(n, x);
    node_in(n, y);
    return emit_result(f, n, a);
}

static struct item unary(struct frame *f, struct ast *a)
{
    struct item x = expr(f, ast_kid(a, 0));
    bool minus = !strcmp(a->name, "-");
    if (minus && is_number(x))
        return item_num(-x.num, a);
    struct value *v = item_tensor(f, x, ast_kid(a, 0));
    if (!v)
        return POISON;
    struct node *n = emit_node(f, minus ? &op_neg : &op_logical_not, a->span);
    node_in(n, v);
    return emit_result(f, n, a);
}

/* A dim of one operand in the letters of an einsum. */
static void letters(char *to, int count, char first)
{
    for (int i = 0; i < count; i++)
        to[i] = (char)(first + i);
    to[count] = 0;
}

/* a @ b: [.., m, k] @ [k, n], or with the same leading dims on both sides. */
struct item expr_matmul(struct frame *f, struct ast *a)
{
    struct value *x = expr_value(f, ast_kid(a, 0)), *y = expr_value(f, ast_kid(a, 1));
    if (!x || !y)
        return POISON;
    if (x->ndim < 1 || y->ndim < 1 || (y->ndim > 2 && y->ndim != x->ndim)) {
        struct diag *d = diag_error(E_SHAPE, a->span, "@ cannot multiply %s by %s", value_type_text(x, NULL),
                                    value_type_text(y, NULL));
        diag_help(d, "the right side is [k], [k, n], or has all leading dims of the left; einsum says any product");
        return POISON;
    }
    struct dim *left = x->dim[x->ndim - 1], *right = y->dim[y->ndim > 1 ? y->ndim - 2 : 0];
    if (!dim_same(left, right)) {
        struct diag *d = diag_error(E_SHAPE, a->span, "@ sums over %s = %lld on the left, but %s = %lld on the right",
                                    left->name ? left->name : "a dim", (long long)left->size,
                                    right->name ? right->name : "a dim", (long long)right->size);
        diag_label(d, ast_kid(a, 0)->span, "%s", value_type_text(x, NULL));
        diag_label(d, ast_kid(a, 1)->span, "%s", value_type_text(y, NULL));
        diag_help(d, "@ sums over the last dim of the left and the last but one of the right; einsum(\"..\", x, y) sums over any");
        return POISON;
    }
    char lead[MAX_DIM + 1];
    letters(lead, x->ndim - 1, 'a');
    const char *spec;
    if (y->ndim == 1)
        spec = mem_printf("%sk,k->%s", lead, lead);
    else if (y->ndim == 2)
        spec = mem_printf("%sk,kn->%sn", lead, lead);
    else
        spec = mem_printf("%sk,%.*skn->%sn", lead, x->ndim - 2, lead, lead);
    struct node *n = emit_node(f, &op_einsum, a->span);
    node_set_str(n, "spec", intern(spec));
    node_in(n, x);
    node_in(n, y);
    return emit_result(f, n, a);
}

static struct item find_member(struct frame *f, struct instance *inst, const char *name, struct span span)
{
    for (int i = 0; i < arrlen(inst->kids); i++)
        if (inst->kids[i]->labelled && !strcmp(inst->kids[i]->label, name))
            return (struct item){.kind = ITEM_LABEL, .inst = inst->kids[i]};
    for (int i = (int)arrlen(inst->names) - 1; i >= 0; i--)
        if (!strcmp(inst->names[i].name, name))
            return inst->names[i].item;
    if (f->e->poisoned)                  /* it may be what was refused */
        return POISON;
    const char **near = NULL;
    for (int i = 0; i < arrlen(inst->names); i++)
        arrput(near, inst->names[i].name);
    for (int i = 0; i < arrlen(inst->kids); i++)
        arrput(near, inst->kids[i]->label);
    struct diag *d = diag_error(E_UNKNOWN_NAME, span, "'%s' has nothing called '%s'", inst->path, name);
    diag_label(d, inst->span, "'%s' is this call", inst->path);
    const char *best = suggest(name, near);
    if (best)
        diag_help(d, "did you mean '%s'?", best);
    return POISON;
}

static struct item member(struct frame *f, struct ast *a)
{
    struct ast *left = ast_kid(a, 0);
    struct instance *inst = left && left->kind == AST_NAME ? scope_label(f, left->name) : NULL;
    if (!inst) {
        struct item of = expr(f, left);
        if (of.kind == ITEM_POISON)
            return POISON;
        if (of.kind != ITEM_LABEL) {
            struct diag *d = diag_error(E_TYPE, a->span, "'%s' is %s, and has no parts", span_text(left->span),
                                        item_text(of));
            diag_help(d, "the left of a dot is a label, as in wte.weight");
            return POISON;
        }
        inst = of.inst;
    }
    struct item part = find_member(f, inst, a->name, a->name_span);
    part.ast = a;
    return part;
}

static struct item list(struct frame *f, struct ast *a)
{
    struct item l = {.kind = ITEM_LIST, .ast = a};
    for (int i = 0; i < ast_count(a); i++) {
        arrput(l.items, expr(f, a->kids[i]));
        if (arrlast(l.items).kind == ITEM_POISON)
            return POISON;
    }
    return l;
}

struct item expr(struct frame *f, struct ast *a)
{
    switch (a ? a->kind : AST_KINDS) {
    case AST_NUMBER: return item_num(a->num, a);
    case AST_STRING: return (struct item){.kind = ITEM_STR, .str = a->name, .ast = a};
    case AST_NAME: return scope_name(f, a);
    case AST_MEMBER: return member(f, a);
    case AST_INDEX: return expr_index(f, a);
    case AST_CALL: return expr_call(f, a);
    case AST_LABEL: return labelled(f, ast_kid(a, 0), ast_kid(a, 1));
    case AST_UNARY: return unary(f, a);
    case AST_BINARY: return binary(f, a);
    case AST_LIST: return list(f, a);
    case AST_LAYOUT: return (struct item){.kind = ITEM_LAYOUT, .ast = a};
    case AST_KINDS: return POISON;
    default:
        diag_error(E_TYPE, a->span, "this is not an expression that computes something");
        return POISON;
    }
}
