/* flowc --allocate FILE.csv: one static allocation problem. Columns id,lower,upper,size in any order after a header;
 * the same lines with ,offset appended on stdout, then `# height H`. A file name such as A.1048576.csv gives the
 * capacity; a solution above it is exit status 1. */
#include "../passes.h"
#include "fit.h"
#include "pack.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SEARCH_NODES = 20000000 };       /* a minute at most; the hardest problems known take one in forty of it */
static const int64_t MOST_BYTES = INT64_MAX / 4;     /* of all items together: no sum of sizes overflows */

static int column(const char *header, const char *name)
{
    int k = 0;
    size_t n = strlen(name);
    for (const char *at = header;; at++, k++) {
        size_t length = strcspn(at, ",\r\n");
        if (length == n && !strncmp(at, name, n))
            return k;
        at += length;
        if (*at != ',')
            return -1;
    }
}

static bool number(const char *line, int k, int64_t *value)
{
    while (k--) {
        line = strchr(line, ',');
        if (!line)
            return false;
        line++;
    }
    char *end;
    errno = 0;
    *value = strtoll(line, &end, 10);
    bool whole = end != line && !errno;
    end += strspn(end, " \t");
    return whole && (!*end || *end == ',');
}

/* The longest run of digits between dots of the file's name, or 0. */
static int64_t capacity(const char *path)
{
    const char *name = strrchr(path, '/');
    int64_t found = 0;
    for (const char *at = strchr(name ? name : path, '.'); at; at = strchr(at + 1, '.')) {
        char *end;
        long long v = strtoll(at + 1, &end, 10);
        if (end != at + 1 && (*end == '.' || !*end))
            found = v;
    }
    return found;
}

int allocate_file(FILE *to, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "flowc: cannot read '%s'\n", path);
        return 2;
    }
    static char line[4096];
    char **lines = NULL;
    struct item *items = NULL;
    if (!fgets(line, sizeof line, f))
        line[0] = 0;
    const char *header = mem_printf("%.*s", (int)strcspn(line, "\r\n"), line);
    int lower = column(header, "lower"), upper = column(header, "upper"), size = column(header, "size");
    int64_t sum = 0;
    bool good = lower >= 0 && upper >= 0 && size >= 0;
    while (good && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!line[0])
            continue;
        struct item it = {.id = (int)arrlen(items)};
        good = number(line, lower, &it.lower) && number(line, upper, &it.upper) && number(line, size, &it.size) &&
               it.upper >= it.lower && it.size >= 0 && it.size <= MOST_BYTES - sum;
        sum += good ? it.size : 0;
        arrput(items, it);
        arrput(lines, mem_strdup(line));
    }
    fclose(f);
    if (!good) {
        fprintf(stderr, "flowc: '%s': line %d is not id,lower,upper,size\n", path, (int)arrlen(items) + 1);
        return 2;
    }
    int n = (int)arrlen(items);
    int64_t limit = capacity(path), height = limit ? fit(items, n) : pack_near(items, n, SEARCH_NODES / 10);
    if (limit && height > limit && pack(items, n, limit, SEARCH_NODES))
        for (height = 0; n--;)
            height = items[n].offset + items[n].size > height ? items[n].offset + items[n].size : height;
    fprintf(to, "%s,offset\n", header);
    for (int i = 0; i < arrlen(items); i++)
        fprintf(to, "%s,%lld\n", lines[i], (long long)items[i].offset);
    fprintf(to, "# height %lld\n", (long long)height);
    return limit && height > limit;
}
