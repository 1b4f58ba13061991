/* Source files and places in them. A place is two byte offsets into one file; line and column exist only when printing. */
#ifndef FLOWC_SOURCE_H
#define FLOWC_SOURCE_H
#include <stdbool.h>
#include <stddef.h>

struct span {
    int file;                    /* index of the source file; 0 means no place (built by the compiler) */
    int begin, end;              /* bytes [begin, end) */
};

struct source {
    const char *name;            /* as the user wrote it */
    const char *text;            /* NUL-terminated */
    size_t size;
};

struct position { int line, column; };               /* both from 1; column counts bytes */

int source_open(const char *name);                   /* reads the file; 0 when it cannot be read (errno says why) */
int source_add(const char *name, const char *text);  /* a text in memory, for tests and built-in files */
const struct source *source_get(int file);
struct position source_position(int file, int offset);
const char *source_line_text(int file, int line, int *length);
const char *span_text(struct span s);                /* the bytes of the span, interned */
const char *span_quoted(struct span at);             /* "`x + w`": a piece of it on one line, 40 characters at most */
const char *span_where(struct span s);               /* "gpt.flow:12", for comments in emitted text and dumps */
struct span span_join(struct span a, struct span b);
bool span_within(struct span a, struct span b);      /* is there a, and all of it in b? */
void source_reset(void);
#endif
