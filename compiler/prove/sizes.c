/* How small may dims be? A dim that a layout splits keeps its facts: even stays even, uneven stays uneven with larger,
 * smaller and empty parts where there were such, padded stays padded, and nothing longer than 1 becomes 1. Sizes are
 * given by the program's own dims and consts, so relations such as K = D/H hold because they are evaluated again. */
#include "verify.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 200000, LARGEST = 64 };

/* ---- facts ---- */

static void note_split(struct facts *f, struct dim *d, unsigned axes)
{
    struct fact *t = hmget(f->of, d);
    if (!t) {
        t = NEW(struct fact);
        t->dim = d;
        hmput(f->of, d, t);
    }
    for (int i = 0; axes && i < arrlen(t->splits); i++)
        if (t->splits[i] == axes)
            return;
    if (axes)
        arrput(t->splits, axes);
}

static void note_layout(struct facts *f, int ndim, struct dim *const *dim, const struct layout *l)
{
    for (int d = 0; d < ndim; d++) {
        unsigned axes = 0;
        for (int i = 0; i < f->mesh->naxis; i++)
            if (l->ax[i].kind == SBP_S && l->ax[i].dim == d && f->mesh->axis[i].size > 1)
                axes |= 1u << i;
        note_split(f, dim[d], axes);
    }
}

struct facts *facts_collect(const struct module *m)
{
    struct facts *f = NEW(struct facts);
    f->mesh = m->physical->mesh;
    for (int k = 0; k < arrlen(m->params); k++)
        note_layout(f, m->params[k]->ndim, m->params[k]->dim, &m->params[k]->lay);
    for (int e = 0; e < ENTRIES; e++)
        for (int i = 0; m->graph[e] && i < arrlen(m->graph[e]->values); i++) {
            const struct value *v = m->graph[e]->values[i];
            note_layout(f, v->ndim, v->dim, &v->lay);
        }
    for (int s = 0; s < m->physical->nstage; s++)
        for (int i = 0; i < arrlen(m->physical->stages[s].graph->values); i++) {
            const struct value *v = m->physical->stages[s].graph->values[i];
            note_layout(f, v->ndim, v->dim, &v->lay);
        }
    return f;
}

static int64_t parts(const struct mesh *m, unsigned axes, const int *sizes)
{
    int64_t n = 1;
    for (int i = 0; i < m->naxis; i++)
        if (axes >> i & 1)
            n *= sizes ? sizes[i] : m->axis[i].size;
    return n;
}

/* Two ranks an axis, three where two cannot show one full and two kinds of other parts; three micro-batches: the first
 * stores, the last may be forgotten. */
struct smallness smallness_least(const struct facts *f)
{
    struct smallness s = {.blocks = 2, .evenness = 1, .seed = 1};
    const struct mesh *m = f->mesh;
    for (int i = 0; i < m->naxis; i++) {
        int most = i == m->pipe ? m->axis[i].size : m->axis[i].time ? 3 : 2;
        s.axis[i] = m->axis[i].size < most ? m->axis[i].size : most;
    }
    for (int k = 0; k < hmlen(f->of); k++)
        for (int i = 0; i < arrlen(f->of[k].value->splits); i++) {
            unsigned axes = f->of[k].value->splits[i];
            bool single = !(axes & (axes - 1));
            for (int a = 0; a < m->naxis && single; a++)
                if (axes >> a & 1 && a != m->pipe && f->of[k].key->phys < m->axis[a].size)
                    s.axis[a] = m->axis[a].size < 3 ? m->axis[a].size : 3;
        }
    return s;
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

bool fact_holds(const struct fact *f, const struct mesh *mesh, const struct smallness *s, int64_t size, int64_t *phys)
{
    const struct dim *d = f->dim;
    int64_t multiple = 1;
    for (int i = 0; i < arrlen(f->splits); i++)
        multiple = common_multiple(multiple, parts(mesh, f->splits[i], s->axis));
    *phys = d->phys > d->size ? (size + multiple) / multiple * multiple : size;
    if ((d->size > 1 && size < 2) || size > d->size)
        return size == d->size;
    bool uneven = false;
    for (int i = 0; i < arrlen(f->splits); i++)
        uneven |= d->phys % parts(mesh, f->splits[i], NULL) != 0;
    if (!uneven && size % gcd(d->size, (int64_t)1 << s->evenness))
        return false;
    for (int i = 0; i < arrlen(f->splits); i++) {
        int64_t k = parts(mesh, f->splits[i], NULL), l = parts(mesh, f->splits[i], s->axis), n = d->phys;
        if (l == 1)
            continue;
        if ((n % k == 0) != (*phys % l == 0) || (n < k) != (*phys < l))
            return false;
        bool rows = s->evenness && !(f->splits[i] >> mesh->mb & 1);
        if (rows && n / k > 1 && *phys / l < 2)
            return false;
    }
    return true;
}

/* ---- the program's own sizes ---- */

struct decl_size {
    const char *name;
    struct ast *value;
    const char *set;             /* --set, or NULL */
    struct fact *fact;           /* of a dim that a tensor has, or NULL */
    bool is_dim, free, busy;
    double now;                  /* a free one's value */
    int64_t known;               /* of the trial in which `now` was evaluated, for the others */
    uint64_t needs;              /* bit set of the free ones it depends on */
    int bit;
};
struct sizes {
    struct decl_size *decls;
    struct { const char *key; int value; } *by_name; /* in decls, counted from 1 */
    int64_t trial;
    uint64_t needs;              /* met while evaluating */
};

static bool eval(struct sizes *z, const struct ast *a, bool whole, double *to);

static bool eval_decl(struct sizes *z, struct decl_size *d, double *to)
{
    if (!d->free && d->known != z->trial) {
        char *end = NULL;
        if (d->busy)
            return false;
        d->busy = true;
        bool fine = d->set ? (d->now = strtod(d->set, &end), end != d->set) : eval(z, d->value, d->is_dim, &d->now);
        d->busy = false;
        if (!fine)
            return false;
        d->known = z->trial;
    }
    *to = d->now;
    return true;
}

static bool eval_call(struct sizes *z, const struct ast *a, bool whole, double *to)
{
    const struct ast *callee = ast_kid(a, 0);
    const char *name = callee && callee->kind == AST_NAME ? callee->name : "";
    double l = 0, r = 0;
    if (!strcmp(name, "ceil") && ast_count(a) == 2) {
        if (!eval(z, ast_kid(a, 1), false, to))
            return false;
        *to = ceil(*to - 1e-12);
        return true;
    }
    if (!eval(z, ast_kid(a, 1), whole, &l) || (ast_count(a) == 3 && !eval(z, ast_kid(a, 2), whole, &r)))
        return false;
    *to = !strcmp(name, "min") ? fmin(l, r) : !strcmp(name, "max") ? fmax(l, r) : !strcmp(name, "sqrt") ? sqrt(l)
        : !strcmp(name, "log") ? log(l) : !strcmp(name, "exp") ? exp(l) : NAN;
    return !isnan(*to);
}

static bool eval(struct sizes *z, const struct ast *a, bool whole, double *to)
{
    double l, r;
    switch (a ? a->kind : AST_KINDS) {
    case AST_NUMBER:
        *to = a->num;
        return true;
    case AST_NAME: {
        int i = shget(z->by_name, a->name) - 1;
        if (i < 0)
            return false;
        z->needs |= z->decls[i].free ? (uint64_t)1 << z->decls[i].bit : 0;
        return eval_decl(z, &z->decls[i], to);
    }
    case AST_UNARY:
        if (!eval(z, ast_kid(a, 0), whole, to))
            return false;
        *to = -*to;
        return true;
    case AST_BINARY:
        if (!eval(z, ast_kid(a, 0), whole, &l) || !eval(z, ast_kid(a, 1), whole, &r))
            return false;
        *to = a->name[0] == '+' ? l + r : a->name[0] == '-' ? l - r : a->name[0] == '*' ? l * r
            : a->name[0] == '/' && r != 0 ? l / r : NAN;
        return !isnan(*to) && (!whole || a->name[0] != '/' || *to == floor(*to));
    case AST_CALL:
        return eval_call(z, a, whole, to);
    default:
        return false;
    }
}

static void declare(struct sizes *z, const struct module *m, const struct facts *f)
{
    int bits = 0;
    struct { const char *key; struct dim *value; } *dims = NULL;
    for (int k = 0; k < arrlen(m->dims); k++)
        shput(dims, m->dims[k]->name, m->dims[k]);
    for (int p = 0; p < arrlen(m->programs); p++)
        for (int i = 0; i < ast_count(m->programs[p]); i++) {
            struct ast *a = m->programs[p]->kids[i];
            if (!a || (a->kind != AST_DIM && a->kind != AST_CONST))
                continue;
            struct decl_size d = {.name = a->name, .value = ast_kid(a, 0), .is_dim = a->kind == AST_DIM, .known = -1};
            for (int k = 0; k < arrlen(m->options->set); k++)
                if (!strcmp(m->options->set[k].name, a->name))
                    d.set = m->options->set[k].value;
            double v = d.set ? strtod(d.set, NULL) : d.value && d.value->kind == AST_NUMBER ? d.value->num : NAN;
            struct dim *dim = d.is_dim ? shget(dims, a->name) : NULL;
            if (dim)
                d.fact = hmget(((struct facts *)f)->of, dim);
            d.free = v >= 1 && v == floor(v) && bits < 64;
            d.now = v;
            d.bit = d.free ? bits++ : -1;
            arrput(z->decls, d);
            shput(z->by_name, a->name, (int)arrlen(z->decls));
        }
}

/* What each depends on: one evaluation at the sizes as they are. */
static void find_needs(struct sizes *z)
{
    for (int i = 0; i < arrlen(z->decls); i++) {
        struct decl_size *d = &z->decls[i];
        double v;
        z->trial++;                  /* so that nothing is taken from before */
        z->needs = d->free ? (uint64_t)1 << d->bit : 0;
        if (!d->free)
            eval_decl(z, d, &v);
        d->needs = z->needs;
    }
}

static bool component_holds(struct sizes *z, const struct facts *f, const struct smallness *s, uint64_t part)
{
    z->trial++;
    for (int i = 0; i < arrlen(z->decls); i++) {
        struct decl_size *d = &z->decls[i];
        double v;
        int64_t phys;
        if (!d->fact || !(d->needs & part))
            continue;
        if (!eval_decl(z, d, &v) || v < 1 || v > 1e6 || v != floor(v) ||
            !fact_holds(d->fact, f->mesh, s, (int64_t)v, &phys))
            return false;
    }
    return true;
}

/* The tuple whose largest number is smallest. */
static bool component_search(struct sizes *z, const struct facts *f, const struct smallness *s, uint64_t part)
{
    struct decl_size *var[64];
    int n = 0;
    int64_t tries = 0;
    for (int i = 0; i < arrlen(z->decls); i++)
        if (z->decls[i].free && part >> z->decls[i].bit & 1)
            var[n++] = &z->decls[i];
    for (int bound = 1; bound <= LARGEST; bound++) {
        for (int k = 0; k < n; k++)
            var[k]->now = 1;
        for (;;) {
            bool reaches = false;
            for (int k = 0; k < n; k++)
                reaches |= (int)var[k]->now == bound;
            if (reaches && component_holds(z, f, s, part))
                return true;
            if (++tries > MOST_TRIES)
                return false;
            int k = 0;
            while (k < n && ++var[k]->now > bound)
                var[k++]->now = 1;
            if (k == n)
                break;
        }
    }
    return false;
}

typeof(((struct options *)0)->set) sizes_find(const struct module *m, const struct facts *f, const struct smallness *s)
{
    struct sizes z = {.trial = 1};
    declare(&z, m, f);
    uint64_t relevant = 0;
    find_needs(&z);
    for (int i = 0; i < arrlen(z.decls); i++)
        if (z.decls[i].fact)
            relevant |= z.decls[i].needs;
    for (uint64_t left = relevant; left;) {
        uint64_t part = left & -left, before = 0;
        while (part != before) {         /* dims of tensors that share a free size belong together */
            before = part;
            for (int i = 0; i < arrlen(z.decls); i++)
                if (z.decls[i].fact && z.decls[i].needs & part)
                    part |= z.decls[i].needs;
        }
        left &= ~part;
        if (!component_search(&z, f, s, part))
            return NULL;
    }
    typeof(m->options->set) set = NULL;
    arrsetcap(set, 4);
    for (int i = 0; i < arrlen(m->options->set); i++)
        arrput(set, m->options->set[i]);
    for (int i = 0; i < arrlen(z.decls); i++)
        if (z.decls[i].free && relevant >> z.decls[i].bit & 1)
            arrput(set, ((typeof(*set)){z.decls[i].name, mem_printf("%.0f", z.decls[i].now), false}));
    return set;
}
