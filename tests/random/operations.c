/* Statements: each writer picks operands that fit and writes `vN = ..`. Numbers stay small, so that a difference is a
 * difference and no overflow: what multiplies or raises is damped by tanh or a norm now and then. */
#include "write.h"
#include <stdlib.h>
#include <string.h>

/* Adds the value after the operands have been read: items move only at the end. */
bool is(struct writer *w, enum kind kind, int nd, const struct size *d, const char *text)
{
    struct item *v = add_item(w, kind, nd, d);
    write_line(w, "%s = %s", v->name, text);
    return true;
}

static bool unary(struct writer *w)
{
    static const char *const forms[] = {"gelu(%s)", "gelu_exact(%s)", "silu(%s)", "relu(%s)", "tanh(%s)", "sigmoid(%s)",
        "exp(tanh(%s))", "log(square(%s) + 1)", "sqrt(square(%s) + 0.5)", "square(tanh(%s))", "abs(%s)", "-%s",
                "0.7 * %s",
        "1 - %s", "%s / 2", "detach(%s)", "2 / (1 + exp(-%s))", "%s + 3", "sign(%s)", "cast(%s, f32)",
                "dropout(%s, 0.3)",
        "max(%s, 0.1)", "min(%s, 0.5)"};
    const struct item *v = any(w, KIND_FLOAT);
    if (!v)
        return false;
    char text[200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, forms[pick(w, sizeof forms / sizeof *forms)], v->name);
#pragma GCC diagnostic pop
    return is(w, KIND_FLOAT, v->nd, v->d, text);
}

/* b broadcasts to a: its dims are the last of a's, or it is brought there with new axes. */
static bool operand_for(struct writer *w, const struct item *a, char *text)
{
    const struct item *b = any(w, KIND_FLOAT);
    if (!b || b->nd > a->nd || (b == a && chance(w, 70)))
        return false;
    bool suffix = true;
    for (int i = 0; i < b->nd; i++)
        suffix &= same_size(b->d[i], a->d[a->nd - b->nd + i]);
    if (suffix) {
        sprintf(text, "%s", b->name);
        return true;
    }
    char *p = text + sprintf(text, "%s[", b->name);
    int at = 0;
    for (int i = 0; i < a->nd; i++) {
        bool mine = at < b->nd && same_size(b->d[at], a->d[i]);
        p += sprintf(p, "%s%s", i ? ", " : "", mine ? ":" : "_");
        at += mine;
    }
    sprintf(p, "]");
    return at == b->nd;
}

static bool binary(struct writer *w)
{
    const struct item *a = any(w, KIND_FLOAT);
    char b[120], text[400];
    if (!a || !a->nd || !operand_for(w, a, b))
        return false;
    switch (pick(w, 10)) {
    case 0: case 1: case 2: snprintf(text, sizeof text, "%s + %s", a->name, b); break;
    case 3: snprintf(text, sizeof text, "%s - %s", a->name, b); break;
    case 4: snprintf(text, sizeof text, "%s - %s", b, a->name); break;
    case 5: case 6: snprintf(text, sizeof text, "tanh(%s) * %s", a->name, b); break;
    case 7: snprintf(text, sizeof text, "%s / (1 + square(%s))", a->name, b); break;
    case 8: snprintf(text, sizeof text, "%s(%s, %s)", chance(w, 50) ? "max" : "min", a->name, b); break;
    case 9: snprintf(text, sizeof text, chance(w, 50) ? "where(%s > %s, %s, %s)" : "mask(%s, %s < 0.3)", a->name, b, b,
                     a->name); break;
    }
    return is(w, KIND_FLOAT, a->nd, a->d, text);
}

static bool with_param(struct writer *w)
{
    const struct item *a = any(w, KIND_FLOAT);
    if (!a || !a->nd || a->param || w->no_params)
        return false;
    struct item v = *a;
    int n = 1 + (int)pick(w, (unsigned)v.nd);
    while (n > 1 && v.d[v.nd - n].name == 'N' && chance(w, 90))      /* few models have a parameter by row of the batch */
        n--;
    struct item *b = add_param(w, n, v.d + v.nd - n);
    b->used = true;
    char text[200];
    snprintf(text, sizeof text, chance(w, 50) ? "%s + %s" : "%s * %s", v.name, b->name);
    return is(w, KIND_FLOAT, v.nd, v.d, text);
}

static char letter(struct size d) { return (char)(d.name | 32); }

/* A parameter takes v's dims to others: einsum, or @ where that says the same. */
bool write_projection(struct writer *w, const struct item *given, int nd, const struct size *d)
{
    struct item v = *given;
    struct size p[MAX_RANK];
    int np = 0, lost = 0;
    if (!distinct(&v) || w->no_params)
        return false;
    for (int i = 0; i < v.nd; i++) {
        bool kept = false;
        for (int k = 0; k < nd; k++)
            kept |= d[k].name == v.d[i].name;
        if (!kept && np < MAX_RANK)
            p[np++] = v.d[i], lost++;
    }
    for (int k = 0; k < nd; k++)
        if (find_dim(&v, d[k].name) < 0 && np < MAX_RANK)
            p[np++] = d[k];
    if (!np || np >= MAX_RANK)
        return false;
    struct item *b = add_param(w, np, p);
    b->used = true;
    char text[200], *t = text;
    bool plain = np == 2 && lost == 1 && v.nd == nd && same_size(v.d[nd - 1], p[0]) && same_size(d[nd - 1], p[1]);
    for (int k = 0; k < nd - 1; k++)
        plain &= same_size(v.d[k], d[k]);
    if (plain && chance(w, 60)) {
        sprintf(text, "%s @ %s", v.name, b->name);
    } else {
        t += sprintf(t, "einsum(\"");
        for (int i = 0; i < v.nd; i++)
            *t++ = letter(v.d[i]);
        *t++ = ',';
        for (int i = 0; i < np; i++)
            *t++ = letter(p[i]);
        t += sprintf(t, "->");
        for (int i = 0; i < nd; i++)
            *t++ = letter(d[i]);
        sprintf(t, "\", %s, %s)", v.name, b->name);
    }
    return is(w, KIND_FLOAT, nd, d, text);
}

static bool project(struct writer *w)
{
    const struct item *v = any_like(w, distinct);
    if (!v || !v->nd || v->param)
        return false;
    struct item x = *v;
    int at = (int)pick(w, (unsigned)x.nd);
    const struct size choice[] = {w->D, w->F, w->T, w->H, w->V};
    struct size to = choice[pick(w, 5)];
    if (find_dim(&x, to.name) >= 0 || (x.d[at].name == 'N' && chance(w, 80)))
        return false;
    x.d[at] = to;
    return write_projection(w, v, x.nd, x.d);
}

/* Two values of any shape, some of their common dims summed over. */
static bool contract(struct writer *w)
{
    const struct item *a = any_like(w, distinct), *b = any_like(w, distinct);
    if (!a || !b || !a->nd || !b->nd)
        return false;
    struct size out[2 * MAX_RANK];
    int n = 0;
    bool sums = false;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? b : a)->nd; i++) {
            struct size d = (k ? b : a)->d[i];
            bool common = find_dim(k ? a : b, d.name) >= 0;
            if (k && common)
                continue;
            if (chance(w, common ? d.name == 'N' ? 15 : 45 : 10)) {
                sums = true;
                continue;
            }
            out[n++] = d;
        }
    if (!sums || n > 4)
        return false;
    if (n > 1 && chance(w, 30)) {
        int i = (int)pick(w, (unsigned)n);
        struct size d = out[0];
        out[0] = out[i];
        out[i] = d;
    }
    char text[200], *t = text;
    t += sprintf(t, "0.5 * einsum(\"");
    for (int i = 0; i < a->nd; i++)
        *t++ = letter(a->d[i]);
    *t++ = ',';
    for (int i = 0; i < b->nd; i++)
        *t++ = letter(b->d[i]);
    t += sprintf(t, "->");
    for (int i = 0; i < n; i++)
        *t++ = letter(out[i]);
    sprintf(t, "\", %s, %s)", a->name, b->name);
    return is(w, KIND_FLOAT, n, out, text);
}

/* An axis as the language takes it: by name where that is clear, or by number. */
const char *axis_text(struct writer *w, const struct item *v, int at)
{
    static char text[4][16];
    static int turn;
    char *t = text[turn++ % 4];
    if (v->d[at].name && find_dim(v, v->d[at].name) == at && chance(w, 60))
        sprintf(t, "%c", v->d[at].name);
    else
        sprintf(t, "%d", chance(w, 50) ? at : at - v->nd);
    return t;
}

int any_axis(struct writer *w, const struct item *v)
{
    int at = (int)pick(w, (unsigned)v->nd);
    return v->d[at].name == 'N' && v->nd > 1 && chance(w, 75) ? v->nd - 1 : at;
}

static bool reduce(struct writer *w)
{
    static const char *const ops[] = {"0.5 * sum", "mean", "max", "min"};
    const struct item *v = any(w, KIND_FLOAT);
    if (!v || !v->nd)
        return false;
    int at = any_axis(w, v);
    struct item out = *v;
    bool keep = chance(w, 25);
    if (keep)
        out.d[at] = (struct size){0, 1, false};
    else
        memmove(out.d + at, out.d + at + 1, sizeof *out.d * (size_t)(--out.nd - at));
    char text[200];
    /* what is equal but for rounding would have top_k and comparisons choose by rounding */
    const char *of = v->normal ? "exp(tanh(%s))" : "%s";
    char name[40];
    snprintf(name, sizeof name, of, v->name);
    snprintf(text, sizeof text, "%s(%s, axis = %s%s)", ops[pick(w, 4)], name, axis_text(w, v, at),
             keep ? ", keep = true" : "");
    return is(w, KIND_FLOAT, out.nd, out.d, text);
}

static bool normalized(struct writer *w)
{
    const struct item *v = any(w, KIND_FLOAT);
    char text[200];
    if (!v || !v->nd)
        return false;
    struct item x = *v;
    struct size last = x.d[x.nd - 1];
    switch (pick(w, 5)) {
    case 0:
        snprintf(text, sizeof text, "softmax(%s, axis = %s)", x.name, axis_text(w, v, any_axis(w, v)));
        break;
    case 1:
        snprintf(text, sizeof text, "log_softmax(%s, axis = %s)", x.name, axis_text(w, v, any_axis(w, v)));
        break;
    case 2:
        if (x.nd < 2 || (x.d[0].name == 'N' && x.nd < 3))
            return false;
        snprintf(text, sizeof text, "softmax(%s, axis = [%s, %s])", x.name, axis_text(w, v, x.nd - 2), axis_text(w, v,
                x.nd - 1));
        break;
    case 3: {
        if (last.name == 'N' || w->no_params)
            return false;
        struct item g = *add_param(w, 1, &last), b = *add_param(w, 1, &last);
        snprintf(text, sizeof text, "layer_norm(%s, %s, %s, eps = 0.01)", x.name, g.name, b.name);
        w->item[w->items - 1].used = w->item[w->items - 2].used = true;
        break;
    }
    default: {
        if (last.name == 'N' || w->no_params)
            return false;
        struct item g = *add_param(w, 1, &last);
        w->item[w->items - 1].used = true;
        snprintf(text, sizeof text, "rms_norm(%s, %s, eps = 0.01)", x.name, g.name);
    }
    }
    return is(w, KIND_FLOAT, x.nd, x.d, text);
}

static bool normalize(struct writer *w)
{
    if (!normalized(w))
        return false;
    w->item[w->items - 1].normal = true;
    return true;
}

static bool stream(const struct item *v)
{
    return v->nd == 3 && v->d[0].name == 'N' && v->d[1].name == 'T' && v->d[2].name == 'D';
}

static bool attend(struct writer *w)
{
    const struct item *v = any_like(w, stream);
    if (!v || w->no_params)
        return false;
    char x[NAME], text[300];
    snprintf(x, sizeof x, "%s", v->name);
    struct size heads[] = {w->N, w->H, w->T, w->K}, groups[] = {w->N, w->G, w->T, w->K};
    struct size qw[] = {w->D, w->H, w->K}, kw[] = {w->D, w->G, w->K};
    bool grouped = chance(w, 50), rotated = w->K.n % 2 == 0 && chance(w, 40);
    struct item part[3];
    for (int i = 0; i < 3; i++) {
        bool g = grouped && i;
        struct item p = *add_param(w, 3, g ? kw : qw);
        w->item[w->items - 1].used = true;
        snprintf(text, sizeof text, rotated && i < 2 ? "rope(einsum(\"ntd,d%ck->n%ctk\", %s, %s))" :
                                                       "einsum(\"ntd,d%ck->n%ctk\", %s, %s)", g ? 'g' : 'h', g
                                                               ? 'g' : 'h', x, p.name);
        is(w, KIND_FLOAT, 4, g ? groups : heads, text);
        part[i] = w->item[w->items - 1];
        w->item[w->items - 1].used = true;
    }
    snprintf(text, sizeof text, "attention(%s, %s, %s%s)", part[0].name, part[1].name, part[2].name,
             chance(w, 30) ? ", causal = true, window = 2" : chance(w, 50) ? ", causal = true" : "");
    is(w, KIND_FLOAT, 4, heads, text);
    struct item y = w->item[w->items - 1];
    w->item[w->items - 1].used = true;
    return write_projection(w, &y, 3, (struct size[]){w->N, w->T, w->D});
}

static bool convert(struct writer *w)
{
    static const char *const axes[] = {"dp", "tp", "cp"};
    const struct item *v = any(w, KIND_FLOAT);
    if (!v || !v->nd)
        return false;
    char text[200];
    int at = any_axis(w, v);
    if (chance(w, 30))
        snprintf(text, sizeof text, "to(%s, {%s: B})", v->name, axes[pick(w, 3)]);
    else
        snprintf(text, sizeof text, "to(%s, {%s: S(%d) uneven})", v->name, axes[pick(w, 3)], at);
    return is(w, KIND_FLOAT, v->nd, v->d, text);
}

static bool masked(struct writer *w)
{
    const struct item *v = any(w, KIND_FLOAT), *m = any(w, KIND_BOOL);
    if (!v || !m || v->nd < m->nd)
        return false;
    char text[200], entries[60], *t = entries;
    for (int i = 0; i < v->nd; i++) {
        if (i < m->nd && !same_size(v->d[i], m->d[i]))
            return false;
        t += sprintf(t, "%s%s", i ? ", " : "", i < m->nd ? ":" : "_");
    }
    snprintf(text, sizeof text, chance(w, 50) ? "mask(%s, %s[%s])" : "where(%2$s[%3$s], 0.5, %1$s)", v->name, m->name,
             entries);
    return is(w, KIND_FLOAT, v->nd, v->d, text);
}

static bool compare(struct writer *w)
{
    const struct item *v = any(w, KIND_INDEX);
    char text[100];
    if (!v)
        return false;
    snprintf(text, sizeof text, "%s %s %d", v->name, chance(w, 50) ? "!=" : "<", 1 + (int)pick(w, 2));
    return is(w, KIND_BOOL, v->nd, v->d, text);
}

static bool position(struct writer *w)
{
    struct size row[2] = {w->T, w->D};
    if (w->no_params)
        return false;
    struct item p = *add_param(w, 2, row);
    w->item[w->items - 1].used = true;
    char text[200];
    snprintf(text, sizeof text, "embedding(positions(T), %s)", p.name);
    return is(w, KIND_FLOAT, 2, row, text);
}

static bool tied(struct writer *w)
{
    const struct item *v = any_like(w, distinct);
    int at = v ? find_dim(v, 'D') : -1;
    if (at < 0 || find_dim(v, 'V') >= 0)
        return false;
    for (int i = 0; i < w->items; i++) {
        struct item *p = &w->item[i];
        if (!p->param || p->nd != 2 || p->d[0].name != 'V' || p->d[1].name != 'D')
            continue;
        char text[200], *t = text;
        struct item out = *v;
        out.d[at] = w->V;
        t += sprintf(t, "einsum(\"");
        for (int k = 0; k < v->nd; k++)
            *t++ = letter(v->d[k]);
        t += sprintf(t, ",vd->");
        for (int k = 0; k < out.nd; k++)
            *t++ = letter(out.d[k]);
        sprintf(t, "\", %s, %s)", v->name, p->name);
        return is(w, KIND_FLOAT, out.nd, out.d, text);
    }
    return false;
}

bool write_operation(struct writer *w)
{
    static const struct { bool (*write)(struct writer *w); int weight; } ops[] = {
        {unary, 14}, {binary, 18}, {with_param, 8}, {project, 12}, {contract, 7}, {reduce, 7}, {normalize, 10},
                {write_reshape, 5},
        {write_transpose, 4}, {write_slice, 5}, {write_join, 6}, {write_embed, 5}, {attend, 3}, {convert, 3},
                {position, 1}, {tied, 4},
        {masked, 5}, {compare, 2}, {write_along, 5}, {write_mark, 2},
    };
    for (int tries = 0; tries < 20; tries++) {
        int at = (int)pick(w, 126), k = 0;
        while (at >= ops[k].weight)
            at -= ops[k++].weight;
        if (w->items + 12 < MAX_VALUES && ops[k].write(w))
            return true;
    }
    return false;
}
