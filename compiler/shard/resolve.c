/* One layout as it is written, `{tp: S(F), dp: S(N) uneven}`, read against one tensor: dims by name, axes, divisibility. */
#include "shard.h"
#include <string.h>

static const char *dims_text(const struct target *t)
{
    const char *text = "";
    for (int d = 0; d < t->ndim; d++)
        text = mem_printf("%s%s%s", text, d ? ", " : "", t->dim[d]->name ? t->dim[d]->name : mem_printf("%lld", (long long)t->dim[d]->size));
    return text;
}

const char *axis_names(const struct mesh *m, unsigned axes)
{
    const char *text = "";
    for (int a = 0; a < m->naxis; a++)
        if (axes >> a & 1)
            text = mem_printf("%s%s%s", text, *text ? ", " : "", m->axis[a].name);
    return text;
}

/* A line that is wrong for many tensors is reported once. */
static bool first_refusal(struct sharding *s, struct span span)
{
    if (hmgeti(s->refused, span) >= 0)
        return false;
    hmput(s->refused, span, 1);
    return true;
}

/* `sbp wte = {tp: S(V)}`, where wte is what the layer makes, of a parameter wte.weight[V, D]: that path, or NULL. */
static const char *param_with(const struct sharding *s, const char *path, const char *dim)
{
    size_t n = strlen(path);
    for (int i = 0; i < arrlen(s->m->params); i++) {
        const struct param *p = s->m->params[i];
        if (p->of || strncmp(p->path, path, n) || p->path[n] != '.')
            continue;
        for (int d = 0; d < p->ndim; d++)
            if (p->dim[d]->name && !strcmp(p->dim[d]->name, dim))
                return p->path;
    }
    return NULL;
}

static int find_dim(struct sharding *s, const struct target *t, const struct layout_part *part)
{
    int found = -1, count = 0;
    if (!part->dim_name) {
        if (part->dim_index >= 0 && part->dim_index < t->ndim)
            return part->dim_index;
        if (!first_refusal(s, part->span))
            return -1;
        struct diag *d = diag_error(E_LAYOUT_LINE, part->span, "'%s' has no dim number %d", t->name, part->dim_index);
        diag_label(d, t->span, "its dims are [%s]", dims_text(t));
        return -1;
    }
    const char **names = NULL;
    for (int d = 0; d < t->ndim; d++) {
        if (!t->dim[d]->name)
            continue;
        arrput(names, t->dim[d]->name);
        if (!strcmp(t->dim[d]->name, part->dim_name)) {
            found = d;
            count++;
        }
    }
    if (count == 1)
        return found;
    if (!first_refusal(s, part->span))
        return -1;
    struct diag *d = count ? diag_error(E_LAYOUT_LINE, part->span, "'%s' has dim '%s' more than once", t->name, part->dim_name)
                           : diag_error(E_LAYOUT_LINE, part->span, "'%s' has no dim '%s'", t->name, part->dim_name);
    diag_label(d, t->span, "its dims are [%s]", dims_text(t));
    if (count)
        diag_help(d, "say which one by its number, from 0: S(%d)", found);
    else if (suggest(part->dim_name, names))
        diag_help(d, "did you mean S(%s)?", suggest(part->dim_name, names));
    else if (param_with(s, t->name, part->dim_name))
        diag_help(d, "its parameter has it: write '%s'", param_with(s, t->name, part->dim_name));
    return -1;
}

static bool refuse(struct sharding *s, const struct layout_part *part, const struct target *t, unsigned given)
{
    const struct mesh *m = s->mesh;
    if (part->axes & given) {
        if (!first_refusal(s, part->span))
            return true;
        diag_error(E_LAYOUT_LINE, part->span, "axis '%s' is given twice in one layout", axis_names(m, part->axes & given));
        return true;
    }
    for (int a = 0; a < m->naxis; a++)
        if (part->axes >> a & 1 && (m->axis[a].time || a == m->pipe)) {
            if (!first_refusal(s, part->span))
                return true;
            struct diag *d = diag_error(E_AXIS, part->span, "axis '%s' cannot hold parts of '%s'", m->axis[a].name, t->name);
            diag_help(d, m->axis[a].time ? "micro-batches are cut by `microbatches M over N`"
                                         : "'%s' is the pipeline's axis: it places ops, and each stage has a whole layout of its own",
                      m->axis[a].name);
            return true;
        }
    return false;
}

static void note_uneven(struct sharding *s, struct dim *dim, int axis)
{
    for (int k = 0; k < arrlen(s->uneven); k++)
        if (s->uneven[k].dim == dim && s->uneven[k].axis == axis)
            return;
    arraddn(s->uneven, 1);
    arrlast(s->uneven).dim = dim;
    arrlast(s->uneven).axis = axis;
}

/* Fills lay and *axes (those named, of more than one rank); false after a diagnostic. */
bool layout_resolve(struct sharding *s, const struct layout_part *parts, const struct target *t, struct layout *lay,
                    unsigned *axes)
{
    const struct mesh *m = s->mesh;
    unsigned given = 0, uneven = 0;
    int order[MAX_DIM] = { 0 }, at[MAX_DIM];
    *lay = (struct layout){ 0 };
    for (int k = 0; k < arrlen(parts); k++) {
        const struct layout_part *part = &parts[k];
        if (refuse(s, part, t, given))
            return false;
        given |= part->axes;
        int d = part->kind == SBP_S ? find_dim(s, t, part) : -1;
        if (part->kind == SBP_S && d < 0)
            return false;
        for (int j = 0; j < part->nmajor; j++) {
            int a = part->major[j];
            if (m->axis[a].size == 1)
                continue;
            if (part->kind == SBP_S) {
                lay->ax[a] = (struct sbp){ SBP_S, (uint8_t)d, (uint8_t)order[d]++ };
                at[d] = k;
                if (part->uneven)
                    uneven |= 1u << a;
            } else if (part->kind == SBP_P) {
                lay->ax[a] = (struct sbp){ SBP_P, (uint8_t)part->reduce, 0 };
            }
        }
    }
    int max, min;
    if (layout_clashes(lay, m, &max, &min)) {
        if (first_refusal(s, parts[0].span)) {
            struct diag *d = diag_error(E_LAYOUT_LINE, parts[0].span, "'%s' cannot be P(max) over '%s' and P(min) over '%s' at once",
                                        t->name, m->axis[max].name, m->axis[min].name);
            diag_note(d, "a rank with nothing to add holds -inf for a maximum, +inf for a minimum: along both it would hold no number");
            diag_help(d, "leave one of the two axes out: it is reduced first");
        }
        return false;
    }
    for (int d = 0; d < t->ndim; d++) {
        unsigned split = 0;
        int64_t n = 1;
        int count = 0;
        for (int a = 0; a < m->naxis; a++)
            if (lay->ax[a].kind == SBP_S && lay->ax[a].dim == d) {
                split |= 1u << a;
                n *= m->axis[a].size;
                count++;
            }
        if (!split || t->dim[d]->pad > 0 || t->dim[d]->size % n == 0)
            continue;
        if ((split & uneven) == split && count == 1) {
            for (int a = 0; a < m->naxis; a++)
                if (split >> a & 1)
                    note_uneven(s, t->dim[d], a);
            continue;
        }
        if (first_refusal(s, parts[at[d]].span))
            explain_divide(s, parts[at[d]].span, t->name, t->dim[d], split, n, (split & uneven) != 0);
        return false;
    }
    *axes = given;
    return true;
}
