/* Statements that move entries about: other shapes, parts, joins, and picking by index. */
#include "write.h"
#include <string.h>

bool write_reshape(struct writer *w)
{
    const struct item *v = any(w, KIND_FLOAT);
    if (!v || !v->nd)
        return false;
    struct item out = *v;
    int at = find_dim(v, 'D'), pair = -1;
    for (int i = 0; i + 1 < v->nd; i++)
        if (v->d[i].name == 'H' && v->d[i + 1].name == 'K')
            pair = i;
    char shape[LABEL], text[200];
    if (at >= 0 && out.nd < MAX_RANK && find_dim(v, 'H') < 0 && find_dim(v, 'K') < 0) {
        memmove(out.d + at + 2, out.d + at + 1, sizeof *out.d * (size_t)(out.nd - at - 1));
        out.d[at] = w->H;
        out.d[at + 1] = w->K;
        out.nd++;
    } else if (pair >= 0 && find_dim(v, 'D') < 0) {
        memmove(out.d + pair + 1, out.d + pair + 2, sizeof *out.d * (size_t)(out.nd - pair - 2));
        out.d[pair] = w->D;
        out.nd--;
    } else {                                          /* two neighbours joined, without a name */
        int i = v->nd > 1 ? 1 + (int)pick(w, (unsigned)v->nd - 1) : 0;
        if (!i || ((v->d[i].padded || v->d[i - 1].padded) && chance(w, 95)) || (v->d[i - 1].name == 'N' && chance(w,
                70)))
            return false;
        out.d[i - 1] = (struct size){0, v->d[i].n * v->d[i - 1].n, false};
        memmove(out.d + i, out.d + i + 1, sizeof *out.d * (size_t)(--out.nd - i));
    }
    shape_text(shape, &out);
    snprintf(text, sizeof text, "reshape(%s, [%s])", v->name, shape);
    return is(w, KIND_FLOAT, out.nd, out.d, text);
}

bool write_transpose(struct writer *w)
{
    const struct item *v = any(w, KIND_FLOAT);
    if (!v || v->nd < 2)
        return false;
    struct item out = *v;
    int order[MAX_RANK];
    char text[200], *t = text;
    for (int i = 0; i < v->nd; i++)
        order[i] = i;
    for (int i = v->nd - 1; i > 0; i--) {
        int k = (int)pick(w, (unsigned)i + 1), o = order[i];
        order[i] = order[k];
        order[k] = o;
    }
    t += sprintf(t, "transpose(%s, axis = [", v->name);
    for (int i = 0; i < v->nd; i++) {
        out.d[i] = v->d[order[i]];
        t += sprintf(t, "%s%d", i ? ", " : "", order[i]);
    }
    sprintf(t, "])");
    return is(w, KIND_FLOAT, out.nd, out.d, text);
}

bool write_slice(struct writer *w)
{
    const struct item *v = any(w, KIND_FLOAT);
    if (!v || !v->nd)
        return false;
    int at = any_axis(w, v);
    struct item out = *v;
    int n = v->d[at].n, low = (int)pick(w, (unsigned)n), high = low + 1 + (int)pick(w, (unsigned)(n - low));
    char entry[20], text[200], *t = text;
    if (chance(w, 30)) {
        sprintf(entry, "%d", low);
        memmove(out.d + at, out.d + at + 1, sizeof *out.d * (size_t)(--out.nd - at));
    } else {
        if (low == 0 && high == n)
            return false;
        low ? sprintf(entry, high == n ? "%d.." : "%d..%d", low, high) : sprintf(entry, "..%d", high);
        out.d[at] = (struct size){0, high - low, false};
    }
    t += sprintf(t, "%s[", v->name);
    for (int i = 0; i <= at; i++)
        t += sprintf(t, "%s%s", i ? ", " : "", i == at ? entry : ":");
    sprintf(t, "]");
    return is(w, KIND_FLOAT, out.nd, out.d, text);
}

bool write_join(struct writer *w)
{
    const struct item *a = any(w, KIND_FLOAT), *b = any(w, KIND_FLOAT);
    if (!a || !b || !a->nd || a->nd != b->nd)
        return false;
    struct item out = *a;
    char text[200];
    if (same_shape(a, b) && a->nd < 4 && chance(w, 40)) {
        int at = (int)pick(w, (unsigned)a->nd + 1), one = (int)pick(w, 2);
        if (chance(w, 50)) {                          /* stacked and taken apart again */
            snprintf(text, sizeof text, "stack(%s, %s, axis = %d)", a->name, b->name, at);
            memmove(out.d + at + 1, out.d + at, sizeof *out.d * (size_t)(out.nd++ - at));
            out.d[at] = (struct size){0, 2, false};
            return is(w, KIND_FLOAT, out.nd, out.d, text);
        }
        snprintf(text, sizeof text, "unstack(stack(%s, %s, axis = %d), axis = %d)", a->name, b->name, at, at);
        struct item x = *add_item(w, KIND_FLOAT, out.nd, out.d), y = *add_item(w, KIND_FLOAT, out.nd, out.d);
        write_line(w, "%s, %s = %s", (one ? &x : &y)->name, (one ? &y : &x)->name, text);
        return true;
    }
    int at = -1;
    for (int i = 0; i < a->nd; i++)
        if (!same_size(a->d[i], b->d[i])) {
            if (at >= 0)
                return false;
            at = i;
        }
    if (at < 0)
        at = any_axis(w, a);
    out.d[at] = (struct size){0, a->d[at].n + b->d[at].n, false};
    snprintf(text, sizeof text, "concat(%s, %s, axis = %d)", a->name, b->name, at);
    return is(w, KIND_FLOAT, out.nd, out.d, text);
}

/* Running sums, turns, the largest entries and what their indices pick. */
bool write_along(struct writer *w)
{
    const struct item *v = any(w, KIND_FLOAT);
    if (!v || !v->nd)
        return false;
    struct item x = *v, out = *v;
    int at = any_axis(w, v), n = x.d[at].n, k = 1 + (int)pick(w, (unsigned)n);
    const char *axis = axis_text(w, v, at);
    char text[200];
    switch (pick(w, 4)) {
    case 0:
        snprintf(text, sizeof text, "0.5 * cumsum(%s, axis = %s%s)", x.name, axis, chance(w, 30)
                 ? ", reverse = true" : "");
        return is(w, KIND_FLOAT, x.nd, x.d, text);
    case 1:
        snprintf(text, sizeof text, "roll(%s, shift = %d, axis = %s)", x.name, k - n / 2, axis);
        return is(w, KIND_FLOAT, x.nd, x.d, text);
    default: {
        out.d[at] = (struct size){0, k, false};
        struct item a = *add_item(w, KIND_FLOAT, out.nd, out.d), b = *add_item(w, KIND_INDEX, out.nd, out.d);
        write_line(w, "%s, %s = top_k(%s, k = %d, axis = %d)", a.name, b.name, x.name, k, at);
        if (chance(w, 50)) {
            snprintf(text, sizeof text, "gather(tanh(%s), %s, axis = %d)", x.name, b.name, at);
            return is(w, KIND_FLOAT, out.nd, out.d, text);
        }
        if (!x.d[at].name)
            return true;
        snprintf(text, sizeof text, "scatter(%s, %s, axis = %d, dim = %c)", a.name, b.name, at, x.d[at].name);
        return is(w, KIND_FLOAT, x.nd, x.d, text);
    }
    }
}

bool write_mark(struct writer *w)
{
    const struct item *v = any(w, KIND_INDEX);
    if (!v || v->nd > 2 || find_dim(v, 'V') >= 0)
        return false;
    struct item x = *v;
    char text[200];
    snprintf(text, sizeof text, "0.5 + one_hot(%s, V)", x.name);
    x.d[x.nd++] = w->V;
    return is(w, KIND_FLOAT, x.nd, x.d, text);
}

bool write_embed(struct writer *w)
{
    const struct item *v = any(w, KIND_INDEX);
    if (!v || v->nd > 2 || w->no_params || !distinct(v))
        return false;
    struct item ids = *v;
    const struct size choice[] = {w->D, w->F, w->H};
    struct size row[2] = {w->V, choice[pick(w, 3)]};
    if (find_dim(&ids, row[1].name) >= 0)
        return false;
    struct item table = *add_param(w, 2, row);
    w->item[w->items - 1].used = true;
    char text[200];
    snprintf(text, sizeof text, "embedding(%s, %s)", ids.name, table.name);
    ids.d[ids.nd++] = row[1];
    return is(w, KIND_FLOAT, ids.nd, ids.d, text);
}
