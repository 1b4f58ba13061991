/* The hook behind every node, for those who look at values as they are made (runtime/see.h). Which values stand for the
 * names of the program is decided in shown.c, the table is written by see_table.c.
 *
 * A value that is fused into a kernel has no place in memory. Where the program names it, a kernel of its own computes it
 * in front of that kernel, into a room of the runtime, if somebody looks; those that nobody named are listed as gone. */
#include "call.h"
#include "see.h"
#include <string.h>

struct buffer see_room;

bool see_whole_stack(const struct node *n, const struct value *v)
{
    return v->buffer && v->buffer != &see_room && v->buffer->depth && region_depth(v->region) > region_depth(n->region);
}

static void number(struct emitter *e, const struct node *n, const char *block, const char *values)
{
    plain(e, "FL_SEE(%d, %s, %s);", (int)arrlen(e->seen), block, values);
    arrput(e->seen, ((struct seen){n, e->entry, e->phase}));
}

void emit_see(struct emitter *e, const struct node *n)
{
    const char *values = "", *zero = "";
    int depth = region_depth(n->region), deepest = depth;
    for (int k = 0; k < arrlen(n->out); k++) {
        const struct value *v = n->out[k];
        if (!v->buffer)
            continue;
        values = mem_printf("%s%s%s", values, *values ? ", " : "", tensor_name(e, v));
        if (see_whole_stack(n, v) && v->buffer->depth > deepest)
            deepest = v->buffer->depth;
    }
    for (int d = depth + 1; d <= deepest; d++)
        zero = mem_printf("%s%sb%d = 0", zero, *zero ? ", " : "", d);
    if (*zero) {
        plain(e, "{");
        e->indent++;
        plain(e, "const int %s;", zero);
    }
    number(e, n, block_number(n->region), *values ? values : "NULL");
    if (*zero) {
        e->indent--;
        plain(e, "}");
    }
}

/* Calls that are made together, in one place: only that they have been made. */
void emit_see_gathered(struct emitter *e, const struct node *n)
{
    struct node *alone = NEW(struct node);
    *alone = *n;
    alone->out = NULL;
    number(e, alone, "0", "NULL");
}

/* A node that makes value k of those inside n, in the room, of n's operands. */
static struct node *apart(const struct node *n, struct value *const *hidden, int k)
{
    struct node *a = NEW(struct node);
    struct value *v = NEW(struct value);
    *v = *hidden[k];
    v->place = n->out[0]->place;
    v->buffer = &see_room;
    v->stacked = false;
    *a = *v->def;
    a->in = n->in;
    a->out = NULL;
    a->attr = NULL;
    a->region = n->region;
    a->op = v->logical->def->op;
    v->def = a;
    arrput(a->out, v);
    const char **expr = node_ptr(n, "hidden_expr");
    node_set_str(a, "expr", expr[k]);
    return a;
}

/* The same of row work: a node of the same rows that leaves value k alone. A sum of all rows is not made twice. */
static struct node *apart_in_rows(struct emitter *e, const struct node *n, struct value *const *hidden, int k)
{
    struct node *a = NEW(struct node), **nodes = node_ptr(n, "nodes"), **copies = NULL;
    struct value *v = NEW(struct value);
    *v = *hidden[k];
    place_dense(e->p, v, (const int[MAX_DIM]){0, 1, 2, 3, 4, 5, 6, 7});
    v->buffer = &see_room;
    v->stacked = false;
    *a = *n;
    a->out = NULL;
    arrput(a->out, v);
    for (int i = 0; i < arrlen(nodes); i++) {
        struct node *copy = NEW(struct node);
        *copy = *nodes[i];
        copy->out = copy->in = NULL;
        for (int j = 0; j < arrlen(nodes[i]->out); j++)
            arrput(copy->out, nodes[i]->out[j] == hidden[k] ? v : nodes[i]->out[j]);
        for (int j = 0; j < arrlen(nodes[i]->in); j++)
            arrput(copy->in, nodes[i]->in[j] == hidden[k] ? v : nodes[i]->in[j]);
        arrput(copies, copy);
    }
    a->attr = NULL;
    node_set_ptr(a, "nodes", copies);
    node_set_ptr(a, "like", node_ptr(n, "like") == hidden[k] ? v : node_ptr(n, "like"));
    v->def = a;
    v->def_index = 0;
    return a;
}

static void add_gone(struct emitter *e, const char *text)
{
    if (e->entry != shown_entry(e->m))
        return;
    for (int i = 0; i < arrlen(e->gone); i++)
        if (!strcmp(e->gone[i], text))
            return;
    arrput(e->gone, text);
}

/* "h[*].mlp.add gpt.flow:37", once. */
void see_gone(struct emitter *e, const struct value *v)
{
    if (v->path)
        add_gone(e, mem_printf("%s %s", v->path, v->span.file ? span_where(v->span) : ""));
}

/* Of a loss in rows: "logits gpt.flow:52 rows". */
static void rows_gone(struct emitter *e, const struct node *n)
{
    const char **names = node_ptr(n, "gone");
    for (int i = 0; i < arrlen(names); i++)
        add_gone(e, mem_printf("%s %s rows", names[i], n->span.file ? span_where(n->span) : ""));
}

void emit_see_hidden(struct emitter *e, const struct node *n)
{
    struct value **hidden = node_ptr(n, "hidden");
    rows_gone(e, n);
    for (int k = 0; k < arrlen(hidden); k++) {
        if (!shown_hidden(e->m, e->entry, hidden[k])) {
            see_gone(e, hidden[k]);
            continue;
        }
        plain(e, "if (fl_seeing_fused) {");
        e->indent++;
        bool rows = n->op == &op_rows;
        struct node *a = rows ? apart_in_rows(e, n, hidden, k) : apart(n, hidden, k);
        plain(e, "void *const room = fl_see_room(%s * %dL);", sym_text(sym_range(a->out[0]->place, 0, a->out[0]->ndim)),
              type_bytes[hidden[k]->type]);
        if (rows)
            emit_rows(e, a);
        else
            emit_elementwise(e, a);
        number(e, a, block_number(n->region), "room");
        e->indent--;
        plain(e, "}");
    }
}
