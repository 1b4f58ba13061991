/* What is legal and most likely not meant: a schedule that gains nothing, stages with nothing to do or with too much. */
#include "place.h"

/* A schedule that spares each rank's own time alone: that is nothing gained where all wait for each other after every step.
 * A deferred norm lets at least the updates start one after the other. */
void warn_barrier(const struct placing *p)
{
    const struct plan *plan = p->plan;
    if (!schedule_alone[plan->schedule] || plan_stages(plan) == 1 || p->g->entry != ENTRY_TRAIN ||
        p->m->train.clip <= 0 || p->m->train.deferred)
        return;
    struct diag *d = diag_warning(W_BARRIER, plan->schedule_span,
                                  "clip_norm lets all ranks wait for each other after every step: %s gains nothing",
                                  schedule_name[plan->schedule]);
    diag_help(d, "take zb_h1, which is as fast then and needs half the memory");
}

/* Blocks of the cut repeat on a stage, all its chunks. */
static int64_t blocks_on(const struct plan *plan, const int64_t *cut, int stage)
{
    int64_t blocks = 0;
    for (int chunk = 0; cut && chunk < plan_chunks(plan); chunk++) {
        int u = virtual_of(plan, stage, chunk);
        blocks += cut[u + 1] - cut[u];
    }
    return blocks;
}

static double work_of(const struct node *n);

static double work_in(const struct region *r)
{
    double work = 0;
    for (int i = 0; i < arrlen(r->nodes); i++)
        work += work_of(r->nodes[i]);
    return work;
}

/* Floating-point operations of a node; for a repeat those of all its blocks. */
static double work_of(const struct node *n)
{
    return n->body ? (double)n->body->count * work_in(n->body) : n->op->flops ? n->op->flops(n) : 0;
}

/* Of what one stage does of r. */
static double work_on(const struct plan *plan, const struct region *r, int stage)
{
    double work = 0;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        if (n->body && n->body->cut)
            work += (double)blocks_on(plan, n->body->cut, stage) * work_in(n->body);
        else if (n->stage >= 0 && stage_of(plan, n->stage) == stage)
            work += work_of(n);
    }
    return work;
}

/* Does one stage have two fifths more to do than they have on average, so that the others wait? */
static bool unequal(const struct plan *plan, const struct region *r)
{
    int stages = plan_stages(plan);
    double most = 0, all = 0;
    for (int s = 0; s < stages; s++) {
        double work = work_on(plan, r, s);
        most = work > most ? work : most;
        all += work;
    }
    return most > 1.4 * all / stages;
}

/* In r, on a stage, or anywhere (-1). */
static bool has_params(const struct plan *plan, const struct region *r, int stage)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        bool here = stage >= 0 && n->stage >= 0 && stage_of(plan, n->stage) == stage;
        if (n->body && n->body->cut)
            here = blocks_on(plan, n->body->cut, stage) > 0;
        if (here && n->phase != PHASE_UPDATE && (n->op == &op_param || (n->body && has_params(plan, n->body, -1))))
            return true;
        if (stage < 0 && (n->op == &op_param || (n->body && has_params(plan, n->body, -1))))
            return true;
    }
    return false;
}

/* Stages that do nothing, have neither blocks nor parameters, or more than twice the blocks of others and the others no other work
 * for it, such as a head. */
void warn_stages(const struct placing *p)
{
    const struct plan *plan = p->plan;
    const int64_t *cut = p->map;
    struct span at = cut ? plan->split_span : plan->pipeline_span.file ? plan->pipeline_span : plan->span;
    const char *axis = plan->mesh.axis[plan->mesh.pipe].name;
    int stages = plan_stages(plan);
    int64_t most = 0, least = INT64_MAX;
    int first = -1, idle = 0;        /* stages without work or parameters */
    bool first_works = false;
    for (int s = 0; s < stages; s++) {
        int64_t blocks = blocks_on(plan, cut, s);
        bool works = blocks > 0;
        for (int i = 0; i < arrlen(p->g->root->nodes) && !works; i++) {
            const struct node *n = p->g->root->nodes[i];
            works = n->stage >= 0 && stage_of(plan, n->stage) == s && !(n->op->flags & OP_SOURCE);
        }
        if (!works || (!blocks && !has_params(plan, p->g->root, s))) {
            first_works = idle++ ? first_works : works;
            first = first < 0 ? s : first;
        }
        most = cut && blocks > most ? blocks : most;
        least = cut && blocks < least ? blocks : least;
    }
    if (idle) {
        const char *which = idle > 1 ? mem_printf("%d of the %d stages of '%s', from stage %d,", idle, stages, axis, first)
                                     : mem_printf("stage %d of '%s'", first, axis);
        const char *have = idle > 1 ? "have" : "has";
        struct diag *d = diag_warning(W_STAGE, at, "%s %s %s", which, have, first_works ? "no parameters" : "nothing to do");
        if (cut)
            diag_help(d, "give %s blocks: `split %s = [..]`, or take '%s' of size %d", idle > 1 ? "them" : "it", plan->split, axis,
                      stages - idle);
        else
            diag_help(d, "cut a repeat over the stages with `split`, or place calls there with `place`");
        return;
    }
    if (!cut || most <= 2 * least || !unequal(plan, p->g->root))
        return;
    struct diag *d = diag_warning(W_STAGE, at, "stages have between %lld and %lld blocks of '%s'", (long long)least,
                                  (long long)most, plan->split);
    diag_help(d, "the slowest stage sets the pace: `split %s%s` gives each the same", plan->split,
              p->cut->body->total % stages ? " uneven" : "");
}
