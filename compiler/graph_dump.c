/* Printing types, layouts and graphs: one node a line, bodies indented, so that goldens diff well. */
#include "graph.h"
#include "module.h"
#include "op.h"
#include <stdlib.h>
#include <string.h>

const char *mesh_axes_text(const struct mesh *m, unsigned axes, const char *between)
{
    const char *text = NULL;
    for (int i = 0; i < m->naxis; i++)
        if (axes >> i & 1)
            text = text ? mem_printf("%s%s%s", text, between, m->axis[i].name) : m->axis[i].name;
    return text ? text : "";
}

/* The axes that split dim d, major first, as "/dp/tp"; the time axis of size 1 is left out. */
static void put_split(FILE *to, const struct layout *l, int d, const struct mesh *m)
{
    for (int order = 0; order < MAX_AXIS; order++)
        for (int i = 0; i < m->naxis; i++)
            if (l->ax[i].kind == SBP_S && l->ax[i].dim == d && l->ax[i].order == order && m->axis[i].size > 1)
                fprintf(to, "/%s", m->axis[i].name);
}

static void put_dim(FILE *to, const struct dim *d)
{
    if (d->name)
        fputs(d->name, to);
    else
        fprintf(to, "%lld", (long long)d->size);
}

const char *layout_type_text(const struct value *v, const struct layout *l, const struct mesh *m)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    fputs(type_name[v->type], to);
    if (v->ndim) {
        fputc('[', to);
        for (int d = 0; d < v->ndim; d++) {
            if (d)
                fputs(", ", to);
            put_dim(to, v->dim[d]);
            if (m)
                put_split(to, l, d, m);
        }
        fputc(']', to);
    }
    if (m && layout_flat(l, m))
        fprintf(to, "/flat(%s)", mesh_axes_text(m, layout_flat(l, m), ", "));
    if (m)
        for (int r = REDUCE_SUM; r <= REDUCE_MIN; r++) {
            int found = 0;
            for (int i = 0; i < m->naxis; i++)
                if (l->ax[i].kind == SBP_P && l->ax[i].dim == r && m->axis[i].size > 1)
                    fprintf(to, "%s%s", found++ ? "," : mem_printf("+%s(", reduce_name[r]), m->axis[i].name);
            if (found)
                fputc(')', to);
        }
    fclose(to);
    char *kept = mem_strdup(text);
    free(text);
    return kept;
}

const char *value_type_text(const struct value *v, const struct mesh *m)
{
    return layout_type_text(v, &v->lay, m);
}

const char *layout_text(const struct value *v, const struct layout *l, const struct mesh *m)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    int found = 0;
    fputc('{', to);
    for (int i = 0; i < m->naxis; i++) {
        struct sbp s = l->ax[i];
        if (s.kind == SBP_B || m->axis[i].size == 1)
            continue;
        fprintf(to, "%s%s: ", found++ ? ", " : "", m->axis[i].name);
        if (s.kind == SBP_P)
            fprintf(to, s.dim ? "P(%s)" : "P", reduce_name[s.dim]);
        else if (s.dim == DIM_FLAT)
            fputs("S(flat)", to);
        else if (s.dim < v->ndim && v->dim[s.dim]->name)
            fprintf(to, "S(%s)", v->dim[s.dim]->name);
        else
            fprintf(to, "S(%d)", s.dim);
    }
    fputc('}', to);
    fclose(to);
    char *kept = mem_strdup(text);
    free(text);
    return kept;
}

static void put_value(FILE *to, const struct value *v, const struct mesh *m)
{
    fprintf(to, "%%%d: %s", v->id, value_type_text(v, m));
}

static void put_attrs(FILE *to, const struct node *n)
{
    for (int i = 0; i < arrlen(n->attr); i++) {
        const struct attr *a = &n->attr[i];
        switch (a->kind) {
        case ATTR_INT:
            fprintf(to, " %s=%lld", a->name, (long long)a->i);
            break;
        case ATTR_NUM:
            fprintf(to, " %s=%.9g", a->name, a->f);
            break;
        case ATTR_STR:
            fprintf(to, " %s=\"%s\"", a->name, a->s);
            break;
        case ATTR_INTS:
            fprintf(to, " %s=[", a->name);
            for (int k = 0; k < arrlen(a->ints); k++)
                fprintf(to, "%s%lld", k ? "," : "", (long long)a->ints[k]);
            fputc(']', to);
            break;
        case ATTR_PTR:
            if (!strcmp(a->name, "param"))
                fprintf(to, " param=%s", param_text(a->ptr));
            break;
        }
    }
}

const char *piece_text(const struct region *r)
{
    return r->count == r->total ? "" : mem_printf(" [%lld..%lld] of %lld", (long long)r->first,
                                                  (long long)(r->first + r->count), (long long)r->total);
}

static void put_region(FILE *to, const struct region *r, const struct mesh *m, int indent)
{
    enum phase last = PHASES;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        if (!r->parent && n->phase != last)
            fprintf(to, "%*s# %s\n", indent, "", phase_name[last = n->phase]);
        fprintf(to, "%*s", indent, "");
        for (int k = 0; k < arrlen(n->out); k++) {
            fputs(k ? ", " : "", to);
            put_value(to, n->out[k], m);
        }
        fprintf(to, "%s%s(", arrlen(n->out) ? " = " : "", n->op->name);
        for (int k = 0; k < arrlen(n->in); k++) {
            fputs(k ? ", " : "", to);
            if (n->in[k])
                fprintf(to, "%%%d", n->in[k]->id);
            else
                fputc('_', to);
            if (m && n->in[k] && n->need && !layout_same(&n->need[k], &n->in[k]->lay, m->naxis))
                fprintf(to, " as %s", layout_type_text(n->in[k], &n->need[k], m));
        }
        fputc(')', to);
        put_attrs(to, n);
        if (n->stage > 0)
            fprintf(to, " @%d", n->stage);
        fprintf(to, "  # %s %s%s%s\n", span_where(n->span), arrlen(n->out) && n->out[0]->path ? n->out[0]->path : "",
                n->why ? "; " : "", n->why ? n->why : "");
        if (!n->body)
            continue;
        fprintf(to, "%*s%s %lld blocks%s", indent + 2, "", n->body->reverse ? "reversed" : "over",
                (long long)n->body->count, m ? "" : piece_text(n->body));
        for (int k = 0; k < arrlen(n->body->args); k++) {
            fputs(k ? ", " : " carrying ", to);
            put_value(to, n->body->args[k], m);
        }
        if (n->body->index) {
            fputs(", index ", to);
            put_value(to, n->body->index, NULL);
        }
        fputs(" {\n", to);
        put_region(to, n->body, m, indent + 4);
        fprintf(to, "%*s} next", indent + 2, "");
        for (int k = 0; k < arrlen(n->body->results); k++)
            fprintf(to, "%s%%%d", k ? ", " : " ", n->body->results[k]->id);
        fputc('\n', to);
    }
}

void graph_dump(FILE *to, const struct graph *g, const struct mesh *m)
{
    fprintf(to, "entry %s {\n", entry_name[g->entry]);
    put_region(to, g->root, m, 2);
    if (g->loss)
        fprintf(to, "  loss %%%d\n", g->loss->id);
    for (int i = 0; i < arrlen(g->outputs); i++)
        fprintf(to, "  output %s %%%d\n", g->outputs[i].name, g->outputs[i].value->id);
    for (int i = 0; i < arrlen(g->metrics); i++)
        fprintf(to, "  metric %s %%%d\n", g->metrics[i].name, g->metrics[i].value->id);
    fputs("}\n", to);
}
