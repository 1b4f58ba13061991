/* repeat N as i { .. }: the outer names that the body assigns are carried from block to block. The body is built first;
 * the node that holds it comes into being after it, behind the parameters that the body placed outside. */
#include "elaborate.h"
#include <string.h>

struct carried {
    const char *name;
    struct value *init, *arg, *result;
    struct span before;          /* where the value before the repeat got its name */
};

static struct carried *find_carried(struct frame *f, struct ast *body)
{
    struct carried *carried = NULL;
    const char **names = NULL;
    assigned_names(body, &names);
    for (int i = 0; i < arrlen(names); i++) {
        struct binding *b = scope_find(f, names[i]);
        bool again = false;
        for (int k = 0; k < arrlen(carried); k++)
            again |= !strcmp(carried[k].name, names[i]);
        if (!b || again || (b->kind != BIND_LOCAL && b->kind != BIND_INPUT))
            continue;
        struct span span = b->span;
        struct value *v = item_tensor(f, b->item, b->item.ast ? b->item.ast : body);
        arrput(carried, ((struct carried){names[i], v, NULL, NULL, span}));
    }
    return carried;
}

static bool same_type(const struct value *a, const struct value *b)
{
    bool same = a->type == b->type && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++)
        same = dim_same(a->dim[i], b->dim[i]);
    return same;
}

/* The body's last value of each carried name; false when one is missing or of another type. */
static bool take_results(struct frame *f, struct carried *carried, struct ast *a)
{
    bool fine = true;
    for (int k = 0; k < arrlen(carried); k++) {
        struct carried *c = &carried[k];
        struct binding *b = scope_find(f, c->name);
        if (!c->init || b->item.kind == ITEM_POISON) {
            fine = false;
            continue;
        }
        c->result = item_tensor(f, b->item, b->item.ast ? b->item.ast : a);
        if (!c->result) {
            fine = false;
        } else if (!same_type(c->arg, c->result)) {
            struct diag *d = diag_error(E_CARRY, b->span, "the repeat carries '%s' as %s, but the body leaves %s",
                                        c->name,
                                        value_type_text(c->arg, NULL), value_type_text(c->result, NULL));
            diag_label(d, c->before, "%s before the repeat", value_type_text(c->arg, NULL));
            fine = false;
        }
    }
    return fine;
}

static const char *last_path(struct frame *f, const char *name)
{
    const char *path = path_join(f->inst->path, name);
    return shget(f->inst->times, name) > 1 ? mem_printf("%s@%d", path, shget(f->inst->seen, name)) : path;
}

static struct value *carry_in(struct frame *f, struct region *body, struct carried *c, int k)
{
    c->arg = value_new(f->e->g, body, c->init->type, c->init->ndim, c->init->dim);
    c->arg->def_index = k;
    c->arg->path = path_join(f->inst->path, c->name);
    c->arg->span = c->before;
    scale_copy(f->e, c->init, c->arg);
    return c->arg;
}

static void finish(struct frame *f, struct ast *a, struct region *body, struct carried *carried, const char *path)
{
    struct node *n = node_new(f->e->g, f->at, &op_repeat, a->span);
    n->path = path;
    n->body = body;
    body->owner = n;
    for (int k = 0; k < arrlen(carried); k++) {
        node_in(n, carried[k].init);
        arrput(body->results, carried[k].result);
        carried[k].arg->path = last_path(f, carried[k].name);
    }
    if (!node_finish(f->e->g, n))
        BUG("a repeat node was refused");
    for (int k = 0; k < arrlen(carried); k++) {
        struct value *out = n->out[k];
        out->path = carried[k].arg->path;
        hmput(f->e->named, out->id, NAME_LOCAL);
        scale_copy(f->e, carried[k].result, out);
        struct binding *b = scope_find(f, carried[k].name);
        b->item = item_value(out, a);
        b->kind = BIND_LOCAL;
    }
}

/* The tables of a program hold so many counts around a parameter, and the walks over a value's repeats likewise. */
static bool nested_too_deep(struct frame *f, struct ast *a)
{
    if (region_depth(f->at) < MAX_STACK)
        return false;
    struct diag *d = diag_error(E_NESTING, a->span, "%d repeats stand within each other, %d at most can",
                                region_depth(f->at) + 1, MAX_STACK);
    if (arrlen(f->levels))
        diag_label(d, arrlast(f->levels).ast->span, "inside this one");
    diag_help(d, "repeat N*M blocks instead of N times M");
    return true;
}

void repeat_run(struct frame *f, struct ast *a)
{
    struct ast *body_ast = ast_kid(a, 1);
    int64_t count = 1;
    if (!ast_kid(a, 0) || !dim_eval(f, ast_kid(a, 0), &count))
        count = 1;
    else if (count < 1 || count > LARGEST_REPEAT) {
        diag_error(E_DIM_VALUE, ast_kid(a, 0)->span, "a repeat of %lld blocks", (long long)count);
        count = 1;
    }
    struct carried *carried = find_carried(f, body_ast);
    if (!arrlen(carried)) {
        struct diag *d = diag_error(E_CARRY, a->span, "this repeat carries nothing, so it computes nothing");
        diag_help(d, "assign an outer name in it, as in `x = h[i]: Block(x)`");
    }
    if (nested_too_deep(f, a)) {
        for (int k = 0; k < arrlen(carried); k++)
            scope_find(f, carried[k].name)->item = POISON;
        return;
    }
    struct region *body = region_new(f->at, count);
    struct level level = {.ast = a, .index = a->name, .region = body, .base = (int)arrlen(f->names)};
    if (a->name && scope_check_new(f, a->name, a->name_span))
        scope_bind(f, BIND_INDEX, a->name, POISON, a->name_span);
    for (int k = 0; k < arrlen(carried); k++) {
        struct item item = POISON;
        if (carried[k].init) {
            arrput(body->args, carry_in(f, body, &carried[k], k));
            item = item_value(carried[k].arg, a);
        }
        scope_bind(f, BIND_LOCAL, carried[k].name, item, carried[k].before);
    }
    arrput(f->levels, level);
    struct region *outside = f->at;
    f->at = body;
    body_run(f, body_ast);
    bool fine = take_results(f, carried, a) && arrlen(carried);
    f->at = outside;
    level = arrpop(f->levels);
    arrsetlen(f->names, level.base);
    const char *path = path_join(f->inst->path, level.label ? level.label : "repeat");
    if (fine) {
        finish(f, a, body, carried, path);
        return;
    }
    for (int k = 0; k < arrlen(carried); k++)
        scope_find(f, carried[k].name)->item = POISON;
}
