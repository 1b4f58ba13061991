/* Values that cross stages: cloned again where that is free, sent over a link otherwise; sums of the gradients of a
 * parameter used on several stages; the norm's partial sums; results for the host. */
#include "boxer.h"

static struct value **prime_of(struct boxer *b, int u, const struct value *v)
{
    return &b->prime[(int64_t)u * arrlen(b->g->values) + v->id];
}

struct value *boxer_link(struct boxer *b, int from, int to, struct value *sent, enum phase phase)
{
    struct physical *p = b->p;
    struct region *source = boxer_root(b, from, phase), *target = boxer_root(b, to, phase);
    if (sent->region->parent)
        BUG("%s cannot leave its repeat for another stage", sent->path);
    struct link l = {.from = stage_of(b->m->plan, from), .to = stage_of(b->m->plan, to), .phase = phase,
                     .what = sent->path, .entry = b->g->entry};
    if (phase_has_chunks(phase)) {
        l.from_chunk = chunk_of(b->m->plan, from);
        l.to_chunk = chunk_of(b->m->plan, to);
    }
    for (int i = 0; i < arrlen(p->links); i++)
        l.number += p->links[i].from == l.from && p->links[i].to == l.to;
    int number = (int)arrlen(p->links);

    struct node *send = node_new(p->stages[l.from].graph, source, &op_box_send, sent->span);
    struct node *recv = node_new(p->stages[l.to].graph, target, &op_box_recv, sent->span);
    node_in(send, sent);
    if (phase_per_microbatch(phase)) {
        (void)arrpop(source->nodes);     /* sends come last: appended when the phase is complete */
        arrput(b->sends[phase], send);
        (void)arrpop(target->nodes);
        int place = b->recvs[(phase_has_chunks(phase) ? to : l.to) * PHASES + phase]++;
        arrins(target->nodes, place, recv);
    }
    l.sent = sent;
    l.received = clone_out(b, to, recv, sent, &sent->lay);
    l.received->logical = sent->logical;
    l.received->path = mem_printf("%s~recv(%d)", sent->path, l.from);
    struct node *ends[] = {send, recv};
    for (int i = 0; i < 2; i++) {
        ends[i]->path = sent->path;
        ends[i]->phase = phase;
        ends[i]->stage = i ? l.to : l.from;
        node_set_int(ends[i], "link", number);
    }
    arrput(p->links, l);
    return l.received;
}

/* Cheap enough to be computed on every stage that reads it: constants, positions, and what is made of them alone. */
static bool light(const struct value *v)
{
    if (!v->def || v->region->parent)
        return false;
    if (v->def->op->flags & OP_SOURCE)
        return v->def->op != &op_param && v->def->op != &op_input;
    if (v->def->op != &op_expand && !(v->def->op->flags & (OP_ELEMENTWISE | OP_VIEW)))
        return false;
    for (int k = 0; k < arrlen(v->def->in); k++)
        if (v->def->in[k] && !light(v->def->in[k]))
            return false;
    return true;
}

/* A root source or light value: one clone per root region. */
static struct value *clone_here(struct boxer *b, int u, struct value *v, enum phase phase)
{
    u = phase_has_chunks(phase) ? u : stage_of(b->m->plan, u);
    struct source_key key = {.value = v, .u = u, .phase = phase};
    struct value *here = hmget(b->sources, key);
    if (!here) {
        struct value *before = *prime_of(b, u, v);
        boxer_clone(b, u, v->def, boxer_root(b, u, phase), phase);
        here = *prime_of(b, u, v);
        *prime_of(b, u, v) = before;
        hmput(b->sources, key, here);
    }
    return here;
}

/* What another chunk of the same stage has made or received by then. */
static struct value *on_same_stage(struct boxer *b, int u, const struct value *v, enum phase phase)
{
    const struct plan *plan = b->m->plan;
    int stage = stage_of(plan, u);
    struct root reader = {.phase = phase, .chunk = phase_has_chunks(phase) ? chunk_of(plan, u) : 0};
    for (int chunk = 0; chunk < plan_chunks(plan); chunk++) {
        struct value *there = *prime_of(b, virtual_of(plan, stage, chunk), v);
        if (there && root_before(boxer_find_root(b, u, there->def ? there->def->region : there->region), reader))
            return there;
    }
    return NULL;
}

struct value *boxer_carry(struct boxer *b, int from, int to, struct value *v, enum phase phase)
{
    bool link = stage_of(b->m->plan, from) != stage_of(b->m->plan, to);
    return link ? boxer_link(b, from, to, v, phase) : v;
}

struct value *boxer_obtain(struct boxer *b, int u, struct value *v, const struct layout *need, enum phase phase)
{
    if (v->def && (v->def->op->flags & OP_SOURCE) && !v->region->parent)
        return clone_here(b, u, v, phase);
    struct value **prime = prime_of(b, u, v);
    if (*prime)
        return *prime;
    if (light(v))
        return clone_here(b, u, v, phase);
    if (value_is_copy(v))                /* every stage that reads the parameter has it, and copies it itself */
        return clone_here(b, u, v, PHASE_SETUP);
    if ((*prime = on_same_stage(b, u, v, phase)))
        return *prime;
    int home = home_of_value(b, v);
    struct value *sent = *prime_of(b, home, v);
    if (!sent) {
        for (home = 0; home < b->p->nvirtual && !*prime_of(b, home, v); home++)
            ;
        if (home == b->p->nvirtual)
            BUG("%s is read on virtual stage %d before it exists", v->path, u);
        sent = *prime_of(b, home, v);
    }
    if (stage_of(b->m->plan, home) == stage_of(b->m->plan, u))
        BUG("%s is read on virtual stage %d before chunk %d has made it", v->path, u, chunk_of(b->m->plan, home));
    /* travels as stored, unless the reader's layout is complete where that is partial, or smaller */
    bool partial = false;
    for (int i = 0; i < b->mesh->naxis; i++)
        if (axis_moves(b->mesh, i) && sent->lay.ax[i].kind == SBP_P && need->ax[i].kind != SBP_P)
            partial = true;
    /* what is read once a step travels once, when it is complete, and so does a count; else in the phase that makes it */
    enum phase when = phase_per_microbatch(phase) && sent->def ? sent->def->phase : phase;
    if (when == PHASE_COUNT && phase != PHASE_COUNT)
        when = PHASE_SETUP;
    if (partial || layout_bytes(sent, need, b->mesh) < layout_bytes(sent, &sent->lay, b->mesh))
        sent = boxer_convert(b, home, sent, need, boxer_root(b, home, when), when);
    return *prime = boxer_link(b, home, u, sent, when);
}

/* ---- sums over stages ---- */

/* of: the logical value that the stages hold shares of */
static struct value *stage_reduce(struct boxer *b, int stage, struct value *v, const struct value *of, int comm,
                                  unsigned axes, enum reduce reduce, enum phase phase)
{
    struct region *at = boxer_root(b, stage, phase);
    struct node *n = node_new(b->p->stages[stage].graph, at, &op_box_stage_reduce, of->span);
    node_set_int(n, "axes", axes);
    node_set_int(n, "comm", comm);
    node_set_int(n, "reduce", reduce);
    node_in(n, v);
    n->path = of->path;
    n->phase = phase;
    n->stage = stage;
    struct layout lay = v->lay;
    for (int i = 0; i < b->mesh->naxis; i++)
        if (axes >> i & 1)
            lay.ax[i] = (struct sbp){.kind = SBP_B};
    struct value *out = clone_out(b, stage, n, of, &lay);
    out->logical = of;
    out->path = mem_printf("%s~stage_reduce(%s)", of->path, b->p->comms[comm].name);
    return out;
}

static void leaves(const struct boxer *b, struct value *v, struct value ***list)
{
    if (v->def && !v->region->parent && b->sunk[v->def->id] && arrlen(b->users[v->id]) == 1) {
        leaves(b, v->def->in[0], list);
        leaves(b, v->def->in[1], list);
    } else {
        arrput(*list, v);
    }
}

void boxer_sum_uses(struct boxer *b, struct node *n)
{
    struct value *out = n->out[0];
    struct node **users = b->users[out->id];
    if (arrlen(users) == 1 && b->sunk[users[0]->id])
        return;                          /* part of a larger sum */
    struct value **parts = NULL;
    leaves(b, n->in[0], &parts);
    leaves(b, n->in[1], &parts);
    int stages = b->p->nstage, *on = NULL;
    for (int s = 0; s < stages; s++) {
        struct region *at = boxer_root(b, s, n->phase);
        struct value *sum = NULL;
        for (int i = 0; i < arrlen(parts); i++) {
            int home = home_of_value(b, parts[i]);
            if (stage_of(b->m->plan, home) != s)
                continue;
            struct value *v = boxer_read(b, home, parts[i], &out->lay, at, n->phase);
            if (sum) {
                struct node *add = node_new(b->p->stages[s].graph, at, &op_add, n->span);
                add->path = n->path;
                add->phase = n->phase;
                add->stage = s;
                node_in(add, sum);
                node_in(add, v);
                v = clone_out(b, s, add, out, &out->lay);
            }
            sum = v;
        }
        if (sum) {
            *prime_of(b, s, out) = sum;
            arrput(on, s);
        }
    }
    if (arrlen(on) == 1) {               /* the last of the additions is what the program calls so */
        struct value *whole = *prime_of(b, on[0], out);
        whole->logical = out;
        whole->def->logical = n;
    }
    if (arrlen(on) < 2)
        return;
    unsigned axes = 1u << b->mesh->pipe;
    int comm = comm_find(b->p, axes, on);
    for (int i = 0; i < arrlen(on); i++) {
        struct value **prime = prime_of(b, on[i], out);
        *prime = stage_reduce(b, on[i], *prime, out, comm, axes, REDUCE_SUM, n->phase);
    }
}

static int *all_stages(const struct boxer *b)
{
    int *on = NULL;
    for (int s = 0; s < b->p->nstage; s++)
        arrput(on, s);
    return on;
}

void boxer_partials(struct boxer *b, struct node *n)
{
    int stages = b->p->nstage;
    const struct layout *lay = &n->out[0]->lay;
    const struct plan *plan = b->m->plan;
    unsigned axes = 0;
    enum reduce reduce = REDUCE_SUM;     /* an entry that is on another stage is 0 here */
    for (int s = 0; s < stages; s++) {
        struct region *at = boxer_root(b, s, n->phase);
        struct value **in = NULL;
        int64_t *entry = NULL, next = 0;
        for (int k = 0; k < arrlen(n->in); k++) {
            struct value *v = n->in[k];
            int64_t blocks = 1, inner = 1;
            const int64_t *cut = NULL;
            for (struct region *r = v->region; r->parent; r = r->parent) {
                blocks *= r->count;
                if (r->parent->parent)
                    inner *= r->count;
                else if (stages > 1)
                    cut = region_cut(r);
            }
            for (int chunk = 0; chunk < plan_chunks(plan); chunk++) {
                int u = virtual_of(plan, s, chunk);
                if (v->region->parent ? !*prime_of(b, u, v) : home_of_value(b, v) != u)
                    continue;
                arrput(in, boxer_read(b, u, v, n->need ? &n->need[k] : &v->lay, at, n->phase));
                arrput(entry, next + (cut ? cut[u] : 0) * inner);
            }
            next += blocks;
        }
        struct node *c = node_new(b->p->stages[s].graph, at, n->op, n->span);
        for (int i = 0; i < arrlen(n->attr); i++)
            arrput(c->attr, n->attr[i]);
        node_set_ints(c, "entry", entry, (int)arrlen(entry));
        c->in = in;
        c->path = n->path;
        c->phase = n->phase;
        c->stage = s;
        c->logical = n;
        *prime_of(b, s, n->out[0]) = clone_out(b, s, c, n->out[0], lay);
    }
    if (stages == 1)
        return;
    for (int i = 0; i < b->mesh->naxis; i++)
        if (axis_moves(b->mesh, i) && lay->ax[i].kind == SBP_P) {
            axes |= 1u << i;
            reduce = (enum reduce)lay->ax[i].dim;    /* of sizes, none of them less than 0, where it is a maximum */
        }
    axes |= 1u << b->mesh->pipe;
    int comm = comm_find(b->p, axes, all_stages(b));
    for (int s = 0; s < stages; s++) {
        struct value **prime = prime_of(b, s, n->out[0]);
        *prime = stage_reduce(b, s, *prime, n->out[0], comm, axes, reduce, n->phase);
    }
}

/* Scalars reach every stage: the others add zeros to the home stage's value. Larger results are handed to the host where
 * they are; the runtime collects them. */
void boxer_output(struct boxer *b, struct node *n)
{
    int stages = b->p->nstage;
    struct value *v = n->in[0];
    const struct layout *need = n->need ? &n->need[0] : &v->lay;
    bool once = !phase_per_microbatch(n->phase), known = v->def && b->replicated[v->def->id];
    int home = home_of_value(b, v);
    if (v->ndim || !once) {
        if (b->g->entry != ENTRY_TRAIN)
            boxer_clone(b, home, n, boxer_root(b, home, n->phase), n->phase);
        return;
    }
    for (int s = 0; s < stages && stages > 1 && !known && !light(v); s++) {
        struct region *at = boxer_root(b, s, n->phase);
        unsigned axes = 1u << b->mesh->pipe;
        struct value *share;
        if (s == stage_of(b->m->plan, home)) {
            share = boxer_read(b, home, v, need, at, n->phase);
        } else {
            struct node *zero = node_new(b->p->stages[s].graph, at, &op_constant, v->span);
            node_set_num(zero, "value", 0);
            zero->phase = n->phase;
            zero->stage = s;
            share = clone_out(b, s, zero, v, need);
        }
        share = stage_reduce(b, s, share, v, comm_find(b->p, axes, all_stages(b)), axes, REDUCE_SUM, n->phase);
        *prime_of(b, s, v) = share;
    }
    for (int s = 0; s < stages; s++)
        boxer_clone(b, s, n, boxer_root(b, s, n->phase), n->phase);
}
