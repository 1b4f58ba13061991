/* Memory by lifetime. Everything the compiler builds lives in one arena for the whole run and is given back at once by
 * mem_release(); no object is freed alone. stb_ds arrays and maps (arrput, shput, hmput) draw from the same arena.
 *
 * Include this header instead of stb_ds.h. */
#ifndef FLOWC_MEM_H
#define FLOWC_MEM_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);                         /* zeroed, 16-byte aligned, never NULL */
void *mem_realloc(void *old, size_t size);            /* old may be NULL; the tail is zeroed */
void mem_forget(void *p);                             /* no longer used; the sanitizers then complain about any use */
char *mem_strdup(const char *s);
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *mem_vprintf(const char *format, va_list args);
const char *intern(const char *s);                    /* equal strings give equal pointers */
const char *intern_n(const char *s, size_t n);
struct mem_mark { void *chunk; size_t used; };
struct mem_mark mem_mark(void);                       /* for work that only leaves numbers behind: what was drawn since, */
void mem_rewind(struct mem_mark mark);                /* and what arrays grew to since, is given back */
void mem_release(void);                               /* gives back everything; the next mem_alloc starts anew */

#define NEW(T) ((T *)mem_alloc(sizeof(T)))
#define NEW_ARRAY(T, n) ((T *)mem_alloc(sizeof(T) * (size_t)(n)))

#define STBDS_REALLOC(context, p, size) mem_realloc(p, size)
#define STBDS_FREE(context, p) mem_forget(p)
#include <stb/stb_ds.h>

/* A defect of flowc itself: prints what and where, exits with 70. */
#define BUG(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void bug_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Where several plans are compiled, a defect met in one is that plan's: the handler hears of it and does not return (it
 * jumps out). NULL: exit. Returns the handler before. */
typedef void bug_handler(const char *fact);
bug_handler *bug_caught_by(bug_handler *handler);
#endif
