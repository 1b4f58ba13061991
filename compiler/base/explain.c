/* --explain-error: a page for every code. The pages stand in explain.def, what makes their examples right
 * in mended.def, the titles in diag.def. */
#include "diag.h"
#include <string.h>

static const struct { const char *name; int number; const char *title; } codes[] = {
#define DIAG(code, number, title) [code] = {#code, number, title},
#include "diag.def"
#undef DIAG
};
static const struct { const char *text, *example; } pages[DIAG_CODES] = {
#define PAGE(code, text, example) [code] = {text, example},
#include "explain.def"
#undef PAGE
};
static const struct { const char *old, *new; } mended[DIAG_CODES] = {
#define MENDED(code, old, new) [code] = {old, new},
#include "mended.def"
#undef MENDED
};

static void put_mended(FILE *to, const char *example, const char *old, const char *new)
{
    const char *at = strstr(example, old), *begin = at;
    if (!at)
        return;
    while (begin > example && begin[-1] != '\n')
        begin--;
    int after = (int)strcspn(at + strlen(old), "\n");
    fprintf(to, "\nMended:\n\n  - %.*s\n", (int)(at - begin + (long)strlen(old)) + after, begin);
    fprintf(to, "  + %.*s%s%.*s\n", (int)(at - begin), begin, new, after, at + strlen(old));
}

int diag_explain(FILE *to, const char *code)
{
    if (!strcmp(code, "BUG")) {
        fputs("BUG: defect of flowc\n\nWhat --diagnostics=json calls a message about flowc, not about a program. The exit status "
              "is 70, and\nnothing is written. Please report it with the .flow file and the command.\n", to);
        return 0;
    }
    for (int i = 0; i < DIAG_CODES; i++) {
        char name[8];
        snprintf(name, sizeof name, "%c%04d", codes[i].name[0], codes[i].number);
        if (strcmp(name, code))
            continue;
        fprintf(to, "%s: %s\n\n%s\n", name, codes[i].title, pages[i].text);
        if (*pages[i].example)
            fputs("\nExample:\n\n", to);
        for (const char *line = pages[i].example; *line;) {
            int n = (int)strcspn(line, "\n");
            fprintf(to, "    %.*s\n", n, line);
            line += n + (line[n] == '\n');
        }
        if (mended[i].old)
            put_mended(to, pages[i].example, mended[i].old, mended[i].new);
        return 0;
    }
    return 1;
}
