/* Byte-level BPE: a vocabulary of byte strings, merges with ranks, added tokens, and how a text is cut into words before
 * merging. Loaded from a tokenizer.json or a vocab.json with its merges.txt; encodes as the reference tokenizers do. */
#ifndef TOKENS_BPE_H
#define TOKENS_BPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes { const char *at; size_t n; };
struct table { struct bytes *key; uint32_t *value; size_t count, room; };        /* byte string -> number */
bool table_find(const struct table *t, struct bytes key, uint32_t *value);
void table_put(struct table *t, struct bytes key, uint32_t value);               /* the key must stay */

struct added { struct bytes text; uint32_t id; bool late; };    /* late: looked for in what the others leave */
struct merge { uint64_t pair; uint32_t rank, id; };             /* pair: left << 32 | right; an empty place: id UINT32_MAX */
struct cutter;                           /* one step of cutting, split.c */
struct bpe {
    struct table vocabulary;
    struct bytes *of_id;                 /* at NULL: no such id */
    size_t room;
    uint32_t ids;                        /* largest id + 1 */
    struct merge *merges;                /* open addressing */
    size_t merge_room;
    uint32_t byte_id[256];               /* UINT32_MAX: not in the vocabulary */
    bool whole_first;                    /* a word that is in the vocabulary is not merged ("ignore_merges") */
    struct added *added;
    size_t nadded;
    struct cutter **cutters;
    size_t ncutter;
    bool leading_blank;                  /* a word that starts with none gets one */
};
struct ids { uint32_t *id; size_t n, room; };
void ids_put(struct ids *to, uint32_t id);

/* All end the program with one line if they cannot. */
void tokens_fail(const char *fact, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *tokens_grow(void *p, size_t bytes);
void bpe_load(struct bpe *b, const char *tokenizer_json);
void bpe_load_pair(struct bpe *b, const char *vocab_json, const char *merges_txt);
/* name: of the text, for messages; it must be UTF-8. */
void bpe_encode(struct bpe *b, const char *name, struct bytes text, struct ids *to);
bool bpe_find(const struct bpe *b, const char *token, uint32_t *id);             /* as the text of the token reads */

/* A pattern as the reference reads it, spelled for PCRE2 with PCRE2_UTF, UCP and MULTILINE; the caller frees it. */
char *pattern_for_pcre2(const char *pattern);

struct cutter *cutter_new(const char *pattern, bool literal, bool keep_matches, bool keep_gaps);
/* Calls each for every piece of the text, in order. */
void cutter_cut(struct cutter *c, struct bytes text, void (*each)(void *context, struct bytes piece), void *context);
#endif
