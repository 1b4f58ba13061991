/* random_programs [--views] COUNT [SEED] | --print SEED | --try FILE.. | --shrink FILE
 *
 * COUNT random programs from SEED on, each put on trial; with --views those of the setting that views.c describes. A fault
 * is shown with its seed, made small, and shown again; faults of one kind are made small once. Now and then and at the end:
 * how many were equal, how many rejected; ten times as seldom and at the end also each kind of rejection, that is its code
 * and what it says but for names and numbers, with one example. --try puts programs in files on trial, which must be equal
 * or say `# expect: reject E0404` in a line. The same main serves emitted_programs, whose trial goes further (emitted.c). */
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 1000, KINDS = 400 };

static int verdicts[VERDICTS], codes[CODES], ranks[9], vague;
static struct { char kind[200]; int count; } kinds[KINDS];
static int kind_count;
static struct { char kind[200]; int count; uint64_t seed; char *text; } refused[KINDS];
static int refused_count;

static void show(const char *what, const char *text, const struct outcome *o)
{
    printf("---- %s: %s, %s\n%s---- %s\n", what, verdict_name[o->verdict], o->kind, text, o->text);
    fflush(stdout);
}

/* Counts the kind; true the first time. */
static bool is_new(const struct outcome *o)
{
    char key[200];
    snprintf(key, sizeof key, "%.60s %.130s", verdict_name[o->verdict], o->kind);
    for (int i = 0; i < kind_count; i++)
        if (!strcmp(kinds[i].kind, key)) {
            kinds[i].count++;
            return false;
        }
    if (kind_count < KINDS) {
        memcpy(kinds[kind_count].kind, key, sizeof key);
        kinds[kind_count++].count = 1;
    }
    return true;
}

/* What is said, without what is quoted and without numbers. */
static void plain_words(const char *said, char *to, size_t room)
{
    const char *p = strstr(said, "error[");
    size_t n = 0;
    for (p = p ? p : said; *p && *p != '\n' && n + 2 < room; p++) {
        const char *close = *p == '\'' ? strchr(p + 1, '\'') : NULL;
        bool digit = *p >= '0' && *p <= '9' && n > 12;
        if (close)
            p = close;
        if (!(digit && n && to[n - 1] == '#'))
            to[n++] = close ? '_' : digit ? '#' : *p;
    }
    to[n] = 0;
}

static void note_refusal(const struct outcome *o, uint64_t seed)
{
    char key[200];
    int i = 0;
    plain_words(o->text, key, sizeof key);
    while (i < refused_count && strcmp(refused[i].kind, key))
        i++;
    if (i == KINDS)
        return;
    if (i == refused_count) {
        memcpy(refused[refused_count].kind, key, sizeof key);
        refused[refused_count].seed = seed;
        refused[refused_count++].text = strdup(o->text);
    }
    refused[i].count++;
}

static char *read_text(const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in) {
        perror(path);
        exit(2);
    }
    char *text = calloc(1, 1 << 16);
    if (!fread(text, 1, (1 << 16) - 1, in))
        exit(2);
    fclose(in);
    return text;
}

static int try_file(const char *path)
{
    char *text = read_text(path), *expect = strstr(text, "# expect: reject E");
    struct outcome o;
    trial(text, &o);
    bool fine = expect ? o.verdict == VERDICT_REJECTED && o.code == atoi(expect + 18) : o.verdict == VERDICT_EQUAL;
    printf("%s: %s, %s\n", path, verdict_name[o.verdict], o.kind);
    if (!fine)
        puts(o.text);
    free(text);
    return !fine;
}

static void summary(long count)
{
    printf("%ld programs: %d equal to one rank, %d rejected (%.1f %%)", count, verdicts[VERDICT_EQUAL],
           verdicts[VERDICT_REJECTED],
           100.0 * verdicts[VERDICT_REJECTED] / (double)count);
    for (int v = VERDICT_REJECTED + 1; v < VERDICTS; v++)
        if (verdicts[v])
            printf(", %d %s", verdicts[v], verdict_name[v]);
    printf("\nequal, of %d hardly to be told; by ranks:", vague);
    for (int i = 1; i < 9; i++)
        printf(" %d:%d", i, ranks[i]);
    printf("\nrejected:");
    for (int c = 0; c < CODES; c++)
        if (codes[c])
            printf(" E%04d %.1f %%", c, 100.0 * codes[c] / (double)count);
    puts("");
    for (int i = 0; i < kind_count; i++)
        printf("%6d x %s\n", kinds[i].count, kinds[i].kind);
    fflush(stdout);
}

static void put_refusals(void)
{
    for (int i = 0; i < refused_count; i++)
        printf("\n%6d x %s\n       seed %llu:\n%s", refused[i].count, refused[i].kind, (unsigned long long)refused[i].seed,
               refused[i].text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bool views = argc > 1 && !strcmp(argv[1], "--views");
    argv += views;
    argc -= views;
    if (argc >= 3 && !strcmp(argv[1], "--print")) {
        fputs(generate(strtoull(argv[2], NULL, 10), views), stdout);
        return 0;
    }
    if (argc >= 3 && !strcmp(argv[1], "--try")) {
        int bad = 0;
        for (int i = 2; i < argc; i++)
            bad |= try_file(argv[i]);
        return bad;
    }
    if (argc >= 3 && !strcmp(argv[1], "--shrink")) {
        struct outcome o;
        char *text = read_text(argv[2]);
        trial(text, &o);
        show("the program", shrink(text, &o), &o);
        return 0;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: random_programs [--views] COUNT [SEED] | --print SEED | --try FILE.. | --shrink FILE\n");
        return 2;
    }
    long count = atol(argv[1]);
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const char *wanted = getenv("RANDOM_SHOW");       /* shows the programs rejected with this code */
    for (long k = 0; k < count; k++) {
        char *text = generate(seed + (uint64_t)k, views);
        struct outcome o;
        trial(text, &o);
        verdicts[o.verdict]++;
        if (o.verdict == VERDICT_REJECTED) {
            codes[o.code < 0 || o.code >= CODES ? 0 : o.code]++;
            note_refusal(&o, seed + (uint64_t)k);
            if (wanted && atoi(wanted) == o.code)
                show("rejected", text, &o);
        } else if (o.verdict == VERDICT_EQUAL) {
            ranks[o.ranks < 9 ? o.ranks : 8]++;
            vague += o.degenerate;
        } else if (is_new(&o)) {
            char what[60];
            snprintf(what, sizeof what, "seed %llu", (unsigned long long)(seed + (uint64_t)k));
            show(what, text, &o);
            char *small = shrink(text, &o);
            trial(small, &o);
            show("made small", small, &o);
            free(small);
        }
        free(text);
        if ((k + 1) % summary_every == 0 && k + 1 < count)
            summary(k + 1);
        if ((k + 1) % (10 * summary_every) == 0 && k + 1 < count)
            put_refusals();
    }
    summary(count);
    put_refusals();
    bool bad = false;
    for (int v = VERDICT_REJECTED + 1; v < VERDICTS; v++)
        bad |= verdicts[v];
    return bad;
}
