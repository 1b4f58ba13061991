/* Values that cross stages: cloned again where that is free, sent over a link otherwise; sums of the gradients of a
 * parameter used on several stages; the norm's partial sums; results for the host. */
#include "boxer.h"

static struct value **prime_of(struct boxer *b, int stage, const struct value *v)
{
    return &b->prime[(int64_t)stage * arrlen(b->g->values) + v->id];
}

struct value *boxer_link(struct boxer *b, int from, int to, struct value *sent, enum phase phase)
{
    struct physical *p = b->p;
    struct region *source = boxer_root(b, from, phase), *target = boxer_root(b, to, phase);
    if (sent->region->parent)
        BUG("%s cannot leave its repeat for another stage", sent->path);
    struct link l = {.from = from, .to = to, .phase = phase, .what = sent->path, .entry = b->g->entry};
    for (int i = 0; i < arrlen(p->links); i++)
        l.number += p->links[i].from == from && p->links[i].to == to;
    int number = (int)arrlen(p->links);

    struct node *send = node_new(p->stages[from].graph, source, &op_box_send, sent->span);
    struct node *recv = node_new(p->stages[to].graph, target, &op_box_recv, sent->span);
    node_in(send, sent);
    if (phase_per_microbatch(phase)) {
        (void)arrpop(source->nodes);     /* sends come last: appended when the phase is complete */
        arrput(b->sends[phase], send);
        (void)arrpop(target->nodes);
        int place = b->recvs[to * PHASES + phase]++;
        arrins(target->nodes, place, recv);
    }
    l.sent = sent;
    l.received = clone_out(b, to, recv, sent, &sent->lay);
    l.received->path = mem_printf("%s~recv(%d)", sent->path, from);
    struct node *ends[] = {send, recv};
    for (int i = 0; i < 2; i++) {
        ends[i]->path = sent->path;
        ends[i]->phase = phase;
        ends[i]->stage = i ? to : from;
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

/* A root source or light value: one clone per stage and phase. */
static struct value *clone_here(struct boxer *b, int stage, struct value *v, enum phase phase)
{
    struct source_key key = {.value = v, .stage = stage, .phase = phase};
    struct value *here = hmget(b->sources, key);
    if (!here) {
        struct value *before = *prime_of(b, stage, v);
        boxer_clone(b, stage, v->def, boxer_root(b, stage, phase), phase);
        here = *prime_of(b, stage, v);
        *prime_of(b, stage, v) = before;
        hmput(b->sources, key, here);
    }
    return here;
}

struct value *boxer_obtain(struct boxer *b, int stage, struct value *v, const struct layout *need, enum phase phase)
{
    if (v->def && (v->def->op->flags & OP_SOURCE) && !v->region->parent)
        return clone_here(b, stage, v, phase);
    struct value **prime = prime_of(b, stage, v);
    if (*prime)
        return *prime;
    if (light(v))
        return clone_here(b, stage, v, phase);
    int home = home_of_value(b, v);
    struct value *sent = *prime_of(b, home, v);
    if (!sent) {
        for (home = 0; home < b->p->nstage && !*prime_of(b, home, v); home++)
            ;
        if (home == b->p->nstage)
            BUG("%s is read on stage %d before it exists", v->path, stage);
        sent = *prime_of(b, home, v);
    }
    /* travels as stored, unless the reader's layout is complete where that is partial, or smaller */
    bool partial = false;
    for (int i = 0; i < b->mesh->naxis; i++)
        if (axis_moves(b->mesh, i) && sent->lay.ax[i].kind == SBP_P && need->ax[i].kind != SBP_P)
            partial = true;
    /* what is read once a step travels once, when it is complete; else in the phase that makes it */
    enum phase when = phase_per_microbatch(phase) && sent->def ? sent->def->phase : phase;
    if (partial || layout_bytes(sent, need, b->mesh) < layout_bytes(sent, &sent->lay, b->mesh))
        sent = boxer_convert(b, home, sent, need, boxer_root(b, home, when), when);
    return *prime = boxer_link(b, home, stage, sent, when);
}

/* ---- sums over stages ---- */

/* of: the logical value that the stages hold shares of */
static struct value *stage_reduce(struct boxer *b, int stage, struct value *v, const struct value *of, int comm,
                                  unsigned axes, enum phase phase)
{
    struct region *at = boxer_root(b, stage, phase);
    struct node *n = node_new(b->p->stages[stage].graph, at, &op_box_stage_reduce, of->span);
    node_set_int(n, "axes", axes);
    node_set_int(n, "comm", comm);
    node_set_int(n, "reduce", REDUCE_SUM);
    node_in(n, v);
    n->path = of->path;
    n->phase = phase;
    n->stage = stage;
    struct layout lay = v->lay;
    for (int i = 0; i < b->mesh->naxis; i++)
        if (axes >> i & 1)
            lay.ax[i] = (struct sbp){.kind = SBP_B};
    struct value *out = clone_out(b, stage, n, of, &lay);
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
            if (home_of_value(b, parts[i]) != s)
                continue;
            struct value *v = boxer_read(b, s, parts[i], &out->lay, at, n->phase);
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
    if (arrlen(on) < 2)
        return;
    unsigned axes = 1u << b->mesh->pipe;
    int comm = comm_find(b->p, axes, on);
    for (int i = 0; i < arrlen(on); i++) {
        struct value **prime = prime_of(b, on[i], out);
        *prime = stage_reduce(b, on[i], *prime, out, comm, axes, n->phase);
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
    unsigned axes = 0;
    for (int s = 0; s < stages; s++) {
        struct region *at = boxer_root(b, s, n->phase);
        struct value **in = NULL;
        int64_t *entry = NULL, next = 0;
        for (int k = 0; k < arrlen(n->in); k++) {
            struct value *v = n->in[k];
            int64_t blocks = 1, inner = 1, first = 0;
            for (struct region *r = v->region; r->parent; r = r->parent) {
                blocks *= r->count;
                if (r->parent->parent)
                    inner *= r->count;
                else if (stages > 1 && region_cut(r))
                    first = region_cut(r)[s];
            }
            bool here = v->region->parent ? *prime_of(b, s, v) != NULL : home_of_value(b, v) == s;
            if (here) {
                arrput(in, boxer_read(b, s, v, n->need ? &n->need[k] : &v->lay, at, n->phase));
                arrput(entry, next + first * inner);
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
        *prime_of(b, s, n->out[0]) = clone_out(b, s, c, n->out[0], lay);
    }
    if (stages == 1)
        return;
    for (int i = 0; i < b->mesh->naxis; i++)
        if (axis_moves(b->mesh, i) && lay->ax[i].kind == SBP_P)
            axes |= 1u << i;
    axes |= 1u << b->mesh->pipe;
    int comm = comm_find(b->p, axes, all_stages(b));
    for (int s = 0; s < stages; s++) {
        struct value **prime = prime_of(b, s, n->out[0]);
        *prime = stage_reduce(b, s, *prime, n->out[0], comm, axes, n->phase);
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
        if (s == home) {
            share = boxer_read(b, s, v, need, at, n->phase);
        } else {
            struct node *zero = node_new(b->p->stages[s].graph, at, &op_constant, v->span);
            node_set_num(zero, "value", 0);
            zero->phase = n->phase;
            zero->stage = s;
            share = clone_out(b, s, zero, v, need);
        }
        share = stage_reduce(b, s, share, v, comm_find(b->p, axes, all_stages(b)), axes, n->phase);
        *prime_of(b, s, v) = share;
    }
    for (int s = 0; s < stages; s++)
        boxer_clone(b, s, n, boxer_root(b, s, n->phase), n->phase);
}
