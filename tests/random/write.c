/* Random choices, lines of text, and the values in scope. */
#include "write.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

unsigned pick(struct writer *w, unsigned below)
{
    w->state ^= w->state << 13;
    w->state ^= w->state >> 7;
    w->state ^= w->state << 17;
    return (unsigned)((w->state * 2685821657736338717ull >> 33) % below);
}

bool chance(struct writer *w, unsigned percent)
{
    return pick(w, 100) < percent;
}

void write_line(struct writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(w->to, "%*s", 4 * w->indent, "");
    vfprintf(w->to, format, args);
    fputc('\n', w->to);
    va_end(args);
}

void shape_text(char *to, const struct item *v)
{
    *to = 0;
    for (int i = 0; i < v->nd; i++)
        to += v->d[i].name ? sprintf(to, "%s%c", i ? ", " : "", v->d[i].name)
                           : sprintf(to, "%s%d", i ? ", " : "", v->d[i].n);
}

void axes_text(char *to, const struct item *v, unsigned keep, const char *otherwise)
{
    *to = 0;
    for (int i = 0; i < v->nd; i++)
        to += sprintf(to, "%s%s", i ? ", " : "", keep >> i & 1 ? ":" : otherwise);
}

bool same_size(struct size a, struct size b)
{
    return a.name == b.name && a.n == b.n;
}

bool same_shape(const struct item *a, const struct item *b)
{
    if (a->nd != b->nd)
        return false;
    for (int i = 0; i < a->nd; i++)
        if (!same_size(a->d[i], b->d[i]))
            return false;
    return true;
}

int find_dim(const struct item *v, char name)
{
    for (int i = 0; i < v->nd; i++)
        if (v->d[i].name == name)
            return i;
    return -1;
}

bool distinct(const struct item *v)
{
    for (int i = 0; i < v->nd; i++)
        if (!v->d[i].name || find_dim(v, v->d[i].name) != i)
            return false;
    return true;
}

static struct item *new_item(struct writer *w, const char *name, enum kind kind, int nd, const struct size *d)
{
    if (w->items == MAX_VALUES)
        abort();
    struct item *v = &w->item[w->items++];
    *v = (struct item){.kind = kind, .nd = nd};
    snprintf(v->name, sizeof v->name, "%s", name);
    for (int i = 0; i < nd; i++)
        v->d[i] = d[i];
    return v;
}

void add_target(struct writer *w, const char *name, int nd, const struct size *d, bool param, bool input)
{
    if (w->targets == MAX_TARGETS)
        return;
    struct target *t = &w->target[w->targets++];
    *t = (struct target){.nd = nd, .param = param, .input = input};
    snprintf(t->pattern, sizeof t->pattern, "%s", name);
    for (int i = 0; i < nd; i++)
        t->d[i] = d[i];
}

struct item *add_item(struct writer *w, enum kind kind, int nd, const struct size *d)
{
    char name[NAME];
    snprintf(name, sizeof name, "v%d", ++w->names);
    if (kind == KIND_FLOAT)
        add_target(w, name, nd, d, false, false);
    return new_item(w, name, kind, nd, d);
}

struct item *add_param(struct writer *w, int nd, const struct size *d)
{
    static const char *const starts[] = {"normal(std = 0.5)", "normal(std = 0.4)", "zeros", "ones", "uniform(-1, 1)",
                                         "0.5"};
    char name[NAME], shape[LABEL];
    snprintf(name, sizeof name, "w%d", ++w->names);
    struct item *v = new_item(w, name, KIND_FLOAT, nd, d);
    v->param = true;
    shape_text(shape, v);
    write_line(w, "param %s: f32[%s] = %s", name, shape, starts[pick(w, chance(w, 60) ? 1 : 6)]);
    add_target(w, name, nd, d, true, false);
    return v;
}

static struct item *choose(struct writer *w, bool (*fits)(const struct item *v), enum kind kind)
{
    struct item *found = NULL;
    unsigned weight = 0;
    for (int i = 0; i < w->items; i++) {
        struct item *v = &w->item[i];
        if (v->kind != kind || (fits && !fits(v)))
            continue;
        unsigned mine = (v->used ? 1 : 4) + (i + 3 >= w->items ? 3 : 0);
        weight += mine;
        if (pick(w, weight) < mine)
            found = v;
    }
    if (found)
        found->used = true;
    return found;
}

struct item *any(struct writer *w, enum kind kind) { return choose(w, NULL, kind); }
struct item *any_like(struct writer *w, bool (*fits)(const struct item *v)) { return choose(w, fits, KIND_FLOAT); }
