/* Patterns over paths, for the compiler (plan lines) and the runtime (--dump) alike: `*` stands for any text, dots included;
 * inside [ ] an index pattern stands for any index, and a number or range narrows the blocks of that repeat: "3" one,
 * "0..4", "4..", "..4" half-open, "*" and names all. */
#ifndef FL_PATTERN_H
#define FL_PATTERN_H
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Blocks low <= b < high of each repeat around, outermost first, that a pattern leaves. */
enum { FL_PATTERN_LEVELS = 4 };
struct fl_blocks_meant { int64_t low[FL_PATTERN_LEVELS], high[FL_PATTERN_LEVELS]; };

static inline void fl_pattern_narrow(const char *text, int64_t *low, int64_t *high)
{
    if (!isdigit((unsigned char)text[0]) && strncmp(text, "..", 2) != 0)
        return;
    char *end = (char *)text;
    int64_t from = 0, to = INT64_MAX;
    if (isdigit((unsigned char)text[0])) {
        from = strtoll(text, &end, 10);
        to = from < INT64_MAX ? from + 1 : from;
    }
    if (!strncmp(end, "..", 2)) {
        end += 2;
        to = isdigit((unsigned char)*end) ? strtoll(end, &end, 10) : INT64_MAX;
    }
    *low = from;
    *high = to;
}

/* level: how many indices of the path are behind s */
static inline bool fl_pattern_at(const char *p, const char *s, int level, struct fl_blocks_meant *b)
{
    for (;; p++, s++) {
        if (*p == '*') {
            while (p[1] == '*')
                p++;
            for (;; s++) {
                struct fl_blocks_meant kept = *b;
                if (fl_pattern_at(p + 1, s, level, b))
                    return true;
                *b = kept;
                if (!*s)
                    return false;
                level += *s == ']';
            }
        }
        if (*p == '[' && *s == '[') {
            const char *pe = strchr(p, ']'), *se = strchr(s, ']');
            if (!pe || !se)
                return false;
            if (level < FL_PATTERN_LEVELS)
                fl_pattern_narrow(p + 1, &b->low[level], &b->high[level]);
            level++;
            p = pe;
            s = se;
            continue;
        }
        if (*p != *s)
            return false;
        if (!*p)
            return true;
    }
}

/* Does the path match? Then *b are the blocks meant. */
static inline bool fl_pattern_match(const char *pattern, const char *path, struct fl_blocks_meant *b)
{
    for (int k = 0; k < FL_PATTERN_LEVELS; k++) {
        b->low[k] = 0;
        b->high[k] = INT64_MAX;
    }
    return fl_pattern_at(pattern, path, 0, b);
}
#endif
