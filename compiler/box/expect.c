/* `expect comm h[i] per microbatch, forward : all_reduce(tp) == 2`: a budget in the source, checked against the collectives
 * that are there. A pattern with an index name, h[i], asks about one block, whichever has most; h[2] about that block;
 * h[*] and h[0..2] about all of them together. `per microbatch` asks about one micro-batch, otherwise a whole step of
 * training counts; a phase narrows it. Where stages differ the busiest is meant. */
#include "survey.h"
#include "../base/diag.h"
#include "../module.h"
#include "../op.h"
#include <ctype.h>
#include <string.h>

struct counting {
    const struct physical *p;
    const struct expectation *x;
    const char *pattern;         /* of x; an index name has become the number of a block */
    enum phase phase;
    const struct stage *stage;
    int chunk;                   /* whose blocks are asked about, or -1: all */
    int64_t count;
    struct { struct span span; const char *what; int64_t count; } *seen;     /* stb_ds array */
};

/* How often a node of r is run for the blocks that are meant. */
static int64_t runs(struct region *r, const struct block_ranges *b)
{
    int64_t count = 1;
    for (; r && r->parent; r = r->parent) {
        const struct region *walked = region_origin(r);
        int level = region_depth(r) - 1;
        int64_t low = walked->first, high = walked->first + r->count;
        if (level < MAX_STACK && b->low[level] > low)
            low = b->low[level];
        if (level < MAX_STACK && b->high[level] < high)
            high = b->high[level];
        count *= high > low ? high - low : 0;
    }
    return count;
}

/* Does some node of the body that r walks bear the name? Then what is in r belongs to it. */
static bool walks(struct region *r, const char *pattern, struct block_ranges *b)
{
    struct region *body = region_origin(r);
    for (int i = 0; i < arrlen(body->nodes); i++)
        if (body->nodes[i]->path && pattern_covers(pattern, body->nodes[i]->path, b))
            return true;
    return false;
}

/* How often what the node does is asked about; 0: never. */
static int64_t asked(const struct counting *c, const struct node *n)
{
    const char *pattern = c->pattern;
    size_t length = strlen(pattern);
    struct block_ranges b;
    if (!strcmp(pattern, "*"))
        return node_repeats(n);
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k]->path && pattern_covers(pattern, n->in[k]->path, &b) && runs(n->in[k]->region, &b))
            return runs(n->region, &b);
    if (n->path && pattern_covers(pattern, n->path, &b))
        return runs(n->region, &b);
    if (length && pattern[length - 1] == ']' && n->region->parent && walks(n->region, pattern, &b))
        return runs(n->region, &b);
    return 0;
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
    if (!is_communication(n) || strcmp(communication_kind(n), x->kind))
        return;
    unsigned axes = n->op == &op_box_send ? 1u << c->p->mesh->pipe : (unsigned)node_int(n, "axes", 0);
    int64_t times = axes == x->axes ? asked(c, n) : 0;
    if (!times)
        return;
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

/* ---- one block ---- */

/* Blocks of a chunk, one of every piece, in the repeats that go by the pattern: of the others there is nothing more to say. */
struct pieces { const char *pattern; int level; int64_t *first; };

static void note_piece(struct node *n, void *context)
{
    struct pieces *x = context;
    struct region *r = n->region;
    bool named = n->path && pattern_covers(x->pattern, n->path, NULL);
    for (int k = 0; k < arrlen(n->out); k++)
        named |= n->out[k]->path && pattern_covers(x->pattern, n->out[k]->path, NULL);
    if (!named)
        return;
    while (region_depth(r) > x->level + 1)
        r = r->parent;
    bool known = region_depth(r) != x->level + 1;
    for (int i = 0; i < arrlen(x->first); i++)
        known |= x->first[i] == r->first;
    if (!known)
        arrput(x->first, r->first);
}

/* Where the first index that is a name begins and ends in the pattern, and its level; NULL when there is none. */
static const char *index_name(const char *pattern, size_t *length, int *level)
{
    *level = -1;
    for (const char *s = pattern; (s = strchr(s, '['));) {
        ++*level;
        s++;
        *length = strcspn(s, "]");
        if (isalpha((unsigned char)*s) || *s == '_')
            return s;
    }
    return NULL;
}

/* Counts for every piece in turn; what has most stays in *worst. */
static void count_blocks(const struct counting *ask, struct counting *worst)
{
    size_t length;
    struct pieces x = { .pattern = ask->pattern };
    const char *name = index_name(ask->pattern, &length, &x.level);
    if (!name) {
        struct counting c = *ask;
        count_stage(&c);
        if (c.count > worst->count)
            *worst = c;
        return;
    }
    region_walk(ask->stage->phase[ENTRY_TRAIN][PHASE_FORWARD][ask->chunk], note_piece, &x);
    for (int i = 0; i < arrlen(x.first); i++) {
        struct counting c = *ask;
        c.pattern = mem_printf("%.*s%lld%s", (int)(name - ask->pattern), ask->pattern, (long long)x.first[i], name + length);
        count_blocks(&c, worst);
    }
}

void check_expectations(struct module *m)
{
    const struct physical *p = m->physical;
    for (int i = 0; i < arrlen(m->plan->expect); i++) {
        const struct expectation *x = &m->plan->expect[i];
        struct counting worst = { .pattern = x->pattern };
        for (int s = 0; s < p->nstage; s++)
            for (int chunk = 0; chunk < (x->one_block ? p->stages[s].nchunk : 1); chunk++)
                count_blocks(&(struct counting){ .p = p, .x = x, .pattern = x->pattern, .stage = &p->stages[s],
                                                 .chunk = x->one_block ? chunk : -1 }, &worst);
        if (x->at_most ? worst.count <= x->count : worst.count == x->count)
            continue;
        const char *where = strcmp(worst.pattern, x->pattern) ? mem_printf(" in %s", worst.pattern) : "";
        struct diag *d = diag_error(E_EXPECT, x->span, "%s(%s) %s %lld is expected, but the plan has %lld%s", x->kind,
                                    mesh_axes_text(p->mesh, x->axes, ", "), x->at_most ? "<=" : "==", (long long)x->count,
                                    (long long)worst.count, where);
        if (arrlen(worst.seen))
            diag_note(d, "counted: %s", seen_text(&worst));
        diag_help(d, "--emit=comm lists all communication of the plan");
    }
}
