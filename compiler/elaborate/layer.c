/* Calls of layers. The body is elaborated anew for every call, in place, with its dims bound by the header. */
#include "elaborate.h"

enum { MAX_CALLS = 100000 };     /* layers that call layers twice each grow like a power of two */

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
        diag_help(d, "end it with `return y`, or `return y, z` for two results");
        return POISON;
    }
    name_output(f, g.inst, g.result, before);
    return g.result;
}
