/* Gradient buckets. What the update reads of earlier phases and has to convert by communication is converted first, at
 * root: values with the same kind, axes and type of step are operands of one node, whole stacks included. So a step has
 * one gradient reduction over dp, however many parameters there are. */
#include "boxer.h"
#include "post.h"

struct request {
    struct value *value;             /* the latest form of it */
    struct value *source;            /* the form readers convert from */
    struct layout need;
    struct step step[MAX_STEP];
    int count, done;
};

struct collect {
    struct boxer *b;
    int u;                           /* every virtual stage of the stage, in turn */
    struct request *requests;        /* stb_ds array */
};

static void collect_operand(struct collect *c, struct value *v, const struct layout *need)
{
    struct boxer *b = c->b;
    if (!v || (v->def && (v->def->op->flags & OP_SOURCE)))
        return;
    struct value *src = b->prime[(int64_t)c->u * arrlen(b->g->values) + v->id];
    if (!src || layout_agrees(b->mesh, &src->lay, need))
        return;
    struct request r = {.need = *need};
    r.value = r.source = boxer_accumulated(b, c->u, src, need);
    if (layout_agrees(b->mesh, &r.source->lay, need))
        return;
    for (int i = 0; i < arrlen(c->requests); i++)
        if (c->requests[i].source == r.source && layout_agrees(b->mesh, &c->requests[i].need, need))
            return;
    int count = convert_path(r.source, &r.source->lay, need, b->mesh, r.step, MAX_STEP);
    bool stack = region_depth(src->region) > 0;
    for (int i = 0; i < count && (!stack || step_is_comm(r.step[i].kind)); i++)
        if (step_is_comm(r.step[i].kind))
            r.count = i + 1;             /* local steps at the end are made by the reader, and those of a stack: per block */
    if (r.count)
        arrput(c->requests, r);
}

/* Communication on the way from one layout of the value to another? */
static bool needs_comm(const struct boxer *b, const struct value *v, const struct layout *from, const struct layout *to)
{
    struct step steps[MAX_STEP];
    int count = convert_path(v, from, to, b->mesh, steps, MAX_STEP);
    for (int i = 0; i < count; i++)
        if (step_is_comm(steps[i].kind))
            return true;
    return count < 0;
}

/* One reduction serves all: what is a slice of another request is left to its reader, which starts from that one. */
static void drop_slices(struct collect *c)
{
    for (int i = (int)arrlen(c->requests) - 1; i >= 0; i--)
        for (int j = 0; j < arrlen(c->requests); j++) {
            const struct request *r = &c->requests[i], *q = &c->requests[j];
            if (i == j || r->source != q->source || needs_comm(c->b, r->source, &q->need, &r->need))
                continue;
            arrdel(c->requests, i);
            break;
        }
}

static void collect_node(struct node *n, void *context)
{
    struct collect *c = context;
    const struct plan *plan = c->b->m->plan;
    int stage = stage_of(plan, c->u);
    for (int k = 0; k < arrlen(n->in); k++)
        for (int chunk = 0; n->in[k] && chunk < plan_chunks(plan); chunk++) {
            c->u = virtual_of(plan, stage, chunk);
            collect_operand(c, n->in[k], n->need ? &n->need[k] : &n->in[k]->lay);
        }
}

/* An all-reduce over several axes splits into one per axis, inner axes first, where another request reduces over only
 * some of them: those can then share a node. */
static void split_steps(const struct mesh *m, struct request *requests)
{
    for (int i = 0; i < arrlen(requests); i++) {
        struct request *r = &requests[i];
        bool split = false;
        for (int j = 0; j < arrlen(requests) && r->step[0].kind == STEP_ALL_REDUCE; j++) {
            const struct step *other = &requests[j].step[0];
            split |= other->kind == STEP_ALL_REDUCE && other->axes != r->step[0].axes && (other->axes & r->step[0].axes);
        }
        unsigned axes = r->step[0].axes;
        if (!split || !(axes & (axes - 1)) || r->count == MAX_STEP)
            continue;
        struct step first = r->step[0], rest = r->step[0];
        for (int a = m->naxis - 1; a >= 0; a--)
            if (axes >> a & 1) {
                first.axes = 1u << a;
                break;
            }
        rest.axes &= ~first.axes;
        for (int a = 0; a < m->naxis; a++)
            if (rest.axes >> a & 1)
                first.after.ax[a] = r->source->lay.ax[a];
        for (int k = r->count; k > 1; k--)
            r->step[k] = r->step[k - 1];
        r->step[0] = first;
        r->step[1] = rest;
        r->count++;
    }
}

static bool joins(const struct step *a, enum type ta, const struct step *b, enum type tb)
{
    return a->kind == b->kind && a->axes == b->axes && a->reduce == b->reduce && a->dim == b->dim &&
           a->dim_to == b->dim_to && ta == tb;
}

/* The request whose next step goes first: one that nobody needs again later, so that all can join; else the first. */
static struct request *next_request(struct request *requests)
{
    struct request *first = NULL;
    for (int i = 0; i < arrlen(requests); i++) {
        struct request *r = &requests[i];
        if (r->done == r->count)
            continue;
        if (!first)
            first = r;
        bool later = false;
        for (int j = 0; j < arrlen(requests); j++)
            for (int k = requests[j].done + 1; k < requests[j].count; k++)
                later |= joins(&r->step[r->done], r->value->type, &requests[j].step[k], requests[j].value->type);
        if (!later)
            return r;
    }
    return first;
}

/* Would v make the bucket larger than the plan's `buckets` line says? Else its bytes are added. What is posted is cut into
 * buckets there (post.c). */
static bool too_many(const struct boxer *b, int stage, const struct value *v, int64_t *bytes)
{
    int64_t limit = b->m->plan->shard.bucket_bytes, more = value_local_bytes(v, b->mesh) * region_blocks(v->region);
    if (!limit || post_possible(boxer_stage(b, stage), v))
        return false;
    if (*bytes + more <= limit) {
        *bytes += more;
        return false;
    }
    return true;
}

void boxer_bucket(struct boxer *b, int stage)
{
    struct collect c = {.b = b, .u = stage};
    struct node **nodes = b->g->root->nodes;
    for (int i = 0; i < arrlen(nodes); i++)
        if (nodes[i]->phase == PHASE_UPDATE && !b->sunk[nodes[i]->id]) {
            collect_node(nodes[i], &c);
            if (nodes[i]->body)
                region_walk(nodes[i]->body, collect_node, &c);
        }
    drop_slices(&c);
    split_steps(b->mesh, c.requests);
    for (struct request *r; (r = next_request(c.requests));) {
        struct step step = r->step[r->done];
        enum type type = r->value->type;
        struct node *n = boxing_node(b, stage, &step, boxer_root(b, stage, PHASE_UPDATE), PHASE_UPDATE);
        int64_t bytes = 0;
        for (int i = 0; i < arrlen(c.requests); i++) {
            struct request *q = &c.requests[i];
            if (q->done == q->count || !joins(&q->step[q->done], q->value->type, &step, type))
                continue;
            if (!step_is_comm(step.kind) && arrlen(n->in))
                break;                   /* local steps take one value each */
            if (too_many(b, stage, q->value, &bytes) && arrlen(n->in))
                continue;
            struct value *v = boxing_out(b, stage, n, q->value, &q->step[q->done]);
            variant_add(b, q->source, v, true);
            q->value = v;
            q->done++;
        }
    }
}
