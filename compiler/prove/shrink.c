/* The module's own graphs at small sizes. The sizes of dims, the numbers of blocks, ranks and micro-batches and the few
 * attributes that depend on them are changed in place and put back afterwards: it is the very graph that is emitted
 * which runs. What a dim without a name becomes is read off the same program elaborated at the small sizes. */
#include "../base/diag.h"
#include "../passes.h"
#include "verify.h"
#include <string.h>

struct change { void *at; int bytes; char before[8]; };
struct blocks {                  /* of all repeats written in one place: old numbers of blocks and new ones */
    int file, begin;
    int64_t *from, *to;          /* stb_ds arrays, upwards; blocks between two of them are alike */
};
struct shrunk {
    struct module *m, *small;
    const struct facts *facts;
    const struct smallness *how;
    struct change *changes;      /* stb_ds array, in order */
    struct { struct dim *key; struct dim *value; } *dims;
    struct { const struct node *key; const struct node *value; } *nodes;
    struct { int64_t *key; bool value; } *stacks;        /* done */
    struct blocks *blocks;
    const char *why;
};

static void set_bytes(struct shrunk *s, void *at, const void *value, int bytes)
{
    struct change c = {.at = at, .bytes = bytes};
    if (!memcmp(at, value, (size_t)bytes))
        return;
    memcpy(c.before, at, (size_t)bytes);
    memcpy(at, value, (size_t)bytes);
    arrput(s->changes, c);
}

static void set_wide(struct shrunk *s, int64_t *at, int64_t value)
{
    set_bytes(s, at, &value, sizeof value);
}

static void set_int(struct shrunk *s, int *at, int value)
{
    set_bytes(s, at, &value, sizeof value);
}

void shrunk_restore(struct shrunk *s)
{
    while (arrlen(s->changes)) {
        struct change c = arrpop(s->changes);
        memcpy(c.at, c.before, (size_t)c.bytes);
    }
}

/* ---- the program at small sizes ---- */

static struct module *elaborated(const struct shrunk *s, typeof(((struct options *)0)->set) set)
{
    struct module *small = NEW(struct module);
    struct options *o = NEW(struct options);
    *o = *s->m->options;
    o->set = set;
    o->microbatches = s->how->axis[s->facts->mesh->mb];
    o->explain = NULL;
    o->time = false;
    small->options = o;
    small->large = s->m;
    for (int i = 0; i < arrlen(s->m->programs); i++)
        arrput(small->programs, s->m->programs[i]);
    struct diag_held held = diag_hold();
    passes_run(small, elaborate, rewrite);
    return diag_drop(held) ? NULL : small;
}

static bool pair_dims(struct shrunk *s, struct value *a, const struct value *b)
{
    for (int d = 0; d < a->ndim; d++) {
        struct dim *known = hmget(s->dims, a->dim[d]);
        if (known && known->size != b->dim[d]->size)
            return false;
        hmput(s->dims, a->dim[d], b->dim[d]);
    }
    return true;
}

/* The same values in the same order; later passes have only added to them. */
static bool pair_graphs(struct shrunk *s, struct graph *g, const struct graph *small)
{
    if (!small || arrlen(small->values) > arrlen(g->values))
        return false;
    for (int i = 0; i < arrlen(small->values); i++) {
        struct value *a = g->values[i], *b = small->values[i];
        bool made = a->def && b->def;
        if (a->ndim != b->ndim || a->type != b->type || (made && strcmp(a->def->op->name, b->def->op->name)) ||
            !pair_dims(s, a, b))
            return false;
        if (made && arrlen(a->def->attr) == arrlen(b->def->attr))
            hmput(s->nodes, a->def, b->def);
    }
    return true;
}

/* ---- blocks ---- */

static struct blocks *blocks_of(struct shrunk *s, const struct region *logical)
{
    const struct region *r = region_origin((struct region *)logical);
    struct span at = r->owner->span;
    for (int i = 0; i < arrlen(s->blocks); i++)
        if (s->blocks[i].file == at.file && s->blocks[i].begin == at.begin)
            return &s->blocks[i];
    arrput(s->blocks, ((struct blocks){.file = at.file, .begin = at.begin}));
    return &arrlast(s->blocks);
}

static void note_blocks(struct blocks *b, int64_t at)
{
    int i = 0;
    while (i < arrlen(b->from) && b->from[i] < at)
        i++;
    if (i == arrlen(b->from) || b->from[i] != at)
        arrins(b->from, i, at);
}

static void note_region(struct shrunk *s, const struct region *logical, const struct region *r)
{
    struct blocks *b = blocks_of(s, logical);
    note_blocks(b, r->first);
    note_blocks(b, r->first + r->count);
}

static void settle_blocks(struct shrunk *s)
{
    for (int i = 0; i < arrlen(s->blocks); i++) {
        struct blocks *b = &s->blocks[i];
        int64_t shortest = INT64_MAX, at = 0;
        for (int k = 0; k + 1 < arrlen(b->from); k++)
            if (b->from[k + 1] - b->from[k] < shortest)
                shortest = b->from[k + 1] - b->from[k];
        for (int k = 0; k < arrlen(b->from); k++) {
            arrput(b->to, at);
            int64_t length = k + 1 < arrlen(b->from) ? b->from[k + 1] - b->from[k] : 0;
            int64_t most = s->how->blocks + (length > shortest);
            at += length < most ? length : most;
        }
    }
}

static int64_t block_at(const struct blocks *b, int64_t block)
{
    for (int k = 0; k < arrlen(b->from); k++)
        if (b->from[k] == block)
            return b->to[k];
    BUG("no stage begins or ends at block %lld", (long long)block);
}

static void shrink_region(struct shrunk *s, const struct region *logical, struct region *r)
{
    const struct blocks *b = blocks_of(s, logical);
    int64_t first = block_at(b, r->first), end = block_at(b, r->first + r->count), total = block_at(b, r->total);
    set_wide(s, &r->first, first);
    set_wide(s, &r->count, end - first);
    set_wide(s, &r->total, total);
}

/* ---- walks ---- */

struct walk { struct shrunk *s; bool apply, logical; };

static void visit_repeat(struct node *n, void *context)
{
    struct walk *w = context;
    if (!n->body)
        return;
    const struct region *logical = w->logical ? n->body : n->logical ? n->logical->body : NULL;
    if (!logical)
        w->s->why = "a repeat that the logical graph does not have";
    else if (w->apply)
        shrink_region(w->s, logical, n->body);
    else
        note_region(w->s, logical, n->body);
}

static void walk_all(struct shrunk *s, void (*visit)(struct node *n, void *context), bool apply)
{
    struct walk w = {s, apply, true};
    for (int e = 0; e < ENTRIES; e++)
        if (s->m->graph[e])
            region_walk(s->m->graph[e]->root, visit, &w);
    w.logical = false;
    for (int i = 0; i < s->m->physical->nstage; i++)
        for (int e = 0; e < ENTRIES; e++) {
            struct root *roots = stage_roots(&s->m->physical->stages[i], (enum entry)e);
            for (int k = 0; k < arrlen(roots); k++)
                region_walk(roots[k].region, visit, &w);
        }
}

/* A parameter in a repeat: its stack of blocks. */
static void visit_param(struct node *n, void *context)
{
    struct walk *w = context;
    if (!w->logical || n->op != &op_param)
        return;
    struct param *p = node_ptr(n, "param");
    int at = (int)arrlen(p->stack);
    for (const struct region *r = n->region; r->parent && at > 0; r = r->parent) {
        const struct blocks *b = blocks_of(w->s, r);
        at--;
        if (hmget(w->s->stacks, p->stack))           /* done before */
            continue;
        set_wide(w->s, &p->stack[at], block_at(b, r->first + r->count) - block_at(b, r->first));
        set_wide(w->s, &p->first[at], block_at(b, r->first));
        set_wide(w->s, &p->total[at], block_at(b, r->total));
    }
    if (p->stack)
        hmput(w->s->stacks, p->stack, true);
}

/* Attributes that depend on sizes. */
static void visit_attr(struct node *n, void *context)
{
    struct walk *w = context;
    const struct node *logical = w->logical ? n : n->logical;
    const struct node *small = logical ? hmget(w->s->nodes, logical) : NULL;
    for (int i = 0; small && i < arrlen(n->attr); i++) {
        struct attr *a = &n->attr[i];
        const struct attr *b = node_attr(small, a->name);
        if (!b || b->kind != a->kind)
            continue;
        if (a->kind == ATTR_INT)
            set_wide(w->s, &a->i, b->i);
        if (a->kind == ATTR_NUM)
            set_bytes(w->s, &a->f, &b->f, sizeof a->f);
        for (int k = 0; a->kind == ATTR_INTS && arrlen(a->ints) == arrlen(b->ints) && k < arrlen(a->ints); k++)
            set_wide(w->s, &a->ints[k], b->ints[k]);
    }
    struct node **joined = node_ptr(n, "nodes");
    for (int i = 0; i < arrlen(joined); i++)
        visit_attr(joined[i], context);
}

/* ---- the list of norms ---- */

struct stack { int64_t old, new; };  /* blocks of a value of a body, before and after */

static struct stack stack_of(struct shrunk *s, const struct value *v, bool inner)
{
    struct stack t = {1, 1};
    for (const struct region *r = v->region; r->parent; r = r->parent)
        if (!inner || r->parent->parent) {
            const struct blocks *b = blocks_of(s, r);
            t.old *= r->count;
            t.new *= block_at(b, r->first + r->count) - block_at(b, r->first);
        }
    return t;
}

/* Entry e of the whole list, at the small sizes. */
static int64_t entry_small(struct shrunk *s, const struct node *logical, int64_t e)
{
    int64_t old = 0, new = 0;
    for (int k = 0; k < arrlen(logical->in); k++) {
        struct stack t = stack_of(s, logical->in[k], false), inner = stack_of(s, logical->in[k], true);
        if (e < old + t.old) {
            const struct region *r = logical->in[k]->region;
            while (r->parent && r->parent->parent)
                r = r->parent;
            if (!r->parent)
                return new;
            const struct blocks *b = blocks_of(s, r);
            return new + (block_at(b, r->first + (e - old) / inner.old) - block_at(b, r->first)) * inner.new;
        }
        old += t.old;
        new += t.new;
    }
    return new;
}

static void visit_partials(struct node *n, void *context)
{
    struct walk *w = context;
    if (n->op != &op_norm_partials)
        return;
    if (w->logical) {
        int64_t count = 0;
        for (int k = 0; k < arrlen(n->in); k++)
            count += stack_of(w->s, n->in[k], false).new;
        struct dim *d = n->out[0]->dim[0], *made = dim_anonymous(count);
        hmput(w->s->dims, d, made);
        return;
    }
    struct attr *entry = (struct attr *)node_attr(n, "entry");
    for (int k = 0; entry && n->logical && k < arrlen(entry->ints); k++)
        set_wide(w->s, &entry->ints[k], entry_small(w->s, n->logical, entry->ints[k]));
}

/* Dims with one entry for each rank of an axis. */
static void settle_ranks(struct shrunk *s)
{
    for (int k = 0; k < hmlen(s->dims); k++)
        if (s->dims[k].key->ranks_of)
            s->dims[k].value = dim_anonymous(s->how->axis[s->dims[k].key->ranks_of - 1]);
}

/* ---- the mesh ---- */

static void shrink_mesh(struct shrunk *s)
{
    struct mesh *m = s->m->physical->mesh;
    int ranks = 1;
    for (int i = m->naxis - 1; i >= 0; i--) {
        set_int(s, &m->axis[i].size, s->how->axis[i]);
        if (m->axis[i].time)
            continue;
        set_int(s, &m->axis[i].stride, ranks);
        ranks *= s->how->axis[i];
    }
    set_int(s, &m->nranks, ranks);
}

static bool dims_known(struct shrunk *s)
{
    const struct physical *p = s->m->physical;
    for (int i = 0; i < p->nstage; i++)
        for (int v = 0; v < arrlen(p->stages[i].graph->values); v++)
            for (int d = 0; d < p->stages[i].graph->values[v]->ndim; d++)
                if (!hmget(s->dims, p->stages[i].graph->values[v]->dim[d])) {
                    const char *path = p->stages[i].graph->values[v]->path;
                    s->why = mem_printf("%s has a dim that the model does not have", path);
                    return false;
                }
    return true;
}

static bool shrink_dims(struct shrunk *s)
{
    struct { struct dim *dim; int64_t size, phys; } *to = NULL;
    for (int k = 0; k < hmlen(s->dims); k++) {
        struct dim *d = s->dims[k].key;
        int64_t phys = s->dims[k].value->size;
        struct fact *f = hmget(((struct facts *)s->facts)->of, d);
        bool free = f && !arrlen(f->splits) && d->phys == d->size;    /* nobody splits it: any size will do */
        bool given = !f || d->ranks_of || free;
        if (!given && !fact_holds(f, s->facts->mesh, s->how, s->dims[k].value->size, &phys)) {
            s->why = mem_printf("no small size for the dim '%s' of %lld", d->name ? d->name : "", (long long)d->size);
            return false;
        }
        arrput(to, ((typeof(*to)){d, s->dims[k].value->size, phys}));
    }
    for (int i = 0; i < arrlen(to); i++) {
        set_wide(s, &to[i].dim->size, to[i].size);
        set_wide(s, &to[i].dim->phys, to[i].phys);
    }
    return true;
}

struct shrunk *shrunk_make(struct module *m, const struct facts *f, const struct smallness *how, const char **why)
{
    struct shrunk *s = NEW(struct shrunk);
    s->m = m;
    s->facts = f;
    s->how = how;
    typeof(m->options->set) set = sizes_find(m, f, how);
    *why = "its dims have no smaller sizes that keep the layouts";
    if (!set || !(s->small = elaborated(s, set)))
        return NULL;
    *why = "its graph is another one at small sizes";
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e] && !pair_graphs(s, m->graph[e], s->small->graph[e]))
            return NULL;
    walk_all(s, visit_repeat, false);
    settle_blocks(s);
    walk_all(s, visit_partials, false);
    settle_ranks(s);
    if (!s->why && dims_known(s) && shrink_dims(s)) {
        walk_all(s, visit_attr, true);
        shrink_mesh(s);
        walk_all(s, visit_param, true);
        walk_all(s, visit_repeat, true);
        return s;
    }
    shrunk_restore(s);
    *why = s->why;
    return NULL;
}

const char *shrunk_text(const struct shrunk *s)
{
    const char *text = "";
    for (int i = 0; i < arrlen(s->m->dims); i++)
        if (hmget(((struct shrunk *)s)->dims, s->m->dims[i]))
            text = mem_printf("%s%s%s = %lld", text, *text ? ", " : "", s->m->dims[i]->name,
                              (long long)s->m->dims[i]->size);
    return text;
}
