/* Data blocks: which reader fills which input of the model. */
#include "elaborate.h"
#include <string.h>

#define READER(id, name, gives, after, elements) {#name, gives, elements},
static const struct { const char *name; int gives; const char *elements; } readers[] = {FL_READERS(READER)};
#undef READER
#define ELEMENT(id, name, bytes) #name,
static const char *const elements[] = {FL_ELEMENTS(ELEMENT)};
#undef ELEMENT
enum { READERS = sizeof readers / sizeof *readers, ELEMENTS = sizeof elements / sizeof *elements };

const char *reader_name(enum fl_reader r)
{
    return readers[r].name;
}

const char *element_name(enum fl_element e)
{
    return elements[e];
}

/* Is the word in a list of words with blanks between them? */
bool word_among(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (const char *p = list; p && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

static bool names_file(const struct ast *a)
{
    return a->kind == AST_STRING || (a->kind == AST_LIST && ast_count(a) && a->kids[0]->kind == AST_STRING);
}

static bool has_reader(struct ast *a)
{
    if (a->kind == AST_CALL)
        for (int i = 1; i < ast_count(a); i++)
            if (names_file(a->kids[i]))
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

/* "f" or ["f", "g"] */
static bool strings_of(struct ast *a, const char *what, const char ***to)
{
    bool list = a->kind == AST_LIST;
    for (int i = 0; i < (list ? ast_count(a) : 1); i++) {
        const struct ast *s = list ? a->kids[i] : a;
        if (s->kind != AST_STRING) {
            diag_help(diag_error(E_ARGUMENTS, s->span, "the name of %s is a text in quotes", what),
                      "write \"data.bin\", or several in brackets: [\"a.bin\", \"b.bin\"]");
            return false;
        }
        arrput(*to, s->name);
    }
    if (!arrlen(*to))
        diag_error(E_ARGUMENTS, a->span, "%s names no file", what);
    return arrlen(*to) > 0;
}

static bool one_each(const struct data_binding *b, struct ast *a, const char *what, int64_t count)
{
    if (count == arrlen(b->files))
        return true;
    diag_error(E_ARGUMENTS, a->span, "%lld %s for %lld file%s", (long long)count, what, (long long)arrlen(b->files),
               arrlen(b->files) == 1 ? "" : "s");
    return false;
}

static void read_weights(struct frame *f, struct data_binding *b, struct ast *a)
{
    if (a->kind != AST_LIST) {
        diag_help(diag_error(E_ARGUMENTS, a->span, "weights are a list of numbers, one for each file"),
                  "write weights = [3, 1]");
        return;
    }
    b->weighted = one_each(b, a, "weights", ast_count(a));
    for (int i = 0; i < ast_count(a) && b->weighted; i++)
        if (const_eval(f, a->kids[i], &b->files[i].weight) && !(b->files[i].weight > 0 && b->files[i].weight < INFINITY)) {
            diag_help(diag_error(E_BLOCK_LINE, a->kids[i]->span, "a weight of %s", const_text(b->files[i].weight)),
                      "a file that is not to be read is left out of the list");
            b->files[i].weight = 1;
        }
}

static void read_share(struct frame *f, struct data_binding *b, struct ast *a, bool first)
{
    double v;
    if (!const_eval(f, a, &v))
        return;
    if (!(v > 0 && v <= 1))
        diag_error(E_BLOCK_LINE, a->span, "a part of %s; it is more than 0 and at most 1", const_text(v));
    else if (b->low > 0 || b->high < 1)
        diag_error(E_BLOCK_LINE, a->span, "`first` and `last` both say which part is read");
    else
        *(first ? &b->high : &b->low) = first ? v : 1 - v;
}

/* What a keyword says; `ignore` and `mask` make no sense without targets. */
static void read_option(struct frame *f, struct data_binding *b, struct ast *k)
{
    static const char *const of_tokens[] = {"shuffle", "first", "last", "weights", "mask", "ignore", NULL};
    static const char *const of_raw[] = {"shuffle", "first", "last", "weights", NULL};
    struct ast *value = ast_kid(k, 0);
    if (!settings_word(k, readers[b->reader].name, b->reader == FL_READER_NEXT_TOKEN ? of_tokens : of_raw))
        return;
    if (!strcmp(k->name, "shuffle")) {
        b->shuffle = value->kind == AST_NAME && !strcmp(value->name, "true");
        if (!b->shuffle && !(value->kind == AST_NAME && !strcmp(value->name, "false")))
            diag_error(E_BLOCK_LINE, value->span, "shuffle is true or false");
    } else if (!strcmp(k->name, "weights")) {
        read_weights(f, b, value);
    } else if (!strcmp(k->name, "mask")) {
        const char **masks = NULL;
        b->blank_span = k->span;
        if (strings_of(value, "a mask", &masks) && one_each(b, value, "masks", arrlen(masks)))
            for (int i = 0; i < arrlen(masks); i++)
                b->files[i].mask = masks[i];
    } else if (!strcmp(k->name, "ignore")) {
        b->blank_span = k->span;
        b->has_blank = const_int(f, value, 0, "the token to ignore", &b->blank);
    } else {
        read_share(f, b, value, !strcmp(k->name, "first"));
    }
}

static bool find_reader(struct ast *name, enum fl_reader *to)
{
    const char **near = NULL, *all = "";
    for (int i = 0; i < READERS; i++) {
        if (!strcmp(readers[i].name, name->name)) {
            *to = (enum fl_reader)i;
            return true;
        }
        arrput(near, readers[i].name);
        all = mem_printf("%s%s%s", all, !i ? "" : i + 1 < READERS ? ", " : " and ", readers[i].name);
    }
    const char *best = suggest(name->name, near);
    struct diag *d = diag_error(E_UNKNOWN_NAME, name->span, "no reader is called '%s'", name->name);
    if (best)
        diag_help(d, "did you mean '%s'?", best);
    else
        diag_help(d, "the readers are %s", all);
    return false;
}

static bool find_element(struct ast *a, struct data_binding *b)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (!strcmp(elements[i], a->name) && word_among(a->name, readers[b->reader].elements)) {
            b->element = (enum fl_element)i;
            return true;
        }
    const char *list = "", *near = type_near(a->name);
    if (near && word_among(near, readers[b->reader].elements)) {
        diag_help(diag_error(E_TYPE, a->span, "%s cannot read %s", readers[b->reader].name, a->name), "did you mean '%s'?", near);
        return false;
    }
    for (const char *p = readers[b->reader].elements; *p;) {
        int n = (int)strcspn(p, " ");
        list = mem_printf("%s%s%.*s", list, p == readers[b->reader].elements ? "" : p[n] ? ", " : " or ", n, p);
        p += n + (p[n] == ' ');
    }
    diag_help(diag_error(E_TYPE, a->span, "%s cannot read %s", readers[b->reader].name, a->name), "%s files hold %s",
              b->reader == FL_READER_NEXT_TOKEN ? "token" : "raw", list);
    return false;
}

static void read_binding(struct frame *f, struct ast *a, struct data_binding **to)
{
    struct data_binding b = {.span = a->span, .scale = 1, .high = 1};
    struct ast *names = ast_kid(a, 0), *call = reader_call(f, ast_kid(a, 1), &b);
    if (!call || !find_reader(call->kids[0], &b.reader))
        return;
    const char *reader = readers[b.reader].name, **files = NULL;
    bool tokens = b.reader == FL_READER_NEXT_TOKEN;
    struct ast *file = ast_kid(call, 1), *type = ast_kid(call, 2);
    if (ast_count(call) < 3 || !names_file(file) || type->kind != AST_NAME ||
        (ast_count(call) > 3 && call->kids[3]->kind != AST_KEYWORD)) {
        diag_help(diag_error(E_ARGUMENTS, call->span, "%s takes a file and a type", reader), "write %s(\"file\", %s)", reader,
                  tokens ? "u16" : "f32");
        return;
    }
    if (!strings_of(file, "a data file", &files) || !find_element(type, &b))
        return;
    if (ast_count(names) != readers[b.reader].gives) {
        struct diag *d = diag_error(E_ARGUMENTS, names->span, "%s gives %s", reader,
                                    tokens ? "two tensors: the tokens and the targets" : "one tensor");
        if (!tokens)
            diag_help(d, "write a line for each input");
        else if (ast_count(names) == 1)
            diag_help(d, "name both inputs: `%s, targets = %s`", names->kids[0]->name, span_text(call->span));
        return;
    }
    if (tokens && (b.scale != 1 || b.shift != 0)) {
        diag_error(E_TYPE, a->span, "tokens are numbers of words; arithmetic on them has no meaning");
        return;
    }
    for (int i = 0; i < arrlen(files); i++)
        arrput(b.files, ((struct data_file){files[i], NULL, 1}));
    for (int i = 3; i < ast_count(call); i++) {
        struct ast *k = call->kids[i];
        if (k->kind != AST_KEYWORD)
            diag_error(E_ARGUMENTS, k->span, "%s takes no further argument without a name", reader);
        else
            read_option(f, &b, k);
        for (int j = 3; j < i; j++)
            if (k->name && call->kids[j]->name && !strcmp(k->name, call->kids[j]->name))
                diag_label(diag_error(E_DUPLICATE, k->span, "'%s' is given twice", k->name), call->kids[j]->span, "first here");
    }
    for (int i = 0; i < ast_count(names); i++)
        b.inputs[b.ninput++] = names->kids[i]->name;
    arrput(*to, b);
}

void data_read(struct frame *f, struct ast *data, struct data_binding **to)
{
    int before = diag_errors();
    for (int i = 0; i < ast_count(data); i++)
        read_binding(f, data->kids[i], to);
    f->e->data_failed |= diag_errors() != before;
}
