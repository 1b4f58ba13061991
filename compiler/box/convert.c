/* Conversions of a value to the layout in which it is read. The steps come from cost/convert.h. A conversion is made
 * where the value lives, not in the loop that reads it, and serves every later reader of that layout; what a later phase
 * reads is converted again there when keeping the converted copy would cost more memory than keeping the value. */
#include "boxer.h"
#include <math.h>

bool layout_agrees(const struct mesh *m, const struct layout *a, const struct layout *b)
{
    for (int i = 0; i < m->naxis; i++)
        if (axis_moves(m, i) && !sbp_same(a->ax[i], b->ax[i]))
            return false;
    return true;
}

/* Do nodes of both regions walk the same blocks (roots: of whatever phase)? */
static bool same_walk(struct region *a, struct region *b)
{
    return a == b || (a->parent ? b->parent && region_origin(a) == region_origin(b) : !b->parent);
}

static enum phase phase_of_region(const struct boxer *b, int u, struct region *r)
{
    return boxer_find_root(b, u, r).phase;
}

/* Is src there once, and read by each micro-batch, which need not convert it anew? */
static bool once_for_all(const struct boxer *b, int u, const struct value *src, enum phase phase)
{
    return !src->anew && !phase_per_microbatch(phase_of_region(b, u, src->region)) && phase_per_microbatch(phase);
}

/* The region in which a conversion of src for a reader in `at` belongs. */
static struct region *place_for(const struct boxer *b, int u, struct value *src, const struct layout *need,
                                struct region *at, enum phase phase)
{
    int mb = b->mesh->mb;
    bool piece = axis_moves(b->mesh, mb) && need->ax[mb].kind == SBP_S;    /* each micro-batch takes its own */
    if (once_for_all(b, u, src, phase) && !piece)
        return src->region;              /* once is enough */
    for (struct region *r = at; r; r = r->parent)
        if (same_walk(r, src->region))
            return r;
    return src->region;                  /* read as a whole stack from outside */
}

static const struct op *const op_of[] = {
    [STEP_SLICE] = &op_box_slice, [STEP_MASK] = &op_box_mask, [STEP_PAD] = &op_box_pad,
    [STEP_ACCUMULATE] = &op_box_accumulate, [STEP_ALL_GATHER] = &op_box_all_gather,
    [STEP_ALL_REDUCE] = &op_box_all_reduce, [STEP_REDUCE_SCATTER] = &op_box_reduce_scatter,
    [STEP_ALL_TO_ALL] = &op_box_all_to_all, [STEP_PERMUTE] = &op_box_permute,
};

struct node *boxing_node(struct boxer *b, int u, const struct step *step, struct region *at, enum phase phase)
{
    struct node *n = node_new(boxer_stage(b, u)->graph, at, op_of[step->kind], (struct span){0});
    node_set_int(n, "axes", step->axes);
    node_set_int(n, "comm", step_is_comm(step->kind) ? comm_find(b->p, step->axes, NULL) : -1);
    bool reduces = step->kind == STEP_MASK || step->kind == STEP_PAD || step->kind == STEP_ACCUMULATE ||
                   step->kind == STEP_ALL_REDUCE || step->kind == STEP_REDUCE_SCATTER;
    if (reduces)
        node_set_int(n, "reduce", step->reduce);
    if (step->kind != STEP_MASK && step->kind != STEP_ACCUMULATE && step->kind != STEP_ALL_REDUCE)
        node_set_int(n, "dim", step->dim);
    if (step->kind == STEP_ALL_TO_ALL)
        node_set_int(n, "dim_to", step->dim_to);
    n->phase = phase;
    n->stage = stage_of(b->m->plan, u);
    return n;
}

/* Adds src as an operand and its converted result, known to later readers as a variant of src. */
struct value *boxing_out(struct boxer *b, int u, struct node *n, struct value *src, const struct step *step)
{
    if (!n->span.file) {
        n->span = src->span;
        n->path = src->path;
    }
    node_in(n, src);
    struct value *v = node_out(boxer_stage(b, u)->graph, n, src->type, src->ndim, src->dim);
    v->span = src->span;
    v->logical = src->logical;
    v->path = mem_printf("%s~%s(%s)", src->path, step_name[step->kind], mesh_axes_text(b->mesh, step->axes, ", "));
    v->lay = step->after;
    if (n->region != src->region && src->region->parent && !n->region->parent) {
        v->region = src->region;         /* a whole stack, converted from outside */
        v->stacked = true;
    }
    return v;
}

void variant_add(struct boxer *b, struct value *src, struct value *variant, bool costly)
{
    struct value **list = hmget(b->variants, src);
    arrput(list, variant);
    hmput(b->variants, src, list);
    hmput(b->costly, variant, costly || hmget(b->costly, src));
}

static int node_index(const struct node *n)
{
    for (int i = (int)arrlen(n->region->nodes) - 1; i >= 0; i--)
        if (n->region->nodes[i] == n)
            return i;
    BUG("node %d is not in its region", n->id);
}

/* src summed over micro-batches, right after its producer and in its phase. */
struct value *boxer_accumulated(struct boxer *b, int u, struct value *src, const struct layout *need)
{
    int mb = b->mesh->mb;
    if (!axis_moves(b->mesh, mb) || src->lay.ax[mb].kind != SBP_P || need->ax[mb].kind != SBP_B)
        return src;
    struct value **list = hmget(b->variants, src);
    for (int i = 0; i < arrlen(list); i++)
        if (list[i]->def->op == &op_box_accumulate)
            return list[i];
    struct step step = {.kind = STEP_ACCUMULATE, .axes = 1u << mb, .reduce = (enum reduce)src->lay.ax[mb].dim,
                        .after = src->lay};
    step.after.ax[mb] = (struct sbp){.kind = SBP_B};
    struct region *at = src->region;
    struct node *n = boxing_node(b, u, &step, at, phase_of_region(b, u, at));
    struct value *v = boxing_out(b, u, n, src, &step);
    arrdel(at->nodes, node_index(n));
    arrins(at->nodes, src->def && src->def->region == at ? node_index(src->def) + 1 : 0, n);
    variant_add(b, src, v, false);
    return v;
}

static bool all_zero(const struct value *v)
{
    const struct node *def = v->def;
    if (def && def->op == &op_expand)
        def = def->in[0]->def;
    return def && def->op == &op_constant && node_num(def, "value", 1) == 0;
}

/* Zeros have every layout: made anew in the one asked for. */
static struct value *zeros_as(struct boxer *b, int u, struct value *src, const struct layout *need, struct region *at)
{
    struct graph *g = boxer_stage(b, u)->graph;
    const struct node *def = src->def;
    struct node *n = node_new(g, at, def->op, def->span);
    n->path = def->path;
    n->phase = phase_of_region(b, u, at);
    n->stage = stage_of(b->m->plan, u);
    for (int i = 0; i < arrlen(def->attr); i++)
        arrput(n->attr, def->attr[i]);
    for (int k = 0; k < arrlen(def->in); k++)
        node_in(n, def->in[k]);
    struct value *v = node_out(g, n, src->type, src->ndim, src->dim);
    v->path = src->path;
    v->span = src->span;
    v->logical = src->logical;
    v->lay = *need;
    return v;
}

/* A save line says nothing about micro-batches. */
static bool is_kept(const struct mesh *m, const struct layout *keep, const struct layout *l)
{
    struct layout k = *keep;
    k.ax[m->mb] = l->ax[m->mb];
    return layout_agrees(m, &k, l);
}

/* The cheapest of src and what it was converted to before, to start from. */
static struct value *cheapest(struct boxer *b, int u, struct value *src, const struct layout *need, struct region *place)
{
    struct root when = boxer_find_root(b, u, place);
    struct value *best = src, **list = hmget(b->variants, src);
    double best_cost = convert_cost(src, &src->lay, need, b->mesh);
    double bytes = layout_bytes(src, &src->lay, b->mesh);
    for (int i = 0; i < arrlen(list); i++) {
        struct value *v = list[i];
        if (!same_walk(v->region, place) || v->def->op == &op_box_accumulate ||
            !root_before(boxer_find_root(b, u, v->def->region), when))
            continue;
        bool kept = src->keep && is_kept(b->mesh, src->keep, &v->lay);
        if (v->region != place && !kept && (!hmget(b->costly, v) || layout_bytes(v, &v->lay, b->mesh) > bytes))
            continue;
        double cost = convert_cost(v, &v->lay, need, b->mesh);
        if (cost < best_cost) {
            best = v;
            best_cost = cost;
        }
    }
    return isinf(best_cost) ? NULL : best;
}

struct value *boxer_convert(struct boxer *b, int u, struct value *src, const struct layout *need, struct region *at,
                            enum phase phase)
{
    if (layout_agrees(b->mesh, &src->lay, need))
        return src;
    src = boxer_accumulated(b, u, src, need);
    if (layout_agrees(b->mesh, &src->lay, need))
        return src;
    struct region *place = place_for(b, u, src, need, at, phase);
    if (place != src->region && once_for_all(b, u, src, phase)) {
        struct layout whole = *need;     /* all but the piece once */
        whole.ax[b->mesh->mb] = (struct sbp){.kind = SBP_B};
        src = boxer_convert(b, u, src, &whole, at, phase);
    }
    if (all_zero(src)) {
        struct value **list = hmget(b->variants, src);
        for (int i = 0; i < arrlen(list); i++)
            if (list[i]->region == place && layout_agrees(b->mesh, &list[i]->lay, need))
                return list[i];
        struct value *v = zeros_as(b, u, src, need, place);
        variant_add(b, src, v, false);
        return v;
    }
    enum phase when = phase_of_region(b, u, place);
    struct value *from = cheapest(b, u, src, need, place);
    if (!from)
        BUG("%s cannot go from %s to %s", src->path, layout_text(src, &src->lay, b->mesh),
            layout_text(src, need, b->mesh));
    struct step steps[MAX_STEP];
    int count = convert_path(from, &from->lay, need, b->mesh, steps, MAX_STEP);
    for (int i = 0; i < count; i++) {
        struct node *n = boxing_node(b, u, &steps[i], place, when);
        struct value *v = boxing_out(b, u, n, from, &steps[i]);
        hmput(b->costly, v, step_is_comm(steps[i].kind) || hmget(b->costly, from));
        variant_add(b, src, v, hmget(b->costly, v));
        from = v;
    }
    return from;
}
