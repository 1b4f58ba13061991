/* param and state: what a layer stores, and how it starts; and the inputs of the model. A parameter is one object for
 * all entries of the program, found again by its path. */
#include "elaborate.h"
#include <string.h>

bool type_find(const char *name, enum type *to)
{
    for (int t = 0; t < TYPES; t++)
        if (!strcmp(type_name[t], name)) {
            *to = (enum type)t;
            return true;
        }
    return false;
}

/* Types as others write them. */
static const struct { const char *theirs, *ours; } foreign[] = {
    {"float", "f32"}, {"float32", "f32"}, {"fp32", "f32"}, {"float16", "f16"}, {"fp16", "f16"}, {"half", "f16"},
    {"bfloat16", "bf16"}, {"bfp16", "bf16"}, {"int", "i32"}, {"int32", "i32"}, {"long", "i32"}, {"int64", "i32"},
    {"i64", "i32"}, {"uint8", "u8"}, {"byte", "u8"}, {"boolean", "bool"},
};

const char *type_near(const char *name)
{
    const char **names = NULL;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strcmp(foreign[i].theirs, name))
            return foreign[i].ours;
    for (int t = 0; t < TYPES; t++)
        arrput(names, type_name[t]);
    return suggest(name, names);
}

static bool explicit_type(struct frame *f, struct ast *type, enum type *t, struct dim **dims, int *ndim)
{
    if (!type_find(type->name, t)) {
        scope_unknown(f, "type", type->name, type->span);
        return false;
    }
    *ndim = ast_count(type);
    if (*ndim > MAX_DIM) {
        diag_error(E_SHAPE, type->span, "a tensor has at most %d dims", MAX_DIM);
        return false;
    }
    bool fine = true;
    for (int i = 0; i < *ndim; i++) {
        if (type->kids[i]->kind == AST_DOTS) {
            diag_error(E_SHAPE, type->kids[i]->span, "`..` has no meaning here: every dim must be known");
            return false;
        }
        dims[i] = dim_of(f, type->kids[i]);
        fine &= dims[i] != NULL;
    }
    return fine && tensor_countable(f, *ndim, dims, type->span);
}

/* normal(std = 0.02), uniform(-a, a) or uniform(low = .., high = ..), constant(v): numbers by position or name. */
static bool init_numbers(struct frame *f, struct ast *call, const char *const *names, double *to, int want)
{
    bool given[2] = {false, false}, fine = true;
    int position = 0;
    for (int i = 1; i < ast_count(call); i++) {
        struct ast *a = call->kids[i];
        int k = position;
        if (a->kind == AST_KEYWORD)
            for (k = 0; k < want && strcmp(names[k], a->name); k++)
                ;
        else
            position++;
        if (k >= want || given[k]) {
            struct diag *d = diag_error(E_ARGUMENTS, a->span, "%s has no such argument", call->kids[0]->name);
            diag_help(d, want == 1 ? "it takes %s" : "it takes %s and %s", names[0], names[want - 1]);
            return false;
        }
        given[k] = true;
        fine &= const_eval(f, a->kind == AST_KEYWORD ? ast_kid(a, 0) : a, &to[k]);
    }
    for (int k = 0; k < want; k++)
        if (!given[k]) {
            diag_error(E_ARGUMENTS, call->span, "%s lacks its argument '%s'", call->kids[0]->name, names[k]);
            return false;
        }
    return fine;
}

static bool init_of(struct frame *f, struct ast *a, struct param *p)
{
    double x[2] = {0, 0};
    static const char *const normal[] = {"std"}, *const uniform[] = {"low", "high"}, *const constant[] = {"value"};
    struct ast *callee = a && a->kind == AST_CALL ? ast_kid(a, 0) : NULL;
    const char *name = a && a->kind == AST_NAME ? a->name : callee && callee->kind == AST_NAME ? callee->name : "";
    bool fine = true;
    if (a && a->kind == AST_NAME && !strcmp(name, "zeros")) {
        p->init = INIT_ZEROS;
    } else if (a && a->kind == AST_NAME && !strcmp(name, "ones")) {
        p->init = INIT_ONES;
    } else if (callee && !strcmp(name, "normal")) {
        p->init = INIT_NORMAL;
        fine = init_numbers(f, a, normal, x, 1);
        if (fine && x[0] < 0) {
            diag_error(E_ARGUMENTS, a->span, "std is %s, but a deviation is 0 or more", const_text(x[0]));
            fine = false;
        }
    } else if (callee && !strcmp(name, "uniform")) {
        p->init = INIT_UNIFORM;
        fine = init_numbers(f, a, uniform, x, 2);
    } else if (callee && !strcmp(name, "constant")) {
        p->init = INIT_CONSTANT;
        fine = init_numbers(f, a, constant, x, 1);
    } else if (a && (a->kind == AST_NUMBER || a->kind == AST_UNARY || a->kind == AST_BINARY)) {
        p->init = INIT_CONSTANT;
        fine = const_eval(f, a, &x[0]);
    } else if (a) {
        struct diag *d = diag_error(E_ARGUMENTS, a->span, "'%s' is no way to start a parameter", span_text(a->span));
        diag_help(d, "write zeros, ones, normal(std = s), uniform(low, high), constant(c) or a number");
        return false;
    }
    p->init_a = x[0];
    p->init_b = x[1];
    return fine;
}

static struct param *declare(struct frame *f, struct ast *a, const char *path)
{
    struct param *old = shget(f->e->params, path);
    if (old)
        return old;
    struct param *p = NEW(struct param);
    p->path = path;
    p->span = a->span;
    p->lr_scale = 1;
    p->is_state = a->kind == AST_STATE;
    if (!explicit_type(f, ast_kid(a, 0), &p->type, p->dim, &p->ndim) || !init_of(f, ast_kid(a, 1), p))
        return NULL;
    if (!type_is_float(p->type) && !p->is_state) {
        diag_error(E_TYPE, ast_kid(a, 0)->span, "a parameter is trained, so it is f32, not %s", type_name[p->type]);
        return NULL;
    }
    for (struct region *r = f->inst->home; r->parent; r = r->parent) {
        arrins(p->stack, 0, r->count);
        arrins(p->total, 0, r->count);
        arrput(p->first, 0);
    }
    p->index = (int)arrlen(f->e->m->params);
    arrput(f->e->m->params, p);
    shput(f->e->params, path, p);
    return p;
}

void param_run(struct frame *f, struct ast *a)
{
    if (!scope_check_new(f, a->name, a->name_span))
        return;
    struct item item = POISON;
    if (!f->inst->labelled && f->inst->parent) {
        struct diag *d = diag_error(E_ARGUMENTS, f->inst->span, "this call of %s has parameters, so it needs a label",
                                    f->decl->name);
        diag_label(d, a->name_span, "'%s' is declared here", a->name);
        diag_help(d, "name it, as in `mlp: %s`", span_text(f->inst->span));
    } else {
        struct param *p = declare(f, a, path_join(f->inst->path, a->name));
        f->e->poisoned |= !p;
        if (p) {
            struct node *n = node_new(f->e->g, f->inst->home, &op_param, a->span);
            node_set_ptr(n, "param", p);
            n->path = *f->inst->path ? f->inst->path : NULL;
            if (!node_finish(f->e->g, n))
                BUG("a param node was refused");
            item = item_value(n->out[0], a);
        }
    }
    scope_bind(f, BIND_PARAM, a->name, item, a->name_span);
}

void model_inputs(struct frame *f, struct ast *params)
{
    for (int i = 0; i < ast_count(params); i++) {
        struct ast *a = params->kids[i];
        if (a->kind != AST_INPUT) {
            struct diag *d = diag_error(E_ARGUMENTS, a->span, "a model takes tensors; '%s' has no caller to give it",
                                        a->name);
            diag_help(d, "declare it with dim or const at the top of the file");
            continue;
        }
        if (!scope_check_new(f, a->name, a->name_span))
            continue;
        struct dim *dims[MAX_DIM], **list = NULL;
        enum type type;
        int ndim;
        struct value *v = NULL;
        if (explicit_type(f, ast_kid(a, 0), &type, dims, &ndim)) {
            for (int k = 0; k < ndim; k++)
                arrput(list, dims[k]);
            struct node *n = node_new(f->e->g, f->at, &op_input, a->span);
            node_set_str(n, "name", a->name);
            node_set_int(n, "type", type);
            node_set_ptr(n, "dims", list);
            if (!node_finish(f->e->g, n))
                BUG("an input node was refused");
            v = n->out[0];
            v->has_ignore = ast_kid(a, 1) && const_eval(f, ast_kid(a, 1), &v->ignore);
            scale_input(f->e, v);
            arrput(f->e->inputs, v);
        }
        scope_bind(f, BIND_INPUT, a->name, item_value(v, a), a->name_span);
    }
}
