/* The mesh of a plan and the layouts written over its axes. Ranks are numbered row-major over the axes in the order
 * written; the micro-batches are one more axis, in time, behind them. */
#include "elaborate.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char time_axis[] = "mb";

static bool axis_name_free(const struct mesh *m, struct ast *a)
{
    for (int i = 0; i < m->naxis; i++)
        if (!strcmp(m->axis[i].name, a->name)) {
            struct diag *d = diag_error(E_MESH, a->span, "the mesh has two axes called '%s'", a->name);
            diag_label(d, m->axis[i].span, "the first one");
            return false;
        }
    for (int i = 0; i < m->ngroup; i++)
        if (!strcmp(m->group[i].name, a->name)) {
            diag_error(E_MESH, a->span, "'%s' is already a group of axes", a->name);
            return false;
        }
    if (!strcmp(a->name, time_axis)) {
        diag_error(E_MESH, a->span, "'%s' is the axis of the micro-batches and cannot be an axis of ranks", a->name);
        return false;
    }
    return true;
}

static void add_axis(struct frame *f, struct mesh *m, struct ast *a)
{
    int64_t size = 1;
    if (!axis_name_free(m, a))
        return;
    if (!const_int(f, ast_kid(a, 0), 1, "the size of a mesh axis", &size))
        size = 1;                        /* it is there, so that lines about it have nothing to complain of */
    if (m->naxis == MAX_AXIS - 1) {
        diag_error(E_MESH, a->span, "a mesh has at most %d axes", MAX_AXIS - 1);
        return;
    }
    const struct options *o = f->e->m->options;
    if (o->wider && !strcmp(o->wider, a->name) && size <= 1 << 20)
        size *= o->wider_times;
    if (size > 1 << 20) {
        diag_error(E_MESH, a->span, "an axis of %lld ranks", (long long)size);
        return;
    }
    m->axis[m->naxis++] = (struct axis){.name = a->name, .size = (int)size, .span = a->span};
}

static void add_axes(struct frame *f, struct mesh *m, struct ast *axes)
{
    for (int i = 0; i < ast_count(axes); i++) {
        struct ast *a = axes->kids[i], *size = ast_kid(a, 0);
        if (!size || size->kind != AST_AXES) {
            add_axis(f, m, a);
            continue;
        }
        if (!axis_name_free(m, a))
            continue;
        int first = m->naxis;
        add_axes(f, m, size);
        if (m->ngroup == MAX_AXIS)
            continue;
        m->group[m->ngroup].name = a->name;
        for (int k = first; k < m->naxis; k++)
            m->group[m->ngroup].axes |= 1u << k;
        m->ngroup++;
    }
}

/* "m0:0-7, m1:0-7" names 16 devices; -1 when it cannot be read. */
static int64_t devices_named(const char *s)
{
    int64_t count = 0;
    for (;;) {
        while (*s == ' ')
            s++;
        size_t host = strcspn(s, ":, ");
        if (!host || s[host] != ':')
            return -1;
        s += host;
        do {
            char *end;
            if (!isdigit((unsigned char)*++s))
                return -1;
            long low = strtol(s, &end, 10), high = low;
            if (*end == '-') {
                if (!isdigit((unsigned char)end[1]))
                    return -1;
                high = strtol(end + 1, &end, 10);
            }
            if (high < low)
                return -1;
            count += high - low + 1;
            s = end;
        } while (*s == '+');
        while (*s == ' ')
            s++;
        if (!*s)
            return count;
        if (*s++ != ',')
            return -1;
    }
}

/* The first of the devices of a list that stands in it before, as "m0:3"; NULL where there is none. */
static const char *device_again(const char *s)
{
    struct { char *key; int value; } *seen = NULL;
    while (*s) {
        s += strspn(s, ", ");
        const char *host = s;
        int n = (int)strcspn(s, ":");
        for (s += n; *s == ':' || *s == '+';) {
            char *end;
            long low = strtol(s + 1, &end, 10), high = low;
            if (*end == '-')
                high = strtol(end + 1, &end, 10);
            s = end;
            for (long k = low; k <= high; k++) {
                const char *device = mem_printf("%.*s:%ld", n, host, k);
                if (shgeti(seen, device) >= 0)
                    return device;
                shput(seen, device, 1);
            }
        }
        s += strspn(s, " ");
    }
    return NULL;
}

void mesh_build(struct frame *f, struct plan *p, struct ast *a)
{
    struct mesh *m = &p->mesh;
    m->name = a->name;
    m->span = a->span;
    add_axes(f, m, ast_kid(a, 0));
    int64_t ranks = 1;
    for (int i = m->naxis - 1; i >= 0; i--) {
        m->axis[i].stride = (int)ranks;
        ranks *= m->axis[i].size;
        if (ranks > 1 << 20) {
            diag_error(E_MESH, a->span, "a mesh of more than %d ranks", 1 << 20);
            return;
        }
    }
    m->nranks = (int)ranks;
    struct ast *on = ast_kid(a, 1);
    int64_t named = on ? devices_named(on->name) : ranks;
    if (named < 0) {
        struct diag *d = diag_error(E_MESH, on->span, "this list of devices cannot be read");
        diag_help(d, "it names hosts and devices, as in \"m0:0-7, m1:0-7\"");
    } else if (named != ranks) {
        const char *product = "";
        for (int i = 0; i < m->naxis; i++)
            product = mem_printf("%s%s%d", product, i ? " x " : "", m->axis[i].size);
        struct diag *d = diag_error(E_RANKS, a->span, "the mesh has %s%lld ranks, but %lld devices are named",
                                    m->naxis > 1 ? mem_printf("%s = ", product) : "", (long long)ranks, (long long)named);
        diag_label(d, on->span, "%lld devices", (long long)named);
    } else if (on && device_again(on->name)) {
        diag_help(diag_error(E_MESH, on->span, "the device %s is named twice", device_again(on->name)),
                  "a rank has a device to itself; devices of a host are numbered from 0");
    }
}

/* The axis of micro-batches goes in last, when their number is known. */
void mesh_add_time(struct plan *p)
{
    struct mesh *m = &p->mesh;
    m->mb = m->naxis;
    m->axis[m->naxis++] = (struct axis){.name = time_axis, .size = (int)p->microbatches, .time = true,
                                        .span = p->mb_span};
}

/* ---- layouts ---- */

static const char **axis_names(const struct mesh *m)
{
    const char **names = NULL;
    for (int i = 0; i < m->naxis; i++)
        if (!m->axis[i].time)
            arrput(names, m->axis[i].name);
    for (int i = 0; i < m->ngroup; i++)
        arrput(names, m->group[i].name);
    return names;
}

/* A name that one gives to an axis of that use is no slip for another such name. */
static bool is_customary(const char *name)
{
    static const char *const customary[] = {"dp", "tp", "pp", "cp", "sp", "ep"};
    for (size_t i = 0; i < sizeof customary / sizeof *customary; i++)
        if (!strcmp(name, customary[i]))
            return true;
    return false;
}

void axis_unknown(struct mesh *m, const char *name, struct span span)
{
    const char **names = axis_names(m), *near = is_customary(name) ? NULL : suggest(name, names), *all = "";
    for (int i = 0; i < arrlen(m->missing); i++)
        if (!arrlen(names) || !strcmp(m->missing[i], name))
            return;
    arrput(m->missing, name);
    struct diag *d = diag_error(E_AXIS, span, arrlen(names) ? "the mesh has no axis '%s'" : "this plan has no mesh, so no axis '%s'", name);
    if (!arrlen(names)) {
        diag_help(d, "a plan begins with its ranks, as in `mesh m = [%s: 2]`", name);
        return;
    }
    diag_label(d, m->span, "the mesh");
    for (int i = 0; i < arrlen(names); i++)
        all = mem_printf("%s%s%s", all, i ? ", " : "", names[i]);
    if (near)
        diag_help(d, "did you mean '%s'?", near);
    else
        diag_help(d, "it has %s: add `%s: 2` to it, or leave '%s' out of every line", all, name, name);
}

/* The axes of one part, in the order written. In a model (`to`) an axis that this plan lacks is skipped. */
static bool part_axes(struct mesh *m, struct ast *names, bool in_model, struct layout_part *part)
{
    bool fine = true;
    for (int i = 0; i < ast_count(names); i++) {
        struct ast *a = names->kids[i];
        unsigned axes = mesh_axes(m, a->name);
        if (axes & 1u << m->mb) {
            diag_error(E_AXIS, a->span, "the axis of micro-batches is laid out by `microbatches` alone");
            fine = false;
        } else if (!axes && !in_model) {
            axis_unknown(m, a->name, a->span);
            fine = false;
        } else if (!axes) {
            diag_label(diag_warning(W_AXIS, a->span, "this plan has no axis '%s': the conversion skips it", a->name), m->span,
                       "the mesh");
        } else if (axes & part->axes) {
            int k = 0;
            while (!(mesh_axes(m, names->kids[k]->name) & axes))
                k++;
            diag_label(diag_error(E_LAYOUT_LINE, a->span, "axis '%s' splits one dim twice", a->name), names->kids[k]->span,
                       "here already");
            fine = false;
        }
        for (int k = 0; k < m->naxis; k++)
            if (axes >> k & 1 && part->nmajor < MAX_AXIS)
                part->major[part->nmajor++] = k;
        part->axes |= axes;
    }
    return fine;
}

static bool part_argument(struct ast *a, struct layout_part *part)
{
    struct ast *arg = ast_kid(a, 1);
    part->dim_index = -1;
    if (part->kind == SBP_S) {
        if (!arg) {
            struct diag *d = diag_error(E_LAYOUT_LINE, a->span, "S needs a dim");
            diag_help(d, "write S(N), or S(0) for the first one");
            return false;
        }
        if (arg->kind == AST_NUMBER)
            part->dim_index = (int)arg->num;
        else
            part->dim_name = arg->name;
        return true;
    }
    for (int r = REDUCE_SUM; arg && r < REDUCES; r++)
        if (part->kind == SBP_P && arg->kind == AST_NAME && !strcmp(arg->name, reduce_name[r])) {
            part->reduce = (enum reduce)r;
            return true;
        }
    if (arg) {
        diag_error(E_LAYOUT_LINE, arg->span, part->kind == SBP_P ? "P is P, P(sum), P(max) or P(min)" :
                   "B takes no argument");
        return false;
    }
    return true;
}

/* {dp: S(N), (tp, ep): S(V) uneven}; NULL when nothing could be read or nothing is left. */
struct layout_part *layout_parts_of(struct mesh *m, struct ast *layout, bool in_model)
{
    struct layout_part *parts = NULL;
    unsigned seen = 0;
    for (int i = 0; i < ast_count(layout); i++) {
        struct ast *a = layout->kids[i];
        struct layout_part part = {.span = a->span, .uneven = a->is_int};
        part.kind = a->name[0] == 'S' ? SBP_S : a->name[0] == 'P' ? SBP_P : SBP_B;
        bool fine = part_axes(m, ast_kid(a, 0), in_model, &part);
        if (part.axes & seen) {
            struct diag *d = diag_error(E_LAYOUT_LINE, a->span, "axis '%s' is laid out twice",
                                        mesh_axes_text(m, part.axes & seen, ", "));
            for (int k = 0; k < i; k++)
                diag_label(d, layout->kids[k]->span, "before");
            fine = false;
        }
        seen |= part.axes;
        if (!part_argument(a, &part) || !fine)
            continue;
        if (part.axes)
            arrput(parts, part);
    }
    return parts;
}
