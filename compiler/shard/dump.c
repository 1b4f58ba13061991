/* --emit=sbp: every tensor with its layout, why it has it, and what its readers convert it to. */
#include "shard.h"
#include "../cost/cluster.h"
#include <string.h>

struct dumping {
    FILE *to;
    const struct module *m;
    const struct mesh *mesh;
    const struct graph *g;
    struct { struct value *value; struct node *reader; int operand; } *reads;    /* conversions, in program order */
};

static void find_reads(struct dumping *d, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; n->need && k < arrlen(n->in); k++)
            if (n->in[k] && !layout_same(&n->in[k]->lay, &n->need[k], d->mesh->naxis)) {
                arraddn(d->reads, 1);
                arrlast(d->reads).value = n->in[k];
                arrlast(d->reads).reader = n;
                arrlast(d->reads).operand = k;
            }
        if (n->body)
            find_reads(d, n->body);
    }
}

static enum phase read_phase(const struct value *v, const struct node *reader)
{
    return v->anew ? node_phase(reader) : conversion_phase(value_phase(v), node_phase(reader));
}

/* How reads[at] comes to its layout: from the stored one, or from what an earlier read of the phase was converted to. */
static const char *steps_text(const struct dumping *d, int at)
{
    const struct value *v = d->reads[at].value;
    const struct layout *to = &d->reads[at].reader->need[d->reads[at].operand], *from = &v->lay;
    for (int i = 0; i < at; i++) {
        if (d->reads[i].value != v || read_phase(v, d->reads[i].reader) != read_phase(v, d->reads[at].reader))
            continue;
        const struct layout *other = &d->reads[i].reader->need[d->reads[i].operand];
        if (convert_cost(v, other, to, d->mesh) < convert_cost(v, from, to, d->mesh))
            from = other;
    }
    struct step steps[MAX_STEP];
    int n = convert_path(v, from, to, d->mesh, steps, MAX_STEP);
    const char *text = "";
    for (int k = 0; k < n; k++)
        text = mem_printf("%s%s%s(%s)", text, *text ? " " : "", step_name[steps[k].kind], axis_names(d->mesh, steps[k].axes));
    return from == &v->lay ? text : mem_printf("%s of %s", text, layout_type_text(v, from, d->mesh));
}

/* Readers that need the same layout share one line: they share the conversion. */
static void put_conversions(struct dumping *d, const struct value *v, int indent)
{
    for (int i = 0; i < arrlen(d->reads); i++) {
        if (d->reads[i].value != v)
            continue;
        const struct layout *need = &d->reads[i].reader->need[d->reads[i].operand];
        bool first = true;
        const char *readers = "";
        for (int j = 0; j < arrlen(d->reads); j++) {
            const struct node *r = d->reads[j].reader;
            if (d->reads[j].value != v || !layout_same(need, &r->need[d->reads[j].operand], d->mesh->naxis))
                continue;
            first &= j >= i;
            if (strlen(readers) < 60)
                readers = mem_printf("%s%s%s", readers, *readers ? ", " : "", r->op->name);
            else if (!strstr(readers, " .."))
                readers = mem_printf("%s ..", readers);
        }
        if (first)
            fprintf(d->to, "%*s    -> %s by %s for %s\n", indent, "", layout_type_text(v, need, d->mesh),
                    steps_text(d, i), readers);
    }
}

static void put_value(struct dumping *d, const struct value *v, const char *how, int indent)
{
    fprintf(d->to, "%*s%%%d %s: %s", indent, "", v->id, v->path ? v->path : how, value_type_text(v, d->mesh));
    if (v->path && how)
        fprintf(d->to, "  %s", how);
    if (v->line)
        fprintf(d->to, "  as %s says", span_where(v->line->span));
    fputc('\n', d->to);
    put_conversions(d, v, indent);
}

static void put_region(struct dumping *d, const struct region *r, int indent)
{
    enum phase last = PHASES;
    for (int k = 0; k < arrlen(r->args); k++)
        put_value(d, r->args[k], "carried", indent);
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        if (!r->parent && n->phase != last)
            fprintf(d->to, "%*s# %s\n", indent, "", phase_name[last = n->phase]);
        if (n->body) {
            fprintf(d->to, "%*srepeat %lld%s%s\n", indent, "", (long long)n->body->count, piece_text(n->body),
                    n->body->reverse ? " reversed" : "");
            put_region(d, n->body, indent + 4);
        }
        for (int k = 0; k < arrlen(n->out); k++)
            put_value(d, n->out[k], n->op->name, indent);
    }
}

void shard_dump(FILE *to, struct module *m)
{
    if (!m->plan)
        return;
    struct dumping d = { .to = to, .m = m, .mesh = &m->plan->mesh };
    unsigned crossing = 0;
    for (int a = 0; a < d.mesh->naxis; a++)
        crossing |= d.mesh->axis[a].crosses ? 1u << a : 0;
    fprintf(to, "cluster %s\n", cluster_text(d.mesh->cluster));
    if (crossing)
        fprintf(to, "between hosts: %s\n", axis_names(d.mesh, crossing));
    fputc('\n', to);
    for (int k = 0; k < arrlen(m->params); k++) {
        const struct param *p = m->params[k];
        struct value like = { .type = p->type, .ndim = p->ndim };
        for (int i = 0; i < p->ndim; i++)
            like.dim[i] = p->dim[i];
        const struct plan_line *line = p->line;
        fprintf(to, "param %s: %s  %s%s%s\n", param_text(p), layout_type_text(&like, &p->lay, d.mesh),
                line ? "as " : "no line", line ? mem_printf("%s says", span_where(line->span)) : "",
                p->flat ? mem_printf(", updated in shares over %s as %s says", axis_names(d.mesh, p->flat),
                                     span_where(m->plan->shard.span)) : "");
    }
    for (int e = 0; e < ENTRIES; e++) {
        if (!m->graph[e])
            continue;
        fprintf(to, "\nentry %s  %s\n", entry_name[e], m->plan->gap[e] > 0 ?
                mem_printf("layouts at most %.1f us of a step above the optimum", m->plan->gap[e] * 1e6) : "layouts optimal");
        d.g = m->graph[e];
        d.reads = NULL;
        find_reads(&d, d.g->root);
        put_region(&d, d.g->root, 0);
    }
}
