/* Patterns over paths, as plan lines and blocks write them: runtime/fl_pattern.h says how they match. */
#include "module.h"
#include "../../runtime/fl_pattern.h"

_Static_assert((int)FL_PATTERN_LEVELS == (int)MAX_STACK, "repeats around a value");

bool pattern_match(const char *pattern, const char *path, struct block_ranges *blocks)
{
    struct fl_blocks_meant b;
    if (!path || !fl_pattern_match(pattern, path, &b))
        return false;
    for (int k = 0; k < MAX_STACK && blocks; k++) {
        blocks->low[k] = b.low[k];
        blocks->high[k] = b.high[k];
    }
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
