/* The header of a layer against the arguments of a call: types and dims are compared, dims that nothing declares are
 * bound to those of the argument. */
#include "elaborate.h"
#include <string.h>

static const char *dim_text(const struct dim *d)
{
    return d->name ? mem_printf("%s = %lld", d->name, (long long)d->size) : mem_printf("%lld", (long long)d->size);
}

static struct diag *mismatch(struct frame *g, enum diag_code code, struct ast *input, struct ast *arg,
                             const struct value *v)
{
    struct ast *type = ast_kid(input, 0);
    struct diag *d = diag_error(code, arg->span, "'%s' of %s is %s, but this is %s", input->name, g->decl->name,
                                span_text(type->span), value_type_text(v, NULL));
    diag_label(d, input->span, "declared here");
    return d;
}

/* One dim of a header against one of an argument; a name that means nothing yet is bound. */
static bool match_dim(struct frame *g, struct ast *input, struct ast *formal, struct ast *arg, const struct value *v,
                      int i)
{
    struct dim *d = v->dim[i];
    struct binding *bound = formal->kind == AST_NAME ? scope_find(g, formal->name) : NULL;
    if (formal->kind == AST_NAME && !bound && !names_find(g->e, formal->name)) {
        scope_bind(g, BIND_DIM, formal->name, item_dim(d, arg), arg->span);
        return true;
    }
    struct span from = bound ? bound->span : (struct span){0};
    struct dim *want = dim_of(g, formal);
    if (!want || dim_same(want, d))
        return want != NULL;
    if (bound) {
        struct diag *x = diag_error(E_SHAPE, arg->span, "'%s' of %s is %s in one argument and %s in this one",
                                    formal->name,
                                    g->decl->name, dim_text(want), dim_text(d));
        diag_mark(x, "%s", value_type_text(v, NULL));
        diag_label(x, from, "%s here", dim_text(want));
        diag_label(x, input->span, "declared here");
        return false;
    }
    struct diag *x = mismatch(g, E_SHAPE, input, arg, v);
    diag_note(x, "dim %d is %s there and %s here%s", i, dim_text(want), dim_text(d),
              want->size == d->size ? "; dims match by name" : "");
    return false;
}

static bool match_input(struct frame *g, struct ast *input, struct ast *arg, struct value *v)
{
    struct ast *type = ast_kid(input, 0), *ignore = ast_kid(input, 1);
    enum type t;
    if (!type_find(type->name, &t)) {
        scope_unknown(g, "type", type->name, type->span);
        return false;
    }
    int n = ast_count(type);
    bool dots = n && type->kids[0]->kind == AST_DOTS;
    if (t != v->type) {
        mismatch(g, E_TYPE, input, arg, v);
        return false;
    }
    if (dots ? v->ndim < n - 1 : v->ndim != n) {
        struct diag *d = mismatch(g, E_SHAPE, input, arg, v);
        diag_note(d, "%s%d dims there and %d here", dots ? "at least " : "", dots ? n - 1 : n, v->ndim);
        return false;
    }
    for (int i = dots; i < n; i++)
        if (!match_dim(g, input, type->kids[i], arg, v, v->ndim - n + i))
            return false;
    double value;
    if (ignore && const_eval(g, ignore, &value) && (!v->has_ignore || v->ignore != value)) {
        struct diag *d = diag_error(E_TYPE, arg->span, "'%s' of %s ignores %s, but this tensor %s", input->name,
                                    g->decl->name, const_text(value), v->has_ignore ?
                                    mem_printf("ignores %s", const_text(v->ignore)) : "ignores nothing");
        diag_label(d, ignore->span, "declared here");
        return false;
    }
    return true;
}

static struct ast *argument_of(struct frame *f, struct ast *formals, struct ast *call, int k, struct ast **twice)
{
    struct ast *found = NULL;
    int position = 0;
    for (int i = 1; i < ast_count(call); i++) {
        struct ast *a = call->kids[i];
        bool hit = a->kind == AST_KEYWORD ? !strcmp(a->name, formals->kids[k]->name) : position++ == k;
        if (hit && found)
            *twice = a;
        if (hit && !found)
            found = a->kind == AST_KEYWORD ? ast_kid(a, 0) : a;
    }
    return found;
}

static void help_header(struct diag *d, struct decl *layer)
{
    struct ast *formals = ast_kid(layer->ast, 0);
    const char *text = "";
    for (int i = 0; i < ast_count(formals); i++)
        text = mem_printf("%s%s%s", text, i ? ", " : "", span_text(formals->kids[i]->span));
    diag_label(d, layer->ast->name_span, "declared here");
    diag_help(d, "%s(%s)", layer->name, text);
}

/* Every argument must have a formal. */
bool arguments_known(struct decl *layer, struct ast *call)
{
    struct ast *formals = ast_kid(layer->ast, 0);
    int position = 0;
    bool fine = true;
    for (int i = 1; i < ast_count(call); i++) {
        struct ast *a = call->kids[i];
        bool known = a->kind != AST_KEYWORD && position++ < ast_count(formals);
        const char **near = NULL;
        for (int k = 0; k < ast_count(formals); k++) {
            known |= a->kind == AST_KEYWORD && !strcmp(a->name, formals->kids[k]->name);
            arrput(near, formals->kids[k]->name);
        }
        if (known)
            continue;
        fine = false;
        const char *best = a->kind == AST_KEYWORD ? suggest(a->name, near) : NULL;
        struct diag *d = a->kind == AST_KEYWORD ?
            diag_error(E_ARGUMENTS, a->name_span, "%s has no argument called '%s'", layer->name, a->name) :
            diag_error(E_ARGUMENTS, a->span, "%s takes %d argument%s", layer->name, ast_count(formals),
                       ast_count(formals) == 1 ? "" : "s");
        if (best)
            diag_help(d, "did you mean '%s'?", best);
        else
            help_header(d, layer);
    }
    return fine;
}

/* One formal of the header. Dims and scalars go first (pass 0), so that types may speak of them. */
bool bind_formal(struct frame *f, struct frame *g, struct ast *call, int k, int pass)
{
    struct ast *formals = ast_kid(g->decl->ast, 0), *formal = formals->kids[k], *twice = NULL;
    if ((formal->kind == AST_INPUT) != pass)
        return true;
    struct ast *arg = argument_of(f, formals, call, k, &twice);
    if (twice) {
        struct diag *d = diag_error(E_ARGUMENTS, twice->span, "'%s' is given twice", formal->name);
        diag_label(d, arg->span, "first here");
        return false;
    }
    if (!arg && formal->kind == AST_SCALAR_ARG && ast_kid(formal, 0)) {
        double num;
        if (!const_eval(g, ast_kid(formal, 0), &num))
            return false;
        scope_bind(g, BIND_SCALAR, formal->name, item_num(num, formal), formal->span);
        return true;
    }
    if (!arg) {
        struct diag *d = diag_error(E_ARGUMENTS, call->span, "%s lacks its argument '%s'", g->decl->name, formal->name);
        help_header(d, g->decl);
        return false;
    }
    if (formal->kind == AST_DIM_ARG) {
        struct dim *dim = dim_of(f, arg);
        scope_bind(g, BIND_DIM, formal->name, item_dim(dim, arg), arg->span);
        return dim != NULL;
    }
    if (formal->kind == AST_SCALAR_ARG) {
        double num;
        bool fine = const_eval(f, arg, &num);
        scope_bind(g, BIND_SCALAR, formal->name, fine ? item_num(num, arg) : POISON, arg->span);
        return fine;
    }
    struct value *v = expr_value(f, arg);
    bool fine = v && match_input(g, formal, arg, v);
    scope_bind(g, BIND_INPUT, formal->name, item_value(v, formal), formal->span);
    return fine;
}

void header_check(struct decl *layer)
{
    struct ast *formals = ast_kid(layer->ast, 0);
    for (int i = 0; i < ast_count(formals); i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(formals->kids[i]->name, formals->kids[k]->name)) {
                struct diag *d = diag_error(E_DUPLICATE, formals->kids[i]->name_span, "'%s' is an argument twice",
                                            formals->kids[i]->name);
                diag_label(d, formals->kids[k]->name_span, "first here");
            }
}
