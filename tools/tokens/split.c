/* Cutting a text by a pattern, through PCRE2: \p classes and lookahead as in the patterns of tokenizers. White space is
 * spelt out, since PCRE2 counts U+180E as such and Unicode, with the reference, does not. */
#include "bpe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct cutter {
    pcre2_code *code;
    pcre2_match_data *match;
    bool keep_matches, keep_gaps;
};

#define BLANKS "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

/* \s and \S outside of and \s inside of [ ]. */
static char *spell_blanks(const char *pattern)
{
    char *out = tokens_grow(NULL, strlen(pattern) * (sizeof BLANKS + 4) + 1), *p = out;
    bool inside = false;
    for (const char *s = pattern; *s; s++) {
        if (*s == '\\' && s[1] == 's') {
            p += sprintf(p, inside ? "%s" : "[%s]", BLANKS);
            s++;
        } else if (*s == '\\' && s[1] == 'S' && !inside) {
            p += sprintf(p, "[^%s]", BLANKS);
            s++;
        } else if (*s == '\\' && s[1]) {
            *p++ = *s++;
            *p++ = *s;
        } else {
            if (*s == '[')
                inside = true;
            if (*s == ']')
                inside = false;
            *p++ = *s;
        }
    }
    *p = 0;
    return out;
}

struct cutter *cutter_new(const char *pattern, bool literal, bool keep_matches, bool keep_gaps)
{
    struct cutter *c = tokens_grow(NULL, sizeof *c);
    char *text = literal ? strcpy(tokens_grow(NULL, strlen(pattern) + 1), pattern) : spell_blanks(pattern);
    int error;
    PCRE2_SIZE at;
    *c = (struct cutter){.keep_matches = keep_matches, .keep_gaps = keep_gaps};
    c->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP),
                            &error, &at, NULL);
    if (!c->code) {
        PCRE2_UCHAR words[200];
        pcre2_get_error_message(error, words, sizeof words);
        tokens_fail("the pattern '%s' cannot be used: %s", pattern, (char *)words);
    }
    pcre2_jit_compile(c->code, PCRE2_JIT_COMPLETE);
    c->match = pcre2_match_data_create_from_pattern(c->code, NULL);
    free(text);
    return c;
}

static size_t next_character(struct bytes t, size_t i)
{
    do
        i++;
    while (i < t.n && (t.at[i] & 0xc0) == 0x80);
    return i;
}

void cutter_cut(struct cutter *c, struct bytes text, void (*each)(void *context, struct bytes piece), void *context)
{
    size_t done = 0, from = 0;
    while (from <= text.n) {
        int r = pcre2_match(c->code, (PCRE2_SPTR)text.at, text.n, from, PCRE2_NO_UTF_CHECK, c->match, NULL);
        if (r == PCRE2_ERROR_NOMATCH)
            break;
        if (r < 0) {
            PCRE2_UCHAR words[200];
            pcre2_get_error_message(r, words, sizeof words);
            tokens_fail("cutting the text into words: %s", (char *)words);
        }
        const PCRE2_SIZE *m = pcre2_get_ovector_pointer(c->match);
        if (m[1] == m[0]) {              /* nothing matched: no piece */
            from = next_character(text, m[0]);
            continue;
        }
        if (c->keep_gaps && m[0] > done)
            each(context, (struct bytes){text.at + done, m[0] - done});
        if (c->keep_matches)
            each(context, (struct bytes){text.at + m[0], m[1] - m[0]});
        done = from = m[1];
    }
    if (c->keep_gaps && done < text.n)
        each(context, (struct bytes){text.at + done, text.n - done});
}
#else
struct cutter *cutter_new(const char *pattern, bool literal, bool keep_matches, bool keep_gaps)
{
    tokens_fail("this build cuts text into bytes only: install PCRE2 (Debian: libpcre2-dev), then build again");
}

void cutter_cut(struct cutter *c, struct bytes text, void (*each)(void *context, struct bytes piece), void *context)
{
}
#endif
