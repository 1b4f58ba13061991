/* flow-diff A B: the first tensor of two safetensors files, in the order of A, that differs beyond tolerance. For dumps of
 * one step under two plans (--dump), or of this program and of another framework's.
 *
 *     flow-diff A.safetensors B.safetensors [--rtol 1e-4] [--atol 1e-8] [--rename 'FROM=TO']... [--all]
 *
 * A tensor differs where |a - b| > atol + rtol * (its largest magnitude in B): rounding grows with the sums behind an
 * entry, not with the entry. NaN equals NaN only. Tensors of whole numbers are compared byte by byte. --rename gives
 * tensors of B the names of A; `*` in both stands for the same text, the first for the first. Exit code 0: all common
 * tensors agree; 1: one differs, or none is common; 2: bad usage or files. */
#define _GNU_SOURCE
#include "../runtime/safetensors.h"
#include "../runtime/check.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RENAMES = 64 };

/* ---- what the reader of files needs of the runtime ---- */

void fl_fail(const char *source, int line, const char *hint, const char *fact, ...)
{
    (void)source, (void)line;
    va_list args;
    va_start(args, fact);
    fprintf(stderr, "flow-diff: ");
    vfprintf(stderr, fact, args);
    va_end(args);
    fprintf(stderr, hint ? " (%s)\n" : "\n", hint);
    exit(2);
}

void *fl_alloc(int64_t bytes)
{
    void *p = calloc(1, (size_t)(bytes > 0 ? bytes : 1));
    if (!p)
        FL_FAIL(NULL, "no memory");
    return p;
}

char *fl_printf(const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        FL_FAIL(NULL, "no memory");
    va_end(args);
    return text;
}

/* ---- comparing ---- */

struct settings {
    const char *file[2];
    double rtol, atol;
    struct { const char *from, *to; } rename[MOST_RENAMES];
    int nrename, nfile;
    bool all;
};
struct result {
    bool shapes, numbers, bytes;         /* the same shape; both hold numbers that can be read; the same type and bytes */
    int64_t beyond, first, worst;        /* entries beyond tolerance; the first and the furthest off */
    double largest_abs, largest_rel, scale;
};

/* What of `name` the stars of `from` stand for goes where those of `to` are; NULL: it does not match. Allocated. */
static char *renamed(const char *from, const char *to, const char *name)
{
    size_t head = strcspn(from, "*");
    if (strncmp(from, name, head))
        return NULL;
    if (!from[head])
        return name[head] ? NULL : fl_printf("%s", to);
    size_t before = strcspn(to, "*");
    for (size_t n = 0; n <= strlen(name + head); n++) {
        char *rest = renamed(from + head + 1, to[before] ? to + before + 1 : "", name + head + n);
        if (!rest)
            continue;
        char *whole = fl_printf("%.*s%.*s%s", (int)before, to, to[before] ? (int)n : 0, name + head, rest);
        free(rest);
        return whole;
    }
    return NULL;
}

static const struct fl_st_entry *counterpart(const struct settings *s, const struct fl_st_file *b, const char *name)
{
    for (int i = 0; i < b->nentry; i++) {
        bool same = !strcmp(b->entry[i].name, name);
        for (int k = 0; k < s->nrename && !same; k++) {
            char *other = renamed(s->rename[k].from, s->rename[k].to, b->entry[i].name);
            same = other && !strcmp(other, name);
            free(other);
        }
        if (same)
            return &b->entry[i];
    }
    return NULL;
}

static struct result compare(const struct settings *s, const struct fl_st_entry *a, const struct fl_st_entry *b)
{
    struct result r = { .first = -1 };
    r.shapes = a->ndim == b->ndim && !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape);
    r.numbers = fl_st_number(a) && fl_st_number(b);
    r.bytes = !strcmp(a->dtype, b->dtype) && a->bytes == b->bytes && !memcmp(a->data, b->data, (size_t)a->bytes);
    if (!r.shapes || !r.numbers)
        return r;
    for (int64_t i = 0; i < b->count; i++) {
        double y = fabs((double)fl_st_read(b, i));
        r.scale = isfinite(y) && y > r.scale ? y : r.scale;
    }
    for (int64_t i = 0; i < a->count; i++) {
        double x = fl_st_read(a, i), y = fl_st_read(b, i), off = fabs(x - y);
        if ((isnan(x) && isnan(y)) || x == y)
            continue;
        if (!isfinite(off))
            off = INFINITY;
        if (off > r.largest_abs) {
            r.largest_abs = off;
            r.worst = i;
        }
        if (!(off / fabs(y) <= r.largest_rel))
            r.largest_rel = isfinite(y) ? off / fabs(y) : INFINITY;
        if (off > s->atol + s->rtol * r.scale && r.beyond++ == 0)
            r.first = i;
    }
    return r;
}

static void put_shape(const struct fl_st_entry *e)
{
    printf("%s[", e->dtype);
    for (int d = 0; d < e->ndim; d++)
        printf("%s%lld", d ? ", " : "", (long long)e->shape[d]);
    printf("]");
}

static void put_index(const struct fl_st_entry *e, int64_t i)
{
    int64_t at[8];
    for (int d = e->ndim - 1; d >= 0; d--) {
        at[d] = i % e->shape[d];
        i /= e->shape[d];
    }
    printf("[");
    for (int d = 0; d < e->ndim; d++)
        printf("%s%lld", d ? ", " : "", (long long)at[d]);
    printf("]");
}

/* "nan", where C prints "-nan" of some. */
static double plain(double x) { return isnan(x) ? NAN : x; }

static bool agrees(const struct result *r) { return r->shapes && (r->numbers ? !r->beyond : r->bytes); }

static void put_result(const struct fl_st_entry *a, const struct fl_st_entry *b, const struct result *r)
{
    printf("%s ", a->name);
    if (!r->shapes || !r->numbers) {
        printf(!r->shapes ? "has another shape: " : r->bytes ? "agrees byte by byte: " : "is not the same byte by byte: ");
        put_shape(a);
        printf(" and ");
        put_shape(b);
        printf("\n");
        return;
    }
    put_shape(a);
    printf(" %s: max |a - b| %.3g", r->beyond ? "differs" : "agrees", r->largest_abs);
    if (r->largest_abs > 0) {
        printf(" at ");
        put_index(a, r->worst);
        printf(" (%.9g and %.9g)", plain(fl_st_read(a, r->worst)), plain(fl_st_read(b, r->worst)));
    }
    printf(", max rel %.3g", r->largest_rel);
    if (r->beyond) {
        printf("; %lld of %lld beyond tolerance, the first at ", (long long)r->beyond, (long long)a->count);
        put_index(a, r->first);
    }
    printf("\n");
}

static int by_offset(const void *x, const void *y)
{
    const struct fl_st_entry *a = x, *b = y;
    return a->data < b->data ? -1 : a->data > b->data;
}

static int usage(const char *fact, const char *what)
{
    fprintf(stderr, "flow-diff: %s%s\nusage: flow-diff A.safetensors B.safetensors [--rtol R] [--atol A] [--rename 'FROM=TO'].. "
            "[--all]\n", fact, what);
    return 2;
}

static bool tolerance(const char *text, double *to)
{
    char *end;
    *to = strtod(text, &end);
    return *text && !*end && *to >= 0;
}

static int read_options(struct settings *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool takes = !strcmp(argv[i], "--rtol") || !strcmp(argv[i], "--atol") || !strcmp(argv[i], "--rename");
        if (!strcmp(argv[i], "--all")) {
            s->all = true;
        } else if (takes && i + 1 == argc) {
            return usage("missing argument of ", argv[i]);
        } else if (!strcmp(argv[i], "--rename")) {
            char *from = fl_printf("%s", argv[++i]), *equals = strchr(from, '=');
            if (!equals || s->nrename == MOST_RENAMES)
                return usage("a renaming is FROM=TO, at most 64 of them: ", argv[i]);
            *equals = 0;
            s->rename[s->nrename].from = from;
            s->rename[s->nrename++].to = equals + 1;
        } else if (takes) {
            if (!tolerance(argv[i + 1], argv[i][2] == 'r' ? &s->rtol : &s->atol))
                return usage("no tolerance: ", argv[i + 1]);
            i++;
        } else if (argv[i][0] == '-' || s->nfile == 2) {
            return usage("unknown argument ", argv[i]);
        } else {
            s->file[s->nfile++] = argv[i];
        }
    }
    return s->nfile == 2 ? 0 : usage("two files are compared", "");
}

int main(int argc, char **argv)
{
    struct settings s = { .rtol = 1e-4, .atol = 1e-8 };
    struct fl_st_file f[2];
    int bad = read_options(&s, argc, argv), common = 0, differ = 0;
    if (bad)
        return bad;
    for (int k = 0; k < 2; k++) {
        char *complaint = fl_st_open(&f[k], s.file[k]);
        if (complaint)
            FL_FAIL(NULL, "%s", complaint);
    }
    qsort(f[0].entry, (size_t)f[0].nentry, sizeof *f[0].entry, by_offset);
    double worst = 0;
    const char *furthest = NULL;
    for (int i = 0; i < f[0].nentry; i++) {
        const struct fl_st_entry *a = &f[0].entry[i], *b = counterpart(&s, &f[1], a->name);
        if (!b)
            continue;
        ((struct fl_st_entry *)b)->used = f[0].entry[i].used = true;
        common++;
        struct result r = compare(&s, a, b);
        if (!agrees(&r) && differ++ == 0)
            printf("the first that differs, behind %d that agree:\n", common - 1);
        if (s.all || (!agrees(&r) && differ == 1))
            put_result(a, b, &r);
        if (r.scale > 0 && r.largest_abs / r.scale >= worst) {
            worst = r.largest_abs / r.scale;
            furthest = a->name;
        }
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0, shown = 0; i < f[k].nentry; i++)
            if (!f[k].entry[i].used && shown++ < 8)
                printf("only in %s: %s\n", s.file[k], f[k].entry[i].name);
    if (!common)
        printf("the files have no tensor in common\n");
    else if (differ)
        printf("%d of %d tensors differ\n", differ, common);
    else
        printf("%d tensors agree, the furthest %s by %.2g of its largest entry\n", common, furthest ? furthest : f[0].entry[0].name, worst);
    for (int k = 0; k < 2; k++)
        fl_st_close(&f[k]);
    return differ || !common;
}
