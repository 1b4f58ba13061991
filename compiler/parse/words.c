/* Which names are words: by words.def, the block they stand in, and what stands around them. */
#include "scan.h"
#include "flow.tab.h"
#include <ctype.h>
#include <string.h>

#define IN_TOP      IN(TOP)
#define IN_BODY     IN(BODY)
#define IN_PLAN     IN(PLAN)
#define IN_PIPELINE IN(PIPELINE)
#define IN_TRAIN    IN(TRAIN)
#define IN_EVALUATE IN(EVALUATE)
#define IN_FILES    IN(FILES)
#define IN_CLUSTER  IN(CLUSTER)

static const struct word { int token; const char *text; unsigned blocks; enum block opens; } words[] = {
#define WORD(token, text, blocks, opens) {T_##token, text, blocks, BLOCK_##opens},
#include "../../grammar/words.def"
};

static const struct word midwords[] = {
#define MIDWORD(token, text) {T_##token, text, 0, BLOCK_NONE},
#include "../../grammar/words.def"
};

static bool starts_plan_line(const struct word *w)
{
    return w->blocks & IN_PLAN;
}

const char *plan_words(void)
{
    const char *text = "";
    int last = -1;
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        last = starts_plan_line(&words[i]) ? i : last;
    for (int i = 0; i <= last; i++)
        if (starts_plan_line(&words[i]))
            text = mem_printf("%s%s%s", text, !*text ? "" : i < last ? ", " : " and ", words[i].text);
    return text;
}

const char **words_at_start(enum block block)
{
    const char **list = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].blocks & (1u << block))
            arrput(list, words[i].text);
    return list;
}

/* ---- where we are ---- */

enum block scan_block(const struct scan *s)
{
    for (ptrdiff_t i = arrlen(s->open) - 1; i >= 0; i--)
        if (s->open[i].block < BLOCK_LAYOUT)
            return s->open[i].block;
    return BLOCK_TOP;
}

bool scan_in_brackets(const struct scan *s)
{
    return arrlen(s->open) && arrlast(s->open).block >= BLOCK_LAYOUT;
}

bool scan_at_start(const struct scan *s)              /* of a statement */
{
    return s->last.kind == 0 || s->last.kind == T_END || s->last.kind == T_LBRACE;
}

/* ---- looking ahead in the text ---- */

int scan_skip_blanks(const struct scan *s, int at)
{
    while (at < s->size && (s->text[at] == ' ' || s->text[at] == '\t'))
        at++;
    return at;
}

char scan_char_after(const struct scan *s, const struct token *t)
{
    return s->text[scan_skip_blanks(s, t->span.end)];
}

static bool binds_after(const struct scan *s, const struct token *t)    /* `word =`, `word, ..`: a name */
{
    const char *p = s->text + scan_skip_blanks(s, t->span.end);
    return (p[0] == '=' && p[1] != '=') || p[0] == ',';
}

bool scan_name_after(const struct scan *s, const struct token *t)
{
    char c = scan_char_after(s, t);
    return isalpha((unsigned char)c) || c == '_';
}

/* ---- words ---- */

static bool ends_operand(int kind)
{
    return kind == T_NAME || kind == T_NUMBER || kind == T_STRING || kind == T_PATTERN || kind == T_RPAREN ||
           kind == T_RBRACKET || kind == T_RBRACE;
}

static bool has_settings(enum block b)
{
    return b == BLOCK_SETTINGS || b == BLOCK_TRAIN || b == BLOCK_EVALUATE || b == BLOCK_PIPELINE || b == BLOCK_CLUSTER;
}

/* A word at the start of a statement, or a word in its middle, or a name. */
void scan_classify(struct scan *s, struct token *t)
{
    enum block block = scan_block(s);
    if (scan_at_start(s) && !scan_in_brackets(s)) {
        if (block == BLOCK_BODY && binds_after(s, t))
            return;
        if (t->kind == T_PATTERN && scan_char_after(s, t) != '"' && !scan_name_after(s, t))
            return;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (words[i].blocks & (1u << block) && strcmp(words[i].text, t->text) == 0) {
                t->kind = words[i].token;
                s->opens = words[i].opens;
                return;
            }
        return;
    }
    if (t->kind != T_NAME)
        return;
    if (strcmp(t->text, "dim") == 0 && block == BLOCK_TOP && arrlen(s->open) == 1 && scan_name_after(s, t)) {
        t->kind = T_DIM;
        return;
    }
    bool heads_setting = s->last.kind == T_NAME && s->last.span.begin == s->head.span.begin && has_settings(block);
    if ((ends_operand(s->last.kind) && !heads_setting) || s->last.kind == T_PIPELINE ||
        s->last.kind == T_EVALUATE || s->last.kind == T_EXPECT || s->last.kind == T_UNEVEN)
        for (size_t i = 0; i < sizeof midwords / sizeof *midwords; i++)
            if (strcmp(midwords[i].text, t->text) == 0)
                t->kind = midwords[i].token;
}

