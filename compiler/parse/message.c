/* The words of a syntax error: what was expected, in few alternatives, what was found, and advice for common slips. */
#include "scan.h"
#include "base/diag.h"
#include "flow.tab.h"
#include <string.h>

static bool has(const char **names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

static const char *const operators[] = {"+", "-", "*", "/", "@", "<", "<=", ">", ">=", "==", "!=", "and", "or", ".", NULL};
static const char *const starts[] = {"a name", "a number", "a string", "(", "[", "-", "not", "layout {", NULL};

/* The alternatives as a phrase. A group that always comes together is one alternative. */
static const char *expected_phrase(const char **names, int n, bool in_brackets)
{
    const char **said = NULL;
    bool statement = true;
    if (has(names, n, "layer"))
        arrput(said, "a declaration (dim, const, layer, model, plan, train, ..)");
    else if (has(names, n, "param"))
        arrput(said, "a statement");
    else if (has(names, n, "sbp"))
        arrput(said, "a plan line (mesh, sbp, microbatches, pipeline, ..)");
    else if (has(names, n, "frozen"))
        arrput(said, "a line of train (data, steps, optimizer, clip_norm, ..)");
    else if (has(names, n, "hosts"))
        arrput(said, "'hosts' or 'link'");
    else
        statement = false;
    bool expression = has(names, n, "a name") && has(names, n, "a number") && has(names, n, "-");
    bool operand_read = !expression && has(names, n, "+") && has(names, n, "*");
    if (expression && !statement)
        arrput(said, has(names, n, "a string") ? "an expression" : "a size");
    for (int i = 0; i < n && !statement; i++) {
        if ((expression && is_one_of(names[i], starts)) || (operand_read && is_one_of(names[i], operators)))
            continue;
        if (operand_read && in_brackets && strcmp(names[i], "=") == 0)      /* f(x = ..): rarely what is meant */
            continue;
        if (operand_read && (strcmp(names[i], "(") == 0 || strcmp(names[i], "[") == 0 || strcmp(names[i], ":") == 0))
            continue;
        if (!operand_read && strcmp(names[i], "/") == 0)        /* of a unit: GB/s */
            continue;
        if (strncmp(names[i], "a ", 2) == 0)
            arrput(said, names[i]);
        else if (strcmp(names[i], "end of the statement") == 0)
            arrput(said, "the end of the line");
        else
            arrput(said, mem_printf("'%s'", strcmp(names[i], "layout {") == 0 ? "{" : names[i]));
    }
    if (!arrlen(said) && operand_read)
        arrput(said, "an operator");
    if (!arrlen(said) || arrlen(said) > 5)
        return NULL;
    char *text = mem_strdup(said[0]);
    for (ptrdiff_t i = 1; i < arrlen(said); i++)
        text = mem_printf("%s%s%s", text, i + 1 < arrlen(said) ? ", " : " or ", said[i]);
    return text;
}

static const char *found_phrase(const struct scan *s, const struct token *t)
{
    if (t->kind == 0 || t->span.begin >= s->size)
        return "the end of the file";
    if (t->newline)
        return "the end of the line";
    if (t->kind == T_STRING)
        return "a string";
    int n = t->span.end - t->span.begin;
    return mem_printf("'%.*s%s'", n < 40 ? n : 40, s->text + t->span.begin, n < 40 ? "" : "..");
}

/* Words of other languages at the start of a statement, and what to write here. */
static const struct { const char *word, *advice; } foreign[] = {
    {"def",      "a layer is written 'layer Name(x: f32[N, D]) { .. }'"},
    {"fn",       "a layer is written 'layer Name(x: f32[N, D]) { .. }'"},
    {"func",     "a layer is written 'layer Name(x: f32[N, D]) { .. }'"},
    {"function", "a layer is written 'layer Name(x: f32[N, D]) { .. }'"},
    {"class",    "a layer is written 'layer Name(x: f32[N, D]) { .. }'"},
    {"let",      "a value is bound by 'name = ..'"},
    {"var",      "a value is bound by 'name = ..'"},
    {"for",      "a loop is written 'repeat L as i { .. }'"},
    {"while",    "a loop has a fixed count: 'repeat L as i { .. }'"},
    {"if",       "there is no control flow; where(condition, a, b) chooses by element"},
    {"else",     "there is no control flow; where(condition, a, b) chooses by element"},
    {"elif",     "there is no control flow; where(condition, a, b) chooses by element"},
    {"from",     "layers of another file are brought in by 'import \"file.flow\"'"},
    {"include",  "layers of another file are brought in by 'import \"file.flow\"'"},
    {"print",    "a value is handed out by 'output name'"},
};

static const char *foreign_advice(const struct token *head)
{
    for (size_t i = 0; head->text && i < sizeof foreign / sizeof *foreign; i++)
        if (strcmp(foreign[i].word, head->text) == 0)
            return foreign[i].advice;
    return NULL;
}

static const char **words_expected(const char **names, int n)
{
    const char **words = NULL;
    for (int i = 0; i < n; i++)
        if (names[i][0] >= 'a' && names[i][0] <= 'z' && !strchr(names[i], ' '))
            arrput(words, names[i]);
    return words;
}

static bool in_layout(const struct scan *s)
{
    for (ptrdiff_t i = arrlen(s->open) - 1; i >= 0 && s->open[i].block >= BLOCK_LAYOUT; i--)
        if (s->open[i].block == BLOCK_LAYOUT)
            return true;
    return false;
}

/* `parm w: ..`, `optimiser sgd {`: a name at the start of a statement that goes on as only a word's would, and is nearly
 * one. */
static const char *misspelt_head(const struct scan *s)
{
    const struct token *head = &s->head;
    const char *after = head->kind == T_NAME ? s->text + scan_skip_blanks(s, head->span.end) : "=";
    if (s->last.span.begin == head->span.begin || (after[0] == '=' && after[1] != '=') || strchr(",(.[", after[0]))
        return NULL;
    struct scan around = *s;             /* the brace at fault has opened its own block by now */
    if (arrlen(s->open) && arrlast(s->open).span.begin == s->last.span.begin) {
        around.open = NULL;
        for (ptrdiff_t i = 0; i + 1 < arrlen(s->open); i++)
            arrput(around.open, s->open[i]);
    }
    return suggest(head->text, words_at_start(scan_block(&around)));
}

/* How a line is written: said where nothing better is known. */
static const struct { int head; const char *form; } forms[] = {
    {T_IMPORT,       "import \"layers.flow\""},
    {T_DIM,          "dim N = 8, D = 16"},
    {T_CONST,        "const scale = 0.5"},
    {T_LAYER,        "layer Name(x: f32[N, D]) { .. }"},
    {T_MODEL,        "model Name(x: f32[N, D]) { .. }"},
    {T_PLAN,         "plan name { mesh m = [dp: 2] }"},
    {T_PARAM,        "param w: f32[D] = zeros"},
    {T_STATE,        "state mean: f32[D] = zeros"},
    {T_UPDATE,       "update mean = 0.9 * mean + 0.1 * m"},
    {T_REPEAT,       "repeat L as i { x = h[i]: Block(x) }"},
    {T_METRIC,       "metric accuracy = hits / count(y)"},
    {T_MESH,         "mesh m = [dp: 2, tp: 4]"},
    {T_MICROBATCHES, "microbatches 4 over N"},
    {T_PIPELINE,     "pipeline over pp { schedule = one_f_one_b; split h }"},
    {T_SBP,          "sbp h[*].up = {tp: S(F)}"},
    {T_PIN,          "pin h[*].up = {tp: S(F)}"},
    {T_PLACE,        "place head on m.pp[1]"},
    {T_SHARD,        "shard optimizer over dp"},
    {T_OFFLOAD,      "offload optimizer to host"},
    {T_BUCKETS,      "buckets 25 MiB"},
    {T_PREFETCH,     "prefetch 1"},
    {T_KEEP,         "keep after forward"},
    {T_RECOMPUTE,    "recompute h[*]"},
    {T_PRECISION,    "precision bf16 { grads f32 }"},
    {T_MEMORY,       "memory 16 GiB per rank"},
    {T_EXPECT,       "expect comm h[i] forward : all_reduce(tp) == 2"},
    {T_SPLIT,        "split h"},
    {T_OPTIMIZER,    "optimizer adamw { lr = 1e-3 }"},
    {T_FROZEN,       "frozen wte.weight, wpe.*"},
    {T_EVALUATE,     "evaluate every 100 { steps 10 }"},
    {T_HOSTS,        "hosts 2 x 8, 80 GiB"},
    {T_LINK,         "link inside 450 GB/s 3 us"},
};

static const char *form_of(int head)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].head == head)
            return forms[i].form;
    return NULL;
}

static bool in_plans(const char *word)
{
    const char **words = words_at_start(BLOCK_PLAN);
    for (int i = 0; i < arrlen(words); i++)
        if (!strcmp(word, words[i]))
            return true;
    return false;
}

static void advise(struct scan *s, struct diag *d, const char **names, int n)
{
    const struct token *t = &s->last, *head = &s->head;
    bool starts_statement = t->span.begin == head->span.begin;
    const char *word = NULL;
    if (starts_statement && t->kind == T_NAME && !has(names, n, "a name"))
        word = suggest(t->text, words_expected(names, n));
    bool in_brackets = arrlen(s->open) && arrlast(s->open).block == BLOCK_BRACKET;
    if (foreign_advice(head) && head->kind == T_NAME)
        diag_help(d, "%s", foreign_advice(head));
    else if (starts_statement && t->kind == T_NAME && scan_block(s) == BLOCK_TOP && in_plans(t->text))
        diag_help(d, "such a line stands in a plan: 'plan name { .. }'");
    else if (word)
        diag_help(d, "did you mean '%s'?", word);
    else if (t->kind == T_EQUALS && has(names, n, "="))
        diag_help(d, "'==' compares; to give a name its value write '='");
    else if (t->kind == T_COMMA && head->kind == T_EXPECT && has(names, n, "per"))
        diag_help(d, "no ',' stands after the pattern: 'expect comm h[i] forward : ..'");
    else if ((t->kind == T_COLON || t->kind == T_LPAREN) && has(names, n, "{"))
        diag_help(d, "a block stands in braces: '{ .. }'");
    else if (t->kind == T_END && t->newline && has(names, n, "{"))
        diag_help(d, "'%s' needs its block: '{ .. }'", head->text ? head->text : "this");
    else if (t->kind == T_COLON && has(names, n, "=") && head->kind == T_NAME)
        diag_help(d, "a parameter is declared by 'param %s: TYPE = ..'", head->text);
    else if (t->kind == T_END && has(names, n, "=") && (head->kind == T_PARAM || head->kind == T_STATE))
        diag_help(d, "a %s has a start value: '= zeros', '= normal(std = 0.02)'",
                  head->kind == T_PARAM ? "parameter" : "state");
    else if (t->kind >= T_LESS && t->kind <= T_NOT_EQUAL && has(names, n, "and"))
        diag_help(d, "comparisons do not chain: join two with 'and'");
    else if (t->kind == T_EQUAL && has(names, n, ":") && in_layout(s))
        diag_help(d, "a layout is written '{dp: S(N)}'");
    else if (has(names, n, ":") && head->kind == T_MESH)
        diag_help(d, "an axis is written 'dp: 2'");
    else if (has(names, n, "layout {") && !has(names, n, "a number"))
        diag_help(d, "a layout stands in braces: '{dp: S(N)}'");
    else if (has(names, n, "per") && head->kind == T_MEMORY)
        diag_help(d, "write 'memory 16 GiB per rank'");
    else if (has(names, n, "=") && !starts_statement && !in_brackets && t->kind != T_END)
        diag_help(d, "an '=' seems to be missing before %s", found_phrase(s, t));
    else if (starts_statement && (t->kind == T_PLUS || t->kind == T_MINUS || t->kind == T_TIMES || t->kind == T_DIVIDE ||
             t->kind == T_AT || t->kind == T_DOT))
        diag_help(d, "a line goes on only after an operator or a comma: end the line before with %s", found_phrase(s, t));
    else if (has(names, n, ")") && t->kind == T_COLON)
        diag_help(d, "an argument is named with '=': 'axis = 0'");
    else if (s->before.kind == T_NAME && foreign_advice(&s->before))
        diag_help(d, "%s", foreign_advice(&s->before));
    else if (s->before.kind == T_PATTERN && t->kind == T_COMMA)
        diag_help(d, "several paths stand in brackets: 'on [a, b]'");
    else if (t->kind == T_LPAREN && has(names, n, "["))
        diag_help(d, "the dims of a type stand in [ ]: 'f32[N, D]'");
    else if (has(names, n, ",") && (t->kind == T_NAME || t->kind == T_NUMBER) && !starts_statement && (in_brackets || head->kind == T_DIM || head->kind == T_EXPECT))
        diag_help(d, "a ',' seems to be missing before %s", found_phrase(s, t));
    else if (form_of(head->kind))
        diag_help(d, "such a line is written '%s'", form_of(head->kind));
}

void syntax_error(struct scan *s, const char **names, int n)
{
    s->recover = true;
    if (s->reported || s->done)
        return;
    s->reported = true;
    const struct token *t = &s->last;
    struct span at = t->span;
    if (t->kind == T_END && t->newline && s->before.kind)       /* point behind the last word, not at the line end */
        at = (struct span){at.file, s->before.span.end, s->before.span.end + 1};
    const char *meant = misspelt_head(s);
    if (meant && !foreign_advice(&s->head)) {
        struct diag *d = diag_error(E_SYNTAX, s->head.span, "'%s' starts no statement here", s->head.text);
        diag_help(d, "did you mean '%s'?", meant);
        return;
    }
    bool in_brackets = arrlen(s->open) && arrlast(s->open).block == BLOCK_BRACKET;
    const char *expected = expected_phrase(names, n, in_brackets);
    if (n == 1 && s->before.kind == T_NUMBER && has(names, n, "a name"))
        expected = "a unit";
    struct diag *d = expected ? diag_error(E_SYNTAX, at, "expected %s, found %s", expected, found_phrase(s, t))
                              : diag_error(E_SYNTAX, at, "unexpected %s", found_phrase(s, t));
    if (arrlen(s->open) && t->kind != T_LPAREN && t->kind != T_LBRACKET) {
        struct open *o = &arrlast(s->open);
        struct position a = source_position(s->file, o->span.begin), b = source_position(s->file, at.begin);
        if (o->block >= BLOCK_LAYOUT && a.line != b.line)
            diag_label(d, o->span, "still open");
    }
    advise(s, d, names, n);
}
