/* Walking a program: regions, repeats, and each op through its reference. */
#include "machine.h"
#include <stdlib.h>
#include <string.h>

int64_t tensor_elements(const struct tensor *t)
{
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        count *= t->n[d];
    return t->flat ? t->count : count;
}

int64_t region_block(struct machine *m, struct region *r)
{
    if (!r->parent)
        return 0;
    return region_block(m, r->parent) * r->count + hmget(m->current, region_origin(r));
}

struct tensor place_tensor(const struct run *r, const struct value *v, const struct rank *k)
{
    struct tensor t = {.ndim = v->ndim};
    for (int d = 0; d < v->ndim; d++) {
        t.valid[d] = v->dim[d]->size;
        if (!r->mesh) {
            t.n[d] = t.full[d] = v->dim[d]->size;
            continue;
        }
        struct sbp mb = v->lay.ax[r->mesh->mb];
        t.full[d] = v->dim[d]->phys;
        t.n[d] = value_extent(v, d, r->mesh, k->coord);
        t.base[d] = value_base(v, d, r->mesh, k->coord);
        if (mb.kind == SBP_S && mb.dim == d)
            t.base[d] += r->microbatch * t.n[d];
    }
    if (r->mesh && layout_flat(&v->lay, r->mesh)) {
        t.flat = true;
        t.first = value_base(v, DIM_FLAT, r->mesh, k->coord);
        t.count = value_extent(v, DIM_FLAT, r->mesh, k->coord);
    }
    return t;
}

struct cell *cell_of(struct machine *m, struct rank *k, const struct value *v, int64_t block)
{
    if (v->id >= arrlen(m->graph->values))
        BUG("value %s is of another graph", v->path);
    if (!k->cells[v->id])
        k->cells[v->id] = NEW_ARRAY(struct cell, region_blocks(v->region));
    return &k->cells[v->id][block];
}

struct tensor *cell_write(struct machine *m, struct rank *k, const struct value *v, int64_t block)
{
    struct cell *c = cell_of(m, k, v, block);
    struct tensor t = place_tensor(m->run, v, k);
    size_t bytes = sizeof(double) * (size_t)tensor_elements(&t);
    if (!c->own)
        c->own = malloc(bytes + 1);
    if (!c->own)
        BUG("out of memory");
    memset(c->own, 0, bytes);
    t.data = c->own;
    c->t = t;
    c->filled = true;
    return &c->t;
}

const struct tensor *cell_read(struct machine *m, struct rank *k, const struct value *v, int64_t block)
{
    struct cell *c = cell_of(m, k, v, block);
    if (!c->filled)
        BUG("stage %d reads %s (value %d, block %lld) before it is made", m->stage, v->path ? v->path : "?", v->id,
            (long long)block);
    return &c->t;
}

void cell_seen(struct machine *m, struct rank *k, const struct value *v, int64_t block)
{
    if (m->run->seen)
        m->run->seen(m->run->seen_context, v, k->number, block, &cell_of(m, k, v, block)->t);
}

static void read_param(struct machine *m, struct node *n, struct rank *k, int64_t block)
{
    struct param *p = node_ptr(n, "param");
    struct storage *s = hmget(k->params, p);
    /* All blocks of the parameter are stored; a stage's share of them starts at region->first. */
    int64_t stored = 0, chain[MAX_DIM];
    int depth = 0;
    for (struct region *r = n->region; r->parent; r = r->parent) {
        struct region *o = region_origin(r);
        chain[depth++] = o->first + hmget(m->current, o);
    }
    for (int i = 0; i < arrlen(p->stack); i++)
        stored = stored * p->stack[i] + chain[depth - 1 - i] - p->first[i];
    struct cell *c = cell_of(m, k, n->out[0], block);
    c->t = s->block;
    c->t.data = s->block.data + stored * s->count;
    c->filled = true;
    s->used[stored] = true;
}

static void read_input(struct machine *m, struct node *n, struct rank *k, int64_t block)
{
    const char *name = node_str(n, "name");
    const double *data = shget(m->run->inputs, name);
    if (!data)
        BUG("input %s has no data", name);
    int64_t microbatch = m->run->microbatch;
    if (has_fault(n, -1, FAULT_MICROBATCH))
        m->run->microbatch = (microbatch + 1) % m->run->mesh->axis[m->run->mesh->mb].size;
    struct tensor *t = cell_write(m, k, n->out[0], block), whole = *t;
    m->run->microbatch = microbatch;
    for (int d = 0; d < t->ndim; d++) {
        whole.n[d] = t->valid[d];
        whole.base[d] = 0;
    }
    whole.data = (double *)data;
    tensor_meet(t, &whole, NULL);
    for (int d = 0; d < t->ndim && has_fault(n, -1, FAULT_MICROBATCH); d++)
        t->base[d] = place_tensor(m->run, n->out[0], k).base[d];
}

/* All blocks of an operand as one tensor, blocks leading. */
static struct tensor stack_of(struct machine *m, struct rank *k, const struct value *v)
{
    int64_t blocks = region_blocks(v->region);
    const struct tensor *one = cell_read(m, k, v, 0);
    struct tensor t = {.ndim = 0};
    const struct region *chain[MAX_DIM];
    int depth = 0;
    for (const struct region *r = v->region; r->parent; r = r->parent)
        chain[depth++] = r;
    while (depth-- > 0) {
        t.n[t.ndim] = t.full[t.ndim] = t.valid[t.ndim] = chain[depth]->count;
        t.ndim++;
    }
    for (int d = 0; d < one->ndim; d++, t.ndim++) {
        t.n[t.ndim] = one->n[d];
        t.base[t.ndim] = one->base[d];
        t.full[t.ndim] = one->full[d];
        t.valid[t.ndim] = one->valid[d];
    }
    int64_t count = tensor_elements(one);
    t.data = malloc(sizeof(double) * (size_t)(count * blocks) + 1);
    for (int64_t b = 0; b < blocks; b++)
        memcpy(t.data + b * count, cell_read(m, k, v, b)->data, sizeof(double) * (size_t)count);
    return t;
}

/* The number that random ops take for the block: in the whole model, where a stage has only its share. */
static int64_t block_in_model(struct machine *m, struct region *r)
{
    if (!r->parent)
        return 0;
    struct region *o = region_origin(r);
    return block_in_model(m, r->parent) * o->total + o->first + hmget(m->current, o);
}

/* A reference sees a share as one dim: only element-wise ops and squared sums read any. */
static void straighten(struct tensor *t)
{
    if (t->flat)
        *t = (struct tensor){.ndim = 1, .n = {t->count}, .full = {t->count}, .valid = {t->count}, .data = t->data};
}

static void compute(struct machine *m, struct node *n, struct rank *k)
{
    int nin = (int)arrlen(n->in), nout = (int)arrlen(n->out);
    int64_t block = region_block(m, n->region);
    bool stacked = n->op->flags & OP_STACKED;
    struct tensor *in = calloc((size_t)nin + 1, sizeof *in), *out = calloc((size_t)nout + 1, sizeof *out);
    if (!n->op->ref)
        BUG("op %s has no reference", n->op->name);
    for (int i = 0; i < nin; i++)
        if (n->in[i])
            in[i] = stacked ? stack_of(m, k, n->in[i]) : *cell_read(m, k, n->in[i], region_block(m, n->in[i]->region));
    for (int i = 0; i < nout; i++)
        out[i] = *cell_write(m, k, n->out[i], block);
    for (int i = 0; i < nin; i++)
        straighten(&in[i]);
    for (int i = 0; i < nout; i++)
        straighten(&out[i]);
    struct reference r = {.node = n, .in = in, .out = out, .step = m->run->step,
                          .update = m->run->step - m->run->skipped,
                          .seed = m->run->module->train.seed, .loss_scale = m->run->scale.now,
                          .block = block_in_model(m, n->region), .exact = !m->run->rounding};
    n->op->ref(&r);
    for (int i = 0; i < nout && m->run->rounding; i++)
        for (int64_t e = 0; e < tensor_elements(&out[i]); e++)
            out[i].data[e] = type_round(out[i].data[e], n->out[i]->type);
    for (int i = 0; i < nout; i++)
        cell_seen(m, k, n->out[i], block);
    for (int i = 0; stacked && i < nin; i++)
        free(in[i].data);
    free(in);
    free(out);
}

/* a takes b's contents: SSA values never change, so they may share. */
static void carry(struct machine *m, const struct value *a, int64_t a_block, const struct value *b, int64_t b_block)
{
    for (int r = 0; r < m->nrank; r++) {
        struct rank *k = &m->ranks[r];
        struct tensor t = *cell_read(m, k, b, b_block);
        struct cell *c = cell_of(m, k, a, a_block);
        c->t = t;
        c->filled = true;
    }
}

static void run_region(struct machine *m, struct region *r);

static void run_repeat(struct machine *m, struct node *n)
{
    struct region *body = n->body, *origin = region_origin(body);
    int64_t last = 0;
    for (int64_t i = 0; i < body->count; i++) {
        hmput(m->current, origin, body->reverse ? body->count - 1 - i : i);
        int64_t block = region_block(m, body);
        for (int k = 0; k < arrlen(body->args); k++)
            if (i == 0)
                carry(m, body->args[k], block, n->in[k], region_block(m, n->in[k]->region));
            else
                carry(m, body->args[k], block, body->results[k],
                      body->results[k]->region == body ? last : region_block(m, body->results[k]->region));
        if (body->index)
            for (int r = 0; r < m->nrank; r++)
                cell_write(m, &m->ranks[r], body->index, block)->data[0] =
                    (double)(origin->first + hmget(m->current, origin));
        run_region(m, body);
        last = block;
    }
    for (int k = 0; k < arrlen(n->out); k++) {
        const struct value *from = body->count ? body->results[k] : n->in[k];
        int64_t block = from->region == body ? last : region_block(m, from->region);
        carry(m, n->out[k], region_block(m, n->region), from, block);
    }
}

/* What has just been made becomes wrong. */
static void scale_results(struct machine *m, struct node *n)
{
    int only = n->spoilt_rank - 1;
    for (int r = 0; r < m->nrank; r++)
        for (int i = 0; i < arrlen(n->out) && (only < 0 || only == m->ranks[r].number); i++) {
            int64_t block = n->out[i]->region == n->region ? region_block(m, n->region) : 0;
            struct tensor *t = &cell_of(m, &m->ranks[r], n->out[i], block)->t;
            for (int64_t e = 0; e < tensor_elements(t); e++)
                t->data[e] *= 1.5;
        }
}

/* What ranks with an empty operand have just made becomes what lay there before. */
static void leave_results(struct machine *m, struct node *n)
{
    for (int r = 0; r < m->nrank; r++) {
        bool idle = false;
        for (int k = 0; k < arrlen(n->in); k++) {
            struct tensor t = place_tensor(m->run, n->in[k], &m->ranks[r]);
            idle |= tensor_elements(&t) == 0;
        }
        for (int i = 0; idle && i < arrlen(n->out); i++) {
            int64_t block = n->out[i]->region == n->region ? region_block(m, n->region) : 0;
            struct tensor *t = &cell_of(m, &m->ranks[r], n->out[i], block)->t;
            for (int64_t e = 0; e < tensor_elements(t); e++)
                t->data[e] = 1;
        }
    }
}

static bool run_right(struct machine *m, struct node *n)
{
    if (n->op == &op_repeat) {
        run_repeat(m, n);
    } else if (n->op->flags & OP_BOXING) {
        return box_run(m, n);
    } else if (n->op == &op_output) {
        shput(m->outputs, (char *)node_str(n, "name"), n->in[0]);
    } else {
        for (int r = 0; r < m->nrank; r++) {
            struct rank *k = &m->ranks[r];
            int64_t block = region_block(m, n->region);
            if (n->op == &op_param)
                read_param(m, n, k, block);
            else if (n->op == &op_input)
                read_input(m, n, k, block);
            else
                compute(m, n, k);
        }
    }
    return true;
}

static bool run_node(struct machine *m, struct node *n)
{
    bool done = run_right(m, n);
    if (done && has_fault(n, -1, FAULT_SCALE))
        scale_results(m, n);
    if (done && has_fault(n, -1, FAULT_IDLE))
        leave_results(m, n);
    return done;
}

static void run_region(struct machine *m, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (!run_node(m, r->nodes[i]))
            BUG("a node of a repeat waits for another stage");
}

/* Goes on with the phase under way until it ends (true) or waits for another stage. */
bool machine_go(struct machine *m)
{
    while (m->running && m->at < arrlen(m->running->nodes)) {
        if (!run_node(m, m->running->nodes[m->at]))
            return false;
        m->at++;
    }
    m->running = NULL;
    return true;
}
