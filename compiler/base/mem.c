/* The run arena: a list of chunks, each block with its size in front so that mem_realloc can copy it. Under
 * AddressSanitizer everything but the blocks in use is poisoned: sizes, gaps, what mem_realloc and mem_forget left. */
#define STB_DS_IMPLEMENTATION
#include "mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)(p))
#define UNPOISON(p, n) ((void)(p))
#endif

enum { CHUNK = 1 << 20, ALIGN = 16 };

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(ALIGN) char data[];
};

struct block {
    _Alignas(ALIGN) size_t size;
};

static struct chunk *chunks, *names;     /* names: what intern() keeps, whatever is rewound */
static size_t drawn;
static struct { char *key; int value; } *interned;

void *mem_alloc(size_t size)
{
    size_t need = sizeof(struct block) + ((size + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    if (!chunks || chunks->size - chunks->used < need) {
        size_t n = need > CHUNK ? need : CHUNK;
        struct chunk *c = calloc(1, sizeof *c + n);
        if (!c) {
            fprintf(stderr, "flowc: out of memory after %zu bytes\n", drawn);
            exit(70);
        }
        POISON(c->data, n);
        c->size = n;
        c->next = chunks;
        chunks = c;
    }
    struct block *b = (struct block *)(chunks->data + chunks->used);
    chunks->used += need;
    drawn += need;
    UNPOISON(b, sizeof *b + size);
    b->size = size;
    POISON(b, sizeof *b);
    return b + 1;
}

static size_t size_of(void *p)
{
    struct block *b = (struct block *)p - 1;
    UNPOISON(b, sizeof *b);
    size_t size = b->size;
    POISON(b, sizeof *b);
    return size;
}

void mem_forget(void *p)
{
    if (p)
        POISON(p, size_of(p));
}

void *mem_realloc(void *old, size_t size)
{
    if (!old)
        return mem_alloc(size);
    size_t had = size_of(old);
    if (size <= had)
        return old;
    void *p = mem_alloc(size);
    memcpy(p, old, had);
    mem_forget(old);
    return p;
}

struct mem_mark mem_mark(void)
{
    return (struct mem_mark){ chunks, chunks ? chunks->used : 0 };
}

void mem_rewind(struct mem_mark mark)
{
    while (chunks != mark.chunk) {
        struct chunk *next = chunks->next;
        UNPOISON(chunks->data, chunks->size);
        free(chunks);
        chunks = next;
    }
    if (!chunks)
        return;
    UNPOISON(chunks->data + mark.used, chunks->used - mark.used);
    memset(chunks->data + mark.used, 0, chunks->used - mark.used);
    POISON(chunks->data + mark.used, chunks->used - mark.used);
    chunks->used = mark.used;
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(mem_alloc(n), s, n);
}

char *mem_vprintf(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *s = mem_alloc((size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    return s;
}

char *mem_printf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *s = mem_vprintf(format, args);
    va_end(args);
    return s;
}

static void swap_chunks(void)
{
    struct chunk *c = chunks;
    chunks = names;
    names = c;
}

const char *intern(const char *s)
{
    swap_chunks();
    if (shgeti(interned, s) < 0)
        shput(interned, mem_strdup(s), 1);
    const char *kept = interned[shgeti(interned, s)].key;
    swap_chunks();
    return kept;
}

const char *intern_n(const char *s, size_t n)
{
    char *copy = mem_alloc(n + 1);
    memcpy(copy, s, n);
    return intern(copy);
}

static void release(struct chunk **list)
{
    while (*list) {
        struct chunk *next = (*list)->next;
        free(*list);
        *list = next;
    }
}

void mem_release(void)
{
    release(&chunks);
    release(&names);
    interned = NULL;
    drawn = 0;
}

static bug_handler *bug_caller;

bug_handler *bug_caught_by(bug_handler *handler)
{
    bug_handler *before = bug_caller;
    bug_caller = handler;
    return before;
}

void bug_at(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (bug_caller)
        bug_caller(mem_printf("internal error at %s:%d: %s", file, line, mem_vprintf(format, args)));
    fprintf(stderr, "flowc: internal error at %s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nThis is a defect of flowc, not of your program; please report it with the .flow file.\n");
    va_end(args);
    exit(70);
}
