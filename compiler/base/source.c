/* Source texts by number, and line and column of an offset. */
#include "source.h"
#include "mem.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const size_t MOST = 64u << 20;    /* bytes of a file: offsets are ints, and nobody writes that much */

static struct source *sources;   /* [0] is the empty "no place" file */

int source_add(const char *name, const char *text)
{
    if (!sources)
        arrput(sources, ((struct source){"", "", 0}));
    struct source s = {intern(name), mem_strdup(text), strlen(text)};
    arrput(sources, s);
    return (int)arrlen(sources) - 1;
}

int source_open(const char *name)
{
    FILE *f = fopen(name, "rb");
    if (!f)
        return 0;
    char *text = NULL;
    size_t size = 0, n;
    char part[65536];
    struct stat what;
    if (fstat(fileno(f), &what) || S_ISCHR(what.st_mode) || S_ISBLK(what.st_mode)) {     /* may never end; a pipe does */
        fclose(f);
        errno = EINVAL;
        return 0;
    }
    while (size <= MOST && (n = fread(part, 1, sizeof part, f)) > 0) {
        text = mem_realloc(text, size + n + 1);
        memcpy(text + size, part, n);
        size += n;
        text[size] = 0;
    }
    int failed = ferror(f) ? errno : size > MOST ? EFBIG : 0;
    fclose(f);
    if (failed) {
        errno = failed;
        return 0;
    }
    int file = source_add(name, "");
    sources[file].text = text ? text : "";
    sources[file].size = size;
    return file;
}

const struct source *source_get(int file)
{
    if (file < 0 || file >= arrlen(sources))
        BUG("source file %d does not exist", file);
    return &sources[file];
}

struct position source_position(int file, int offset)
{
    const struct source *s = source_get(file);
    struct position p = {1, 1};
    for (int i = 0; i < offset && (size_t)i < s->size; i++)
        if (s->text[i] == '\n') {
            p.line++;
            p.column = 1;
        } else {
            p.column++;
        }
    return p;
}

const char *source_line_text(int file, int line, int *length)
{
    const struct source *s = source_get(file);
    const char *text = s->text, *end = s->text + s->size;
    while (--line > 0 && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        text = newline ? newline + 1 : end;
    }
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    *length = (int)((newline ? newline : end) - text);
    return text;
}

const char *span_text(struct span s)
{
    if (!s.file || s.end <= s.begin)
        return intern("");
    return intern_n(source_get(s.file)->text + s.begin, (size_t)(s.end - s.begin));
}

const char *span_quoted(struct span at)
{
    enum { QUOTED = 40 };
    const char *text = span_text(at);
    size_t n = strcspn(text, "\n");
    int cut = text[n] || n > QUOTED;
    return mem_printf("`%.*s%s`", (int)(n > QUOTED ? QUOTED - 2 : n), text, cut ? ".." : "");
}

const char *span_where(struct span s)
{
    if (!s.file)
        return "(compiler)";
    const char *name = source_get(s.file)->name, *slash = strrchr(name, '/');
    return mem_printf("%s:%d", slash ? slash + 1 : name, source_position(s.file, s.begin).line);
}

struct span span_join(struct span a, struct span b)
{
    if (!a.file)
        return b;
    if (!b.file || a.file != b.file)
        return a;
    return (struct span){a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

bool span_within(struct span a, struct span b)
{
    return a.file && a.file == b.file && a.begin >= b.begin && a.end <= b.end;
}

void source_reset(void)
{
    sources = NULL;
}
