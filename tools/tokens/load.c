/* Reading tokenizer.json, or vocab.json with merges.txt. Whatever would make the ids differ from those of the reference is
 * refused by its name. Files spell bytes in letters: printable ones as themselves, the others from U+0100 on. */
#include "bpe.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char words_of_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static int16_t byte_of_letter[512];

static void make_letters(void)
{
    int other = 256;
    memset(byte_of_letter, -1, sizeof byte_of_letter);
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        byte_of_letter[printable ? b : other++] = (int16_t)b;
    }
}

/* false: the text holds a letter that stands for no byte. */
static bool spell(const char *s, size_t n, struct bytes *to)
{
    char *out = tokens_grow(NULL, n + 1);
    size_t count = 0;
    for (size_t i = 0; i < n; count++) {
        unsigned c = (unsigned char)s[i++];
        if (c >= 0x80 && (c & 0xe0) == 0xc0 && i < n)
            c = (c & 0x1f) << 6 | ((unsigned char)s[i++] & 0x3f);
        else if (c >= 0x80)
            c = 512;
        if (c >= 512 || byte_of_letter[c] < 0) {
            free(out);
            return false;
        }
        out[count] = (char)byte_of_letter[c];
    }
    *to = (struct bytes){out, count};
    return true;
}

static void add_id(struct bpe *b, const char *file, uint32_t id, struct bytes text)
{
    if (id >= b->room) {
        size_t room = ((size_t)id + 1) * 2;
        b->of_id = tokens_grow(b->of_id, room * sizeof *b->of_id);
        memset(b->of_id + b->room, 0, (room - b->room) * sizeof *b->of_id);
        b->room = room;
    }
    if (id >= b->ids)
        b->ids = id + 1;
    if (b->of_id[id].at && (b->of_id[id].n != text.n || memcmp(b->of_id[id].at, text.at, text.n)))
        tokens_fail("%s: two tokens have the number %u", file, id);
    b->of_id[id] = text;
}

static void load_vocabulary(struct bpe *b, const char *file, json_t *vocabulary)
{
    const char *key;
    json_t *value;
    if (!json_is_object(vocabulary) || json_object_size(vocabulary) == 0)
        tokens_fail("%s holds no vocabulary", file);
    json_object_foreach(vocabulary, key, value) {
        struct bytes text;
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id > 0x7fffffff)
            tokens_fail("%s: token '%s' has no number that a token may have", file, key);
        if (spell(key, strlen(key), &text)) {
            table_put(&b->vocabulary, text, (uint32_t)id);
            add_id(b, file, (uint32_t)id, text);
        }
    }
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        if (!table_find(&b->vocabulary, (struct bytes){&byte, 1}, &b->byte_id[i]))
            b->byte_id[i] = UINT32_MAX;
    }
}

static void start_merges(struct bpe *b, size_t count)
{
    for (b->merge_room = 64; b->merge_room < 2 * count; b->merge_room *= 2)
        ;
    b->merges = tokens_grow(NULL, b->merge_room * sizeof *b->merges);
    for (size_t i = 0; i < b->merge_room; i++)
        b->merges[i].id = UINT32_MAX;
}

static void add_merge(struct bpe *b, const char *file, size_t rank, const char *left, size_t nleft, const char *right,
                      size_t nright)
{
    struct bytes part[3];
    uint32_t id[3];
    char *both = tokens_grow(NULL, nleft + nright + 1);
    memcpy(both, left, nleft);
    memcpy(both + nleft, right, nright);
    const char *text[3] = {left, right, both};
    size_t n[3] = {nleft, nright, nleft + nright};
    for (int i = 0; i < 3; i++)
        if (!spell(text[i], n[i], &part[i]) || !table_find(&b->vocabulary, part[i], &id[i]))
            tokens_fail("%s: merge %zu needs '%.*s', which is not in the vocabulary", file, rank, (int)n[i], text[i]);
    uint64_t pair = (uint64_t)id[0] << 32 | id[1], at = pair * 0x9e3779b97f4a7c15u;
    size_t i = (at ^ at >> 32) & (b->merge_room - 1);
    while (b->merges[i].id != UINT32_MAX && b->merges[i].pair != pair)
        i = (i + 1) & (b->merge_room - 1);
    b->merges[i] = (struct merge){pair, (uint32_t)rank, id[2]};          /* of two alike the last counts */
    free(both);
}

/* ---- tokenizer.json ---- */

static const char *type_of(json_t *j)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    return type ? type : "without a type";
}

/* Not there, null, false, 0 or "" */
static bool is_none(json_t *j)
{
    return !j || json_is_null(j) || json_is_false(j) || (json_is_number(j) && json_number_value(j) == 0) ||
           (json_is_string(j) && !*json_string_value(j));
}

static void add_cutter(struct bpe *b, struct cutter *c)
{
    b->cutters = tokens_grow(b->cutters, (b->ncutter + 1) * sizeof *b->cutters);
    b->cutters[b->ncutter++] = c;
}

static void load_split(struct bpe *b, const char *file, json_t *j)
{
    const char *behavior = json_string_value(json_object_get(j, "behavior"));
    json_t *pattern = json_object_get(j, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex")),
               *literal = json_string_value(json_object_get(pattern, "String"));
    bool invert = json_is_true(json_object_get(j, "invert")), removed = behavior && !strcmp(behavior, "Removed");
    if (!regex && !literal)
        tokens_fail("%s: a Split without a pattern", file);
    if (!removed && (!behavior || strcmp(behavior, "Isolated")))
        tokens_fail("%s: a Split with behavior %s; flow-tokens knows Isolated and Removed", file, behavior ? behavior : "none");
    add_cutter(b, cutter_new(regex ? regex : literal, !regex, !removed || invert, !removed || !invert));
}

static void load_cutting(struct bpe *b, const char *file, json_t *j)
{
    json_t *list = json_object_get(j, "pretokenizers"), *one = j;
    bool sequence = !strcmp(type_of(j), "Sequence"), level = false;
    for (size_t i = 0; sequence ? i < json_array_size(list) : i < 1; i++) {
        if (sequence)
            one = json_array_get(list, i);
        if (level)
            tokens_fail("%s: the pre-tokenizer %s stands after ByteLevel", file, type_of(one));
        if (!strcmp(type_of(one), "ByteLevel")) {
            json_t *regex = json_object_get(one, "use_regex");
            level = true;
            b->leading_blank = json_is_true(json_object_get(one, "add_prefix_space"));
            add_cutter(b, regex && !json_is_true(regex) ? NULL : cutter_new(words_of_gpt2, false, true, true));
        } else if (!strcmp(type_of(one), "Split")) {
            load_split(b, file, one);
        } else {
            tokens_fail("%s: the pre-tokenizer %s; flow-tokens knows Split and ByteLevel", file, type_of(one));
        }
    }
    if (!level)
        tokens_fail("%s: the BPE is not byte-level: it has no ByteLevel pre-tokenizer", file);
}

static void load_added(struct bpe *b, const char *file, json_t *list)
{
    size_t i;
    json_t *j;
    json_array_foreach(list, i, j) {
        json_t *text = json_object_get(j, "content"), *id = json_object_get(j, "id");
        static const char *const odd[] = {"single_word", "lstrip", "rstrip"};
        if (!json_is_string(text) || !json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > 0x7fffffff)
            tokens_fail("%s: added token %zu has no text or number", file, i);
        for (int k = 0; k < 3; k++)
            if (json_is_true(json_object_get(j, odd[k])))
                tokens_fail("%s: the added token '%s' with %s", file, json_string_value(text), odd[k]);
        char *copy = strdup(json_string_value(text));
        b->added = tokens_grow(b->added, (b->nadded + 1) * sizeof *b->added);
        b->added[b->nadded++] = (struct added){{copy, strlen(copy)}, (uint32_t)json_integer_value(id),
                                               json_is_true(json_object_get(j, "normalized"))};
        uint32_t number = (uint32_t)json_integer_value(id);
        if (number < b->ids)
            b->of_id[number] = (struct bytes){NULL, 0};
        add_id(b, file, number, (struct bytes){copy, strlen(copy)});
    }
}

static json_t *read_json(const char *file)
{
    json_error_t error;
    json_t *j = json_load_file(file, 0, &error);
    if (!j)
        tokens_fail("%s:%d: %s", file, error.line, error.text);
    return j;
}

void bpe_load(struct bpe *b, const char *file)
{
    static const char *const plain[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"};
    json_t *j = read_json(file), *model = json_object_get(j, "model"), *merges = json_object_get(model, "merges");
    make_letters();
    if (!model)
        tokens_fail("%s is no tokenizer.json: it has no model", file);
    json_t *cutting = json_object_get(j, "pre_tokenizer"), *type = json_object_get(model, "type");
    if (type ? strcmp(type_of(model), "BPE") : !merges)
        tokens_fail("%s: the model %s; flow-tokens knows byte-level BPE", file, type_of(model));
    if (!is_none(json_object_get(j, "normalizer")))
        tokens_fail("%s: the normalizer %s; flow-tokens takes the text as it is", file, type_of(json_object_get(j, "normalizer")));
    for (int i = 0; i < 4; i++)
        if (!is_none(json_object_get(model, plain[i])))
            tokens_fail("%s: a BPE with %s", file, plain[i]);
    if (is_none(cutting))
        tokens_fail("%s: the BPE is not byte-level: it has no pre-tokenizer", file);
    load_cutting(b, file, cutting);
    load_vocabulary(b, file, json_object_get(model, "vocab"));
    b->whole_first = json_is_true(json_object_get(model, "ignore_merges"));
    start_merges(b, json_array_size(merges));
    size_t i;
    json_t *m;
    json_array_foreach(merges, i, m) {
        const char *text = json_string_value(m), *blank = text ? strchr(text, ' ') : NULL;
        const char *left = json_string_value(json_array_get(m, 0)), *right = json_string_value(json_array_get(m, 1));
        if (text && blank)
            add_merge(b, file, i, text, (size_t)(blank - text), blank + 1, strlen(blank + 1));
        else if (left && right)
            add_merge(b, file, i, left, strlen(left), right, strlen(right));
        else
            tokens_fail("%s: merge %zu is no pair", file, i);
    }
    load_added(b, file, json_object_get(j, "added_tokens"));
    json_decref(j);
}

/* ---- vocab.json and merges.txt ---- */

void bpe_load_pair(struct bpe *b, const char *vocab_json, const char *merges_txt)
{
    json_t *j = read_json(vocab_json), *end = json_object_get(j, "<|endoftext|>");
    make_letters();
    load_vocabulary(b, vocab_json, j);
    add_cutter(b, cutter_new(words_of_gpt2, false, true, true));
    FILE *f = fopen(merges_txt, "r");
    if (!f)
        tokens_fail("cannot read %s", merges_txt);
    start_merges(b, json_object_size(j));
    char *line = NULL;
    size_t room = 0, rank = 0;
    for (ssize_t n; (n = getline(&line, &room, f)) >= 0;) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        char *blank = n > 0 ? memchr(line, ' ', (size_t)n) : NULL;
        if (n == 0 || !strncmp(line, "#version", 8))
            continue;
        if (!blank || rank >= b->merge_room / 2)
            tokens_fail("%s: merge %zu is no pair, or there are more than tokens", merges_txt, rank);
        add_merge(b, merges_txt, rank++, line, (size_t)(blank - line), blank + 1, (size_t)(line + n - blank - 1));
    }
    free(line);
    fclose(f);
    if (end) {
        b->added = tokens_grow(NULL, sizeof *b->added);
        b->added[b->nadded++] = (struct added){{"<|endoftext|>", 13}, (uint32_t)json_integer_value(end), false};
    }
    json_decref(j);
}
