/* Labels: what names a call. A label gives the call its path, decides in which repeat its parameters are stacked, and
 * names the call's output. */
#include "elaborate.h"
#include <string.h>

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
            struct diag *d = diag_error(E_ARGUMENTS, indices[i]->span,
                                        "'%s' is not the index of %s repeat around this call",
                                        span_text(indices[i]->span), i ? "the next" : "the outermost");
            if (arrlen(f->levels) > i)
                diag_label(d, f->levels[i].ast->span, "this repeat%s%s", f->levels[i].index ? " has the index " :
                           " has no index: write `repeat .. as i`", f->levels[i].index ? f->levels[i].index : "");
            if (level > i)
                diag_help(d, "put `repeat .. as %s` into a layer of its own and call that as `outer[%s]: ..`: "
                          "then each pair of blocks has its own parameters", span_text(indices[i]->span),
                          f->levels[0].index ? f->levels[0].index : "i");
            return false;
        }
        struct level *l = &f->levels[i];
        if (i == 0 && l->region->parent != f->inst->home) {
            struct diag *d = diag_error(E_ARGUMENTS, label->span,
                                        "'%s' would be stacked inside '%s', which its repeat shares",
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
void name_output(struct frame *f, struct instance *inst, struct item result, int before)
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

const char *label_index(struct ast *label)
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
