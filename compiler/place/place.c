/* A virtual stage for every node. The repeat that the plan splits is cut over them; what stands before it goes with its
 * first block, what stands after it with its last; a `place` line overrides, and what has no place of its own then runs
 * where the latest of its data is (parameters are not data); what it is made of goes down with it. Backward runs with its
 * forward, the update of a parameter where the parameter is first used, and sources where they are first read. Data flows
 * towards higher virtual stages only. Lines name stages; where a stage has several chunks they mean the first one that the
 * data allows. */
#include "place.h"

static bool is_data(const struct value *v)
{
    return v && v->def && !(v->def->op->flags & OP_SOURCE) && node_at_root(v->def)->phase != PHASE_SETUP;
}

static bool is_cut(const struct node *n)
{
    return n->body && region_origin(n->body)->cut;
}

/* Where the output of a root node is; a cut repeat ends on the stage of its last block (backward: of its first). */
static int made_on(const struct placing *p, struct node *n)
{
    n = node_at_root(n);
    if (n->stage >= 0)
        return n->stage;
    if (!is_cut(n))
        return n->body && n->body->reverse ? p->first : p->last;
    const int64_t *cut = region_origin(n->body)->cut;
    return n->body->reverse ? first_stage(cut) : last_stage(cut);
}

/* The stages that one node reads from, over its operands and, for a repeat, over what its body captures: the highest, and
 * the lowest that it reads gradients from. */
struct reach { int high, gradients; struct value *highest; };

static void see(const struct placing *p, struct reach *r, struct node *n, const struct node *around)
{
    for (int k = 0; k < arrlen(n->in); k++) {
        struct value *v = n->in[k];
        if (!is_data(v) || node_at_root(v->def) == around)
            continue;
        int s = made_on(p, v->def);
        const struct node *def = node_at_root(v->def);
        bool loss = def->of_loss && v->def_index == 0;       /* its further results are gradients */
        bool gradient = !loss && (def->phase == PHASE_BACKWARD || def->phase == PHASE_WEIGHT);
        if (gradient && around->of_loss)         /* the gradient of the loss is made where the loss is */
            continue;
        if (gradient && s < r->gradients)
            r->gradients = s;
        if (s > r->high) {
            r->high = s;
            r->highest = v;
        }
    }
    for (int i = 0; n->body && i < arrlen(n->body->nodes); i++)
        see(p, r, n->body->nodes[i], around);
}

static struct reach reach_of(const struct placing *p, struct node *n)
{
    struct reach r = { -1, p->stages, NULL };
    see(p, &r, n, n);
    return r;
}

/* ---- place lines ---- */

static int line_stage(const struct placing *p, struct plan_line *line, const struct reach *r)
{
    int stages = plan_stages(p->plan);
    if (line->stage_low < 0 || line->stage_high > stages || line->stage_low >= line->stage_high) {
        struct diag *d = diag_error(E_PLACE, line->span, "there is no stage %lld: '%s' has stages 0 to %d",
                                    (long long)(line->stage_low < 0 ? line->stage_low : line->stage_high - 1),
                                    p->plan->mesh.axis[p->plan->mesh.pipe].name, stages - 1);
        diag_label(d, p->plan->mesh.span, "the mesh");
        return -1;
    }
    if (line->stage_high - line->stage_low > 1) {
        struct diag *d = diag_error(E_PLACE, line->span, "a call runs on one stage, not on %lld", 
                                    (long long)(line->stage_high - line->stage_low));
        diag_help(d, "a repeat is spread over stages by `pipeline over %s { split NAME }`",
                  p->plan->mesh.axis[p->plan->mesh.pipe].name);
        return -1;
    }
    int u = (int)line->stage_low;
    for (int chunk = 1; chunk < plan_chunks(p->plan) && u < r->high; chunk++)
        u = virtual_of(p->plan, (int)line->stage_low, chunk);
    return u;
}

static bool line_is_about(const struct plan_line *line, const struct node *n)
{
    bool match = line->kind == LINE_PLACE && pattern_covers(line->pattern, n->path, NULL);
    for (int k = 0; k < arrlen(n->out) && !match && line->kind == LINE_PLACE; k++)
        match = value_matches(n->out[k], line->pattern, NULL);
    return match;
}

/* Lines about what is inside a repeat: its blocks are placed by the split, and only as wholes. */
static void refuse_inside(struct placing *p, const struct node *repeat, struct plan_line *line)
{
    for (int i = 0; i < arrlen(repeat->body->nodes); i++) {
        const struct node *n = repeat->body->nodes[i];
        if (n->op->flags & OP_SOURCE || !line_is_about(line, n))
            continue;
        struct diag *d;
        line->matches++;
        if (is_cut(repeat)) {
            d = diag_error(E_PLACE, line->span, "the blocks of '%s' are placed by the pipeline already", p->plan->split);
            diag_label(d, p->plan->split_span, "cut here");
            diag_help(d, "say there how many blocks each stage gets: `split %s = [..]`", p->plan->split);
        } else {
            d = diag_error(E_PLACE, line->span, "this names calls inside a repeat, which run where the repeat runs");
            diag_label(d, repeat->span, "the repeat");
            diag_help(d, "spread its blocks over stages with `split`");
        }
        return;
    }
}

static void two_stages(struct placing *p, const struct node *n, const struct plan_line *old, const struct plan_line *line)
{
    if (line == p->told)                             /* one line, one message */
        return;
    p->told = line;
    struct diag *d = diag_error(E_CONFLICT, line->pattern_span, "'%s' is placed on stage %lld and on stage %lld",
                                arrlen(n->out) && n->out[0]->path ? n->out[0]->path : n->op->name, (long long)old->stage_low,
                                (long long)line->stage_low);
    diag_label(d, old->span, "the other line");
    diag_help(d, "keep one of the two, or narrow a pattern");
}

static int place_line(struct placing *p, struct node *n, const struct reach *r)
{
    int stage = -1;
    for (int i = 0; i < arrlen(p->plan->lines); i++) {
        struct plan_line *line = &p->plan->lines[i];
        if (n->body && line->kind == LINE_PLACE)
            refuse_inside(p, n, line);
        if (is_cut(n) || !line_is_about(line, n))
            continue;
        line->matches++;
        int s = line_stage(p, line, r);
        if (s >= 0 && stage >= 0 && line->stage_low != p->line[n->id]->stage_low)
            two_stages(p, n, p->line[n->id], line);
        if (s >= 0) {
            stage = s;
            p->line[n->id] = line;
        }
    }
    return stage;
}

/* ---- forward, backward, update ---- */

static const char *stage_text(const struct placing *p, int u)
{
    const char *stage = mem_printf("stage %d", stage_of(p->plan, u));
    return plan_chunks(p->plan) == 1 ? stage : mem_printf("%s (chunk %d)", stage, chunk_of(p->plan, u));
}

static void against(struct placing *p, struct node *n, const struct reach *r, int stage)
{
    struct span at = n->span.file ? n->span : p->plan->span;
    const struct plan_line *line = p->line[node_at_root(r->highest->def)->id];
    for (int k = 0; !line && k < arrlen(node_at_root(r->highest->def)->in); k++) {      /* pulled there by its own data */
        const struct value *v = node_at_root(r->highest->def)->in[k];
        line = is_data(v) ? p->line[node_at_root(v->def)->id] : NULL;
    }
    line = p->line[n->id] ? p->line[n->id] : line;
    if (line && line == p->told)                     /* one line, one message */
        return;
    p->told = line;
    const char *read = r->highest->path ? r->highest->path : r->highest->def->op->name;
    if (is_cut(n)) {
        struct diag *d = diag_error(E_PLACE, line ? line->pattern_span : at, "the blocks of '%s' start on %s but read '%s', which is made on %s",
                                    p->plan->split, stage_text(p, stage), read, stage_text(p, r->high));
        diag_label(d, n->span, "the blocks of '%s'", p->plan->split);
        diag_help(d, line ? "leave the line out: what stands before the blocks runs with the first of them" :
                  "data flows towards higher stages only");
        return;
    }
    struct diag *d = diag_error(E_PLACE, at, "%s runs on %s but reads '%s', which is made on %s",
                                arrlen(n->out) && n->out[0]->path ? mem_printf("'%s'", n->out[0]->path) : "this", stage_text(p, stage),
                                read, stage_text(p, r->high));
    if (line)
        diag_label(d, line->span, "because of this line");
    else if (r->highest->span.file)
        diag_label(d, r->highest->span, "made here");
    if (plan_chunks(p->plan) == 1)
        diag_help(d, "data flows towards higher stages only: place it on stage %d or later", r->high);
    else
        diag_help(d, "data flows through the stages chunk by chunk: place it on stage %d", stage_of(p->plan, r->high));
}

/* What a placed call reads, made of parts without a place of their own, goes down with it; false: something has one. */
static bool pull(struct placing *p, const struct node *n, int stage)
{
    for (int k = 0; k < arrlen(n->in); k++) {
        if (!is_data(n->in[k]) || made_on(p, n->in[k]->def) <= stage)
            continue;
        struct node *def = node_at_root(n->in[k]->def);
        if (p->line[def->id] || def->body || !pull(p, def, stage))
            return false;
        def->stage = stage;
    }
    return true;
}

static void place_forward(struct placing *p)
{
    bool after = false;
    for (int i = 0; i < arrlen(p->g->root->nodes); i++) {
        struct node *n = p->g->root->nodes[i];
        if ((n->phase != PHASE_FORWARD && !n->of_loss) || n->op->flags & OP_SOURCE)
            continue;
        struct reach r = reach_of(p, n);
        int said = place_line(p, n, &r);
        if (is_cut(n)) {
            int starts = first_stage(n->body->cut);
            after = !n->body->next;
            n->stage = -1;
            if (r.high > starts)
                against(p, n, &r, starts);
            continue;
        }
        int usual = !p->cut ? 0 : after ? p->last : p->first;
        n->stage = said >= 0 ? said : r.high > usual ? r.high : usual;
        /* behind a line, what has data but no place of its own follows its data */
        if (said < 0 && r.highest && p->line[node_at_root(r.highest->def)->id] && !after)
            n->stage = r.high;
        if (said >= 0 && r.high > n->stage && pull(p, n, n->stage))
            r = reach_of(p, n);
        if (r.high > n->stage)
            against(p, n, &r, n->stage);
    }
}

static void place_backward(struct placing *p)
{
    bool *live = NEW_ARRAY(bool, p->g->nnode + 1);       /* a gradient may outlive the node it is of */
    for (int i = 0; i < arrlen(p->g->root->nodes); i++)
        live[p->g->root->nodes[i]->id] = true;
    for (int i = 0; i < arrlen(p->g->root->nodes); i++) {
        struct node *n = p->g->root->nodes[i];
        if (n->phase != PHASE_BACKWARD && n->phase != PHASE_WEIGHT)
            continue;
        if (n->op->flags & OP_SOURCE || n->of_loss)
            continue;
        /* a sum of gradients of what the cut repeat gives goes with its operands: the repeat is on no one stage */
        if (n->forward && live[node_at_root(n->forward)->id] && (n->body || node_at_root(n->forward)->stage >= 0)) {
            n->stage = node_at_root(n->forward)->stage;
            continue;
        }
        struct reach r = reach_of(p, n);             /* gradients flow down from there; what the forward made was sent up */
        n->stage = r.gradients < p->stages ? r.gradients : r.high < 0 ? p->last : r.high;
    }
}

/* The first stage that uses a root parameter; -1 when none does. */
static int param_stage(const struct placing *p, const struct param *param)
{
    int stage = -1;
    for (int i = 0; i < arrlen(p->g->root->nodes); i++) {
        struct node *n = p->g->root->nodes[i];
        if (n->op == &op_param && n->phase != PHASE_UPDATE && node_ptr(n, "param") == param)
            stage = stage < 0 || n->stage < stage ? n->stage : stage;
    }
    return stage;
}

static void place_update(struct placing *p)
{
    for (int i = 0; i < arrlen(p->g->root->nodes); i++) {
        struct node *n = p->g->root->nodes[i];
        if (n->phase != PHASE_UPDATE || n->op->flags & OP_SOURCE)
            continue;
        if (n->body) {
            const struct node *forward = region_origin(n->body)->owner;
            n->stage = forward ? forward->stage : p->last;
            continue;
        }
        const struct param *updated = updates_param(n) && n->op != &op_store ? updated_param(n) : NULL;
        int stage = updated ? param_stage(p, updated) : -1;
        for (int k = 0; k < arrlen(n->in) && stage < 0; k++)
            if (n->in[k] && n->in[k]->def && n->in[k]->def->op == &op_param)
                stage = param_stage(p, node_ptr(n->in[k]->def, "param"));
        if (stage < 0) {
            struct reach r = reach_of(p, n);
            stage = n->op->flags & OP_STACKED || r.high < 0 ? p->last : r.high;
        }
        n->stage = stage;
    }
}

static void note_reader(struct placing *p, struct node *n, int stage, enum phase phase)
{
    for (int k = 0; k < arrlen(n->in); k++) {
        struct node *def = n->in[k] ? n->in[k]->def : NULL;
        if (def && def->op->flags & OP_SOURCE && !def->region->owner && (def->stage < 0 || stage < def->stage))
            def->stage = stage;
    }
    for (int i = 0; n->body && i < arrlen(n->body->nodes); i++)
        note_reader(p, n->body->nodes[i], stage, phase);
}

static void note_copies(const struct node *n, int stage)
{
    for (int k = 0; k < arrlen(n->in); k++) {
        struct value *v = n->in[k];
        if (v && !v->region->parent && value_is_copy(v) && (v->def->stage < 0 || stage < v->def->stage))
            v->def->stage = stage;
    }
    for (int i = 0; n->body && i < arrlen(n->body->nodes); i++)
        note_copies(n->body->nodes[i], stage);
}

/* Copies of parameters: with the repeat whose blocks they walk, or where they are first read. */
static void place_setup(struct placing *p)
{
    struct node **nodes = p->g->root->nodes;
    for (int i = 0; i < arrlen(nodes); i++) {
        if (nodes[i]->phase != PHASE_SETUP || nodes[i]->op->flags & OP_SOURCE)
            continue;
        const struct node *forward = nodes[i]->body ? region_origin(nodes[i]->body)->owner : NULL;
        nodes[i]->stage = forward ? forward->stage : -1;
    }
    for (int i = 0; i < arrlen(nodes); i++)
        if (phase_per_microbatch(nodes[i]->phase) && !(nodes[i]->op->flags & OP_SOURCE))
            note_copies(nodes[i], nodes[i]->stage >= 0 ? nodes[i]->stage : p->first);
}

static void place_sources(struct placing *p, bool update)
{
    struct node **nodes = p->g->root->nodes;
    for (int i = 0; i < arrlen(nodes); i++)
        if (!(nodes[i]->op->flags & OP_SOURCE) && (nodes[i]->phase == PHASE_UPDATE) == update)
            note_reader(p, nodes[i], nodes[i]->stage >= 0 ? nodes[i]->stage : p->first, nodes[i]->phase);
}

/* Nodes of bodies are where their repeat is. */
static void place_bodies(struct region *r, int stage)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        if (r->owner)
            r->nodes[i]->stage = stage;
        if (r->nodes[i]->body)
            place_bodies(r->nodes[i]->body, r->nodes[i]->stage);
    }
}

void place(struct module *m)
{
    const struct plan *plan = m->plan;
    if (!plan)
        return;
    int stages = plan_stages(plan) * plan_chunks(plan);
    bool warned = false;
    for (int e = 0; e < ENTRIES; e++) {
        struct graph *g = m->graph[e];
        if (!g || stages == 1)
            continue;
        struct placing p = { .m = m, .plan = plan, .g = g, .stages = stages, .line = NEW_ARRAY(const struct plan_line *, g->nnode + 1) };
        if (!find_cut(&p))
            return;
        for (int i = 0; i < arrlen(g->root->nodes); i++)
            g->root->nodes[i]->stage = -1;
        place_forward(&p);
        place_backward(&p);
        keep_weight_parts(g);
        settle_twins(g);
        place_setup(&p);
        place_sources(&p, false);
        place_update(&p);
        place_sources(&p, true);
        place_bodies(g->root, -1);
        if (!warned) {
            warn_barrier(&p);
            warn_stages(&p);
        }
        warned = true;
        if (diag_errors())
            return;
    }
}
