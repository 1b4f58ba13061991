/* flow-tokens: turns a text into a token file of its bytes (raw little-endian u16, as next_token reads it), with the
 * last part held out for evaluation when asked, and prints the loss of a byte-trigram table as a yardstick.
 *
 *     flow-tokens TEXT... -o train.bin [--held-out valid.bin --share 0.1] [--trigrams]
 *
 * The trigram table is counted on the training part and smoothed by interpolation with bigrams and single bytes
 * (each with weight 2, Witten-Bell style); its loss is the mean of -ln p over the held-out part, in nats per byte:
 * the unit of the training program's loss on byte tokens. A model that looks back no further than two bytes cannot be
 * much better than this. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    unsigned char *byte;
    size_t count, room;
};

static int fail(const char *what, const char *name)
{
    fprintf(stderr, "flow-tokens: %s '%s'\n", what, name);
    return 1;
}

static int text_append(struct text *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return fail("cannot read", path);
    for (;;) {
        if (t->room - t->count < 65536) {
            t->room = t->room * 2 + 65536;
            t->byte = realloc(t->byte, t->room);
            if (!t->byte)
                return fail("out of memory at", path);
        }
        size_t n = fread(t->byte + t->count, 1, 65536, f);
        t->count += n;
        if (n == 0)
            break;
    }
    int bad = ferror(f);
    fclose(f);
    return bad ? fail("cannot read", path) : 0;
}

static int write_tokens(const char *path, const unsigned char *byte, size_t count)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return fail("cannot write", path);
    for (size_t i = 0; i < count; i++) {
        putc(byte[i], f);
        putc(0, f);
    }
    if (ferror(f) | fclose(f))
        return fail("cannot write", path);
    return 0;
}

static double trigram_loss(const unsigned char *train, size_t n, const unsigned char *held, size_t m)
{
    uint32_t *three = calloc(1u << 24, sizeof *three), *two = calloc(1u << 16, sizeof *two);
    uint32_t one[256] = {0}, before_one[256] = {0}, *before_two = calloc(1u << 16, sizeof *before_two);
    if (!three || !two || !before_two)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        one[train[i]]++;
        if (i >= 1) {
            two[train[i - 1] << 8 | train[i]]++;
            before_one[train[i - 1]]++;
        }
        if (i >= 2) {
            unsigned context = train[i - 2] << 8 | train[i - 1];
            three[context << 8 | train[i]]++;
            before_two[context]++;
        }
    }
    double sum = 0;
    for (size_t i = 2; i < m; i++) {
        unsigned a = held[i - 2], b = held[i - 1], c = held[i];
        double p1 = (one[c] + 1.0) / ((double)n + 256);
        double p2 = (two[b << 8 | c] + 2 * p1) / (before_one[b] + 2.0);
        double p3 = (three[(a << 8 | b) << 8 | c] + 2 * p2) / (before_two[a << 8 | b] + 2.0);
        sum -= log(p3);
    }
    free(three);
    free(two);
    free(before_two);
    return sum / (double)(m - 2);
}

int main(int argc, char **argv)
{
    struct text text = {0};
    const char *out = NULL, *held_out = NULL;
    double share = 0.1;
    int trigrams = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--trigrams"))
            trigrams = 1;
        else if (argv[i][0] == '-' && i + 1 == argc)
            return fail("unknown option, or one that lacks its argument:", argv[i]) + 1;
        else if (!strcmp(argv[i], "-o"))
            out = argv[++i];
        else if (!strcmp(argv[i], "--held-out"))
            held_out = argv[++i];
        else if (!strcmp(argv[i], "--share"))
            share = atof(argv[++i]);
        else if (argv[i][0] == '-')
            return fail("unknown option", argv[i]) + 1;
        else if (text_append(&text, argv[i]))
            return 1;
    }
    if (!text.count || !(share > 0 && share < 1)) {
        fprintf(stderr, "usage: flow-tokens TEXT... -o train.bin [--held-out valid.bin --share 0.1] [--trigrams]\n");
        return 2;
    }
    size_t cut = held_out || trigrams ? text.count - (size_t)(share * (double)text.count) : text.count;
    if (out && write_tokens(out, text.byte, cut))
        return 1;
    if (held_out && write_tokens(held_out, text.byte + cut, text.count - cut))
        return 1;
    if (trigrams) {
        if (text.count - cut < 3)
            return fail("too little text to hold out any of", argv[1]);
        printf("%.4f\n", trigram_loss(text.byte, cut, text.byte + cut, text.count - cut));
    }
    free(text.byte);
    return 0;
}
