/* Calls of layers: the header is matched against the arguments, dims it does not know are bound by them, and the body is
 * elaborated once for every call, in place. A label gives the call its path. */
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

enum { MAX_CALLS = 100000 };     /* layers that call layers twice each grow like a power of two */

/* ---- labels ---- */

static int index_level(struct frame *f, struct ast *index)
{
    for (int i = 0; index->kind == AST_NAME && i < arrlen(f->levels); i++)
        if (f->levels[i].index && !strcmp(f->levels[i].index, index->name))
            return i;
    return -1;
}

/* attn, h[i], h[i][j] or h[i, j]. An index must be that of a repeat around the call, outermost first and none left out
 * between: then the parameters beneath are stacked over those repeats. Without an index every block shares them. */
bool label_path(struct frame *f, struct ast *label, const char **name, const char **suffix, struct region **home)
{
    struct ast **indices = NULL;
    struct ast *a = label;
    for (; a && a->kind == AST_INDEX; a = ast_kid(a, 0))
        for (int i = ast_count(a) - 1; i >= 1; i--)
            arrins(indices, 0, a->kids[i]);
    if (!a || a->kind != AST_NAME) {
        diag_error(E_ARGUMENTS, label->span, "a label is a name, or a name with the index of a repeat");
        return false;
    }
    *name = a->name;
    *suffix = "";
    *home = f->inst->home;
    for (int i = 0; i < arrlen(indices); i++) {
        int level = index_level(f, indices[i]);
        if (level != i) {
            struct diag *d = diag_error(E_ARGUMENTS, indices[i]->span, "'%s' is not the index of %s repeat around this call",
                                        span_text(indices[i]->span), i ? "the next" : "the outermost");
            if (arrlen(f->levels) > i)
                diag_label(d, f->levels[i].ast->span, "this repeat%s%s", f->levels[i].index ? " has the index " :
                           " has no index: write `repeat .. as i`", f->levels[i].index ? f->levels[i].index : "");
            return false;
        }
        struct level *l = &f->levels[i];
        if (i == 0 && l->region->parent != f->inst->home) {
            struct diag *d = diag_error(E_ARGUMENTS, label->span, "'%s' would be stacked inside '%s', which its repeat shares",
                                        *name, f->inst->path);
            diag_label(d, f->inst->span, "shared by all blocks here");
            return false;
        }
        if (!l->label)
            l->label = *name;
        *home = l->region;
        *suffix = mem_printf("%s[*]", *suffix);
    }
    struct instance *old = scope_label(f, *name);
    if (old) {
        struct diag *d = diag_error(E_DUPLICATE, label->span, "the label '%s' is used twice", *name);
        diag_label(d, old->span, "first used here");
        diag_help(d, "two calls with one label would share their parameters; give each its own");
        return false;
    }
    return true;
}

/* The output of a labelled call carries the label's path. A value that was there before the call keeps its own. */
static void name_output(struct frame *f, struct instance *inst, struct item result, int before)
{
    inst->output = result;
    if (!inst->labelled)
        return;
    if (result.kind == ITEM_VALUE)
        value_name(f->e, result.v, inst->path, result.v->id < before ? NAME_LOCAL : NAME_CALL);
    for (int i = 0; result.kind == ITEM_LIST && i < arrlen(result.items); i++)
        if (result.items[i].kind == ITEM_VALUE)
            value_name(f->e, result.items[i].v, mem_printf("%s.%d", inst->path, i),
                       result.items[i].v->id < before ? NAME_LOCAL : NAME_CALL);
}

static const char *label_index(struct ast *label)
{
    struct ast *index = label && label->kind == AST_INDEX ? ast_kid(label, ast_count(label) - 1) : NULL;
    return index && index->kind == AST_NAME ? index->name : NULL;
}

struct item labelled(struct frame *f, struct ast *label, struct ast *what)
{
    struct ast *callee = what && what->kind == AST_CALL ? ast_kid(what, 0) : NULL;
    struct decl *d = callee && callee->kind == AST_NAME ? names_find(f->e, callee->name) : NULL;
    if (d && d->kind == DECL_LAYER)
        return layer_call(f, d, what, label);
    int before = (int)arrlen(f->e->g->values);
    struct item result = expr(f, what);
    const char *name, *suffix;
    struct region *home;
    if (!label_path(f, label, &name, &suffix, &home))
        return result;
    struct instance *inst = instance_new(f, name, suffix, label->span, true);
    inst->index = label_index(label);
    if (result.kind == ITEM_NUM || result.kind == ITEM_DIM || result.kind == ITEM_LABEL) {
        struct value *v = item_tensor(f, result, what);
        result = item_value(v, what);
    }
    if (result.kind == ITEM_VALUE && result.v->id < before) {      /* dropout where it is the identity */
        inst->output = result;
        return result;
    }
    if (result.kind == ITEM_VALUE && result.v->def)
        result.v->def->path = inst->path;
    name_output(f, inst, result, before);
    return result;
}

/* ---- the header ---- */

static const char *dim_text(const struct dim *d)
{
    return d->name ? mem_printf("%s = %lld", d->name, (long long)d->size) : mem_printf("%lld", (long long)d->size);
}

static struct diag *mismatch(struct frame *g, enum diag_code code, struct ast *input, struct ast *arg, const struct value *v)
{
    struct ast *type = ast_kid(input, 0);
    struct diag *d = diag_error(code, arg->span, "'%s' of %s is %s, but this is %s", input->name, g->decl->name,
                                span_text(type->span), value_type_text(v, NULL));
    diag_label(d, input->span, "declared here");
    return d;
}

/* One dim of a header against one of an argument; a name that means nothing yet is bound. */
static bool match_dim(struct frame *g, struct ast *input, struct ast *formal, struct ast *arg, const struct value *v, int i)
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
        struct diag *x = diag_error(E_SHAPE, arg->span, "'%s' of %s is %s in one argument and %s in this one", formal->name,
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
static bool arguments_known(struct decl *layer, struct ast *call)
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
static bool bind_formal(struct frame *f, struct frame *g, struct ast *call, int k, int pass)
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

static void header_check(struct decl *layer)
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

/* ---- the body ---- */

void assigned_names(struct ast *body, const char ***to)
{
    for (int i = 0; i < ast_count(body); i++) {
        struct ast *a = body->kids[i];
        if (a && a->kind == AST_REPEAT)
            assigned_names(ast_kid(a, 1), to);
        for (int k = 0; a && a->kind == AST_ASSIGN && k < ast_count(ast_kid(a, 0)); k++)
            arrput(*to, a->kids[0]->kids[k]->name);
    }
}

void body_count(struct instance *inst, struct ast *body)
{
    const char **names = NULL;
    assigned_names(body, &names);
    for (int i = 0; i < arrlen(names); i++)
        shput(inst->times, names[i], shget(inst->times, names[i]) + 1);
}

static void assign_one(struct frame *f, struct ast *name, struct item item)
{
    int seen = shget(f->inst->seen, name->name) + 1;
    shput(f->inst->seen, name->name, seen);
    if (item.kind == ITEM_LABEL)
        item = item.inst->output;
    if (item.kind == ITEM_VALUE) {
        const char *path = path_join(f->inst->path, name->name);
        if (shget(f->inst->times, name->name) > 1)
            path = mem_printf("%s@%d", path, seen);
        value_name(f->e, item.v, path, NAME_LOCAL);
    }
    struct binding *b = scope_find(f, name->name);
    if (b && (b->kind == BIND_LOCAL || b->kind == BIND_INPUT)) {
        b->item = item;
        b->kind = BIND_LOCAL;
        b->span = name->span;
    } else if (scope_check_new(f, name->name, name->span)) {
        scope_bind(f, BIND_LOCAL, name->name, item, name->span);
    }
}

static void assign(struct frame *f, struct ast *a)
{
    struct ast *names = ast_kid(a, 0);
    struct item item = expr(f, ast_kid(a, 1));
    if (item.kind == ITEM_LABEL && item.inst->output.kind == ITEM_LIST)
        item = item.inst->output;
    int have = item.kind == ITEM_LIST ? (int)arrlen(item.items) : 1, want = ast_count(names);
    bool computes = item.kind != ITEM_STR && item.kind != ITEM_TYPE && item.kind != ITEM_LAYOUT;
    if (item.kind != ITEM_POISON && (have != want || !computes)) {
        if (computes)
            diag_error(E_ARGUMENTS, names->span, "%d name%s for %d result%s", want, want == 1 ? "" : "s", have,
                       have == 1 ? "" : "s");
        else
            diag_error(E_TYPE, ast_kid(a, 1)->span, "this is %s, and computes nothing", item_text(item));
        item = POISON;
    }
    for (int i = 0; i < want; i++)
        assign_one(f, names->kids[i], item.kind == ITEM_LIST ? item.items[i] : item);
}

static void return_run(struct frame *f, struct ast *a)
{
    if (arrlen(f->levels)) {
        struct diag *d = diag_error(E_RETURN, a->span, "return inside a repeat");
        diag_label(d, arrlast(f->levels).ast->span, "this repeat");
        diag_help(d, "a repeat hands on the outer names that it assigns; return after it");
        return;
    }
    f->returned = true;
    f->return_span = a->span;
    f->result = (struct item){.kind = ITEM_LIST, .ast = a};
    for (int i = 0; i < ast_count(a); i++) {
        struct item item = expr(f, a->kids[i]);
        if (item.kind == ITEM_LABEL && item.inst->output.kind == ITEM_LIST)
            item = item.inst->output;
        for (int k = 0; k < (item.kind == ITEM_LIST ? arrlen(item.items) : 1); k++)
            arrput(f->result.items, item_value(item_tensor(f, item.kind == ITEM_LIST ? item.items[k] : item, a->kids[i]),
                                               a->kids[i]));
    }
    if (arrlen(f->result.items) == 1)
        f->result = f->result.items[0];
}

void body_run(struct frame *f, struct ast *body)
{
    for (int i = 0; i < ast_count(body); i++) {
        struct ast *a = body->kids[i];
        if (!a)
            continue;
        if (f->returned) {
            struct diag *d = diag_error(E_RETURN, a->span, "a statement after return");
            diag_label(d, f->return_span, "returns here");
            return;
        }
        switch (a->kind) {
        case AST_PARAM:
        case AST_STATE:
            param_run(f, a);
            break;
        case AST_ASSIGN:
            assign(f, a);
            break;
        case AST_REPEAT:
            repeat_run(f, a);
            break;
        case AST_RETURN:
            return_run(f, a);
            break;
        case AST_OUTPUT:
        case AST_METRIC:
            output_run(f, a);
            break;
        default:
            break;
        }
    }
}

struct item layer_call(struct frame *f, struct decl *layer, struct ast *call, struct ast *label)
{
    if (layer->calling) {
        struct diag *d = diag_error(E_RECURSION, call->span, "layer '%s' calls itself", layer->name);
        diag_label(d, layer->call, "elaborated because of this call");
        diag_help(d, "`repeat` applies a layer a fixed number of times");
        return POISON;
    }
    if (++f->e->calls > MAX_CALLS) {
        if (f->e->calls == MAX_CALLS + 1)
            diag_help(diag_error(E_RECURSION, call->span, "the model calls layers more than %d times", MAX_CALLS),
                      "`repeat` applies a layer many times and keeps one copy of it");
        return POISON;
    }
    const char *name = layer->name, *suffix = "";
    struct region *home = f->inst->home;
    bool fine = !label || label_path(f, label, &name, &suffix, &home);
    int before = (int)arrlen(f->e->g->values);
    struct frame g = {.e = f->e, .caller = f, .decl = layer, .body = ast_kid(layer->ast, 1), .at = f->at};
    g.inst = fine ? instance_new(f, name, suffix, label ? label->span : call->span, label != NULL) : NULL;
    header_check(layer);
    if (!g.inst || !arguments_known(layer, call))
        return POISON;
    g.inst->home = home;
    g.inst->index = label_index(label);
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < ast_count(ast_kid(layer->ast, 0)); k++)
            fine &= bind_formal(f, &g, call, k, pass);
    g.inst->output = POISON;
    if (!fine)
        return POISON;
    body_count(g.inst, g.body);
    layer->calling = true;
    layer->call = call->span;
    body_run(&g, g.body);
    layer->calling = false;
    g.inst->names = g.names;
    if (!g.returned) {
        struct diag *d = diag_error(E_RETURN, layer->ast->name_span, "layer '%s' returns nothing", layer->name);
        diag_label(d, call->span, "called here");
        return POISON;
    }
    name_output(f, g.inst, g.result, before);
    return g.result;
}
