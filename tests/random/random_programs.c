/* random_programs COUNT [SEED] | --print SEED | --try FILE..
 *
 * COUNT random programs from SEED on, each put on trial. A fault is shown with its seed, made small, and shown again;
 * faults of one kind are made small once. At the end: how many were equal, how many rejected and with which code.
 * --try puts programs in files on trial, which must be equal or say `# expect: reject E0404` in a line. */
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 1000, KINDS = 200 };

static int verdicts[VERDICTS], codes[CODES], ranks[9];
static struct { char kind[200]; int count; } kinds[KINDS];
static int kind_count;

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
    printf("\nequal, by ranks:");
    for (int i = 1; i < 9; i++)
        printf(" %d:%d", i, ranks[i]);
    printf("\nrejected:");
    for (int c = 0; c < CODES; c++)
        if (codes[c])
            printf(" E%04d %.1f %%", c, 100.0 * codes[c] / (double)count);
    puts("");
    for (int i = 0; i < kind_count; i++)
        printf("%6d x %s\n", kinds[i].count, kinds[i].kind);
}

int main(int argc, char **argv)
{
    if (argc >= 3 && !strcmp(argv[1], "--print")) {
        fputs(generate(strtoull(argv[2], NULL, 10)), stdout);
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
        fprintf(stderr, "usage: random_programs COUNT [SEED] | --print SEED | --try FILE.. | --shrink FILE\n");
        return 2;
    }
    long count = atol(argv[1]);
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const char *wanted = getenv("RANDOM_SHOW");       /* shows the programs rejected with this code */
    for (long k = 0; k < count; k++) {
        char *text = generate(seed + (uint64_t)k);
        struct outcome o;
        trial(text, &o);
        verdicts[o.verdict]++;
        if (o.verdict == VERDICT_REJECTED) {
            codes[o.code < 0 || o.code >= CODES ? 0 : o.code]++;
            if (wanted && atoi(wanted) == o.code)
                show("rejected", text, &o);
        } else if (o.verdict == VERDICT_EQUAL) {
            ranks[o.ranks < 9 ? o.ranks : 8]++;
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
    }
    summary(count);
    bool bad = false;
    for (int v = VERDICT_REJECTED + 1; v < VERDICTS; v++)
        bad |= verdicts[v];
    return bad;
}
