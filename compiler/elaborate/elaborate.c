/* elaborate: the whole program from syntax to a typed module. Each entry of the program gets its own graph, from the
 * same model, over the same parameters. When one of them has errors the others are not tried: they would say the
 * same. */
#include "elaborate.h"
#include <string.h>

/* Which outputs an entry hands to the host: a training step gives its loss (differentiate adds it), an evaluation its
 * loss and metrics, sampling its logits. A model that is not trained is checked with everything it gives. */
static bool wanted(struct frame *f, const char *name, bool metric)
{
    struct module *m = f->e->m;
    switch (f->e->g->entry) {
    case ENTRY_TRAIN: return !m->train.present;
    case ENTRY_EVALUATE: return metric;
    default: return !metric && !strcmp(name, m->sample.output);
    }
}

static void output_node(struct frame *f, const char *name, struct value *v, bool metric, struct span span)
{
    struct node *n = node_new(f->e->g, f->e->g->root, &op_output, span);
    node_in(n, v);
    node_set_str(n, "name", name);
    node_set_int(n, "metric", metric);
    n->phase = v->ndim ? PHASE_FORWARD : PHASE_UPDATE;
    if (!node_finish(f->e->g, n))
        BUG("an output node was refused");
}

static struct binding *scope_output(struct frame *f, const char *name)
{
    for (int i = 0; i < arrlen(f->outputs); i++)
        if (!strcmp(f->outputs[i].name, name))
            return &f->outputs[i];
    return NULL;
}

/* output x, output x = e, metric x = e: in the model's own body. */
void output_run(struct frame *f, struct ast *a)
{
    bool metric = a->kind == AST_METRIC;
    struct ast *name = metric ? a : ast_kid(a, 0), *what = metric ? ast_kid(a, 0) : ast_kid(a, 1);
    const char *word = metric ? "metric" : "output";
    if (f->caller || arrlen(f->levels)) {
        struct diag *d = diag_error(E_BLOCK_LINE, a->span,
                                    "%s stands in the body of the model, outside of its repeats", word);
        if (arrlen(f->levels))
            diag_label(d, arrlast(f->levels).ast->span, "this repeat");
        return;
    }
    struct value *v = expr_value(f, what ? what : name);
    struct graph *g = f->e->g;
    struct span span = name->name_span.file ? name->name_span : name->span;
    if (!strcmp(name->name, "loss") || !strcmp(name->name, "grad_norm")) {
        struct diag *d = diag_error(E_DUPLICATE, span, "every program has an output called '%s' already", name->name);
        diag_help(d, !strcmp(name->name, "loss") ? "what the model returns is its loss, measured in evaluation too; "
                  "give this %s another name" : "give this %s another name", word);
        return;
    }
    struct binding *old = scope_output(f, name->name);
    if (old) {
        diag_label(diag_error(E_DUPLICATE, span, "two outputs are called '%s'", name->name), old->span,
                   "the first one");
        return;
    }
    arrput(f->outputs, ((struct binding){.name = name->name, .span = span}));
    if (!v)
        return;
    if (metric && (v->ndim || !type_is_float(v->type))) {
        struct diag *d = diag_error(E_SHAPE, a->span, "a metric is one number, but this is %s", value_type_text(v,
                                                                                                                NULL));
        diag_help(d, "reduce it first, as in sum(x) / count(y)");
        return;
    }
    if (what)
        value_name(f->e, v, name->name, NAME_LOCAL);
    if (!wanted(f, name->name, metric))
        return;
    if (metric)
        arrput(g->metrics, ((typeof(*g->metrics)){name->name, v}));
    else
        arrput(g->outputs, ((typeof(*g->outputs)){name->name, v}));
}

/* Results leave behind everything that computes. */
static void output_nodes(struct frame *f)
{
    struct graph *g = f->e->g;
    for (int i = 0; i < arrlen(g->outputs); i++)
        output_node(f, g->outputs[i].name, g->outputs[i].value, false, g->outputs[i].value->span);
    for (int i = 0; i < arrlen(g->metrics); i++)
        output_node(f, g->metrics[i].name, g->metrics[i].value, true, g->metrics[i].value->span);
    if (g->loss && (g->entry == ENTRY_EVALUATE || !f->e->m->train.present))
        output_node(f, "loss", g->loss, false, f->return_span);
}

static void take_loss(struct frame *f, struct ast *model)
{
    struct graph *g = f->e->g;
    struct module *m = f->e->m;
    bool needed = (g->entry == ENTRY_TRAIN && m->train.present) || g->entry == ENTRY_EVALUATE;
    if (!f->returned) {
        if (needed) {
            struct diag *d = diag_error(E_RETURN, model->name_span, "the model returns no loss");
            diag_label(d, g->entry == ENTRY_TRAIN ? f->e->train->span : f->e->evaluate->span, "needed here");
            diag_help(d, "end its body with one number, as in `return sum(x) / count(y)`");
        }
        return;
    }
    if (f->result.kind == ITEM_POISON)
        return;
    if (f->result.kind != ITEM_VALUE) {
        diag_error(E_RETURN, f->return_span, "a model returns one loss, not %d values", (int)arrlen(f->result.items));
        return;
    }
    struct value *v = f->result.v;
    if (v->ndim || v->type != TYPE_F32) {
        struct diag *d = diag_error(E_RETURN, f->return_span, "the loss is %s, but it must be one f32 number",
                                    value_type_text(v, NULL));
        if (v->ndim)
            diag_help(d, "sum it and divide by a count: sum(x) / count(y)");
        else
            diag_help(d, "cast(x, f32) converts, best before it is summed");
        return;
    }
    if (g->entry == ENTRY_SAMPLE)
        return;
    g->loss = v;
    value_name(f->e, v, "loss", NAME_LOCAL);
}

/* ---- sampling needs the way to its logits only ---- */

static void need(struct node *n, bool *needed)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k])
            needed[n->in[k]->id] = true;
    for (int i = 0; n->body && i < arrlen(n->body->nodes); i++)
        need(n->body->nodes[i], needed);
    for (int i = 0; n->body && i < arrlen(n->body->results); i++)
        needed[n->body->results[i]->id] = true;
}

static void prune(struct graph *g)
{
    bool *needed = NEW_ARRAY(bool, arrlen(g->values) + 1);
    struct node **kept = NULL;
    for (int i = (int)arrlen(g->root->nodes) - 1; i >= 0; i--) {
        struct node *n = g->root->nodes[i];
        bool keep = n->op == &op_output;
        for (int k = 0; k < arrlen(n->out); k++)
            keep |= needed[n->out[k]->id];
        if (!keep)
            continue;
        need(n, needed);
        arrput(kept, n);
    }
    arrsetlen(g->root->nodes, 0);
    for (int i = (int)arrlen(kept) - 1; i >= 0; i--)
        arrput(g->root->nodes, kept[i]);
}

static void check_sample(struct elab *e)
{
    struct graph *g = e->g;
    struct ast *block = e->sample;
    if (!arrlen(g->outputs)) {
        struct diag *d = diag_error(E_UNKNOWN_NAME, block->span,
                                    "sample needs the logits, but the model has no output '%s'",
                                    e->m->sample.output);
        diag_label(d, e->m->model_span, "the model");
        diag_help(d, "add a line such as `output %s` before its return", e->m->sample.output);
        return;
    }
    struct value *v = g->outputs[0].value;
    if (v->ndim < 2 || !type_is_float(v->type)) {
        struct diag *d = diag_error(E_SHAPE, v->span, "sample draws from logits [N, T, V], but '%s' is %s",
                                    e->m->sample.output,
                                    value_type_text(v, NULL));
        diag_label(d, block->span, "needed here");
    }
    prune(g);
}

static bool is_unnamed(struct elab *e, const struct value *v)
{
    return v->def && v->path && !hmget(e->named, v->id) && v->def->op != &op_param && v->def->op != &op_input;
}

/* Two unnamed results of one op in one body would have one path, and random numbers go by path. What the user has named
 * keeps its name: an input `sum` beside a call of sum. */
static void tell_apart(struct elab *e)
{
    struct { const char *key; int value; } *count = NULL, *seen = NULL;
    for (int i = 0; i < arrlen(e->g->values); i++) {
        struct value *v = e->g->values[i];
        if (v->path)
            shput(count, v->path, shget(count, v->path) + (is_unnamed(e, v) ? 1 : 2));
    }
    for (int i = 0; i < arrlen(e->g->values); i++) {
        struct value *v = e->g->values[i];
        if (!v->path || !is_unnamed(e, v) || shget(count, v->path) < 2)
            continue;
        const char *path = v->path;
        shput(seen, path, shget(seen, path) + 1);
        v->path = mem_printf("%s@%d", path, shget(seen, path));
    }
}

static void build_entry(struct elab *e, struct decl *model, enum entry entry)
{
    e->g = e->m->graph[entry] = graph_new(e->m, entry);
    e->named = NULL;
    e->scales = NULL;
    e->updates = NULL;
    e->inputs = NULL;
    e->labels = NULL;
    e->label_spans = NULL;
    e->calls = 0;
    struct instance *root = NEW(struct instance);
    root->label = model->name;
    root->path = "";
    root->home = e->g->root;
    root->span = model->ast->name_span;
    struct frame f = {.e = e, .decl = model, .body = ast_kid(model->ast, 1), .inst = root, .at = e->g->root};
    body_count(root, f.body);
    model_inputs(&f, ast_kid(model->ast, 0));
    body_run(&f, f.body);
    take_loss(&f, model->ast);
    output_nodes(&f);
    tell_apart(e);
    if (entry == ENTRY_SAMPLE && !diag_errors())
        check_sample(e);
}

void elaborate(struct module *m)
{
    struct elab e = {.m = m};
    names_collect(&e);
    names_settle(&e);
    for (int i = 0; i < arrlen(e.decls); i++)
        e.poisoned |= e.decls[i]->state == DECL_BAD;
    user_ops_settle(&e);
    plans_collect(&e);
    train_collect(&e);
    struct decl *model = e.model ? names_find(&e, e.model->name) : NULL;
    if (!model) {
        if (!e.import_failed)            /* which may have had it */
            diag_help(diag_error(E_UNKNOWN_NAME, (struct span){0}, "the program has no model"),
                      "write `model NAME(inputs) { .. return loss }`");
        return;
    }
    m->model = model->name;
    m->model_span = model->ast->name_span;
    int before = diag_errors();
    bool present[ENTRIES] = {
        [ENTRY_TRAIN] = e.train || (!e.evaluate && !e.sample),
        [ENTRY_EVALUATE] = e.evaluate,
        [ENTRY_SAMPLE] = e.sample,
    };
    for (int k = 0; k < ENTRIES && diag_errors() == before; k++)
        if (present[k])
            build_entry(&e, model, (enum entry)k);
    if (diag_errors() != before || e.poisoned)
        return;
    struct value **inputs = e.inputs;
    if (present[ENTRY_TRAIN] || present[ENTRY_EVALUATE])
        data_check(&e);
    e.inputs = inputs;
    files_collect(&e);
    patterns_check(&e);
    if (diag_errors() == before)
        repeats_cut(&e);
    params_rules(&e);
}
