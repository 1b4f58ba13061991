/* Statements that read a value through a view: a new or a dropped axis, a slice, another order of the dims, parts of a stack.
 * In a repeat that value is one from outside it, or the view is kept for the backward: where each of them lies in memory is
 * what this setting of the generator is about. */
#include "write.h"
#include <stdlib.h>
#include <string.h>

static bool is_stream(const struct writer *w, const struct item *v)
{
    return v->nd == 3 && same_size(v->d[0], w->N) && same_size(v->d[1], w->T) && same_size(v->d[2], w->D);
}

/* x and c are f32[N, T, D]. */
static void write_stream(struct writer *w, const char *x, const char *c)
{
    int t = (int)pick(w, (unsigned)w->T.n), d = (int)pick(w, (unsigned)w->D.n);
    unsigned form = pick(w, 12);
    if (w->in_layer && (form == 9 || form == 10))        /* the mask is the model's */
        form = 11;
    switch (form) {
    case 0:
        write_line(w, "%s = 0.5 * %s + 0.2 * sum(tanh(%s[:, :, _, :]) * %s[:, _, :, :], axis = 2)", x, x, x, c);
        break;
    case 1:
        write_line(w, "%s = 0.5 * %s + 0.3 * transpose(tanh(transpose(%s, axis = [2, 0, 1])) * transpose(%s, axis = [2, 0, 1]), "
                   "axis = [1, 2, 0])", x, x, x, c);
        break;
    case 2:
        write_line(w, "%s = 0.5 * %s + 0.3 * tanh(%s * %s[:, %d, :][:, _, :])", x, x, x, c, t);
        break;
    case 3:
        write_line(w, "%s = 0.5 * %s + 0.3 * tanh(%s) * %s[:, :, %d][:, :, _]", x, x, x, c, d);
        break;
    case 4:
        if (w->T.n < 2 || !t)
            write_line(w, "%s = 0.7 * %s", x, c);
        else
            write_line(w, "%s = 0.5 * %s + 0.4 * reshape(concat(%s[:, %d.., :], %s[:, ..%d, :], axis = 1), [N, T, D])", x, x, c,
                       t, x, t);
        break;
    case 5: case 6: {
        struct size shape[] = {w->N, w->T, w->D};
        struct item a = *add_item(w, KIND_FLOAT, 3, shape), b = *add_item(w, KIND_FLOAT, 3, shape);
        int at = (int)pick(w, 3);
        write_line(w, "%s, %s = unstack(stack(%s, %s, axis = %d), axis = %d)", a.name, b.name, x, c, at, at);
        write_line(w, "%s = 0.7 * %s + 0.2 * tanh(%s) * %s", x, a.name, b.name, a.name);
        break;
    }
    case 7:
        write_line(w, "%s = 0.6 * %s + 0.2 * reshape(tanh(reshape(%s, [N, T, H, K])) * reshape(%s, [N, T, H, K]), [N, T, D])", x, x,
                   c, x);
        break;
    case 8:
        write_line(w, "%s = %s", x, c);
        write_line(w, "%s = 0.9 * tanh(%s)", x, x);
        break;
    case 9:
        write_line(w, "%s = where(keep[:, :, _], %s, 0.3 * %s)", x, x, c);
        break;
    case 10:
        write_line(w, "%s = mask(%s, keep[:, %d][:, _, _]) + 0.2 * %s", x, c, t, x);
        break;
    default:
        write_line(w, "%s = 0.5 * %s + 0.2 * tanh(%s[:, :, %d..%d] * %s[:, :, %d][:, :, _])", x, x, c, d, d + 1, x, d);
    }
}

bool write_view(struct writer *w, const char *x, int outer)
{
    int of = (int)pick(w, (unsigned)outer);
    for (int i = 0; i < 3 && !is_stream(w, &w->item[of]); i++)
        of = (int)pick(w, (unsigned)outer);
    struct item *c = &w->item[of];
    if (c->kind != KIND_FLOAT || c->param || !c->nd || c->d[0].name != 'N')
        return false;
    c->used = true;
    if (is_stream(w, c)) {
        char name[NAME];
        memcpy(name, c->name, sizeof name);
        write_stream(w, x, name);
        return true;
    }
    char entries[80], *t = entries + sprintf(entries, ":");       /* one entry of a row, for all of the row */
    for (int i = 1; i < c->nd; i++)
        t += sprintf(t, ", %d", (int)pick(w, (unsigned)c->d[i].n));
    write_line(w, chance(w, 50) ? "%s = 0.5 * %s + 0.3 * tanh(%s) * %s[%s][:, _, _]" :
                                  "%s = 0.6 * %s + 0.2 * %s * tanh(%s[%s])[:, _, _]", x, x, x, c->name, entries);
    return true;
}

/* Two values of a stream's shape change places. */
void write_swap(struct writer *w, const char *x, int outer)
{
    int of = (int)pick(w, (unsigned)outer);
    struct item *c = &w->item[of];
    if (c->kind != KIND_FLOAT || c->param || !is_stream(w, c) || !strcmp(c->name, x))
        return;
    char name[NAME];
    memcpy(name, c->name, sizeof name);
    struct item *held = add_item(w, KIND_FLOAT, 3, c->d);
    held->used = true;
    write_line(w, "%s = %s%s", held->name, chance(w, 50) ? "0.9 * " : "", x);
    write_line(w, "%s = %s", x, name);
    write_line(w, "%s = %s", name, held->name);
    rebind(w, name);
}

/* What nothing has read yet, for all it is worth to a value of rows: f32[N, 1, 1], to be added to a stream. */
void write_unread(struct writer *w, const char *x, int from)
{
    for (int i = from; i < w->items; i++) {
        struct item *v = &w->item[i];
        if (v->used || v->kind != KIND_FLOAT || v->param || !v->nd || v->d[0].name != 'N' || !strcmp(v->name, x))
            continue;
        v->used = true;
        char sum[200], *t = sum + sprintf(sum, "tanh(%s)", v->name);
        for (int k = 1; k < v->nd; k++) {
            memmove(sum + 5, sum, strlen(sum) + 1);
            memcpy(sum, "mean(", 5);
            t = sum + strlen(sum);
            sprintf(t, ", axis = 1)");
        }
        write_line(w, "%s = %s + 0.1 * %s[:, _, _]", x, x, sum);
    }
}
