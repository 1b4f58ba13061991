/* `expect comm h[i] per microbatch, forward : all_reduce(tp) == 2`: a budget in the source, checked against the collectives
 * that are there. A pattern with an index name, h[i], asks about one block; h[*] about all. `per microbatch` asks about one
 * micro-batch, otherwise a whole step of training counts; a phase narrows it. Where stages differ the busiest is meant. */
#include "survey.h"
#include "../base/diag.h"
#include "../module.h"
#include "../op.h"
#include <string.h>

struct counting {
    const struct physical *p;
    const struct expectation *x;
    enum phase phase;
    const struct stage *stage;
    int chunk;                   /* whose blocks are asked about, or -1: all */
    int64_t count;
    struct { struct span span; const char *what; int64_t count; } *seen;     /* stb_ds array */
};

/* Does some node of the body that r walks bear the name? Then what is in r belongs to it. */
static bool walks(struct region *r, const char *pattern)
{
    struct region *body = region_origin(r);
    for (int i = 0; i < arrlen(body->nodes); i++)
        if (body->nodes[i]->path && pattern_covers(pattern, body->nodes[i]->path, NULL))
            return true;
    return false;
}

static bool about(const struct counting *c, const struct node *n)
{
    const char *pattern = c->x->pattern;
    size_t length = strlen(pattern);
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k]->path && pattern_covers(pattern, n->in[k]->path, NULL))
            return true;
    if (!strcmp(pattern, "*") || (n->path && pattern_covers(pattern, n->path, NULL)))
        return true;
    return length && pattern[length - 1] == ']' && n->region->parent && walks(n->region, pattern);
}

/* The chunk whose blocks n walks, or -1. */
static int walked_chunk(const struct counting *c, const struct node *n)
{
    struct region *body = n->region;
    while (region_depth(body) > 1)
        body = body->parent;
    const struct node *forward = region_origin(body)->owner;
    for (int chunk = 0; forward && chunk < c->stage->nchunk; chunk++)
        if (forward->region == c->stage->phase[ENTRY_TRAIN][PHASE_FORWARD][chunk])
            return chunk;
    return -1;
}

static void count_node(struct node *n, void *context)
{
    struct counting *c = context;
    const struct expectation *x = c->x;
    if (c->chunk >= 0 && walked_chunk(c, n) >= 0 && walked_chunk(c, n) != c->chunk)
        return;
    if (!is_communication(n) || strcmp(communication_kind(n), x->kind) || !about(c, n))
        return;
    unsigned axes = n->op == &op_box_send ? 1u << c->p->mesh->pipe : (unsigned)node_int(n, "axes", 0);
    if (axes != x->axes)
        return;
    int64_t times = x->one_block ? 1 : node_repeats(n);
    if (!x->per_microbatch && phase_per_microbatch(c->phase))
        times *= c->p->module->plan->microbatches;
    c->count += times;
    arraddn(c->seen, 1);
    arrlast(c->seen).span = n->in[0]->span;
    arrlast(c->seen).what = n->in[0]->path ? n->in[0]->path : "?";
    arrlast(c->seen).count = times;
}

static const char *seen_text(const struct counting *c)
{
    const char *text = "";
    for (int i = 0; i < arrlen(c->seen) && i < 6; i++)
        text = mem_printf("%s%s%s %s%s", text, i ? ", " : "", span_where(c->seen[i].span), c->seen[i].what,
                          c->seen[i].count == 1 ? "" : mem_printf(" (%lld)", (long long)c->seen[i].count));
    return arrlen(c->seen) > 6 ? mem_printf("%s and %d more", text, (int)arrlen(c->seen) - 6) : text;
}

/* A block is in one chunk; what is asked about all of them takes the chunks of a stage together. */
static void count_stage(struct counting *c)
{
    struct root *roots = stage_roots(c->stage, ENTRY_TRAIN);
    for (int k = 0; k < arrlen(roots); k++) {
        bool other = c->chunk >= 0 && phase_has_chunks(roots[k].phase) && roots[k].chunk != c->chunk;
        c->phase = roots[k].phase;
        if (!other && (c->x->phase < 0 || c->x->phase == (int)c->phase))
            region_walk(roots[k].region, count_node, c);
    }
}

void check_expectations(struct module *m)
{
    const struct physical *p = m->physical;
    for (int i = 0; i < arrlen(m->plan->expect); i++) {
        const struct expectation *x = &m->plan->expect[i];
        struct counting worst = { 0 };
        for (int s = 0; s < p->nstage; s++)
            for (int chunk = 0; chunk < (x->one_block ? p->stages[s].nchunk : 1); chunk++) {
                struct counting c = { .p = p, .x = x, .stage = &p->stages[s], .chunk = x->one_block ? chunk : -1 };
                count_stage(&c);
                if (c.count > worst.count)
                    worst = c;
            }
        if (x->at_most ? worst.count <= x->count : worst.count == x->count)
            continue;
        struct diag *d = diag_error(E_EXPECT, x->span, "%s(%s) %s %lld is expected, but the plan has %lld", x->kind,
                                    mesh_axes_text(p->mesh, x->axes, ", "), x->at_most ? "<=" : "==", (long long)x->count,
                                    (long long)worst.count);
        if (arrlen(worst.seen))
            diag_note(d, "counted: %s", seen_text(&worst));
        diag_help(d, "--emit=comm lists all communication of the plan");
    }
}
