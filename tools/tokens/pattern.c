/* Patterns of tokenizers are written for Oniguruma with Ruby's syntax; this spells them for PCRE2. What means the same stays;
 * what means something else is spelled out, and what cannot be is refused by its name, so that no pattern cuts otherwise than
 * the reference does. ^ and $ are those of lines: the caller compiles with PCRE2_MULTILINE.
 *
 * A class matches one character, so what PCRE2 lacks is made of looking ahead: [a[bc]] is (?:[a]|[bc]), [a&&b] is
 * (?:(?=[a])[b]), and where such stand in [^..], what is in none of them. */
#include "bpe.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* White space is that of Unicode: PCRE2 counts U+180E as such. These end in ranges: a '-' behind them is itself. */
#define BLANKS "\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{9}-\\x{D}\\x{2000}-\\x{200A}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define LONE_WORD WORD "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"          /* Oniguruma's \w outside of a class has these too */
#define HEX "0-9a-fA-F"

struct reading { const char *whole, *at; };
struct text { char *at; size_t n; };
#define NO_PLACE SIZE_MAX

static void put(struct text *t, const char *words, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *words, ...)
{
    va_list args, again;
    va_start(args, words);
    va_copy(again, args);
    int more = vsnprintf(NULL, 0, words, again);
    va_end(again);
    t->at = tokens_grow(t->at, t->n + (size_t)more + 1);
    vsnprintf(t->at + t->n, (size_t)more + 1, words, args);
    t->n += (size_t)more;
    va_end(args);
}

#define refuse(r, what, ...) tokens_fail("the pattern '%s' has " what "; flow-tokens does not know it", (r)->whole, __VA_ARGS__)

static bool compiles(const char *pattern)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
    pcre2_code_free(code);
    return code != NULL;
}

/* At 'p' or 'P': \p{Han} is the script here; PCRE2 means all characters that texts in it may have. */
static void property(struct reading *r, struct text *to)
{
    const char *end = r->at[1] == '{' ? strchr(r->at, '}') : NULL;
    char name[64], script[96];
    if (!end || end - r->at > 40)
        refuse(r, "\\%c without a name in braces", *r->at);
    bool not = r->at[2] == '^';
    snprintf(name, sizeof name, "%.*s", (int)(end - r->at) - 2 - not, r->at + 2 + not);
    snprintf(script, sizeof script, "\\p{sc:%s}", name);
    put(to, "\\%c{%s%s}", not == (*r->at == 'P') ? 'p' : 'P', compiles(script) ? "sc:" : "", name);
    r->at = end + 1;
}

/* What a letter behind '\' stands for, as the inside of a class; upper: all the others. */
static const char *set_of(char letter)
{
    switch (letter | 32) {
    case 's': return BLANKS;
    case 'w': return WORD;
    case 'h': return HEX;
    case 'd': return "\\p{Nd}";
    }
    return NULL;
}

/* A character that is written with '\', at what is behind it. */
static void character(struct reading *r, struct text *to)
{
    unsigned code;
    int n = 0;
    char c = *r->at;
    if (c == 'x' && r->at[1] == '{') {
        const char *end = strchr(r->at, '}');
        if (!end)
            refuse(r, "an open \\x%s", "{");
        put(to, "\\%.*s", (int)(end - r->at) + 1, r->at);
        r->at = end + 1;
    } else if (c == 'x' && sscanf(r->at + 1, "%2x%n", &code, &n) == 1 && n == 2 && code < 0x80) {
        put(to, "\\x{%x}", code);
        r->at += 3;
    } else if (c == 'u' && sscanf(r->at + 1, "%4x%n", &code, &n) == 1 && n == 4) {
        put(to, "\\x{%x}", code);
        r->at += 5;
    } else if (c == 'v') {
        put(to, "\\x{b}");
        r->at++;
    } else if (c && (strchr("nrtfae", c) || (unsigned char)c >= 0x80 || strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ", c))) {
        put(to, "%s%c", (unsigned char)c >= 0x80 ? "" : "\\", c);
        r->at++;
    } else {
        refuse(r, "\\%c", c ? c : ' ');
    }
}

/* What has been read of a class since its '[' or the last &&: single characters, as [..] holds them, and sets, each behind '|'. */
static void put_part(struct text *to, struct reading *r, struct text *single, struct text *sets)
{
    if (!single->n && !sets->n)
        refuse(r, "an empty class, or nothing beside %s", "&&");
    if (!sets->n)
        put(to, "[%s]", single->at);
    else if (single->n)
        put(to, "(?:[%s]%s)", single->at, sets->at);
    else
        put(to, "(?:%s)", sets->at + 1);
    single->n = sets->n = 0;
}

/* Where a class stands with ranges: a '-' behind ONE opens one, which the next character closes; behind SET, or with a
 * set to close it, the reference refuses it; elsewhere it is itself. */
enum range { NO_RANGE, ONE, SET, OPEN };

/* A character of a class without '\\'; one that would mean something to PCRE2 where it comes to stand gets one. */
static enum range plain(struct reading *r, struct text *single, enum range range)
{
    bool hyphen = *r->at == '-' && r->at[1] != ']' && strncmp(r->at + 1, "&&", 2);
    if (hyphen && range == SET)
        refuse(r, "a set of characters before '%c' as the start of a range", '-');
    bool opens = hyphen && range == ONE;
    put(single, "%s%c", !opens && strchr("-^", *r->at) ? "\\" : "", *r->at);
    while ((*++r->at & 0xc0) == 0x80)
        put(single, "%c", *r->at);
    return opens ? OPEN : range == OPEN ? NO_RANGE : ONE;
}

/* At what is behind '['. */
static void class(struct reading *r, struct text *to)
{
    struct text single = {0}, sets = {0}, before = {0};
    enum range range = NO_RANGE;
    bool not = *r->at == '^';
    r->at += not;
    if (*r->at == ']')
        refuse(r, "a class that begins with '%c'", *r->at);
    while (*r->at != ']') {
        if (!*r->at)
            refuse(r, "an open '%c'", '[');
        if (!strncmp(r->at, "[:", 2))
            refuse(r, "'%s' in a class", "[:");
        bool set = *r->at == '\\' && (set_of(r->at[1]) || (r->at[1] | 32) == 'p');
        if (range == OPEN && (set || *r->at == '['))
            refuse(r, "'-%.*s': a set of characters as the end of a range", set ? 2 : 1, r->at);
        if (!strncmp(r->at, "&&", 2)) {
            put(&before, "(?=");
            put_part(&before, r, &single, &sets);
            put(&before, ")");
            r->at += 2;
            range = NO_RANGE;
        } else if (*r->at == '[') {
            r->at++;
            put(&sets, "|");
            class(r, &sets);
            range = NO_RANGE;
        } else if (*r->at != '\\') {
            range = plain(r, &single, range);
        } else if (set_of(r->at[1])) {
            if (r->at[1] & 32)
                put(&single, "%s", set_of(r->at[1]));
            else
                put(&sets, "|[^%s]", set_of(r->at[1]));
            r->at += 2;
            range = SET;
        } else if (set) {
            r->at++;
            property(r, &single);
            range = SET;
        } else {
            r->at++;
            character(r, &single);
            range = range == OPEN ? NO_RANGE : ONE;
        }
    }
    r->at++;
    if (not && !sets.n && !before.n && single.n) {
        put(to, "[^%s]", single.at);
    } else {
        put(to, "%s", not ? "(?:(?!" : before.n ? "(?:" : "");
        put(to, "%s", before.n ? before.at : "");
        put_part(to, r, &single, &sets);
        put(to, "%s", not ? ")\\p{Any})" : before.n ? ")" : "");
    }
    free(single.at);
    free(sets.at);
    free(before.at);
}

/* At what is behind '\\', outside of a class. */
static void escape(struct reading *r, struct text *to)
{
    const char *set = (*r->at | 32) == 'w' ? LONE_WORD : set_of(*r->at);
    if (set) {
        put(to, *r->at & 32 ? "[%s]" : "[^%s]", set);
        r->at++;
    } else if (*r->at == 'b' || *r->at == 'B') {
        bool edge = *r->at++ == 'b';
        put(to, "(?:(?<=[%s])(?%c[%s])|(?<![%s])(?%c[%s]))", LONE_WORD, edge ? '!' : '=', LONE_WORD,
            LONE_WORD, edge ? '=' : '!', LONE_WORD);
    } else if (*r->at == 'p' || *r->at == 'P') {
        property(r, to);
    } else if (*r->at && strchr("ZzARKN123456789", *r->at)) {
        put(to, "\\%c", *r->at++);
    } else {
        character(r, to);
    }
}

/* At "(?": only openings that mean the same. Letters alone, (?i), reach to the end of a group and over its '|' in one way in
 * the one syntax and in another in the other, but for the first of a pattern. */
static void opening(struct reading *r, struct text *to)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(r->at, known[i], strlen(known[i]))) {
            put(to, "%s", known[i]);
            r->at += strlen(known[i]);
            return;
        }
    if (strncmp(r->at, "(?i)", 4) || r->at != r->whole)
        refuse(r, "'%.4s'", r->at);
    put(to, "(?i)");
    r->at += 4;
}

/* At '{': {,3} is {0,3}, and {3}+ repeats it, where PCRE2 reads letters and a possessive one. what: where in `to` begins what
 * is repeated; NO_PLACE: a group. */
static void repetition(struct reading *r, struct text *to, size_t what)
{
    int low = 0, high = 0, n = 0;
    if (sscanf(r->at, "{,%d%n", &high, &n) == 1 && r->at[n] == '}')
        put(to, "{0,%d}", high);
    else if (sscanf(r->at, "{%d,%d%n", &low, &high, &n) == 2 && r->at[n] == '}')
        put(to, "{%d,%d}", low, high);
    else if (sscanf(r->at, "{%d,%n", &low, &n) == 1 && n && r->at[n] == '}')
        put(to, "{%d,}", low);
    else if (n = 0, sscanf(r->at, "{%d%n", &low, &n) == 1 && r->at[n] == '}')
        put(to, "{%d}", low);
    else
        refuse(r, "'%.6s'", r->at);
    bool exact = !strchr(r->at, ',') || strchr(r->at, ',') > r->at + n;
    r->at += n + 1;
    if (*r->at == '?' && exact)
        refuse(r, "{%d}?", low);
    if (*r->at != '+')
        return;
    if (what == NO_PLACE)
        refuse(r, "'%s' behind a group", "{..}+");
    char *own = to->at;
    *to = (struct text){0};
    put(to, "%.*s(?:%s)+", (int)what, own, own + what);
    free(own);
    r->at++;
}

char *pattern_for_pcre2(const char *pattern)
{
    struct reading r = {pattern, pattern};
    struct text to = {0};
    size_t what = NO_PLACE;
    put(&to, "%s", "");
    while (*r.at) {
        size_t here = to.n;
        char c = *r.at;
        if (c == '{') {
            repetition(&r, &to, what);
            continue;
        }
        if (c == '\\' || c == '[')
            r.at++;
        if (c == '\\')
            escape(&r, &to);
        else if (c == '[')
            class(&r, &to);
        else if (!strncmp(r.at, "(?", 2))
            opening(&r, &to);
        else if (!strncmp(r.at, "(*", 2))
            refuse(&r, "'%s'", "(*");
        else
            put(&to, "%c", *r.at++);
        what = strchr("()|^$*+?", c) || (unsigned char)c >= 0x80 ? NO_PLACE : here;
    }
    return to.at;
}
#endif
