/* Which numbers the data of an input may hold: inputs that choose rows of a table, classes of a loss or places of a dim
 * are checked against its size before the first step, for an index outside reads as nothing and trains on silently.
 * Followed are views of the input; numbers that the model computes from it are the model's own affair. */
#include "elaborate.h"
#include <string.h>

struct range { const struct value **names; int64_t limit; };

static bool is_input(const struct range *r, const struct value *v)
{
    for (int i = 0; i < arrlen(r->names); i++)
        if (r->names[i] == v)
            return true;
    return false;
}

static void visit(struct node *n, void *context)
{
    struct range *r = context;
    for (int k = 0; k < arrlen(n->in); k++) {
        if (!n->in[k] || !is_input(r, n->in[k]))
            continue;
        int64_t size = n->op->index_limit ? n->op->index_limit(n, k) : 0;
        if (size && (!r->limit || size < r->limit))
            r->limit = size;
        for (int i = 0; (n->op->flags & OP_VIEW) && k == 0 && i < arrlen(n->out); i++)
            arrput(r->names, n->out[i]);
    }
}

struct collecting { struct data_binding *binding; struct range range; };

static void collect(struct node *n, void *context)
{
    struct collecting *c = context;
    struct data_binding *b = c->binding;
    for (int k = 0; k < b->ninput && n->op == &op_input; k++) {
        const struct value *v = n->out[0];
        if (v->type != TYPE_I32 || strcmp(node_str(n, "name"), b->inputs[k]))
            continue;
        arrput(c->range.names, v);
        if (v->has_ignore) {
            b->has_ignore = true;
            b->ignore = (int64_t)v->ignore;
        }
    }
    visit(n, &c->range);
}

void data_ranges(struct graph *g, struct data_binding *data)
{
    for (int i = 0; i < arrlen(data); i++) {
        struct collecting c = {&data[i], {0}};
        region_walk(g->root, collect, &c);
        data[i].limit = c.range.limit;
    }
}
