/* fuzz_corpus FILE.. | fuzz_corpus --mutate COUNT SEED WORDS FILE..
 *
 * Runs the fuzz target without libFuzzer: once over each file and over each file cut short in the middle; or over COUNT
 * texts made of the files by changes that follow from the seed alone. The text under way is in fuzz_last.flow. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 20, LONGEST = 3000, WORDS = 400 };

static char text[ROOM], other[ROOM];

static size_t read_file(const char *path, char *to)
{
    FILE *in = fopen(path, "rb");
    if (!in) {
        perror(path);
        exit(1);
    }
    size_t n = fread(to, 1, ROOM, in);
    fclose(in);
    return n;
}

/* ---- changes ---- */

static uint64_t state;

static size_t pick(size_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return below ? (size_t)(state >> 33) % below : 0;
}

static char *word[WORDS];
static size_t words;

/* The dictionary of libFuzzer: a word in quotes a line. */
static void read_words(const char *path)
{
    char line[200];
    FILE *in = fopen(path, "r");
    if (!in) {
        perror(path);
        exit(1);
    }
    while (words < WORDS && fgets(line, sizeof line, in)) {
        char *begin = strchr(line, '"'), *end = strrchr(line, '"');
        if (*line != '#' && begin && end > begin)
            word[words++] = strndup(begin + 1, (size_t)(end - begin - 1));
    }
    fclose(in);
}

/* text[at .. at + out] gives way to n bytes of `by`. */
static size_t replace(size_t size, size_t at, size_t out, const char *by, size_t n)
{
    if (size - out + n > LONGEST)
        return size;
    memmove(text + at + n, text + at + out, size - at - out);
    memcpy(text + at, by, n);
    return size - out + n;
}

static size_t change(size_t size, const char *donor)
{
    size_t at = pick(size + 1), run = pick(20), n = read_file(donor, other), from = pick(n);
    if (run > size - at)
        run = size - at;
    switch (pick(6)) {
    case 0: return replace(size, at, run, "", 0);
    case 1: {
        const char *w = word[pick(words)];
        return replace(size, at, pick(2) ? run : 0, w, strlen(w));
    }
    case 2: {                                         /* a line of another file */
        while (from && other[from - 1] != '\n')
            from--;
        while (at && text[at - 1] != '\n')
            at--;
        const char *end = memchr(other + from, '\n', n - from);
        return replace(size, at, 0, other + from, end ? (size_t)(end + 1 - other) - from : n - from);
    }
    case 3: return replace(size, at, 0, other + from, n - from < 40 ? n - from : pick(40));
    case 4: {
        static const char *const numbers[] = {"0", "1", "2", "3", "7", "-1", "4096", "9223372036854775807", "1e30"};
        while (at < size && (text[at] < '0' || text[at] > '9'))
            at++;
        const char *w = numbers[pick(9)];
        return at < size ? replace(size, at, 1, w, strlen(w)) : size;
    }
    default: {
        char c = (char)pick(256);
        return at < size ? replace(size, at, 1, &c, 1) : size;
    }
    }
}

static void mutate(long count, char **file, size_t files)
{
    for (long i = 0; i < count; i++) {
        size_t n = read_file(file[pick(files)], text);
        for (size_t k = 1 + pick(2) * pick(4); k > 0; k--)
            n = change(n, file[pick(files)]);
        FILE *last = fopen("fuzz_last.flow", "wb");
        if (last) {
            fwrite(text, 1, n, last);
            fclose(last);
        }
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    }
    printf("%ld texts\n", count);
}

int main(int argc, char **argv)
{
    if (argc > 5 && !strcmp(argv[1], "--mutate")) {
        state = strtoull(argv[3], NULL, 10);
        read_words(argv[4]);
        mutate(atol(argv[2]), argv + 5, (size_t)argc - 5);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        size_t n = read_file(argv[i], text);
        printf("%s\n", argv[i]);
        fflush(stdout);
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
        LLVMFuzzerTestOneInput((const uint8_t *)text, n / 2);
    }
    return 0;
}
