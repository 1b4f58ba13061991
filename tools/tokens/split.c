/* Cutting a text by a pattern, through PCRE2: \p classes and lookahead as in the patterns of tokenizers. */
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

struct cutter *cutter_new(const char *pattern, bool literal, bool keep_matches, bool keep_gaps)
{
    struct cutter *c = tokens_grow(NULL, sizeof *c);
    char *text = literal ? strcpy(tokens_grow(NULL, strlen(pattern) + 1), pattern) : pattern_for_pcre2(pattern);
    int error;
    PCRE2_SIZE at;
    *c = (struct cutter){.keep_matches = keep_matches, .keep_gaps = keep_gaps};
    c->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE),
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
        if (c->keep_gaps && m[0] > done)
            each(context, (struct bytes){text.at + done, m[0] - done});
        if (m[1] == m[0]) {              /* between two characters: no piece, but the text is cut there */
            done = m[0];
            from = next_character(text, m[0]);
            continue;
        }
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
