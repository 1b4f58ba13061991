/* einsum: the contraction, and every matrix product of the language (`a @ b` is written as one by elaborate). The spec
 * names each dim of each operand with a letter; ".." stands for the dims left over. The shape rule rewrites attribute
 * "spec" to its plain form (letters only, no blanks, no dots), which is all that later passes see. */
#include "nn.h"
#include <ctype.h>

enum { MAX_OPERAND = 8, MAX_LETTER = 52 };

/* A plain spec taken apart: the letters of each operand and of the output. */
struct spec {
    int nin;
    char in[MAX_OPERAND][MAX_DIM * 4], out[MAX_DIM * 4];
};

static void split(const char *text, struct spec *s)
{
    memset(s, 0, sizeof *s);
    char *to = s->in[s->nin++];
    for (; *text && *text != '-'; text++) {
        if (*text == ',')
            to = s->in[s->nin++];
        else
            *to++ = *text;
    }
    if (*text)
        strcpy(s->out, text + 2);
}

static const char *join(const struct spec *s)
{
    char *text = mem_strdup("");
    for (int k = 0; k < s->nin; k++)
        text = mem_printf("%s%s%s", text, k ? "," : "", s->in[k]);
    return mem_printf("%s->%s", text, s->out);
}

static void spec_of(const struct node *n, struct spec *s)
{
    split(node_str(n, "spec"), s);
}

static bool spec_error(const struct node *n, const char *fact, const char *help)
{
    struct diag *d = diag_error(E_SPEC, n->span, "%s", fact);
    if (help)
        diag_help(d, "%s", help);
    return false;
}

/* Reads the user's text into *s, with dots kept as one '.' each. */
static bool scan(const struct node *n, const char *text, struct spec *s)
{
    memset(s, 0, sizeof *s);
    const char *example = "write it as in \"ntd,df->ntf\"";
    const char *whole = text;
    bool arrow = false;
    char *to = s->in[s->nin++], *begin = to;
    for (; *text; text++) {
        if (isspace((unsigned char)*text))
            continue;
        if (*text == ',') {
            if (arrow || s->nin == MAX_OPERAND)
                return spec_error(n, mem_printf("einsum spec \"%s\" has a comma too many", whole), example);
            to = begin = s->in[s->nin++];
        } else if (text[0] == '-' && text[1] == '>' && !arrow) {
            arrow = true;
            to = begin = s->out;
            text++;
        } else if (isalpha((unsigned char)*text) || (text[0] == '.' && text[1] == '.')) {
            if (to - begin >= MAX_DIM)
                return spec_error(n, mem_printf("einsum spec \"%s\" names more than %d dims of one tensor", whole,
                                                MAX_DIM), NULL);
            if (strchr(begin, *text))
                return spec_error(n, mem_printf("einsum spec \"%s\" names '%c' twice for one tensor", whole, *text),
                                  "give each dim of a tensor its own letter");
            *to++ = *text;
            if (*text == '.')
                while (text[1] == '.')
                    text++;
        } else {
            return spec_error(n, mem_printf("einsum spec \"%s\" has an unreadable '%c'", whole,
                                            isprint((unsigned char)*text) ? *text : '?'), example);
        }
    }
    if (!arrow)
        return spec_error(n, mem_printf("einsum spec \"%s\" does not say its result", whole), example);
    return true;
}

/* Replaces '.' by unused letters, the same ones everywhere, aligned at the last of the dims left over. */
static bool expand_dots(const struct node *n, struct spec *s)
{
    char fresh[MAX_DIM + 1] = "";
    int most = 0;
    for (int k = 0; k < s->nin; k++)
        if (strchr(s->in[k], '.')) {
            int left = n->in[k]->ndim - ((int)strlen(s->in[k]) - 1);
            most = left > most ? left : most;
        }
    const char *used = join(s);
    int have = 0;
    for (char c = 'A'; c <= 'z' && have < most; c++)
        if (isalpha((unsigned char)c) && !strchr(used, c))
            fresh[have++] = c;
    if (have < most)
        return spec_error(n, "einsum spec leaves no letters for its \"..\"", NULL);
    for (int k = 0; k <= s->nin; k++) {
        char *text = k < s->nin ? s->in[k] : s->out, *dot = strchr(text, '.');
        if (!dot)
            continue;
        int left = k < s->nin ? n->in[k]->ndim - ((int)strlen(text) - 1) : most;
        if (left < 0)
            left = 0;
        const char *wide = mem_printf("%.*s%s%s", (int)(dot - text), text, fresh + most - left, dot + 1);
        if (strlen(wide) > MAX_DIM)
            return spec_error(n, mem_printf("einsum makes a tensor of more than %d dims", MAX_DIM), NULL);
        strcpy(text, wide);
    }
    return true;
}

static const char *dim_text(const struct dim *d)
{
    return d->name ? mem_printf("%s = %lld", d->name, (long long)d->size) : mem_printf("%lld", (long long)d->size);
}

static bool shape(struct graph *g, struct node *n)
{
    struct spec s;
    const char *text = node_str(n, "spec");
    if (!text)
        return spec_error(n, "einsum needs a spec", "write it as in einsum(\"ntd,df->ntf\", x, w)");
    if (!scan(n, text, &s))
        return false;
    if (s.nin != arrlen(n->in))
        return spec_error(n, mem_printf("einsum spec \"%s\" names %d operands, but %d are given", text, s.nin,
                                        (int)arrlen(n->in)), NULL);
    if (!expand_dots(n, &s))
        return false;
    struct dim *dim[128] = {0};
    int from[128] = {0};
    for (int k = 0; k < s.nin; k++) {
        const struct value *v = n->in[k];
        if (!type_is_float(v->type)) {
            struct diag *d = diag_error(E_TYPE, v->span, "operand %d of einsum is %s, not a float", k + 1,
                                        type_name[v->type]);
            diag_help(d, "cast(.., f32) makes it one");
            return false;
        }
        if (!op_expect(n, k, (int)strlen(s.in[k]) == v->ndim, "spec \"%s\" names %d dims of operand %d, which "
                       "has %d", text, (int)strlen(s.in[k]), k + 1, v->ndim))
            return false;
        for (int i = 0; i < v->ndim; i++) {
            int c = s.in[k][i];
            if (!dim[c]) {
                dim[c] = v->dim[i];
                from[c] = k;
            } else if (!dim_same(dim[c], v->dim[i])) {
                struct diag *d = diag_error(E_SHAPE, n->span, "einsum letter '%c' is %s in operand %d but %s in operand"
                                            " %d", c, dim_text(dim[c]), from[c] + 1, dim_text(v->dim[i]), k + 1);
                diag_label(d, n->in[from[c]]->span, "%s", value_type_text(n->in[from[c]], NULL));
                diag_label(d, v->span, "%s", value_type_text(v, NULL));
                diag_help(d, "a letter is one dim: give the other dim a letter of its own, or mend the order of the letters");
                return false;
            } else if (!dim[c]->name) {
                dim[c] = v->dim[i];
            }
        }
    }
    struct dim *out[MAX_DIM];
    int ndim = (int)strlen(s.out);
    for (int i = 0; i < ndim; i++) {
        out[i] = dim[(int)s.out[i]];
        if (!out[i]) {
            const char *known = "";
            for (int c = 0; c < 128; c++)
                known = dim[c] ? mem_printf("%s%s%c", known, *known ? ", " : "", c) : known;
            return spec_error(n, mem_printf("einsum letter '%c' of the result is in no operand", s.out[i]),
                              mem_printf("the operands have the letters %s", known));
        }
    }
    node_set_str(n, "spec", intern(join(&s)));
    node_out(g, n, n->in[0]->type, ndim, out);
    return true;
}

/* Every letter is a factor; one that the result lacks is contracted. */
static const char *rule_of(const struct node *n)
{
    struct spec s;
    spec_of(n, &s);
    const char *rule = "";
    for (int k = 0; k <= s.nin; k++) {
        const char *text = k < s.nin ? s.in[k] : s.out;
        rule = mem_printf("%s%s", rule, k == 0 ? "" : k < s.nin ? ", " : " -> ");
        if (!*text && k < s.nin)
            rule = mem_printf("%s-", rule);
        for (const char *c = text; *c; c++)
            rule = mem_printf("%s%s%c%s", rule, c == text ? "" : " ", *c, strchr(s.out, *c) ? "" : "+");
    }
    return rule;
}

static struct value *contract(struct grad *c, const struct spec *s, struct value *const *operands)
{
    struct node *n = node_new(c->g, c->at, &op_einsum, c->node->span);
    for (int k = 0; k < s->nin; k++)
        node_in(n, operands[k]);
    node_set_str(n, "spec", join(s));
    return node_finish(c->g, n) ? n->out[0] : NULL;
}

/* The gradient of an operand is the einsum of the result's gradient with the other operands. A letter that only this
 * operand has was summed away: its gradient is the same all along that dim. */
static void grad(struct grad *c)
{
    const struct node *n = c->node;
    struct spec s;
    spec_of(n, &s);
    for (int k = 0; k < s.nin; k++) {
        if (!c->wanted[k])
            continue;
        struct spec back = {.nin = 1};
        struct value *operands[MAX_OPERAND] = {c->dout[0]};
        strcpy(back.in[0], s.out);
        const char *have = s.out;
        for (int j = 0; j < s.nin; j++)
            if (j != k) {
                strcpy(back.in[back.nin], s.in[j]);
                operands[back.nin++] = n->in[j];
                have = mem_printf("%s%s", have, s.in[j]);
            }
        int count = 0;
        for (const char *l = s.in[k]; *l; l++)
            if (strchr(have, *l))
                back.out[count++] = *l;
        bool same = back.nin == 1 && !strcmp(back.in[0], back.out);
        struct value *v = same ? c->dout[0] : contract(c, &back, operands);
        if (v && count < n->in[k]->ndim) {
            for (int i = 0; i < n->in[k]->ndim; i++)
                if (!strchr(have, s.in[k][i])) {
                    struct node *axis = node_new(c->g, c->at, &op_new_axis, n->span);
                    node_in(axis, v);
                    node_set_int(axis, "axis", i);
                    v = node_finish(c->g, axis) ? axis->out[0] : NULL;
                }
            v = build_expand(c->g, c->at, v, n->in[k]);
        }
        c->din[k] = v;
    }
}

static double flops(const struct node *n)
{
    struct spec s;
    spec_of(n, &s);
    double product = s.nin > 1 ? 2 * (s.nin - 1) : 1;
    bool seen[128] = {0};
    for (int k = 0; k < s.nin; k++)
        for (int i = 0; s.in[k][i]; i++)
            if (!seen[(int)s.in[k][i]]) {
                seen[(int)s.in[k][i]] = true;
                product *= (double)n->in[k]->dim[i]->size;
            }
    return product;
}

static void ref(struct reference *r)
{
    struct spec s;
    spec_of(r->node, &s);
    int nletter = 0;
    int64_t extent[MAX_LETTER], at[MAX_LETTER] = {0}, step[MAX_OPERAND + 1][MAX_LETTER] = {{0}};
    char letter[MAX_LETTER + 1] = "";
    for (int k = 0; k <= s.nin; k++) {
        const char *text = k < s.nin ? s.in[k] : s.out;
        const struct tensor *t = k < s.nin ? &r->in[k] : &r->out[0];
        int64_t stride[MAX_DIM];
        tensor_strides(t, stride);
        for (int i = 0; text[i]; i++) {
            const char *known = strchr(letter, text[i]);
            int l = known ? (int)(known - letter) : nletter;
            if (!known) {
                letter[nletter++] = text[i];
                extent[l] = t->n[i];
            }
            step[k][l] = stride[i];
        }
    }
    for (int l = 0; l < nletter; l++)
        if (!extent[l])
            return;
    do {
        double product = 1;
        for (int k = 0; k < s.nin; k++)
            product *= r->in[k].data[index_offset(at, step[k], nletter)];
        r->out[0].data[index_offset(at, step[s.nin], nletter)] += product;
    } while (index_next(at, extent, nletter));
}

/* A spec that only turns its one operand adds nothing up, so P(max) and P(min) pass as well. */
static void extra(const struct node *n, int parts, struct sig **sigs)
{
    struct spec s;
    spec_of(n, &s);
    for (enum reduce r = REDUCE_MAX; s.nin == 1 && strlen(s.in[0]) == strlen(s.out) && r <= REDUCE_MIN; r++) {
        struct sig sig = sig_new(n);
        sig.in[0] = sig.out[0] = sbp_partial(r);
        arrput(*sigs, sig);
    }
}

const struct op op_einsum = {
    .name = "einsum",
    .doc = "sum of products over the letters that the result lacks",
    .args = "spec:str, x...",
    .linear = "{a} {b} {c} {d} {e} {f} {g} {h}",
    .flags = OP_VARIADIC | OP_CONTRACTION | OP_STRIDED,
    .adds = 1,
    .shape = shape,
    .rule_of = rule_of,
    .extra = extra,
    .grad = grad,
    .flops = flops,
    .ref = ref,
    .shapes = "a [m, k], b [k, n] -> [m, n] under \"mk,kn->mn\": one letter a dim, \"..\" the dims left over",
    .factors = "every letter; one that the result lacks is contracted (+)",
    .more = "of one operand that is only turned, P(max) and P(min) pass",
    .work = "2 (operands - 1) times the product of all letters",
};
