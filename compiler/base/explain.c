/* --explain-error: a page for every code. The pages stand in explain.def, the titles in diag.def. */
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

int diag_explain(FILE *to, const char *code)
{
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
        return 0;
    }
    return 1;
}
