/* Factor rules and linear sets, and the 1-D signatures that follow from them. A rule that does not fit its node is a
 * defect of the op, not of the program: BUG(). */
#include "rule.h"
#include <ctype.h>

static int find_factor(struct rule *r, const char *name, char mark)
{
    int i = 0;
    while (i < r->nfactor && r->factor[i].name != name)
        i++;
    if (i == r->nfactor) {
        if (r->nfactor == MAX_FACTOR)
            BUG("rule '%s' has too many factors", r->text);
        r->factor[r->nfactor++] = (struct factor){name, 0};
    }
    if (mark)
        r->factor[i].mark = mark;
    return i;
}

struct token { const char *name; char mark; bool dots; };

static int read_tokens(const struct rule *r, const char *s, const char *end, struct token *to)
{
    int n = 0;
    while (s < end) {
        if (isspace((unsigned char)*s)) {
            s++;
            continue;
        }
        const char *word = s;
        while (s < end && !isspace((unsigned char)*s))
            s++;
        size_t len = (size_t)(s - word);
        struct token t = {0};
        if (strchr("+^><", word[len - 1]))
            t.mark = word[--len];
        if (len >= 2 && word[len - 1] == '.' && word[len - 2] == '.') {
            t.dots = true;
            len -= 2;
        }
        t.name = intern_n(word, len);
        if (n == MAX_FACTOR)
            BUG("rule '%s' is too long", r->text);
        to[n++] = t;
    }
    return n;
}

static struct term read_term(struct rule *r, const char *s, const char *end, const struct value *v)
{
    struct term t = {.ndim = v ? v->ndim : 0};
    for (int d = 0; d < MAX_DIM; d++)
        t.factor[d] = -1;
    struct token token[MAX_FACTOR];
    int n = read_tokens(r, s, end, token);
    if (!v || (n == 1 && strcmp(token[0].name, "-") == 0 && !token[0].dots))
        return t;
    int plain = 0, dots = 0;
    for (int i = 0; i < n; i++)
        token[i].dots ? dots++ : plain++;
    if (dots > 1 || v->ndim < plain || (!dots && v->ndim != plain))
        BUG("op %s: rule '%s' does not fit an operand of %d dims", r->node->op->name, r->text, v->ndim);
    int d = 0;
    for (int i = 0; i < n; i++) {
        if (!token[i].dots) {
            t.factor[d++] = strcmp(token[i].name, "_") == 0 ? -1 : find_factor(r, token[i].name, token[i].mark);
            continue;
        }
        for (int left = v->ndim - plain; left-- > 0;)
            t.factor[d++] = find_factor(r, intern(mem_printf("%s..%d", token[i].name, left)), token[i].mark);
    }
    return t;
}

/* Reads the comma-separated terms of [s, end); operands beyond the text are whole. */
static struct term *read_side(struct rule *r, const char *s, const char *end, struct value *const *values)
{
    static const char whole[] = "-";
    int n = (int)arrlen(values);
    struct term *terms = NEW_ARRAY(struct term, n);
    for (int k = 0; k < n; k++) {
        const char *comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL;
        const char *stop = comma ? comma : end;
        terms[k] = s < end ? read_term(r, s, stop, values[k]) : read_term(r, whole, whole + 1, values[k]);
        s = comma ? comma + 1 : end;
    }
    return terms;
}

struct rule *rule_of_node(const struct node *n)
{
    const char *text = n->op->rule_of ? n->op->rule_of(n) : n->op->rule;
    if (!text)
        return NULL;
    struct rule *r = NEW(struct rule);
    r->node = n;
    r->text = text;
    const char *arrow = strstr(text, "->");
    if (!arrow)
        BUG("op %s: rule '%s' has no arrow", n->op->name, text);
    r->in = read_side(r, text, arrow, n->in);
    r->out = read_side(r, arrow + 2, text + strlen(text), n->out);
    return r;
}

struct sig sig_new(const struct node *n)
{
    return (struct sig){.in = NEW_ARRAY(struct sbp, arrlen(n->in) + 1), .out = NEW_ARRAY(struct sbp, arrlen(n->out) + 1)};
}

static bool sig_same(const struct node *n, const struct sig *a, const struct sig *b)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (!sbp_same(a->in[k], b->in[k]))
            return false;
    for (int k = 0; k < arrlen(n->out); k++)
        if (!sbp_same(a->out[k], b->out[k]))
            return false;
    return true;
}

static void add_sig(const struct node *n, struct sig **sigs, struct sig s)
{
    for (int i = 0; i < arrlen(*sigs); i++) {
        struct sig *old = &(*sigs)[i];
        if (sig_same(n, old, &s)) {
            old->even &= s.even;
            old->coords &= s.coords;
            return;
        }
    }
    arrput(*sigs, s);
}

int term_place(const struct term *t, int f)
{
    int found = -1;
    for (int d = 0; d < t->ndim; d++)
        if (t->factor[d] == f) {
            if (found >= 0)
                return -2;
            found = d;
        }
    return found;
}

static bool factor_sig(const struct rule *r, int f, struct sig *s)
{
    const struct node *n = r->node;
    char mark = r->factor[f].mark;
    if (mark == '^')
        return false;
    *s = sig_new(n);
    for (int k = 0; k < arrlen(n->in); k++) {
        int d = term_place(&r->in[k], f);
        if (d == -2)
            return false;
        if (d >= 0)
            s->in[k] = sbp_split(d);
    }
    for (int k = 0; k < arrlen(n->out); k++) {
        int d = term_place(&r->out[k], f);
        if (d == -2)
            return false;
        if (d >= 0)
            s->out[k] = sbp_split(d);
        else if (mark)
            s->out[k] = sbp_partial(mark == '+' ? REDUCE_SUM : mark == '>' ? REDUCE_MAX : REDUCE_MIN);
        else
            BUG("op %s: rule '%s': output %d lacks the plain factor '%s'", n->op->name, r->text, k, r->factor[f].name);
    }
    return true;
}

static enum reduce read_reduce(const char **s)
{
    const struct { const char *word; enum reduce r; } words[] = {{"sum", REDUCE_SUM}, {"max", REDUCE_MAX},
                                                                 {"min", REDUCE_MIN}};
    for (int i = 0; i < 3; i++)
        if (strncmp(*s, words[i].word, 3) == 0) {
            *s += 3;
            return words[i].r;
        }
    return REDUCE_SUM;
}

struct linear_set *linear_sets(const struct node *n)
{
    struct linear_set *sets = NULL;
    const char *text = n->op->linear ? n->op->linear : "";
    int nin = (int)arrlen(n->in);
    for (const char *s = text; *s;) {
        if (isspace((unsigned char)*s)) {
            s++;
            continue;
        }
        struct linear_set set = {.in = read_reduce(&s)};
        if (*s != '{')
            BUG("op %s: ill-formed linear sets '%s'", n->op->name, text);
        bool legal = true;
        for (s++; *s && *s != '}'; s++) {
            if (*s == ',' || *s == ' ')
                continue;
            for (int k = 0; k < nin; k++)
                if (n->in[k] && (*s == '*' || k == *s - 'a'))
                    set.operands |= operand_bit(k);
            legal &= *s == '*' || (*s - 'a' < nin && n->in[*s - 'a']);
        }
        s += *s == '}';
        set.out = set.in;
        if (*s == ':') {
            s++;
            set.out = read_reduce(&s);
        }
        for (int k = 0; k < nin; k++)
            legal &= !(set.operands & operand_bit(k)) || type_is_float(n->in[k]->type);
        for (int k = 0; k < arrlen(n->out); k++)
            legal &= type_is_float(n->out[k]->type);
        if (legal)
            arrput(sets, set);
    }
    return sets;
}

bool node_linear_in(const struct node *n, int operand)
{
    struct linear_set *sets = linear_sets(n);
    bool found = false;
    for (int i = 0; i < arrlen(sets); i++)
        found |= sets[i].in == REDUCE_SUM && sets[i].operands & operand_bit(operand);
    return found;
}

static void linear_sigs(const struct node *n, struct sig **sigs)
{
    struct linear_set *sets = linear_sets(n);
    for (int i = 0; i < arrlen(sets); i++) {
        struct sig s = sig_new(n);
        for (int k = 0; k < arrlen(n->in); k++)
            if (sets[i].operands & operand_bit(k))
                s.in[k] = sbp_partial(sets[i].in);
        for (int k = 0; k < arrlen(n->out); k++)
            s.out[k] = sbp_partial(sets[i].out);
        add_sig(n, sigs, s);
    }
}

struct sig *node_signatures(const struct node *n, int parts)
{
    struct sig *sigs = NULL;
    add_sig(n, &sigs, sig_new(n));
    struct rule *r = rule_of_node(n);
    for (int f = 0; r && f < r->nfactor; f++) {
        struct sig s;
        if (factor_sig(r, f, &s))
            add_sig(n, &sigs, s);
    }
    linear_sigs(n, &sigs);
    if (n->op->extra) {
        struct sig *more = NULL;
        n->op->extra(n, parts, &more);
        for (int i = 0; i < arrlen(more); i++)
            add_sig(n, &sigs, more[i]);
    }
    return sigs;
}
