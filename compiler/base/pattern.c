/* Patterns over paths, as plan lines and blocks write them: `*` stands for any text, dots included; inside [ ] an index
 * pattern stands for any index, and a number or range narrows the blocks it is about. */
#include "module.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The text between [ and ] of a pattern: "*" and names are all blocks, "3" one, "0..4", "4..", "..4" half-open. */
static bool narrow(const char *text, int64_t *low, int64_t *high)
{
    if (!isdigit((unsigned char)text[0]) && strncmp(text, "..", 2) != 0)
        return false;
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
    if (*low < from)
        *low = from;
    if (*high > to)
        *high = to;
    return true;
}

static bool match(const char *p, const char *s, int64_t *low, int64_t *high, bool narrowed)
{
    for (;; p++, s++) {
        if (*p == '*') {
            while (p[1] == '*')
                p++;
            for (;; s++) {
                int64_t l = *low, h = *high;
                if (match(p + 1, s, &l, &h, narrowed)) {
                    *low = l;
                    *high = h;
                    return true;
                }
                if (!*s)
                    return false;
            }
        }
        if (*p == '[' && *s == '[') {
            const char *pe = strchr(p, ']'), *se = strchr(s, ']');
            if (!pe || !se)
                return false;
            if (!narrowed)
                narrowed = narrow(p + 1, low, high);
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

bool pattern_match(const char *pattern, const char *path, int64_t *low, int64_t *high)
{
    int64_t l = 0, h = INT64_MAX;
    if (!path || !match(pattern, path, &l, &h, false))
        return false;
    if (low)
        *low = l;
    if (high)
        *high = h;
    return true;
}

bool pattern_covers(const char *pattern, const char *path, int64_t *low, int64_t *high)
{
    if (!path)
        return false;
    if (pattern_match(pattern, path, low, high))
        return true;
    char *head = mem_strdup(path);
    for (char *dot; (dot = strrchr(head, '.'));) {
        *dot = 0;
        if (pattern_match(pattern, head, low, high))
            return true;
    }
    return false;
}

bool value_matches(const struct value *v, const char *pattern, int64_t *low, int64_t *high)
{
    if (pattern_match(pattern, v->path, low, high))
        return true;
    for (int i = 0; i < arrlen(v->alias); i++)
        if (pattern_match(pattern, v->alias[i], low, high))
            return true;
    return false;
}
