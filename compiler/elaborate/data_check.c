/* Every input of the model gets its data once, of a type and shape that its reader gives. */
#include "elaborate.h"
#include <string.h>

static struct value *input_named(struct elab *e, const char *name)
{
    for (int i = 0; i < arrlen(e->inputs); i++)
        if (!strcmp(e->inputs[i]->path, name))
            return e->inputs[i];
    return NULL;
}

/* Which elements of a file fill a tensor of the type with no loss. */
static const char *readable(enum type t)
{
    switch (t) {
    case TYPE_F32: return "f32 u16 u8";
    case TYPE_I32: return "i32 u32 u16 u8";
    case TYPE_U8: case TYPE_BOOL: return "u8";
    default: return NULL;
    }
}

static void check_element(const struct data_binding *b, const struct value *x)
{
    const char *fits = readable(x->type);
    if (fits && word_among(element_name(b->element), fits))
        return;
    struct diag *d = diag_error(E_TYPE, b->span, "a file of %s cannot fill '%s', which is %s", element_name(b->element),
                                x->path,
                                value_type_text(x, NULL));
    diag_label(d, x->span, "declared here");
    if (fits)
        diag_help(d, "elements that fill %s: %s; nothing is rounded or cut off on the way", type_name[x->type], fits);
    else
        diag_help(d, "declare '%s' as f32; `precision` in a plan says what is computed in %s", x->path,
                  type_name[x->type]);
}

static void binding_type(const struct data_binding *b, const struct value *x, const struct value *y)
{
    bool tokens = b->reader == FL_READER_NEXT_TOKEN;
    if (tokens && (x->type != TYPE_I32 || x->ndim != 2)) {
        struct diag *d = diag_error(E_TYPE, b->span, "next_token gives i32[N, T], but '%s' is %s", x->path,
                                    value_type_text(x, NULL));
        diag_label(d, x->span, "declared here");
    }
    if (y && (x->ndim != y->ndim || x->type != y->type || (x->ndim == 2 && (!dim_same(x->dim[0], y->dim[0]) ||
                                                                             !dim_same(x->dim[1], y->dim[1]))))) {
        struct diag *d = diag_error(E_SHAPE, b->span,
                                    "next_token gives two tensors of one type, but '%s' is %s and '%s' is %s",
                                    x->path, value_type_text(x, NULL), y->path, value_type_text(y, NULL));
        diag_label(d, x->span, "declared here");
        diag_label(d, y->span, "and here");
    }
    if (y && (b->has_blank || b->files[0].mask) && !y->has_ignore) {
        struct diag *d = diag_error(E_TYPE, b->blank_span, "targets that are left out need an ignore value");
        diag_label(d, y->span, "'%s' has none", y->path);
        diag_help(d, "declare it as `%s: i32[..] ignore -100`", y->path);
    }
    if (!tokens)
        check_element(b, x);
    if (!tokens && (x->type == TYPE_I32 || x->type == TYPE_U8) && (b->scale != 1 || b->shift != 0)) {
        struct diag *d = diag_error(E_TYPE, b->span, "arithmetic gives fractions, but '%s' is %s", x->path,
                                    value_type_text(x, NULL));
        diag_label(d, x->span, "declared here");
    }
}

/* The data block of train or evaluate, or the whole block where there is none. */
static struct span data_place(const struct ast *block)
{
    for (int i = 0; i < ast_count(block); i++)
        if (block->kids[i] && block->kids[i]->kind == AST_DATA)
            return block->kids[i]->span;
    return block->span;
}

/* The line that a user would write for these inputs. */
static const char *line_for(struct value **inputs)
{
    const struct value *x = inputs[0];
    if (x->type == TYPE_I32 && x->ndim == 2)
        return arrlen(inputs) == 2 ? mem_printf("%s, %s = next_token(\"input.bin\", u16)", x->path, inputs[1]->path)
                                   : "tokens, targets = next_token(\"input.bin\", u16)";
    const char *type = x->type == TYPE_I32 ? "i32" : x->type == TYPE_F32 ? "f32" : "u8";
    return mem_printf("%s = raw(\"%s.bin\", %s)", x->path, x->path, type);
}

/* One message for all of them. */
static void check_bound(struct elab *e, struct data_binding *data, const struct ast *block)
{
    struct value **without = NULL;
    for (int j = 0; j < arrlen(e->inputs); j++) {
        bool bound = false;
        for (int i = 0; i < arrlen(data); i++)
            for (int k = 0; k < data[i].ninput; k++)
                bound |= !strcmp(data[i].inputs[k], e->inputs[j]->path);
        if (!bound)
            arrput(without, e->inputs[j]);
    }
    int n = (int)arrlen(without);
    if (!n)
        return;
    const char *all = "";
    for (int i = 0; i < n; i++)
        all = mem_printf("%s%s'%s'", all, !i ? "" : i + 1 < n ? ", " : " and ", without[i]->path);
    struct diag *d = diag_error(E_BLOCK_LINE, data_place(block), "input%s %s get%s no data", n == 1 ? "" : "s", all, n == 1 ? "s" : "");
    diag_label(d, without[0]->span, "declared here");
    diag_help(d, "add a line to its data block, such as %s", line_for(without));
}

static void check_bindings(struct elab *e, struct data_binding *data, const struct ast *block)
{
    bool unknown = false;
    const char *all = "";
    for (int j = 0; j < arrlen(e->inputs); j++)
        all = mem_printf("%s%s%s", all, j ? ", " : "", e->inputs[j]->path);
    for (int i = 0; i < arrlen(data); i++) {
        struct value *v[2] = {NULL, NULL};
        for (int k = 0; k < data[i].ninput; k++) {
            v[k] = input_named(e, data[i].inputs[k]);
            const char **near = NULL;
            for (int j = 0; j < arrlen(e->inputs); j++)
                arrput(near, e->inputs[j]->path);
            const char *best = suggest(data[i].inputs[k], near);
            if (!v[k]) {
                struct diag *d = diag_error(E_UNKNOWN_NAME, data[i].span, "the model has no input '%s'",
                                            data[i].inputs[k]);
                unknown = true;
                diag_label(d, e->m->model_span, "the model");
                if (best)
                    diag_help(d, "did you mean '%s'?", best);
                else
                    diag_help(d, "its inputs are %s", all);
            }
            for (int j = 0; j < i; j++)
                for (int q = 0; q < data[j].ninput; q++)
                    if (!strcmp(data[j].inputs[q], data[i].inputs[k]))
                        diag_label(diag_error(E_DUPLICATE, data[i].span, "input '%s' gets its data twice",
                                              data[i].inputs[k]),
                                   data[j].span, "first here");
        }
        if (v[0] && (v[1] || data[i].ninput == 1))
            binding_type(&data[i], v[0], v[1]);
    }
    if (!e->data_failed && !unknown)
        check_bound(e, data, block);
}

void data_check(struct elab *e)
{
    struct module *m = e->m;
    if (m->train.present) {
        check_bindings(e, m->train.data, e->train);
        data_ranges(m->graph[ENTRY_TRAIN], m->train.data);
    }
    if (m->evaluate.present) {
        check_bindings(e, m->evaluate.data, e->evaluate);
        data_ranges(m->graph[ENTRY_EVALUATE], m->evaluate.data);
    }
}
