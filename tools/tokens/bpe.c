/* Encoding. A word's symbols stand in a linked list; candidate merges wait in a heap by (rank, place), so that a word of n
 * bytes takes n log n; the ids of words seen before are kept. */
#include "bpe.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tokens_fail(const char *fact, ...)
{
    va_list args;
    va_start(args, fact);
    fprintf(stderr, "flow-tokens: ");
    vfprintf(stderr, fact, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

void *tokens_grow(void *p, size_t bytes)
{
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        tokens_fail("out of memory");
    return p;
}

void ids_put(struct ids *to, uint32_t id)
{
    if (to->n == to->room)
        to->id = tokens_grow(to->id, (to->room = to->room * 2 + 1024) * sizeof *to->id);
    to->id[to->n++] = id;
}

/* ---- tables ---- */

static uint64_t hash(struct bytes b)
{
    uint64_t h = 0xcbf29ce484222325u ^ b.n;
    for (size_t i = 0; i < b.n; i++)
        h = (h ^ (unsigned char)b.at[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static size_t place(const struct table *t, struct bytes key)
{
    size_t i = hash(key) & (t->room - 1);
    while (t->key[i].at && (t->key[i].n != key.n || memcmp(t->key[i].at, key.at, key.n)))
        i = (i + 1) & (t->room - 1);
    return i;
}

bool table_find(const struct table *t, struct bytes key, uint32_t *value)
{
    size_t i = t->room ? place(t, key) : 0;
    if (!t->room || !t->key[i].at)
        return false;
    *value = t->value[i];
    return true;
}

void table_put(struct table *t, struct bytes key, uint32_t value)
{
    if (2 * (t->count + 1) > t->room) {
        struct table old = *t;
        t->room = old.room ? old.room * 2 : 1024;
        t->key = tokens_grow(NULL, t->room * sizeof *t->key);
        t->value = tokens_grow(NULL, t->room * sizeof *t->value);
        memset(t->key, 0, t->room * sizeof *t->key);
        for (size_t i = 0; i < old.room; i++)
            if (old.key[i].at) {
                size_t to = place(t, old.key[i]);
                t->key[to] = old.key[i];
                t->value[to] = old.value[i];
            }
        free(old.key);
        free(old.value);
    }
    size_t i = place(t, key);
    t->count += !t->key[i].at;
    t->key[i] = key;
    t->value[i] = value;
}

/* ---- one word ---- */

struct symbol { uint32_t id; int32_t before, after; };          /* id UINT32_MAX: merged into the one before */
struct candidate { uint32_t rank, id; int32_t at; };
struct word {
    struct symbol *symbol;
    size_t room;
    struct candidate *heap;
    size_t count, heap_room;
};

static bool earlier(struct candidate a, struct candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void push(struct word *w, struct candidate c)
{
    if (w->count == w->heap_room)
        w->heap = tokens_grow(w->heap, (w->heap_room = w->heap_room * 2 + 64) * sizeof *w->heap);
    size_t i = w->count++;
    for (; i && earlier(c, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static struct candidate pop(struct word *w)
{
    struct candidate top = w->heap[0], last = w->heap[--w->count];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < w->count; i = k) {
        if (k + 1 < w->count && earlier(w->heap[k + 1], w->heap[k]))
            k++;
        if (!earlier(w->heap[k], last))
            break;
        w->heap[i] = w->heap[k];
    }
    w->heap[i] = last;
    return top;
}

static uint64_t spread(uint64_t pair)
{
    pair *= 0x9e3779b97f4a7c15u;
    return pair ^ pair >> 32;
}

static const struct merge *find_merge(const struct bpe *b, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    if (!b->merge_room)
        return NULL;
    for (size_t i = spread(pair) & (b->merge_room - 1); b->merges[i].id != UINT32_MAX; i = (i + 1) & (b->merge_room - 1))
        if (b->merges[i].pair == pair)
            return &b->merges[i];
    return NULL;
}

static void consider(const struct bpe *b, struct word *w, int32_t at)
{
    int32_t after = at < 0 ? -1 : w->symbol[at].after;
    const struct merge *m = after < 0 ? NULL : find_merge(b, w->symbol[at].id, w->symbol[after].id);
    if (m)
        push(w, (struct candidate){m->rank, m->id, at});
}

static void merge_word(const struct bpe *b, struct bytes text, struct ids *to)
{
    static struct word w;
    if (text.n > INT32_MAX)
        tokens_fail("a word of %zu bytes", text.n);
    if (text.n > w.room)
        w.symbol = tokens_grow(w.symbol, (w.room = text.n * 2) * sizeof *w.symbol);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if (b->byte_id[byte] == UINT32_MAX)
            tokens_fail("the vocabulary has no token for byte 0x%02x", byte);
        w.symbol[i] = (struct symbol){b->byte_id[byte], (int32_t)i - 1, i + 1 < text.n ? (int32_t)i + 1 : -1};
    }
    w.count = 0;
    for (size_t i = 0; i + 1 < text.n; i++)
        consider(b, &w, (int32_t)i);
    while (w.count) {
        struct candidate c = pop(&w);
        struct symbol *s = &w.symbol[c.at];
        if (s->id == UINT32_MAX || s->after < 0)
            continue;
        struct symbol *next = &w.symbol[s->after];
        const struct merge *m = find_merge(b, s->id, next->id);
        if (!m || m->id != c.id || m->rank != c.rank)           /* one of the two has been merged since */
            continue;
        s->id = c.id;
        s->after = next->after;
        next->id = UINT32_MAX;
        if (s->after >= 0)
            w.symbol[s->after].before = c.at;
        consider(b, &w, s->before);
        consider(b, &w, c.at);
    }
    for (int32_t i = 0; i >= 0; i = w.symbol[i].after)
        ids_put(to, w.symbol[i].id);
}

/* ---- a text ---- */

struct encoding { struct bpe *b; struct ids *to; size_t step; };
enum { CACHED_WORD = 64, CACHED_WORDS = 1 << 20 };
static struct table seen;                /* word -> its place in kept: a count, then the ids */
static struct ids kept;

static void encode_word(struct bpe *b, struct bytes word, struct ids *to)
{
    uint32_t at;
    if (word.n == 0)
        return;
    if (b->whole_first && table_find(&b->vocabulary, word, &at)) {
        ids_put(to, at);
        return;
    }
    if (word.n <= CACHED_WORD && table_find(&seen, word, &at)) {
        for (uint32_t i = 1; i <= kept.id[at]; i++)
            ids_put(to, kept.id[at + i]);
        return;
    }
    size_t first = to->n;
    merge_word(b, word, to);
    if (word.n > CACHED_WORD || seen.count >= CACHED_WORDS)
        return;
    char *copy = tokens_grow(NULL, word.n);
    memcpy(copy, word.at, word.n);
    table_put(&seen, (struct bytes){copy, word.n}, (uint32_t)kept.n);
    ids_put(&kept, (uint32_t)(to->n - first));
    for (size_t i = first; i < to->n; i++)
        ids_put(&kept, to->id[i]);
}

static void cut_further(void *context, struct bytes piece)
{
    struct encoding e = *(struct encoding *)context;
    if (e.step < e.b->ncutter) {
        struct cutter *c = e.b->cutters[e.step++];
        char *longer = NULL;
        bool last = e.step == e.b->ncutter;
        if (last && e.b->leading_blank && piece.n && piece.at[0] != ' ') {
            longer = tokens_grow(NULL, piece.n + 1);
            longer[0] = ' ';
            memcpy(longer + 1, piece.at, piece.n);
            piece = (struct bytes){longer, piece.n + 1};
        }
        if (c)
            cutter_cut(c, piece, cut_further, &e);
        else
            cut_further(&e, piece);
        free(longer);
        return;
    }
    encode_word(e.b, piece, e.to);
}

/* Cuts out added tokens, leftmost first and of several there the longest; what is between goes on: early ones first, then
 * the late ones in what is left, then the cutters. */
static void encode_text(struct bpe *b, struct bytes text, bool late, struct ids *to)
{
    bool starts[256] = {false};
    size_t any = 0, done = 0;
    for (size_t k = 0; k < b->nadded; k++)
        if (b->added[k].late == late && b->added[k].text.n) {
            starts[(unsigned char)b->added[k].text.at[0]] = true;
            any++;
        }
    struct encoding e = {b, to, 0};
    for (size_t i = 0; any && i < text.n;) {
        const struct added *best = NULL;
        for (size_t k = 0; starts[(unsigned char)text.at[i]] && k < b->nadded; k++) {
            const struct added *a = &b->added[k];
            if (a->late == late && a->text.n && a->text.n <= text.n - i && (!best || a->text.n > best->text.n) &&
                !memcmp(a->text.at, text.at + i, a->text.n))
                best = a;
        }
        if (!best) {
            i++;
            continue;
        }
        struct bytes before = {text.at + done, i - done};
        if (before.n && !late)
            encode_text(b, before, true, to);
        else if (before.n)
            cut_further(&e, before);
        ids_put(to, best->id);
        done = i += best->text.n;
    }
    struct bytes rest = {text.at + done, text.n - done};
    if (rest.n && !late)
        encode_text(b, rest, true, to);
    else if (rest.n)
        cut_further(&e, rest);
}

/* Gives the first byte that is no UTF-8, or n. */
static size_t valid_utf8(struct bytes t)
{
    const unsigned char *s = (const unsigned char *)t.at;
    for (size_t i = 0; i < t.n;) {
        size_t more = s[i] < 0x80 ? 0 : s[i] >= 0xc2 && s[i] < 0xe0 ? 1 : s[i] >= 0xe0 && s[i] < 0xf0 ? 2 :
                      s[i] >= 0xf0 && s[i] < 0xf5 ? 3 : 4;
        if (more == 4 || more >= t.n - i)
            return i;
        for (size_t k = 1; k <= more; k++)
            if ((s[i + k] & 0xc0) != 0x80)
                return i;
        if ((s[i] == 0xe0 && s[i + 1] < 0xa0) || (s[i] == 0xed && s[i + 1] >= 0xa0) || (s[i] == 0xf0 && s[i + 1] < 0x90) ||
            (s[i] == 0xf4 && s[i + 1] >= 0x90))
            return i;
        i += 1 + more;
    }
    return t.n;
}

void bpe_encode(struct bpe *b, const char *name, struct bytes text, struct ids *to)
{
    size_t bad = valid_utf8(text);
    if (bad < text.n)
        tokens_fail("%s is no UTF-8 text: byte %zu is 0x%02x", name, bad, (unsigned char)text.at[bad]);
    encode_text(b, text, false, to);
}

bool bpe_find(const struct bpe *b, const char *token, uint32_t *id)
{
    for (size_t k = 0; k < b->nadded; k++)
        if (b->added[k].text.n == strlen(token) && !memcmp(b->added[k].text.at, token, strlen(token))) {
            *id = b->added[k].id;
            return true;
        }
    return table_find(&b->vocabulary, (struct bytes){token, strlen(token)}, id);
}
