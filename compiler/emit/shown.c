/* Which values of the stage programs stand for the names of the program: what --dump writes. That is the value a clone of
 * its node makes, in whichever layout, and not a copy in another layout, zeros that stand for it on other stages, or the
 * same made again by recompute. Of a value that no stage has itself (a sum over stages) the first conversion does. */
#include "see.h"
#include <string.h>

struct seen_path { char *key; int value; };

enum entry shown_entry(const struct module *m)
{
    return m->graph[ENTRY_TRAIN] ? ENTRY_TRAIN : ENTRY_EVALUATE;
}

static bool is_own(const struct value *v, const struct node *def)
{
    const struct value *l = v->logical;
    return l && l->def && def && !(def->op->flags & OP_BOXING) &&
           (def->op == &op_fused || def->op == &op_rows || (def->logical && def->logical == l->def));
}

static void place_in_program(struct shown *s, const struct region *r, const int *above, int depth)
{
    for (int i = 0; i < arrlen(r->nodes) && depth <= MAX_STACK; i++) {
        int *at = NEW_ARRAY(int, MAX_STACK + 1);
        for (int d = 0; d < depth; d++)
            at[d] = above[d];
        at[depth] = i;
        for (int k = 0; k < arrlen(r->nodes[i]->out); k++)
            s->order[r->nodes[i]->out[k]->id] = at;
        if (r->nodes[i]->body)
            place_in_program(s, r->nodes[i]->body, at, depth + 1);
    }
}

static void note(struct shown *s, const struct mesh *mesh, struct region *r, bool conversions)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        struct value **hidden = node_ptr(n, "hidden");
        if (n->body)
            note(s, mesh, n->body, conversions);
        for (int k = 0; k < arrlen(hidden); k++)
            if (hidden[k]->logical)
                s->own[hidden[k]->logical->id] = true;
        for (int k = 0; k < arrlen(n->out); k++) {
            const struct value *v = n->out[k];
            if (!v->logical || !v->logical->def || v->logical->def->again || !v->buffer || layout_flat(&v->lay, mesh))
                continue;
            int id = v->logical->id;
            if (!conversions) {
                s->own[id] |= is_own(v, n);
            } else if (!s->own[id]) {
                s->own[id] = true;                         /* of further ones none is chosen */
                arrput(s->chosen, v);
            }
        }
    }
}

/* A piece of a repeat: the last one leaves what the repeat is called after. */
static bool goes_on(const struct node *n)
{
    return n->body && n->body->next;
}

/* Numbers values that share a path, which only those do that the compiler has named. They are numbered before fuse takes some
 * away, so that plans agree; pieces of a repeat have the same values for other blocks. */
static void name_values(struct shown *s, const struct region *r, struct seen_path **count)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->out) && !goes_on(n); k++) {
            const struct value *v = n->out[k];
            const char *key = v->path ? v->path : "";
            for (const struct region *at = r; at->parent; at = at->parent)
                key = mem_printf("%s %lld", key, (long long)at->first);
            int before = shget(*count, key);
            shput(*count, key, before + 1);
            s->name[v->id] = v->path && before ? mem_printf("%s~%d", v->path, before + 1) : v->path;
        }
        if (n->body)
            name_values(s, n->body, count);
    }
}

struct shown shown_find(struct module *m)
{
    enum entry entry = shown_entry(m);
    struct shown s = {0};
    const struct physical *p = m->physical;
    if (!m->graph[entry])
        return s;
    s.own = NEW_ARRAY(bool, arrlen(m->graph[entry]->values) + 1);
    s.order = NEW_ARRAY(const int *, arrlen(m->graph[entry]->values) + 1);
    s.name = NEW_ARRAY(const char *, arrlen(m->graph[entry]->values) + 1);
    place_in_program(&s, m->graph[entry]->root, NULL, 0);
    struct seen_path *count = NULL;
    name_values(&s, m->graph[entry]->root, &count);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < p->nstage; i++) {
            struct root *roots = stage_roots(&p->stages[i], entry);
            for (int k = 0; k < arrlen(roots); k++)
                note(&s, p->mesh, roots[k].region, turn);
        }
    return s;
}

bool shown_is(const struct module *m, const struct shown *s, const struct node *n, const struct value *v)
{
    if (!s->own || !v->logical || !v->logical->def || v->logical->def->again || !s->name[v->logical->id] || layout_flat(&v->lay, m->physical->mesh))
        return false;
    if (v->buffer == &see_room || is_own(v, n))
        return true;
    for (int i = 0; i < arrlen(s->chosen); i++)
        if (s->chosen[i] == v)
            return true;
    return false;
}

/* Is the last part of the path a word that the compiler took from the op? "h[*].mlp.add@2", "h[*].mlp.add#grad" */
static bool named_by_op(const char *path)
{
    const char *last = strrchr(path, '.');
    last = last ? last + 1 : path;
    size_t n = strcspn(last, "@#~");
    for (int i = 0; op_table[i]; i++)
        if (strlen(op_table[i]->name) == n && !strncmp(op_table[i]->name, last, n))
            return true;
    return false;
}

bool shown_hidden(const struct module *m, enum entry entry, const struct value *v)
{
    if (entry != shown_entry(m) || !v->logical || !v->logical->def || v->logical->def->again || !v->path)
        return false;
    return v->logical->call_output || arrlen(v->logical->alias) || !named_by_op(v->path);
}
