/* The statements of a body. */
#include "elaborate.h"
#include <string.h>

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
            diag_help(diag_error(E_ARGUMENTS, names->span, "%d name%s for %d result%s", want, want == 1 ? "" : "s", have,
                                 have == 1 ? "" : "s"), have == 1 ? "one name takes it: `a = ..`" : "name each, as in `a, b = ..`");
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
            arrput(f->result.items, item_value(item_tensor(f, item.kind == ITEM_LIST ? item.items[k] : item,
                                                           a->kids[i]),
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
        case AST_UPDATE:
            update_run(f, a);
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
