/* Data blocks: which reader fills which input of the model, and whether their types agree. */
#include "elaborate.h"
#include <string.h>

static bool has_reader(struct ast *a)
{
    if (a->kind == AST_CALL)
        for (int i = 1; i < ast_count(a); i++)
            if (a->kids[i]->kind == AST_STRING)
                return true;
    return a->kind == AST_BINARY && (has_reader(ast_kid(a, 0)) || has_reader(ast_kid(a, 1)));
}

/* raw("f", u8) / 255 - 1: a reader under arithmetic with numbers. */
static struct ast *reader_call(struct frame *f, struct ast *a, struct data_binding *b)
{
    if (a->kind == AST_CALL && ast_kid(a, 0)->kind == AST_NAME)
        return a;
    if (a->kind != AST_BINARY || strlen(a->name) != 1 || !strchr("+-*/", a->name[0])) {
        struct diag *d = diag_error(E_BLOCK_LINE, a->span, "data comes from a reader");
        diag_help(d, "write next_token(\"file\", u16) or raw(\"file\", u8), with + - * / and numbers around raw");
        return NULL;
    }
    bool left = has_reader(ast_kid(a, 0));
    struct ast *call = reader_call(f, ast_kid(a, !left), b);
    double v;
    if (!call || !const_eval(f, ast_kid(a, left), &v))
        return NULL;
    switch (a->name[0]) {
    case '+': b->shift += v; break;
    case '-':
        if (!left)
            b->scale = -b->scale, b->shift = -b->shift;
        b->shift += left ? -v : v;
        break;
    case '*': b->scale *= v, b->shift *= v; break;
    default:
        if (!left || v == 0) {
            diag_error(E_BLOCK_LINE, a->span, "data can be divided by a number that is not 0");
            return NULL;
        }
        b->scale /= v, b->shift /= v;
    }
    return call;
}

static void read_binding(struct frame *f, struct ast *a, struct data_binding **to)
{
    struct data_binding b = {.span = a->span, .scale = 1};
    struct ast *names = ast_kid(a, 0), *call = reader_call(f, ast_kid(a, 1), &b);
    if (!call)
        return;
    struct ast *file = ast_kid(call, 1), *type = ast_kid(call, 2);
    b.reader = call->kids[0]->name;
    bool tokens = !strcmp(b.reader, "next_token");
    if (!tokens && strcmp(b.reader, "raw")) {
        static const char *readers[] = {"next_token", "raw"};
        const char **near = NULL;
        arrput(near, readers[0]);
        arrput(near, readers[1]);
        const char *best = suggest(b.reader, near);
        struct diag *d = diag_error(E_UNKNOWN_NAME, call->kids[0]->span, "no reader is called '%s'", b.reader);
        diag_help(d, best ? "did you mean '%s'?" : "the readers are next_token and raw%s", best ? best : "");
        return;
    }
    enum type t;
    if (ast_count(call) != 3 || file->kind != AST_STRING || type->kind != AST_NAME) {
        diag_help(diag_error(E_ARGUMENTS, call->span, "%s takes a file and a type", b.reader), "write %s(\"file\", %s)",
                  b.reader, tokens ? "u16" : "f32");
        return;
    }
    bool known = !strcmp(type->name, "u16") || !strcmp(type->name, "u32");
    if (!tokens)
        known |= type_find(type->name, &t) && (t == TYPE_F32 || t == TYPE_I32 || t == TYPE_U8);
    if (!known) {
        diag_help(diag_error(E_TYPE, type->span, "%s cannot read %s", b.reader, type->name), tokens ?
                  "token files hold u16 or u32" : "raw files hold u8, u16, u32, i32 or f32");
        return;
    }
    if (ast_count(names) != (tokens ? 2 : 1)) {
        diag_error(E_ARGUMENTS, names->span, "%s gives %s", b.reader,
                   tokens ? "two tensors: the tokens and the targets" :
                   "one tensor");
        return;
    }
    if (tokens && (b.scale != 1 || b.shift != 0)) {
        diag_error(E_TYPE, a->span, "tokens are numbers of words; arithmetic on them has no meaning");
        return;
    }
    b.file = file->name;
    b.element = type->name;
    for (int i = 0; i < ast_count(names); i++)
        b.inputs[b.ninput++] = names->kids[i]->name;
    arrput(*to, b);
}

void data_read(struct frame *f, struct ast *data, struct data_binding **to)
{
    for (int i = 0; i < ast_count(data); i++)
        read_binding(f, data->kids[i], to);
}

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
    if (fits && strstr(fits, b->element))
        return;
    struct diag *d = diag_error(E_TYPE, b->span, "a file of %s cannot fill '%s', which is %s", b->element, x->path,
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
    bool tokens = !strcmp(b->reader, "next_token");
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
    if (!tokens)
        check_element(b, x);
    if (!tokens && (x->type == TYPE_I32 || x->type == TYPE_U8) && (b->scale != 1 || b->shift != 0)) {
        struct diag *d = diag_error(E_TYPE, b->span, "arithmetic gives fractions, but '%s' is %s", x->path,
                                    value_type_text(x, NULL));
        diag_label(d, x->span, "declared here");
    }
}

static void check_bindings(struct elab *e, struct data_binding *data, struct span block)
{
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
                if (best)
                    diag_help(d, "did you mean '%s'?", best);
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
    for (int j = 0; j < arrlen(e->inputs); j++) {
        bool bound = false;
        for (int i = 0; i < arrlen(data); i++)
            for (int k = 0; k < data[i].ninput; k++)
                bound |= !strcmp(data[i].inputs[k], e->inputs[j]->path);
        if (!bound) {
            struct diag *d = diag_error(E_BLOCK_LINE, block, "input '%s' gets no data", e->inputs[j]->path);
            diag_label(d, e->inputs[j]->span, "declared here");
            diag_help(d, "add a line to its data block, such as tokens, targets = next_token(\"input.bin\", u16)");
        }
    }
}

void data_check(struct elab *e)
{
    struct module *m = e->m;
    if (m->train.present) {
        check_bindings(e, m->train.data, e->train->span);
        data_ranges(m->graph[ENTRY_TRAIN], m->train.data);
    }
    if (m->evaluate.present) {
        check_bindings(e, m->evaluate.data, e->evaluate->span);
        data_ranges(m->graph[ENTRY_EVALUATE], m->evaluate.data);
    }
}
