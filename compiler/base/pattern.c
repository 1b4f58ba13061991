/* Patterns over paths, as plan lines and blocks write them: `*` stands for any text, dots included; inside [ ] an index
 * pattern stands for any index, and a number or range narrows the blocks of that repeat. */
#include "module.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The text between [ and ] of a pattern: "*" and names are all blocks, "3" one, "0..4", "4..", "..4" half-open. */
static void narrow(const char *text, int64_t *low, int64_t *high)
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
static bool match(const char *p, const char *s, int level, struct block_ranges *b)
{
    for (;; p++, s++) {
        if (*p == '*') {
            while (p[1] == '*')
                p++;
            for (;; s++) {
                struct block_ranges kept = *b;
                if (match(p + 1, s, level, b))
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
            if (level < MAX_STACK)
                narrow(p + 1, &b->low[level], &b->high[level]);
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

bool pattern_match(const char *pattern, const char *path, struct block_ranges *blocks)
{
    struct block_ranges b;
    for (int k = 0; k < MAX_STACK; k++) {
        b.low[k] = 0;
        b.high[k] = INT64_MAX;
    }
    if (!path || !match(pattern, path, 0, &b))
        return false;
    if (blocks)
        *blocks = b;
    return true;
}

bool pattern_covers(const char *pattern, const char *path, struct block_ranges *blocks)
{
    if (!path)
        return false;
    if (pattern_match(pattern, path, blocks))
        return true;
    char *head = mem_strdup(path);
    for (char *dot; (dot = strrchr(head, '.'));) {
        *dot = 0;
        if (pattern_match(pattern, head, blocks))
            return true;
    }
    return false;
}

bool value_matches(const struct value *v, const char *pattern, struct block_ranges *blocks)
{
    if (pattern_match(pattern, v->path, blocks))
        return true;
    for (int i = 0; i < arrlen(v->alias); i++)
        if (pattern_match(pattern, v->alias[i], blocks))
            return true;
    return false;
}

bool region_meant(const struct region *r, const struct block_ranges *b)
{
    for (; r && r->parent; r = r->parent) {
        int k = region_depth(r) - 1;
        if (k < MAX_STACK && (b->low[k] > r->first || b->high[k] < r->first + r->count))
            return false;
    }
    return true;
}

int64_t region_touched(const struct region *r, const struct block_ranges *b)
{
    int64_t count = 1;
    for (; r && r->parent; r = r->parent) {
        int k = region_depth(r) - 1;
        int64_t low = r->first, high = r->first + r->count;
        if (k < MAX_STACK && b->low[k] > low)
            low = b->low[k];
        if (k < MAX_STACK && b->high[k] < high)
            high = b->high[k];
        count *= high > low ? high - low : 0;
    }
    return count;
}

bool value_meant(const struct value *v, const char *pattern)
{
    struct block_ranges b;
    return value_matches(v, pattern, &b) && region_meant(v->region, &b);
}

bool param_meant(const struct param *p, const char *pattern, bool beneath)
{
    struct block_ranges b;
    if (!(beneath ? pattern_covers : pattern_match)(pattern, p->path, &b))
        return false;
    for (int k = 0; k < arrlen(p->stack); k++)
        if (b.low[k] > p->first[k] || b.high[k] < p->first[k] + p->stack[k])
            return false;
    return true;
}

const char *param_text(const struct param *p)
{
    const char *text = p->path;
    for (int k = (int)arrlen(p->stack) - 1; k >= 0; k--) {
        const char *at = text;
        for (int i = 0; at && i <= k; i++)
            at = strstr(i ? at + 3 : at, "[*]");
        if (at && p->stack[k] < p->total[k])
            text = mem_printf("%.*s[%lld..%lld]%s", (int)(at - text), text, (long long)p->first[k],
                              (long long)(p->first[k] + p->stack[k]), at + 3);
    }
    return text;
}

const char *value_text(const struct value *v)
{
    const char *text = v->path;
    for (const struct region *r = v->region; text && r && r->parent; r = r->parent) {
        const char *at = text;
        for (int k = region_depth(r) - 1; at && k >= 0; k--)
            at = strstr(at == text ? at : at + 3, "[*]");
        if (!at || r->count == r->total)
            continue;
        const char *blocks = r->count == 1 ? mem_printf("[%lld]", (long long)r->first)
                                           : mem_printf("[%lld..%lld]", (long long)r->first, (long long)(r->first + r->count));
        text = mem_printf("%.*s%s%s", (int)(at - text), text, blocks, at + 3);
    }
    return text;
}
