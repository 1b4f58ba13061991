/* What a name means inside a body, and what its values, labels and parameters are called in paths. */
#include "elaborate.h"
#include <string.h>

struct item item_value(struct value *v, struct ast *a)
{
    return v ? (struct item){.kind = ITEM_VALUE, .v = v, .ast = a} : POISON;
}

struct item item_num(double num, struct ast *a)
{
    return (struct item){.kind = ITEM_NUM, .num = num, .ast = a};
}

struct item item_dim(struct dim *d, struct ast *a)
{
    return d ? (struct item){.kind = ITEM_DIM, .dim = d, .num = (double)d->size, .ast = a} : POISON;
}

const char *item_text(struct item item)
{
    switch (item.kind) {
    case ITEM_VALUE: return mem_printf("a tensor %s", value_type_text(item.v, NULL));
    case ITEM_NUM: return "a number";
    case ITEM_DIM: return item.dim->name ? mem_printf("the dim %s", item.dim->name) : "a dim";
    case ITEM_STR: return "a text";
    case ITEM_TYPE: return "a type";
    case ITEM_LIST: return mem_printf("a list of %d", (int)arrlen(item.items));
    case ITEM_LABEL: return "a labelled call";
    case ITEM_LAYOUT: return "a layout";
    default: return "an error";
    }
}

struct binding *scope_find(struct frame *f, const char *name)
{
    for (int i = (int)arrlen(f->names) - 1; i >= 0; i--)
        if (!strcmp(f->names[i].name, name))
            return &f->names[i];
    return NULL;
}

void scope_bind(struct frame *f, enum binding_kind kind, const char *name, struct item item, struct span span)
{
    arrput(f->names, ((struct binding){name, kind, item, span}));
}

bool scope_check_new(struct frame *f, const char *name, struct span span)
{
    struct binding *b = scope_find(f, name);
    struct decl *d = names_find(f->e, name);
    struct span old = b ? b->span : d ? d->ast->name_span : (struct span){0};
    enum type type;
    const char *what = NULL;
    if (b)
        what = b->kind == BIND_PARAM ? "a parameter" : b->kind == BIND_DIM ? "a dim" : b->kind == BIND_SCALAR ?
               "an argument that is a number" : b->kind == BIND_INDEX ? "the index of a repeat" : "a value";
    else if (d)
        what = d->kind == DECL_DIM ? "a dim" : d->kind == DECL_CONST ? "a const" : d->kind == DECL_LAYER ? "a layer" :
               d->kind == DECL_OP ? "an op" : "the model";
    else if (type_find(name, &type))
        what = "a type";
    if (!what)
        return true;
    struct diag *g = diag_error(E_DUPLICATE, span, "'%s' is already %s", name, what);
    diag_label(g, old, "declared here");
    return false;
}

struct instance *scope_label(struct frame *f, const char *name)
{
    for (int i = 0; f->inst && i < arrlen(f->inst->kids); i++)
        if (f->inst->kids[i]->labelled && !strcmp(f->inst->kids[i]->label, name))
            return f->inst->kids[i];
    return NULL;
}

void scope_unknown(struct frame *f, const char *what, const char *name, struct span span)
{
    const char **near = NULL;
    for (int i = (int)arrlen(f->names) - 1; i >= 0; i--)
        arrput(near, f->names[i].name);
    for (int i = 0; f->inst && i < arrlen(f->inst->kids); i++)
        arrput(near, f->inst->kids[i]->label);
    names_candidates(f->e, &near);
    arrput(near, "true");
    arrput(near, "false");
    bool type = !strcmp(what, "type");
    struct diag *d = diag_error(E_UNKNOWN_NAME, span, "unknown %s '%s'", what, name);
    const char *best = type ? type_near(name) : suggest(name, near);
    if (type && !best)
        diag_help(d, "the types are f32, bf16, f16, i32, u8 and bool");
    if (best)
        diag_help(d, "did you mean '%s'?", best);
    else if (!strcmp(what, "state"))
        diag_help(d, "declare it above this line, as in `state %s: TYPE = zeros`", name);
    else if (!strcmp(what, "name"))
        diag_help(d, "bind it above with `%s = ..`, or declare it with dim or const", name);
}

bool scope_visible(struct frame *f, const struct value *v)
{
    for (struct region *r = f->at; r; r = r->parent)
        if (v->region == r)
            return true;
    return false;
}

struct item scope_name(struct frame *f, struct ast *a)
{
    struct binding *b = scope_find(f, a->name);
    if (b) {
        struct item item = b->item;
        if (b->kind == BIND_INDEX && item.kind == ITEM_POISON) {      /* a value only where somebody asks for it */
            struct level *l = &arrlast(f->levels);
            for (int i = 0; i < arrlen(f->levels); i++)
                if (f->levels[i].index == b->name)
                    l = &f->levels[i];
            l->region->index = value_new(f->e->g, l->region, TYPE_I32, 0, NULL);
            l->region->index->path = path_join(f->inst->path, b->name);
            l->region->index->span = b->span;
            item = b->item = item_value(l->region->index, a);
        }
        item.ast = a;
        return item;
    }
    struct instance *label = scope_label(f, a->name);
    if (label)
        return (struct item){.kind = ITEM_LABEL, .inst = label, .ast = a};
    struct decl *d = names_find(f->e, a->name);
    if (d && d->kind == DECL_DIM)
        return decl_ready(f, d, a->span) ? item_dim(d->dim, a) : POISON;
    if (d && d->kind == DECL_CONST)
        return decl_ready(f, d, a->span) ? item_num(d->num, a) : POISON;
    enum type type;
    if (type_find(a->name, &type))
        return (struct item){.kind = ITEM_TYPE, .type = type, .ast = a};
    if (!strcmp(a->name, "true") || !strcmp(a->name, "false"))
        return item_num(a->name[0] == 't', a);
    if (d) {
        struct diag *g = diag_error(E_TYPE, a->span, "'%s' is %s, not a value", a->name, d->kind == DECL_LAYER ? "a layer" :
                                    d->kind == DECL_OP ? "an op" : "a model");
        diag_help(g, "call it: %s(..)", a->name);
        return POISON;
    }
    scope_unknown(f, "name", a->name, a->span);
    return POISON;
}

const char *path_join(const char *a, const char *b)
{
    return *a ? mem_printf("%s.%s", a, b) : b;
}

struct instance *instance_new(struct frame *f, const char *label, const char *suffix, struct span span, bool labelled)
{
    struct instance *i = NEW(struct instance);
    i->label = label;
    i->path = path_join(f->inst->path, mem_printf("%s%s", label, suffix));
    i->parent = f->inst;
    i->home = f->inst->home;
    i->span = span;
    i->labelled = labelled;
    arrput(f->inst->kids, i);
    if (labelled) {
        arrput(f->e->labels, i->path);
        arrput(f->e->label_spans, span);
    }
    return i;
}

void value_name(struct elab *e, struct value *v, const char *path, int firmness)
{
    int had = v->def && (v->def->op == &op_param || v->def->op == &op_input) ? NAME_FIXED : hmget(e->named, v->id);
    if (!strcmp(v->path ? v->path : "", path))
        return;
    if (firmness < had || (firmness == had && firmness != NAME_CALL)) {
        arrput(v->alias, path);
        return;
    }
    if (had > NAME_NONE)
        arrput(v->alias, v->path);
    v->path = path;
    v->call_output = firmness == NAME_CALL;
    hmput(e->named, v->id, firmness);
}
