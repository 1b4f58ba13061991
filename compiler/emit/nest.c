/* Ordering and merging of loops. */
#include "nest.h"
#include <string.h>

static void swap(struct nest *n, int i, int j)
{
    struct sym t = n->extent[i];
    n->extent[i] = n->extent[j];
    n->extent[j] = t;
    for (int k = 0; k < n->tensors; k++) {
        t = n->stride[k][i];
        n->stride[k][i] = n->stride[k][j];
        n->stride[k][j] = t;
    }
}

static void drop(struct nest *n, int at)
{
    for (int i = at; i + 1 < n->loops; i++)
        swap(n, i, i + 1);
    n->loops--;
}

void nest_sort(const struct physical *p, struct nest *n, int by)
{
    for (int i = n->loops - 1; i >= 0; i--)
        if (sym_is(n->extent[i], 1))
            drop(n, i);
    for (int i = 1; i < n->loops; i++)
        for (int j = i; j && sym_max(p, n->stride[by][j]) > sym_max(p, n->stride[by][j - 1]); j--)
            swap(n, j, j - 1);
}

void nest_merge(struct nest *n)
{
    for (int i = n->loops - 2; i >= 0; i--) {
        bool fits = true;
        for (int k = 0; k < n->tensors && fits; k++)
            fits = sym_same(n->stride[k][i], sym_mul(n->stride[k][i + 1], n->extent[i + 1]));
        if (!fits)
            continue;
        n->extent[i] = sym_mul(n->extent[i], n->extent[i + 1]);
        for (int k = 0; k < n->tensors; k++)
            n->stride[k][i] = n->stride[k][i + 1];
        drop(n, i + 1);
    }
}

const char *kernel_text(const char *sym)
{
    char *text = mem_strdup(sym), *to = text;
    for (const char *at = sym; *at; at++)
        if (*at != '[' && *at != ']')
            *to++ = *at;
    *to = 0;
    return text;
}

static void add_constants(struct sym s, bool *needs)
{
    for (int i = 0; i < s.n; i++)
        needs[s.k[i]] = true;
}

void kernel_constants(const struct nest *n, bool *needs)
{
    for (int i = 0; i < n->loops; i++) {
        add_constants(n->extent[i], needs);
        for (int k = 0; k < n->tensors; k++)
            add_constants(n->stride[k][i], needs);
    }
}

const char *nest_index(const struct nest *n, int tensor, const char *const *var, int from, int to)
{
    const char *s = NULL;
    for (int i = from; i < to; i++) {
        struct sym stride = n->stride[tensor][i];
        if (sym_is(stride, 0))
            continue;
        const char *term = sym_is(stride, 1) ? var[i] : mem_printf("%s * %s", var[i], kernel_text(sym_text(stride)));
        s = s ? mem_printf("%s + %s", s, term) : term;
    }
    return s ? s : "0";
}
