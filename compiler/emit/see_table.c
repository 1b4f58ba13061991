/* The table of nodes of a class and of the values they make, for the hook. */
#include "see.h"
#include <math.h>
#include <string.h>

/* May v well hold infinities? A constant that is infinite, what is made of one element by element, and parts of a maximum or
 * minimum, which start there. */
static void note_infinite(struct region *r, const struct mesh *mesh, bool *infinite)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        bool any = n->op == &op_constant && isinf(node_num(n, "value", 0));
        bool carries = (n->op->flags & (OP_ELEMENTWISE | OP_VIEW | OP_BOXING)) || n->op == &op_fused || n->op == &op_rows || n->body;
        for (int k = 0; k < arrlen(n->in) && carries; k++)
            any |= n->in[k] && infinite[n->in[k]->id];
        for (int turn = 0; turn < 2 && n->body; turn++) {
            for (int k = 0; k < arrlen(n->body->args); k++)
                infinite[n->body->args[k]->id] |= infinite[n->in[k]->id] || infinite[n->body->results[k]->id];
            note_infinite(n->body, mesh, infinite);
        }
        for (int k = 0; k < arrlen(n->out); k++) {
            const struct value *v = n->out[k];
            infinite[v->id] |= n->body ? infinite[n->body->results[k]->id] : any;
            for (int a = 0; a < mesh->naxis; a++)
                infinite[v->id] |= mesh->axis[a].size > 1 && v->lay.ax[a].kind == SBP_P && v->lay.ax[a].dim != REDUCE_SUM;
        }
    }
}

static bool *infinite_values(struct emitter *e)
{
    bool *infinite = NEW_ARRAY(bool, arrlen(e->s->graph->values) + 1);
    for (int entry = 0; entry < ENTRIES; entry++) {
        struct root *roots = stage_roots(e->s, (enum entry)entry);
        for (int i = 0; i < arrlen(roots); i++)
            note_infinite(roots[i].region, e->p->mesh, infinite);
    }
    return infinite;
}

static const char *sym_row(struct sym s)
{
    const char *k = "";
    for (int i = 0; i < s.n; i++)
        k = mem_printf("%s%s%d", k, i ? ", " : "", s.k[i]);
    return mem_printf("{%lld, %d, {%s}}", (long long)s.c, s.n, s.n ? k : "0");
}

static const char *aliases_of(const struct value *l)
{
    const char *s = NULL;
    for (int i = 0; l && i < arrlen(l->alias); i++)
        s = mem_printf("%s%s%s", s ? s : "", s ? " " : "", l->alias[i]);
    return s;
}

static void emit_value(struct emitter *e, const struct shown *shown, const bool *infinite, const struct node *n,
                       const struct value *v, FILE *to)
{
    const struct mesh *mesh = e->p->mesh;
    bool whole = shown_is(e->m, shown, n, v) && e->m->graph[shown_entry(e->m)];
    const struct value *l = whole ? v->logical : NULL;
    unsigned partial[3] = {0}, flat = layout_flat(&v->lay, mesh);
    for (int a = 0; a < mesh->naxis; a++)
        if (mesh->axis[a].size > 1 && v->lay.ax[a].kind == SBP_P)
            partial[v->lay.ax[a].dim] |= 1u << a;
    bool running = n->op == &op_box_accumulate || (node_int(n, "accumulate", 0) && n->out[node_int(n, "accumulated", 0)] == v);
    if (running)
        partial[REDUCE_SUM] &= ~(1u << mesh->mb);
    fprintf(to, "    {%s, %s, {%uu, %uu, %uu}, %uu, %s, {", tensor_text(mesh, l ? shown->name[l->id] : v->path, v->type, v->ndim, v->dim, &v->lay),
            c_string(aliases_of(l)), partial[0], partial[1], partial[2], flat,
            sym_row(flat ? v->place->extent[0] : sym_int(0)));
    for (int d = 0; d < v->ndim; d++)
        fprintf(to, "%s%s", d ? ", " : "", sym_row(flat ? sym_int(0) : v->place->stride[d]));
    bool stack = see_whole_stack(n, v), room = v->buffer == &see_room;
    fprintf(to, "%s},\n     %s, %s, %s, %s, %lld, %s, ", v->ndim ? "" : "{0, 0, {0}}",
            !room && v->buffer->host ? "true" : "false", running ? "true" : "false",
            room || infinite[v->id] ? "true" : "false", whole ? "true" : "false",
            stack ? (long long)v->buffer->blocks : 1LL, sym_row(stack ? block_elements(v->buffer) : sym_int(0)));
    const struct region *chain[MAX_STACK] = {NULL}, *r = l ? l->region : v->region;
    int depth = region_depth(r) < MAX_STACK ? region_depth(r) : MAX_STACK;
    for (int d = depth - 1; d >= 0; d--, r = r->parent)
        chain[d] = r;
    unsigned reversed = 0;
    fprintf(to, "%d, {", depth);
    for (int d = 0; d < depth; d++) {
        fprintf(to, "%s%lld", d ? ", " : "", (long long)chain[d]->total);
        reversed |= (unsigned)chain[d]->reverse << d;
    }
    fprintf(to, "%s}, %uu, {", depth ? "" : "0", reversed);
    const int *order = l ? shown->order[l->id] : NULL;
    for (int d = 0; order && d <= depth; d++)
        fprintf(to, "%s%d", d ? ", " : "", order[d]);
    fprintf(to, "%s}},\n", order ? "" : "0");
}

static const char *kind_of(const struct node *n)
{
    if (node_int(n, "comm", -1) >= 0 || n->op == &op_box_post || n->op == &op_box_send || n->op == &op_box_recv)
        return "FL_NODE_COMM";
    if (n->op == &op_to_host || n->op == &op_to_device || n->op == &op_copied)
        return "FL_NODE_COPY";
    if (arrlen(n->out) && arrlen(n->in) && n->in[0] && n->out[0]->buffer && n->out[0]->buffer == n->in[0]->buffer &&
        n->op->flags & (OP_VIEW | OP_BOXING) && !(n->op->flags & OP_ELEMENTWISE))
        return "FL_NODE_VIEW";
    return "FL_NODE_COMPUTE";
}

/* "fused(log, mul)" */
static const char *op_text(const struct node *n)
{
    struct node **inner = n->op == &op_fused || n->op == &op_rows ? node_ptr(n, "nodes") : NULL;
    const char *s = n->op->name;
    for (int i = 0; i < arrlen(inner); i++)
        s = mem_printf("%s%s%s", s, i ? ", " : "(", inner[i]->op->name);
    return inner ? mem_printf("%s)", s) : s;
}

void emit_see_table(struct emitter *e, FILE *to)
{
    struct shown shown = shown_find(e->m);
    const bool *infinite = infinite_values(e);
    static const char *const entries[ENTRIES] = {"FL_TRAIN", "FL_EVALUATE", "FL_SAMPLE"};
    int *first = NULL, count = 0;
    fputs("/* ---- what FL_SEE shows ---- */\n\nstatic const struct fl_value values[] = {\n", to);
    for (int i = 0; i < arrlen(e->seen); i++) {
        const struct node *n = e->seen[i].node;
        arrput(first, count);
        for (int k = 0; k < arrlen(n->out); k++)
            if (n->out[k]->buffer) {
                emit_value(e, &shown, infinite, n, n->out[k], to);
                count++;
            }
    }
    arrput(first, count);
    fputs("    {{NULL, FL_F32, 0, {{0}}}, NULL, {0}, 0, {0, 0, {0}}, {{0, 0, {0}}}, false, false, false, false, 1, {0, 0, {0}}, 0, {0}, "
          "0, {0}},\n};\nstatic const struct fl_node nodes[] = {\n", to);
    for (int i = 0; i < arrlen(e->seen); i++) {
        const struct node *n = e->seen[i].node;
        const struct node *of = node_ptr(n, "of");
        const char *path = arrlen(n->out) && n->out[0]->path ? n->out[0]->path : n->path ? n->path : "";
        fprintf(to, "    {%s, %s, %s, %s, %s, %s, %d, %d, %d, values + %d},\n", c_string(op_text(n)), c_string(path),
                c_string(n->span.file ? span_where(n->span) : ""), entries[e->seen[i].entry],
                c_string(phase_name[e->seen[i].phase]), kind_of(n),
                (int)node_int(of ? of : n, "comm", -1), (int)node_int(n, "link", -1), first[i + 1] - first[i], first[i]);
    }
    fputs("    {NULL, NULL, NULL, FL_TRAIN, NULL, FL_NODE_COMPUTE, -1, -1, 0, NULL},\n};\n"
          "static const char *const gone[] = {\n", to);
    for (int i = 0; i < arrlen(e->gone); i++)
        fprintf(to, "    %s,\n", c_string(e->gone[i]));
    fputs("    NULL,\n};\n\n", to);
}
