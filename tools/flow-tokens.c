/* flow-tokens: text into token files, and back.
 *
 *     flow-tokens TEXT... -o train.bin [--held-out valid.bin --share 0.1] [--trigrams]
 *         [--tokenizer tokenizer.json | --vocab vocab.json --merges merges.txt] [--end TOKEN] [--type u16|u32] [--header]
 *     flow-tokens --decode train.bin [--tokenizer ..] -o TEXT
 *
 * Without a tokenizer a token is a byte. Files are raw little-endian u16, or u32 where the vocabulary asks for it, as
 * next_token reads them; --header puts the 1024-byte header before them. The last share of the text is held out. --end puts
 * a token behind each text. --trigrams prints the loss of a table of trigrams on the held-out part, in nats per byte: the
 * unit of the training program's loss on byte tokens. */
#include "tokens/bpe.h"
#include "tokens/trigrams.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 1024 };

struct settings {
    const char *out, *held_out, *tokenizer, *vocab, *merges, *end, *type;
    const char **texts;
    int ntext;
    double share;
    bool trigrams, header, decode;
};

static struct bytes read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *at = NULL;
    size_t n = 0, room = 0, now = 1;
    while (f && now) {
        if (room - n < 65536)
            at = tokens_grow(at, room = room * 2 + 65536);
        now = fread(at + n, 1, room - n, f);
        n += now;
    }
    if (!f || ferror(f))
        tokens_fail("cannot read '%s'", path);
    fclose(f);
    return (struct bytes){at, n};
}

static void write_file(const char *path, const void *at, size_t n, const void *rest, size_t nrest)
{
    FILE *f = fopen(path, "wb");
    bool fine = f && fwrite(at, 1, n, f) == n && fwrite(rest, 1, nrest, f) == nrest;
    if (!f || (fclose(f) != 0) | !fine)
        tokens_fail("cannot write '%s'", path);
}

static void put32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static void write_tokens(const char *path, const uint32_t *id, size_t n, bool wide, bool header)
{
    unsigned char head[HEADER] = {0}, *out = tokens_grow(NULL, n * (wide ? 4 : 2));
    put32(head, wide ? 20240801 : 20240520);
    put32(head + 4, wide ? 7 : 1);
    put32(head + 8, (uint32_t)n);
    if (header && n > INT32_MAX)
        tokens_fail("'%s' would have %zu tokens, more than a header can say", path, n);
    for (size_t i = 0; i < n; i++) {
        if (wide) {
            put32(out + 4 * i, id[i]);
        } else {
            out[2 * i] = (unsigned char)id[i];
            out[2 * i + 1] = (unsigned char)(id[i] >> 8);
        }
    }
    write_file(path, head, header ? HEADER : 0, out, n * (wide ? 4 : 2));
    free(out);
}

/* Undoes either header, which also says how wide tokens are. */
static struct ids read_tokens(const char *path, bool wide)
{
    struct bytes file = read_file(path);
    struct ids ids = {0};
    size_t size = wide ? 4 : 2, at = 0;
    uint32_t head[3] = {0};
    if (file.n >= HEADER)
        memcpy(head, file.at, sizeof head);
    if ((head[0] == 20240520 && HEADER + 2 * (size_t)head[2] == file.n) ||
        (head[0] == 20240801 && HEADER + 4 * (size_t)head[2] == file.n)) {
        at = HEADER;
        size = head[0] == 20240801 ? 4 : 2;
        wide = size == 4;
    }
    if ((file.n - at) % size)
        tokens_fail("'%s' is no whole number of %s tokens", path, wide ? "u32" : "u16");
    for (; at < file.n; at += size) {
        uint32_t id = 0;
        memcpy(&id, file.at + at, size);
        ids_put(&ids, id);
    }
    free((char *)file.at);
    return ids;
}

static void decode(const struct settings *s, const struct bpe *b, bool bytes, bool wide)
{
    char *text = NULL;
    size_t n = 0, room = 0;
    for (int t = 0; t < s->ntext; t++) {
        struct ids ids = read_tokens(s->texts[t], wide);
        for (size_t i = 0; i < ids.n; i++) {
            char byte = (char)ids.id[i];
            struct bytes piece = {&byte, 1};
            if (!bytes)
                piece = ids.id[i] < b->ids ? b->of_id[ids.id[i]] : (struct bytes){0};
            if (!piece.at || (bytes && ids.id[i] > 255))
                tokens_fail("'%s': token %zu is %u, which the vocabulary lacks", s->texts[t], i, ids.id[i]);
            if (n + piece.n > room)
                text = tokens_grow(text, room = 2 * (n + piece.n) + 4096);
            memcpy(text + n, piece.at, piece.n);
            n += piece.n;
        }
        free(ids.id);
    }
    if (s->out)
        write_file(s->out, text, n, "", 0);
    else
        fwrite(text, 1, n, stdout);
}

/* The tokens of text bytes [low, high), counted over all texts. */
static struct ids encode(const struct settings *s, struct bpe *b, bool bytes, const struct bytes *texts, size_t low, size_t high)
{
    struct ids ids = {0};
    size_t at = 0;
    uint32_t end = 0;
    if (s->end && bytes)
        tokens_fail("--end goes with a tokenizer: every byte is a token already");
    if (s->end && !bpe_find(b, s->end, &end))
        tokens_fail("the vocabulary has no token '%s'", s->end);
    for (int t = 0; t < s->ntext; at += texts[t++].n) {
        size_t first = low > at ? low - at : 0, last = high > at ? high - at : 0;
        struct bytes part = {texts[t].at + first, (last < texts[t].n ? last : texts[t].n) - first};
        if (first >= texts[t].n || last <= first)
            continue;
        for (size_t i = 0; bytes && i < part.n; i++)
            ids_put(&ids, (unsigned char)part.at[i]);
        if (!bytes)
            bpe_encode(b, s->texts[t], part, &ids);
        if (s->end && first + part.n == texts[t].n)
            ids_put(&ids, end);
    }
    return ids;
}

static int usage(void)
{
    fprintf(stderr, "usage: flow-tokens TEXT... -o train.bin [--held-out valid.bin --share 0.1] [--trigrams]\n"
            "           [--tokenizer tokenizer.json | --vocab vocab.json --merges merges.txt] [--end TOKEN]\n"
            "           [--type u16|u32] [--header]\n"
            "       flow-tokens --decode train.bin [--tokenizer ..] -o TEXT\n");
    return 2;
}

static bool read_options(int argc, char **argv, struct settings *s)
{
    struct { const char *name; const char **to; } texts[] = {
        {"-o", &s->out}, {"--held-out", &s->held_out}, {"--tokenizer", &s->tokenizer}, {"--vocab", &s->vocab},
        {"--merges", &s->merges}, {"--end", &s->end}, {"--type", &s->type},
    };
    struct { const char *name; bool *to; } switches[] = {
        {"--trigrams", &s->trigrams}, {"--header", &s->header}, {"--decode", &s->decode},
    };
    s->texts = tokens_grow(NULL, (size_t)argc * sizeof *s->texts);
    for (int i = 1; i < argc; i++) {
        bool known = argv[i][0] != '-';
        if (known)
            s->texts[s->ntext++] = argv[i];
        for (size_t k = 0; k < sizeof switches / sizeof *switches && !known; k++)
            if ((known = !strcmp(argv[i], switches[k].name)))
                *switches[k].to = true;
        for (size_t k = 0; k < sizeof texts / sizeof *texts && !known; k++)
            if (i + 1 < argc && (known = !strcmp(argv[i], texts[k].name)))
                *texts[k].to = argv[++i];
        if (!known && i + 1 < argc && (known = !strcmp(argv[i], "--share")))
            s->share = atof(argv[++i]);
        if (!known) {
            fprintf(stderr, "flow-tokens: unknown option, or one that lacks its argument: '%s'\n", argv[i]);
            return false;
        }
    }
    return s->ntext > 0 && (s->out || s->held_out || s->trigrams || s->decode) && s->share > 0 && s->share < 1 &&
           !s->vocab == !s->merges && !(s->vocab && s->tokenizer) &&
           (!s->type || !strcmp(s->type, "u16") || !strcmp(s->type, "u32"));
}

int main(int argc, char **argv)
{
    struct settings s = {.share = 0.1};
    struct bpe b = {0};
    if (!read_options(argc, argv, &s))
        return usage();
    bool bytes = !s.tokenizer && !s.vocab;
    if (s.tokenizer)
        bpe_load(&b, s.tokenizer);
    else if (s.vocab)
        bpe_load_pair(&b, s.vocab, s.merges);
    bool wide = s.type ? !strcmp(s.type, "u32") : b.ids > 65536;
    if (!wide && b.ids > 65536)
        tokens_fail("u16 holds numbers below 65536, but the vocabulary has %u", b.ids);
    if (s.decode) {
        decode(&s, &b, bytes, wide);
        return 0;
    }
    struct bytes *texts = tokens_grow(NULL, (size_t)s.ntext * sizeof *texts);
    size_t all = 0;
    for (int t = 0; t < s.ntext; t++) {
        texts[t] = read_file(s.texts[t]);
        all += texts[t].n;
    }
    if (!all)
        tokens_fail("there is no text in '%s'", s.texts[0]);
    size_t cut = s.held_out || s.trigrams ? all - (size_t)(s.share * (double)all) : all, from = 0;
    for (int t = 0; t < s.ntext && !bytes; from += texts[t++].n)         /* not inside a character */
        while (cut > from && cut < from + texts[t].n && (texts[t].at[cut - from] & 0xc0) == 0x80)
            cut--;
    if (s.out) {
        struct ids ids = encode(&s, &b, bytes, texts, 0, cut);
        write_tokens(s.out, ids.id, ids.n, wide, s.header);
    }
    if (s.held_out) {
        struct ids ids = encode(&s, &b, bytes, texts, cut, all);
        write_tokens(s.held_out, ids.id, ids.n, wide, s.header);
    }
    if (s.trigrams) {
        unsigned char *joined = tokens_grow(NULL, all);
        size_t n = 0;
        for (int t = 0; t < s.ntext; n += texts[t++].n)
            memcpy(joined + n, texts[t].at, texts[t].n);
        if (all - cut < 3)
            tokens_fail("too little text to hold out any of '%s'", s.texts[0]);
        printf("%.4f\n", trigram_loss(joined, cut, joined + cut, all - cut));
    }
    return 0;
}
