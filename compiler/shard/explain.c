/* Why no choice of layouts is legal: the op, the tensor in shape form, both places, what the axis may be, and the
 * cheapest way out with its bytes. */
#include "shard.h"
#include <string.h>

static const char *bytes_text(double n)
{
    if (n < 1024)
        return mem_printf("%.0f bytes", n);
    return n < 1024 * 1024 ? mem_printf("%.1f KiB", n / 1024) : mem_printf("%.1f MiB", n / (1024 * 1024));
}

static const char *name_of(const struct value *v)
{
    return v->path ? v->path : v->def ? v->def->op->name : "value";
}

static struct layout with(const struct layout *l, int axis, int code)
{
    struct layout out = *l;
    out.ax[axis] = code_sbp(code);
    return out;
}

/* "all_reduce over tp, 2.0 MiB each time" */
static const char *conversion_text(const struct sharding *s, const struct value *v, int axis, int from, int to)
{
    struct layout a = with(&v->lay, axis, from), b = with(&v->lay, axis, to);
    struct step steps[MAX_STEP];
    int n = convert_path(v, &a, &b, s->mesh, steps, MAX_STEP);
    const char *text = "";
    double bytes = 0;
    for (int k = 0; k < n; k++) {
        text = mem_printf("%s%s%s", text, *text ? " and " : "", step_name[steps[k].kind]);
        bytes += steps[k].bytes;
    }
    if (n <= 0)
        return "nothing";
    return bytes > 0 ? mem_printf("%s over %s, %s each time", text, s->mesh->axis[axis].name, bytes_text(bytes))
                     : mem_printf("nothing (%s over %s)", text, s->mesh->axis[axis].name);
}

/* Does a choice read the operand's tensor in one layout, wherever it stands? */
static bool reads_alike(const struct actor *a, const struct choice *c, int operand)
{
    for (int k = 0; k < arrlen(a->in); k++)
        if (a->in[k] == a->in[operand] && c->in[k] != c->in[operand])
            return false;
    return true;
}

/* What the operand may be. Maxima and minima are left out where sums may stand too, and where it holds sums now: who wants
 * them knows them. */
static const char *legal_text(struct sharding *s, const struct actor *a, int operand, int axis, int now)
{
    const struct value *v = a->in[operand];
    uint32_t seen = now == CODE_P ? ~0u << (CODE_P + 1) : 0;
    const char *text = "";
    for (int j = 0; j < arrlen(a->choices); j++)
        if (a->choices[j].in[operand] == CODE_P)
            seen |= ~0u << (CODE_P + 1);
    for (int j = 0; j < arrlen(a->choices); j++) {
        int code = a->choices[j].in[operand];
        if (!reads_alike(a, &a->choices[j], operand) || seen >> code & 1)
            continue;
        seen |= 1u << code;
        struct layout l = with(&v->lay, axis, code);
        text = mem_printf("%s%s%s", text, *text ? ", " : "", layout_type_text(v, &l, s->mesh));
    }
    return text;
}

static struct diag *begin(struct sharding *s, enum diag_code code, const struct actor *a, const struct value *v,
                          const char *fact)
{
    const struct fixed *f = &s->fixed[v->id];
    struct span at = a->node->span.file ? a->node->span : v->span;
    struct diag *d = diag_error(code, at, "%s", fact);
    if (f->span.file)
        diag_label(d, f->span, "%s is fixed here", name_of(v));
    else if (v->span.file && v->span.begin != at.begin)
        diag_label(d, v->span, "%s is made here", name_of(v));
    return d;
}

/* Another operand with which the operand could be read as it is, were that one Partial too; -1 when there is none. */
static int partial_together(const struct actor *a, int operand, int pinned)
{
    for (int j = 0; j < arrlen(a->choices); j++)
        for (int k = 0; k < arrlen(a->in); k++)
            if (a->in[k] && a->in[k] != a->in[operand] && a->choices[j].in[operand] == pinned && a->choices[j].in[k] == pinned)
                return k;
    return -1;
}

/* What reads, in the user's words. */
static const char *reader_name(const struct actor *a)
{
    return a->carry >= 0 ? "repeat" : a->node->op == &op_to ? "this line" : a->node->op->part_of ? a->node->op->part_of : a->node->op->name;
}

static bool divides(struct sbp x, const struct value *v, int parts)
{
    return x.kind != SBP_S || !v || v->dim[x.dim]->size % parts == 0;
}

/* The sizes of an axis with which the op could read the operand as it is pinned; "" when there are none, or when the size it
 * has would do: then the fault is elsewhere. */
static const char *fitting_sizes(const struct actor *a, int operand, int pinned, int now)
{
    const char *text = "";
    int64_t size = code_is_split(pinned) && a->carry < 0 ? a->in[operand]->dim[pinned - CODE_S]->size : 0;
    for (int parts = 2; parts <= size && parts <= 1024 && strlen(text) < 40; parts++) {
        if (size % parts)
            continue;
        struct sig *sigs = node_signatures(a->node, parts);
        for (int j = 0; j < arrlen(sigs); j++) {
            bool fits = sbp_code(sigs[j].in[operand]) == pinned;
            for (int k = 0; k < arrlen(a->node->in); k++)
                fits = fits && divides(sigs[j].in[k], a->node->in[k], parts);
            for (int k = 0; k < arrlen(a->node->out); k++)
                fits = fits && divides(sigs[j].out[k], a->node->out[k], parts);
            if (!fits)
                continue;
            if (parts == now)
                return "";
            text = mem_printf("%s%s%d", text, *text ? ", " : "", parts);
            break;
        }
    }
    return text;
}

/* Another pinned operand, where the op could read this one as it is pinned; -1 when there is none. */
static int rival(const struct sharding *s, const struct actor *a, int operand, int pinned)
{
    bool readable = false;
    for (int j = 0; j < arrlen(a->choices); j++)
        readable |= a->choices[j].in[operand] == pinned;
    for (int k = 0; k < arrlen(a->in); k++)
        if (readable && a->in[k] && a->in[k] != a->in[operand] && s->fixed[a->in[k]->id].pin)
            return k;
    return -1;
}

/* "f32[N, D] with f32[D, F/tp], f32[N/tp, D] with f32[D, F]": what two operands may be together. Partial values are left
 * out, unless one of the two is pinned so. */
static const char *pairs_text(const struct sharding *s, const struct actor *a, int x, int y, int axis)
{
    const char *text = "", *last = "";                /* signatures that differ in other operands follow each other */
    int px = value_fixed(s, a->in[x], axis), py = value_fixed(s, a->in[y], axis);
    for (int j = 0; j < arrlen(a->choices) && strlen(text) < 120; j++) {
        int cx = a->choices[j].in[x], cy = a->choices[j].in[y];
        if ((code_is_partial(cx) && cx != px && cx != py) || (code_is_partial(cy) && cy != px && cy != py))
            continue;
        struct layout lx = with(&a->in[x]->lay, axis, cx), ly = with(&a->in[y]->lay, axis, cy);
        const char *pair = mem_printf("%s with %s", layout_type_text(a->in[x], &lx, s->mesh), layout_type_text(a->in[y], &ly, s->mesh));
        text = strcmp(pair, last) ? mem_printf("%s%s%s", text, *text ? ", " : "", pair) : text;
        last = pair;
    }
    return text;
}

/* "'count' is f32+sum(tp)": what comes out where the operand is read as it is pinned; "" when the op has no such rule. */
static const char *made_text(const struct sharding *s, const struct actor *a, int operand, int axis, int pinned)
{
    const char *text = "";
    for (int j = 0; j < arrlen(a->choices) && !*text; j++)
        for (int k = 0; k < arrlen(a->out) && a->choices[j].in[operand] == pinned && reads_alike(a, &a->choices[j], operand); k++) {
            struct layout l = with(&a->out[k]->lay, axis, a->choices[j].out[k]);
            text = mem_printf("%s%s'%s' is %s", text, *text ? ", " : "", name_of(a->out[k]), layout_type_text(a->out[k], &l, s->mesh));
        }
    return text;
}

/* "on line 7", or with the file where that is another than the one in view */
static const char *line_text(struct span at, struct span seen)
{
    return at.file == seen.file ? mem_printf("on line %d", source_position(at.file, at.begin).line) : mem_printf("at %s", span_where(at));
}

/* "partial sums" */
static const char *partial_text(int code)
{
    return code == CODE_P + REDUCE_MAX ? "partial maxima" : code == CODE_P + REDUCE_MIN ? "partial minima" : "partial sums";
}

/* Would the result be P(max) over one axis and P(min) over another, were the operand read as it is? */
static bool clash(struct sharding *s, const struct actor *a, int operand, int axis, int pinned, int *max, int *min)
{
    struct sig *sigs = a->carry < 0 ? node_signatures(a->node, s->mesh->axis[axis].size) : NULL;
    for (int j = 0; j < arrlen(sigs); j++)
        for (int k = 0; k < arrlen(a->out) && sbp_code(sigs[j].in[operand]) == pinned; k++) {
            struct layout l = with(&a->out[k]->lay, axis, sbp_code(sigs[j].out[k]));
            if (layout_clashes(&l, s->mesh, max, min))
                return true;
        }
    return false;
}

void explain_pin(struct sharding *s, int axis, const struct actor *a, int operand, int wanted)
{
    const struct value *v = a->in[operand];
    const char *ax = s->mesh->axis[axis].name, *op = reader_name(a);
    int pinned = value_fixed(s, v, axis);
    struct layout l = with(&v->lay, axis, pinned);
    bool partial = code_is_partial(pinned);
    struct diag *d = begin(s, partial ? E_PARTIAL : E_NO_SIGNATURE, a, v,
                           partial ? mem_printf("%s cannot take '%s' as %s over '%s'", op, name_of(v), partial_text(pinned), ax)
                                   : mem_printf("%s cannot read '%s' pinned as %s", op, name_of(v), layout_type_text(v, &l, s->mesh)));
    const char *sizes = fitting_sizes(a, operand, pinned, s->mesh->axis[axis].size);
    int other = rival(s, a, operand, pinned), max, min;
    bool clashes = partial && clash(s, a, operand, axis, pinned, &max, &min);
    if (clashes)
        diag_note(d, "the result would be P(max) over '%s' and P(min) over '%s' at once, and no rank can hold such a number",
                  s->mesh->axis[max].name, s->mesh->axis[min].name);
    else if (other >= 0)
        diag_note(d, "'%s' is pinned too, %s; along '%s' %s can read %s", name_of(a->in[other]),
                  line_text(s->fixed[a->in[other]->id].span, a->node->span), ax, op,
                  other < operand ? pairs_text(s, a, other, operand, axis) : pairs_text(s, a, operand, other, axis));
    else if (*made_text(s, a, operand, axis, pinned))
        diag_note(d, "read so, %s, and %s that from being read", made_text(s, a, operand, axis, pinned),
                  s->m->plan->strict ? "`strict` keeps" : "other lines keep");
    else if (*sizes)
        diag_note(d, "this split fits when the size of '%s' is one of 1, %s", ax, sizes);
    else
        diag_note(d, "along '%s' it can read %s", ax, legal_text(s, a, operand, axis, pinned));
    int together = partial && !clashes ? partial_together(a, operand, pinned) : -1;
    const char *way = together < 0 ? "" : mem_printf("; or make '%s' {%s: %s}%s", name_of(a->in[together]), ax,
                                                     pinned == CODE_P + REDUCE_MAX ? "P(max)" : pinned == CODE_P + REDUCE_MIN ? "P(min)" : "P",
                                                     a->carry >= 0 ? " too" : pinned == CODE_P ? ", added on one rank" : ", held by one rank");
    bool made = !clashes && other < 0 && arrlen(a->out) && *made_text(s, a, operand, axis, pinned);
    if (made && s->m->plan->strict)
        diag_help(d, "ask for the conversion behind it, as in `sbp %s = {%s: B}`", name_of(a->out[0]), ax);
    else if (partial)
        diag_help(d, "reduce first: write `sbp` in place of `pin` (%s)%s", conversion_text(s, v, axis, pinned, wanted), way);
    else
        diag_help(d, "write `sbp` in place of `pin`: a converted copy for this reader costs %s",
                  conversion_text(s, v, axis, pinned, wanted));
}

void explain_strict(struct sharding *s, int axis, const struct actor *a, int operand, int wanted)
{
    const struct value *v = a->in[operand];
    int stored = sbp_code(v->lay.ax[axis]);
    struct layout to = with(&v->lay, axis, wanted);
    struct diag *d = begin(s, E_STRICT, a, v, mem_printf("%s needs '%s' as %s, and `strict` forbids the conversion", 
                           reader_name(a), name_of(v), layout_type_text(v, &to, s->mesh)));
    const char *sizes = fitting_sizes(a, operand, stored, s->mesh->axis[axis].size);
    if (*sizes)
        sizes = mem_printf("; this split fits when the size of '%s' is one of 1, %s", s->mesh->axis[axis].name, sizes);
    diag_note(d, "it would cost %s%s", conversion_text(s, v, axis, stored, wanted), sizes);
    for (int k = 0; k < s->mesh->naxis; k++)         /* no line may name the axis in time */
        to.ax[k] = s->mesh->axis[k].time ? (struct sbp){ 0 } : to.ax[k];
    const char *asked = layout_text(v, &to, s->mesh);
    asked = strcmp(asked, "{}") ? asked : mem_printf("{%s: B}", s->mesh->axis[axis].name);
    const struct fixed *said = s->fixed && v->id < arrlen(s->fixed) ? &s->fixed[v->id] : NULL;
    const struct param *p = v->def ? node_param(v->def) : NULL;
    const struct plan_line *line = p && p->line ? p->line : said ? said->line : NULL;
    if (line) {                          /* a second line about it would contradict this one */
        diag_label(d, line->span, "%s is laid out here", name_of(v));
        diag_help(d, "have `sbp %s = %s` in that line, or leave out `strict`", line->pattern, asked);
    } else {
        diag_help(d, "ask for it: `sbp %s = %s`", name_of(v), asked);
    }
}

/* Does the pattern stand for more than the blocks of one name? */
static bool names_many(const char *pattern)
{
    for (const char *s = pattern; (s = strchr(s, '*')); s++)
        if (s == pattern || s[-1] != '[')
            return true;
    return false;
}

/* A line that holds an activation whole over the axis that elsewhere splits its rows: most often a pattern that was meant
 * for parameters and names what is computed beside them too. */
static const struct fixed *keeps_whole(const struct sharding *s, int axis, const struct value **which)
{
    for (int i = 0; i < arrlen(s->g->values) && i < arrlen(s->fixed); i++) {
        const struct value *v = s->g->values[i];
        const struct fixed *f = &s->fixed[v->id];
        if (!f->line || !(f->axes >> axis & 1) || f->lay.ax[axis].kind != SBP_B || v->lay.ax[s->mesh->mb].kind != SBP_S ||
            !names_many(f->line->pattern) || (v->def && v->def->op == &op_input))
            continue;
        *which = v;
        return f;
    }
    return NULL;
}

void explain_cut(struct sharding *s, int axis, const struct actor *a, int operand, int stored, int wanted)
{
    const struct value *v = a->in[operand];
    const char *ax = s->mesh->axis[axis].name;
    struct layout from = with(&v->lay, axis, stored), to = with(&v->lay, axis, wanted);
    const struct value *whole = NULL;
    const struct fixed *culprit = keeps_whole(s, axis, &whole);
    if (culprit && culprit->line == s->blamed)       /* one line, one message */
        return;
    struct diag *d = begin(s, E_OPEN_MICROBATCH, a, v, mem_printf("%s needs '%s' as %s, but it is %s, and its rows are cut into micro-batches",
                           reader_name(a), name_of(v), layout_type_text(v, &to, s->mesh),
                           layout_type_text(v, &from, s->mesh)));
    if (!culprit) {
        diag_help(d, "keep one split over '%s' from the input on, or use 1 micro-batch", ax);
        return;
    }
    s->blamed = culprit->line;
    if (whole != v)
        diag_label(d, culprit->span, "this names %s too and keeps it whole over '%s'", name_of(whole), ax);
    diag_help(d, "name only parameters in `%s`, or give the split over '%s' in that line too", culprit->line->pattern, ax);
}

void explain_divide(struct sharding *s, struct span at, const char *tensor, const struct dim *dim, unsigned axes,
                    int64_t parts, bool uneven_said)
{
    const struct mesh *m = s->mesh;
    const char *names = axis_names(m, axes), *name = dim->name, *legal = divisors_text(dim->size);
    struct diag *d = diag_error(E_DIVIDE, at, "%s of size %lld in '%s' is not divisible by %lld, the size of '%s'",
                                name ? mem_printf("dim '%s'", name) : "a dim", (long long)dim->size, tensor, (long long)parts, names);
    int only = -1, count = 0;
    for (int a = 0; a < m->naxis; a++)
        if (axes >> a & 1) {
            only = a;
            count++;
        }
    if (dim->span.file && name)
        diag_label(d, dim->span, "'%s' is %lld", name, (long long)dim->size);
    int64_t down = dim->size / parts * parts, up = down + parts;
    const char *near = down ? mem_printf("%lld or %lld", (long long)down, (long long)up) : mem_printf("%lld", (long long)up);
    near = name ? mem_printf("take %s = %s", name, near) : mem_printf("a size of %s", near);
    if (count > 1 && uneven_said)
        diag_help(d, "`uneven` works over one axis; %s", near);
    else if (count > 1)
        diag_help(d, "%s, or axes whose product is one of %s", near, legal);
    else
        diag_help(d, "legal sizes of '%s': %s; or %s; or write %s uneven", m->axis[only].name, legal, near,
                  name ? mem_printf("S(%s)", name) : "the split");
}
