/* Calls of ops. An op says in op->args how a call of it binds; nothing here knows an op by name, except what cannot be
 * said there: where dropout is the identity, and that a position in a result counts one dim more. */
#include "elaborate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct formal {
    const char *name, *kind;     /* kind NULL: a tensor */
    bool optional, variadic;
    const char *otherwise;       /* text of the default, or NULL */
    struct ast *given;
    struct item item;            /* of a tensor that was evaluated before it was bound */
    bool evaluated;
};

static const char *piece(const char *s, size_t n)
{
    while (n && (*s == ' '))
        s++, n--;
    while (n && s[n - 1] == ' ')
        n--;
    return intern_n(s, n);
}

/* "x, bias?, eps:num=1e-5" */
static struct formal *formals_of(const struct op *op)
{
    struct formal *formals = NULL;
    for (const char *s = op->args ? op->args : ""; *s;) {
        const char *end = s + strcspn(s, ",");
        struct formal f = {0};
        const char *equals = memchr(s, '=', (size_t)(end - s)), *last = equals ? equals : end;
        if (equals)
            f.otherwise = piece(equals + 1, (size_t)(end - equals - 1));
        const char *colon = memchr(s, ':', (size_t)(last - s)), *name_end = colon ? colon : last;
        if (colon)
            f.kind = piece(colon + 1, (size_t)(last - colon - 1));
        f.name = piece(s, (size_t)(name_end - s));
        for (const char **part = &f.name; part; part = part == &f.name && f.kind ? &f.kind : NULL) {
            size_t n = strlen(*part);
            if (n && (*part)[n - 1] == '?') {
                f.optional = true;
                *part = intern_n(*part, n - 1);
            } else if (n > 3 && !strcmp(*part + n - 3, "...")) {
                f.variadic = true;
                *part = intern_n(*part, n - 3);
            }
        }
        f.optional |= f.otherwise != NULL;
        arrput(formals, f);
        s = *end ? end + 1 : end;
    }
    return formals;
}

static const char *spelling(const struct formal *f)
{
    return f->kind && (!strcmp(f->kind, "axes") || !strcmp(f->kind, "axis")) ? "axis" : f->name;
}

static void help_signature(struct diag *d, const struct op *op, const struct formal *formals)
{
    const char *text = "";
    for (int i = 0; i < arrlen(formals); i++)
        text = mem_printf("%s%s%s%s%s%s", text, i ? ", " : "", spelling(&formals[i]),
                          formals[i].variadic ? ", .." : "",
                          formals[i].otherwise ? " = " : formals[i].optional ? "?" : "",
                          formals[i].otherwise ? formals[i].otherwise : "");
    diag_help(d, "%s(%s): %s", op->name, text, op->doc);
}

int axis_of(struct frame *f, struct ast *a, const struct value *v)
{
    if (a->kind == AST_NAME) {
        struct item item = scope_name(f, a);
        if (item.kind == ITEM_POISON)
            return -1;
        if (item.kind == ITEM_DIM) {
            int found = -1;
            for (int i = 0; i < v->ndim; i++)
                if (v->dim[i] == item.dim) {
                    if (found >= 0) {
                        struct diag *d = diag_error(E_SHAPE, a->span, "%s has the dim %s twice", value_type_text(v,
                                                                                                                 NULL),
                                                    a->name);
                        diag_help(d, "give its position: axis = %d or axis = %d", found, i);
                        return -1;
                    }
                    found = i;
                }
            if (found < 0) {
                struct diag *d = diag_error(E_SHAPE, a->span, "%s has no dim %s", value_type_text(v, NULL), a->name);
                if (v->path)
                    diag_note(d, "the tensor is '%s'", v->path);
            }
            return found;
        }
    }
    double x;
    if (!const_eval(f, a, &x))
        return -1;
    if (x != floor(x) || x < -v->ndim || x >= v->ndim) {
        struct diag *d = diag_error(E_SHAPE, a->span, "%s has no dim at position %s", value_type_text(v, NULL), const_text(x));
        if (v->ndim)
            diag_help(d, "its positions are 0 to %d, or -1 for the last; an axis may be named, too", v->ndim - 1);
        return -1;
    }
    return (int)(x < 0 ? x + v->ndim : x);
}

static struct dim **dims_of(struct frame *f, struct ast *a)
{
    struct dim **dims = NULL;
    bool list = a->kind == AST_LIST;
    for (int i = 0; i < (list ? ast_count(a) : 1); i++) {
        struct dim *d = dim_of(f, list ? a->kids[i] : a);
        if (!d)
            return NULL;
        arrput(dims, d);
    }
    if (arrlen(dims) <= MAX_DIM && !tensor_countable(f, (int)arrlen(dims), dims, a->span))
        return NULL;
    return dims;
}

static bool set_axes(struct frame *f, struct node *n, const struct formal *o)
{
    int64_t axes[MAX_DIM];
    int count = 0;
    bool list = o->given->kind == AST_LIST;
    for (int i = 0; i < (list ? ast_count(o->given) : 1); i++) {
        struct ast *a = list ? o->given->kids[i] : o->given;
        int axis = axis_of(f, a, n->in[0]);
        if (axis < 0)
            return false;
        for (int k = 0; k < count; k++)
            if (axes[k] == axis) {
                struct diag *d = diag_error(E_ARGUMENTS, a->span, "the same axis twice");
                diag_label(d, o->given->kids[k]->span, "here already");
                diag_help(d, "name each axis once");
                return false;
            }
        axes[count++] = axis;
    }
    node_set_ints(n, o->name, axes, count);
    return true;
}

/* A place in a result that has one dim more than the operand. */
static bool set_axis(struct frame *f, struct node *n, const struct formal *o)
{
    struct value wider = *n->in[0];
    struct dim one = {.size = 1};
    if ((n->op == &op_stack || n->op == &op_new_axis) && wider.ndim < MAX_DIM)
        wider.dim[wider.ndim++] = &one;
    int axis = axis_of(f, o->given, &wider);
    node_set_int(n, o->name, axis);
    return axis >= 0;
}

static bool set_attribute(struct frame *f, struct node *n, const struct formal *o)
{
    struct ast *a = o->given;
    const char *kind = o->kind;
    double x;
    int64_t whole;
    void *p;
    enum type type;
    if (!strcmp(kind, "num")) {
        if (!const_eval(f, a, &x))
            return false;
        node_set_num(n, o->name, x);
        return true;
    }
    if (!strcmp(kind, "int")) {
        if (!const_int(f, a, INT32_MIN, o->name, &whole))
            return false;
        node_set_int(n, o->name, whole);
        return true;
    }
    if (!strcmp(kind, "bool")) {
        if (!const_eval(f, a, &x))
            return false;
        node_set_int(n, o->name, x != 0);
        return true;
    }
    if (!strcmp(kind, "str")) {
        if (a->kind != AST_STRING) {
            diag_error(E_ARGUMENTS, a->span, "'%s' of %s is a text in quotes", o->name, n->op->name);
            return false;
        }
        node_set_str(n, o->name, a->name);
        return true;
    }
    if (!strcmp(kind, "axis"))
        return set_axis(f, n, o);
    if (!strcmp(kind, "axes"))
        return set_axes(f, n, o);
    if (!strcmp(kind, "type")) {
        if (a->kind != AST_NAME || !type_find(a->name, &type)) {
            diag_error(E_ARGUMENTS, a->span, "'%s' of %s is a type such as f32", o->name, n->op->name);
            return false;
        }
        node_set_int(n, o->name, type);
        return true;
    }
    if (a->kind == AST_LAYOUT)
        p = f->e->m->plan ? layout_parts_of(&f->e->m->plan->mesh, a, true) : NULL;
    else if (!(p = !strcmp(kind, "dim") ? (void *)dim_of(f, a) : (void *)dims_of(f, a)))
        return false;
    node_set_ptr(n, o->name, p);
    return true;
}

/* The default stands in the op's table as text. */
static void set_default(struct node *n, const struct formal *o)
{
    double x = !strcmp(o->otherwise, "true") ? 1 : strtod(o->otherwise, NULL);
    if (!strcmp(o->kind, "num"))
        node_set_num(n, o->name, x);
    else if (!strcmp(o->kind, "str"))
        node_set_str(n, o->name, o->otherwise);
    else if (!strcmp(o->kind, "axis") && x < 0)
        node_set_int(n, o->name, n->in[0]->ndim + (int)x);
    else
        node_set_int(n, o->name, (int64_t)x);
}

static struct formal *keyword_formal(struct formal *formals, const char *name)
{
    for (int i = 0; i < arrlen(formals); i++)
        if (!strcmp(formals[i].name, name) || !strcmp(spelling(&formals[i]), name))
            return &formals[i];
    return NULL;
}

static bool bind_keyword(const struct op *op, struct formal *formals, struct ast *k)
{
    struct formal *o = keyword_formal(formals, k->name);
    if (!o || o->variadic) {
        const char **near = NULL;
        for (int i = 0; i < arrlen(formals); i++)
            arrput(near, spelling(&formals[i]));
        struct diag *d = diag_error(E_ARGUMENTS, k->name_span, "%s has no argument called '%s'", op->name, k->name);
        const char *best = suggest(k->name, near);
        if (best)
            diag_help(d, "did you mean '%s'?", best);
        else
            help_signature(d, op, formals);
        return false;
    }
    if (o->given) {
        struct diag *d = diag_error(E_ARGUMENTS, k->span, "'%s' is given twice", k->name);
        diag_label(d, o->given->span, "first here");
        return false;
    }
    o->given = ast_kid(k, 0);
    return true;
}

/* Binds the arguments of a call: positional ones in order, keywords by name; the tensors of a variadic op to *rest. */
static bool bind(const struct op *op, struct formal *formals, struct ast *a, struct item *items, bool evaluated,
                 struct item **rest, struct ast ***rest_ast)
{
    int next = 0, position = 0;
    bool fine = true;
    for (int i = 1; i < ast_count(a); i++) {
        struct ast *k = a->kids[i];
        if (k->kind == AST_KEYWORD) {
            fine &= bind_keyword(op, formals, k);
            continue;
        }
        struct item item = evaluated ? items[position] : POISON;
        position++;
        if (next >= arrlen(formals)) {
            struct diag *d = diag_error(E_ARGUMENTS, k->span, "%s has no room for this argument", op->name);
            help_signature(d, op, formals);
            return false;
        }
        if (formals[next].variadic) {
            arrput(*rest, item);
            arrput(*rest_ast, k);
            continue;
        }
        formals[next].given = k;
        formals[next].item = item;
        formals[next++].evaluated = evaluated;
    }
    return fine;
}

static void missing(const struct op *op, const struct formal *formals, const struct formal *o, struct ast *a)
{
    struct diag *d = diag_error(E_ARGUMENTS, a->span, "%s lacks its argument '%s'", op->name, spelling(o));
    if (op == &op_mean)
        diag_help(d, "a mean without its axes hides what it divides by: write axis = [..]");
    else
        help_signature(d, op, formals);
}

/* Tensors first, then attributes: an axis is looked up in operand 0. */
static struct item call_op(struct frame *f, const struct op *op, struct ast *a, struct item *items, bool evaluated)
{
    struct formal *formals = formals_of(op);
    struct item *rest = NULL;
    struct ast **rest_ast = NULL;
    if (!bind(op, formals, a, items, evaluated, &rest, &rest_ast))
        return POISON;
    struct value **tensors = NULL;
    bool fine = true;
    for (int i = 0; i < arrlen(formals); i++) {
        struct formal *o = &formals[i];
        if (o->variadic) {
            for (int k = 0; k < arrlen(rest_ast); k++) {
                struct item item = evaluated ? rest[k] : expr(f, rest_ast[k]);
                bool list = item.kind == ITEM_LIST;
                for (int j = 0; j < (list ? arrlen(item.items) : 1); j++) {
                    arrput(tensors, item_tensor(f, list ? item.items[j] : item, rest_ast[k]));
                    fine &= arrlast(tensors) != NULL;
                }
            }
            if (!arrlen(rest_ast)) {
                missing(op, formals, o, a);
                fine = false;
            }
        } else if (!o->kind && o->given) {
            arrput(tensors, item_tensor(f, o->evaluated ? o->item : expr(f, o->given), o->given));
            fine &= arrlast(tensors) != NULL;
        } else if (!o->given && !o->optional) {
            missing(op, formals, o, a);
            fine = false;
        } else if (!o->kind) {
            arrput(tensors, NULL);
        }
    }
    if (!fine)
        return POISON;
    if ((op->flags & OP_TRAIN_ONLY) && f->e->g->entry != ENTRY_TRAIN)
        return item_value(tensors[0], a);
    struct node *n = emit_node(f, op, a->span);
    for (int k = 0; k < arrlen(tensors); k++)
        node_in(n, tensors[k]);
    for (int i = 0; i < arrlen(formals); i++) {
        if (!formals[i].kind)
            continue;
        if (formals[i].given)
            fine &= set_attribute(f, n, &formals[i]);
        else if (formals[i].otherwise)
            set_default(n, &formals[i]);
    }
    if (!fine) {
        arrpop(n->region->nodes);
        return POISON;
    }
    return emit_result(f, n, a);
}

static bool positional_items(struct frame *f, struct ast *a, struct item **items, bool *numbers)
{
    bool fine = true;
    *numbers = true;
    for (int i = 1; i < ast_count(a); i++) {
        if (a->kids[i]->kind == AST_KEYWORD) {
            *numbers = false;
            continue;
        }
        struct item item = expr(f, a->kids[i]);
        fine &= item.kind != ITEM_POISON;
        *numbers &= item.kind == ITEM_NUM || item.kind == ITEM_DIM;
        arrput(*items, item);
    }
    return fine;
}

static struct item unknown_callee(struct frame *f, struct ast *callee)
{
    struct binding *b = scope_find(f, callee->name);
    if (b) {
        struct diag *d = diag_error(E_TYPE, callee->span, "'%s' is %s and cannot be called", callee->name,
                                    item_text(b->item));
        diag_label(d, b->span, "declared here");
        return POISON;
    }
    const char **near = NULL;
    for (int i = 0; i < arrlen(f->e->decls); i++)
        if (f->e->decls[i]->kind == DECL_LAYER || f->e->decls[i]->kind == DECL_OP)
            arrput(near, f->e->decls[i]->name);
    for (int i = 0; op_table[i]; i++)
        if (!(op_table[i]->flags & OP_INTERNAL))
            arrput(near, op_table[i]->name);
    struct diag *d = diag_error(E_UNKNOWN_NAME, callee->span, "no layer or op is called '%s'", callee->name);
    const char *best = suggest(callee->name, near);
    if (best)
        diag_help(d, "did you mean '%s'?", best);
    else
        diag_help(d, "%s", !strcmp(callee->name, "matmul") || !strcmp(callee->name, "mm") || !strcmp(callee->name, "dot") || !strcmp(callee->name, "bmm") ?
                  "a product of matrices is written a @ b" : "flowc --list-ops prints all ops");
    return POISON;
}

struct item expr_call(struct frame *f, struct ast *a)
{
    struct ast *callee = ast_kid(a, 0);
    if (!callee || callee->kind != AST_NAME) {
        struct diag *d = diag_error(E_TYPE, a->span, "only layers and ops can be called");
        if (callee && callee->kind == AST_MEMBER)
            diag_help(d, "an op takes its tensor as an argument: %s(%s)", callee->name, span_text(ast_kid(callee, 0)->span));
        return POISON;
    }
    struct decl *d = names_find(f->e, callee->name);
    if (d && d->kind == DECL_LAYER)
        return layer_call(f, d, a, NULL);
    if (d && d->kind == DECL_OP)
        return d->state == DECL_READY ? call_op(f, d->op, a, NULL, false) : POISON;
    if (!strcmp(callee->name, "in_train"))
        return in_train(f, a);
    /* These may be about numbers alone; the arguments tell. */
    struct item *items = NULL;
    bool evaluated = false, numbers = false;
    if (fold_known(callee->name)) {
        if (!positional_items(f, a, &items, &numbers))
            return POISON;
        evaluated = true;
    }
    double x[2] = {0, 0}, folded;
    for (int i = 0; i < arrlen(items) && i < 2; i++)
        x[i] = items[i].num;
    if (numbers && fold_call(callee->name, x, (int)arrlen(items), &folded)) {
        if (isfinite(folded))
            return item_num(folded, a);
        diag_error(E_DIM_VALUE, a->span, "%s is not a finite number", span_text(a->span));
        return POISON;
    }
    int positional = 0;
    for (int i = 1; i < ast_count(a); i++)
        positional += a->kids[i]->kind != AST_KEYWORD;
    bool known;
    const struct op *op = op_find(callee->name, positional, &known);
    if (op)
        return call_op(f, op, a, items, evaluated);
    if (known) {
        diag_error(E_ARGUMENTS, a->span, "%s does not take %d tensors", callee->name, positional);
        return POISON;
    }
    return unknown_callee(f, callee);
}
