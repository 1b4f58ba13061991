/* mangle COUNT SEED FILE.flow..: takes the programs apart and feeds what comes out through every pass up to prove, in this
 * process: cut off somewhere, or with a few words, lines or numbers dropped, doubled, swapped or put in from elsewhere.
 * Words are whole, so that many of the results still parse and reach the later passes. Each must be compiled or
 * rejected with a diagnostic: no crash, no BUG, no hang, and under the sanitizers no bad access. A failing program is
 * printed, and can be had again with the same arguments. */
#define _GNU_SOURCE
#include "base/diag.h"
#include "op.h"
#include "passes.h"
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum { TEXT = 1 << 16, WORDS = 1 << 13, SECONDS_EACH = 60 };

static const struct pass *const tried = passes + 1;       /* all but parse and emit */
enum { PASSES = PASS_COUNT - 2 };

/* ---- random numbers, and the program on trial ---- */

static unsigned long long state;
static unsigned next(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % below);
}

static char trial[TEXT];
static const char *trial_plan, *trial_pass;
static bool running;

/* abort(), a sanitizer and BUG() all come through here. */
static void show_trial(void)
{
    if (running)
        fprintf(stderr, "---- the program, plan %s, in %s:\n%s----\n", trial_plan ? trial_plan : "(first)", trial_pass, trial);
    running = false;
}

static void on_alarm(int number)
{
    fprintf(stderr, "mangle: still in %s after %d seconds\n", trial_pass, SECONDS_EACH);
    show_trial();
    _exit(1);
}

/* ---- words ---- */

struct word { int begin, end; };

static int split_words(const char *text, struct word *words)
{
    int n = 0;
    for (int i = 0; text[i] && n < WORDS;) {
        int begin = i;
        if (isalnum((unsigned char)text[i]) || text[i] == '_')
            while (isalnum((unsigned char)text[i]) || text[i] == '_')
                i++;
        else
            i++;
        if (text[begin] != ' ' && text[begin] != '\n')
            words[n++] = (struct word){begin, i};
    }
    return n;
}

/* The text with [begin, end) replaced. */
static void replace(char *text, int begin, int end, const char *by, int length)
{
    int n = (int)strlen(text);
    if (n - (end - begin) + length >= TEXT)
        return;
    memmove(text + begin + length, text + end, (size_t)(n - end) + 1);
    memcpy(text + begin, by, (size_t)length);
}

/* Part of a text as a line of its own: from the start of a random line to its end. */
static struct word random_line(const char *text)
{
    int n = (int)strlen(text), at = (int)next((unsigned)n + 1);
    struct word w = {at, at};
    while (w.begin > 0 && text[w.begin - 1] != '\n')
        w.begin--;
    while (w.end < n && text[w.end++] != '\n')
        ;
    return w;
}

static const char *const extras[] = {"0", "1", "2", "3", "7", "1000000", "4294967296", "0.5", "-", "*", "/", "@", "x", "B",
    "P", "S", "mb", "pp", "dp", "tp", "N", "T", "D", "pin", "sbp", "place", "strict", "uneven", "recompute", "repeat", "L",
    "softmax", "sum", "reshape", "concat", "rope", "dropout", "where", "argmax", "count", "detach", "stack", "cast", "max",
    "frozen", "gpipe", "P(max)", "i32", "bool", "bf16", "[", "]", "(", ")", "{", "}", "_", "..", ":", ";", "\n", "\"", "#"};

/* One change. `other` is a whole program to take words and lines from. */
static void change(char *text, const char *other)
{
    static struct word words[WORDS], others[WORDS];
    int n = split_words(text, words), m = split_words(other, others);
    if (n == 0)
        return;
    struct word w = words[next((unsigned)n)], v = others[next((unsigned)m)], l;
    const char *extra = extras[next(sizeof extras / sizeof *extras)];
    char copy[512];
    switch (next(8 + !next(4))) {
    case 0:                                           /* a word from elsewhere, most often of the same kind */
    case 1:
        for (int k = 0; k < 20 && !!isalpha((unsigned char)text[w.begin]) != !!isalpha((unsigned char)other[v.begin]); k++)
            v = others[next((unsigned)m)];
        replace(text, w.begin, w.end, other + v.begin, v.end - v.begin);
        break;
    case 2:
        replace(text, w.begin, w.end, extra, (int)strlen(extra));
        break;
    case 3:
        for (int k = 0; k < 200 && !isdigit((unsigned char)text[w.begin]); k++)
            w = words[next((unsigned)n)];
        extra = extras[next(8)];
        replace(text, w.begin, w.end, extra, (int)strlen(extra));
        break;
    case 4:
        replace(text, w.begin, w.end, "", 0);
        break;
    case 5:
        replace(text, w.begin, w.begin, extra, (int)strlen(extra));
        break;
    case 6:
        l = random_line(text);
        replace(text, l.begin, l.end, "", 0);
        break;
    case 7:                                           /* a line put in somewhere, perhaps a second time */
        l = random_line(other);
        if (l.end - l.begin < (int)sizeof copy) {
            memcpy(copy, other + l.begin, (size_t)(l.end - l.begin));
            int at = random_line(text).begin;
            replace(text, at, at, copy, l.end - l.begin);
        }
        break;
    case 8:
        text[w.begin] = (char)(next(4) ? 32 + next(95) : 1 + next(255));
        break;
    }
}

/* ---- the trial ---- */

static int stopped[PASSES + 1], compiled;             /* by pass, parse first */
static FILE *sink;

static void try(void)
{
    struct options o = {.file = "mangle.flow", .target = "cpu", .check = true, .plan = trial_plan};
    struct module *m = NEW(struct module);
    m->options = &o;
    int at = 0;
    running = true;
    alarm(SECONDS_EACH);
    trial_pass = "parse";
    arrput(m->programs, parse(source_add("mangle.flow", trial)));
    for (; at < PASSES && !diag_errors(); at++) {
        trial_pass = tried[at].name;
        tried[at].run(m);
        for (int e = 0; e < ENTRIES && !diag_errors(); e++)
            if (m->graph[e])
                graph_verify(m->graph[e], tried[at].name);
    }
    diag_errors() ? stopped[at]++ : compiled++;
    trial_pass = "diag_print";
    diag_print(sink, next(2));
    alarm(0);
    running = false;
    diag_reset();
    source_reset();
    mem_release();
}

static const char *random_plan(const char *text)
{
    static char name[64];
    int count = 0;
    for (const char *p = text; (p = strstr(p, "\nplan ")); p += 6)
        if (next((unsigned)++count) == 0)
            sscanf(p + 6, "%63[A-Za-z0-9_]", name);
    return count && next(8) ? name : NULL;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: mangle COUNT SEED FILE.flow..\n");
        return 2;
    }
    long count = atol(argv[1]);
    state = 88172645463325252ull + strtoull(argv[2], NULL, 10) * 2654435761ull;
    static char texts[256][TEXT];
    int files = 0;
    for (int i = 3; i < argc && files < 256; i++) {
        FILE *in = fopen(argv[i], "rb");
        if (!in) {
            perror(argv[i]);
            return 1;
        }
        texts[files][fread(texts[files], 1, TEXT / 2, in)] = 0;
        files++;
        fclose(in);
    }
    sink = fopen("/dev/null", "w");
    signal(SIGALRM, on_alarm);
    atexit(show_trial);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(show_trial);
#endif
    for (long k = 0; k < count; k++) {
        const char *base = texts[next((unsigned)files)];
        strcpy(trial, base);
        trial_plan = random_plan(base);
        if (next(16) == 0)
            trial[next((unsigned)strlen(trial))] = 0;
        else
            for (unsigned n = 1 + next(next(3) ? 1 : 5); n > 0; n--)
                change(trial, texts[next((unsigned)files)]);
        try();
    }
    printf("%ld programs: %d stopped by parse", count, stopped[0]);
    for (int at = 0; at < PASSES; at++)
        printf(", %d by %s", stopped[at + 1], tried[at].name);
    printf(", %d compiled\n", compiled);
    return 0;
}
