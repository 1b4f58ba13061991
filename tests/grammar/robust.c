/* Feeds parse() what no user would write: every program cut off at each byte, with bytes overwritten, with bytes left
 * out, very deep and very long ones, and random bytes. It must come back, with diagnostics or with a tree that can be
 * printed, and without either the sanitizers' or the clock's complaint. */
#include "ast.h"
#include "base/diag.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *sink;
static long parses, rejected;

static int try(const char *text, size_t size)
{
    char *copy = mem_alloc(size + 1);
    memcpy(copy, text, size);
    int file = source_add("robust.flow", "");
    struct source *source = (struct source *)source_get(file);          /* source_add stops at a NUL */
    source->text = copy;
    source->size = size;
    struct ast *a = parse(file);
    int errors = diag_errors();
    if (!a) {
        fprintf(stderr, "robust: parse returned nothing\n");
        exit(1);
    }
    if (parses % 16 == 0) {              /* printing costs more than parsing: places are found by reading the text */
        ast_dump(sink, a);
        diag_print(sink, false);
    }
    diag_reset();
    source_reset();
    mem_release();
    parses++;
    rejected += errors != 0;
    return errors;
}

static char *repeated(const char *before, const char *part, int times, const char *after)
{
    size_t n = strlen(before) + strlen(part) * (size_t)times + strlen(after) + 1;
    char *s = malloc(n), *p = s + strlen(before);
    strcpy(s, before);
    for (int i = 0; i < times; i++, p += strlen(part))
        memcpy(p, part, strlen(part) + 1);
    strcpy(p, after);
    return s;
}

static void expect_rejected(const char *before, const char *part, int times, const char *after)
{
    char *s = repeated(before, part, times, after);
    if (!try(s, strlen(s))) {
        fprintf(stderr, "robust: %d times '%s' was accepted\n", times, part);
        exit(1);
    }
    free(s);
}

static unsigned long long state = 88172645463325252ull;
static unsigned next(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % below);
}

int main(int argc, char **argv)
{
    alarm(280);
    sink = fopen("/dev/null", "w");
    static const char *const pieces[] = {"{", "}", "(", ")", "[", "]", ":", "=", ",", "\n", ";", "..", "layer", "plan p",
        "repeat L", "x", "1", "\"s\"", "->", "sbp ", "files", "*", "@", "not", "#", "\"", " ", "train", "dim R", "on"};
    for (int f = 1; f < argc; f++) {
        FILE *in = fopen(argv[f], "rb");
        if (!in) {
            fprintf(stderr, "robust: %s: %s\n", argv[f], strerror(errno));
            return 1;
        }
        static char text[1 << 16], edit[1 << 16];
        size_t n = fread(text, 1, sizeof text - 64, in);
        fclose(in);
        for (size_t cut = 0; cut <= n; cut++)
            try(text, cut);
        for (int k = 0; k < 1000; k++) {
            memcpy(edit, text, n);
            edit[next((unsigned)n)] = (char)next(256);
            edit[next((unsigned)n)] = (char)next(256);
            try(edit, n);
        }
        for (int k = 0; k < 1000; k++) {
            size_t at = next((unsigned)n), gone = next(20);
            if (at + gone > n)
                gone = n - at;
            const char *piece = pieces[next(sizeof pieces / sizeof *pieces)];
            memcpy(edit, text, at);
            memcpy(edit + at, piece, strlen(piece));
            memcpy(edit + at + strlen(piece), text + at + gone, n - at - gone);
            try(edit, n + strlen(piece) - gone);
        }
    }
    for (int k = 0; k < 2000; k++) {
        char random[200] = "";
        size_t n = 0;
        while (n < 150) {
            const char *piece = pieces[next(sizeof pieces / sizeof *pieces)];
            n += (size_t)snprintf(random + n, sizeof random - n, "%s%s", piece, next(2) ? " " : "");
        }
        try(random, n);
        for (size_t i = 0; i < n; i++)
            random[i] = (char)next(256);
        try(random, n);
    }
    expect_rejected("layer A(x: f32) { y = ", "(", 100000, "");
    expect_rejected("layer A(x: f32) { y = ", "f(", 50000, "x");
    expect_rejected("layer A(x: f32) { y = ", "-", 100000, "x }\n");
    expect_rejected("layer A(x: f32) { y = ", "not ", 100000, "x }\n");
    expect_rejected("layer A(x: f32) { y = x", "+ x", 100000, " }\n");
    expect_rejected("layer A(x: f32) { y = ", "a: ", 100000, "f(x) }\n");
    expect_rejected("layer A(x: f32) { y = x", ".x", 100000, " }\n");
    expect_rejected("layer A(x: f32) { ", "repeat L { ", 10000, "");
    expect_rejected("dim N = ", "9", 100000, "\n");
    expect_rejected("dim N = 1e", "9", 100000, "\n");
    expect_rejected("", "}", 100000, "");
    expect_rejected("import \"", "x", 100000, "");
    expect_rejected("plan p { sbp ", "h[", 10000, "");
    printf("robust: %ld texts, %ld rejected\n", parses, rejected);
    return rejected == 0;
}
