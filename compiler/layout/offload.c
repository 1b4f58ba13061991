/* offload: what the plan keeps in host memory. Optimizer states and parameters live there and are copied to the device
 * where a region reads them, and back where it stores them; an activation that the backward reads is copied out behind
 * its producer and in again ahead of its readers, so that the arena holds one block's at a time. A view of either is made
 * again from the copy.
 *
 * Copies of a region run beside its kernels, one ahead: the one for a reader starts before the reader of the copy before
 * it, and what is copied out stays untouched until the next copy out starts. A `copied` node is where the kernels wait;
 * it names the values, so that they keep their place till then. Everything else reads device memory only. */
#include "../op.h"
#include "../passes.h"
#include "place.h"

struct use { struct node *n; int operand; };              /* operand -1: n is a repeat that ends a block with the value */
struct work {
    struct physical *p;
    struct stage *s;
    struct graph *g;
    struct use **uses;           /* by value id */
    struct { struct region *key; enum phase value; } *phases;     /* of root regions */
    struct region **touched;     /* stb_ds array: regions with copies in them */
    int events;
};

static struct region *top(struct region *r)
{
    while (r->parent)
        r = r->parent;
    return r;
}

static void note_use(struct work *w, struct value *v, struct node *n, int operand)
{
    while (arrlen(w->uses) <= v->id)
        arrput(w->uses, NULL);
    arrput(w->uses[v->id], ((struct use){n, operand}));
}

static void note_region(struct work *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k])
                note_use(w, n->in[k], n, k);
        if (!n->body)
            continue;
        note_region(w, n->body);
        for (int k = 0; k < arrlen(n->body->results); k++)
            note_use(w, n->body->results[k], n, -1);
    }
}

static void note_uses(struct work *w)
{
    w->uses = NULL;
    for (int e = 0; e < ENTRIES; e++) {
        struct root *roots = stage_roots(w->s, (enum entry)e);
        for (int i = 0; i < arrlen(roots); i++) {
            hmput(w->phases, roots[i].region, roots[i].phase);
            note_region(w, roots[i].region);
        }
    }
    while (arrlen(w->uses) < arrlen(w->g->values))
        arrput(w->uses, NULL);
}

/* The region around r, or r, that walks the same blocks as v's. */
static struct region *around(struct region *r, const struct value *v)
{
    for (; r; r = r->parent)
        if (region_depth(r) == region_depth(v->region) &&
            (!r->parent || region_origin(r) == region_origin(v->region)))
            return r;
    return NULL;
}

/* Where a copy for the use belongs; NULL: whole stacks are read. */
static struct region *home(const struct use *u, const struct value *v)
{
    return around(u->operand < 0 ? u->n->body : u->n->region, v);
}

static int index_in(const struct region *r, const struct node *n)
{
    while (n->region != r)
        n = n->region->owner;
    int i = 0;
    while (r->nodes[i] != n)
        i++;
    return i;
}

static void move(struct region *r, int from, int to)
{
    struct node *n = r->nodes[from];
    for (int i = from; i > to; i--)
        r->nodes[i] = r->nodes[i - 1];
    for (int i = from; i < to; i++)
        r->nodes[i] = r->nodes[i + 1];
    r->nodes[to] = n;
}

/* Receives stay first and sends last in their region (physical.h). */
static int within(const struct region *r, int at)
{
    int low = 0, high = 0;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        low = r->nodes[i]->op == &op_box_recv ? i + 1 : low;
        high = r->nodes[i]->op != &op_box_send ? i + 1 : high;
    }
    bool links = !r->parent && phase_per_microbatch(r->nodes[0]->phase);
    if (links && at < low)
        return low;
    return links && at > high ? high : at;
}

/* A node of op before the one at index `at` of r; it is like node `like`. */
static struct node *insert(struct work *w, struct region *r, int at, const struct op *op, struct value *v,
                           const struct node *like)
{
    struct node *n = node_new(w->g, r, op, v->span);
    node_in(n, v);
    n->phase = like->phase;
    n->stage = like->stage;
    n->path = like->path;
    if (op != like->op) {
        n->why = "offload";
    } else {
        for (int k = 0; k < arrlen(like->attr); k++)
            arrput(n->attr, like->attr[k]);
        n->forward = like->forward;
    }
    if (!node_finish(w->g, n))
        BUG("a copy of %%%d has no shape", v->id);
    for (int i = (int)arrlen(r->nodes) - 1; i > at; i--)
        r->nodes[i] = r->nodes[i - 1];
    r->nodes[at] = n;
    for (int k = 0; k < arrlen(n->out); k++) {
        const struct value *as = op == like->op ? like->out[k] : v;
        n->out[k]->lay = as->lay;
        n->out[k]->path = as->path;
        n->out[k]->span = as->span;
        n->out[k]->logical = as->logical;
    }
    return n;
}

static struct value *copy(struct work *w, struct region *r, int at, const struct op *op, struct value *v,
                          const struct node *like)
{
    struct node *n = insert(w, r, at, op, v, like);
    bool known = false;
    for (int i = 0; i < arrlen(w->touched); i++)
        known |= w->touched[i] == r;
    if (!known)
        arrput(w->touched, r);
    node_set_int(n, "event", w->events++);
    n->out[0]->host = op == &op_to_host;
    return n->out[0];
}

/* ---- views ---- */

static bool is_view(const struct value *v)
{
    const struct node *n = v->def;
    return n && n->op->flags & OP_VIEW && arrlen(n->in) == 1 &&
           region_within(n->region, n->in[0]->region);
}

/* What v is a view of. */
static struct value *viewed(struct value *v)
{
    while (is_view(v))
        v = v->def->in[0];
    return v;
}

/* The views from base to v once more, on `from`, before the node at index *at of r. */
static struct value *view_again(struct work *w, struct value *v, struct value *base, struct value *from, struct region *r,
                                int *at)
{
    if (v == base)
        return from;
    struct value *x = view_again(w, v->def->in[0], base, from, r, at);
    struct node like = *v->def;
    like.phase = r->nodes[0]->phase;
    return insert(w, r, (*at)++, v->def->op, x, &like)->out[v->def_index];
}

/* ---- what is read from elsewhere ---- */

/* The first node of r that holds one of the uses of v in r; -1: none. */
static int first_use(struct work *w, const struct value *v, const struct region *r)
{
    int first = -1;
    for (int i = 0; i < arrlen(w->uses[v->id]); i++) {
        const struct use *u = &w->uses[v->id][i];
        int at = home(u, v) == r ? index_in(r, u->n) : -1;
        if (at >= 0 && !(u->n->op == &op_store && u->operand == 0) && (first < 0 || at < first))
            first = at;
    }
    return first;
}

/* Uses of v in region r, but the places it is stored to, name `to`. */
static void rename_uses(struct work *w, struct value *v, const struct region *r, struct value *to)
{
    for (int i = 0; i < arrlen(w->uses[v->id]); i++) {
        const struct use *u = &w->uses[v->id][i];
        if (home(u, v) != r || (u->n->op == &op_store && u->operand == 0))
            continue;
        u->n->in[u->operand] = to;
        node_rename_joined(u->n, v, to);
    }
}

struct brought { struct value *host; struct region *r; struct value *device; };

/* The device copy of `host` in region r, made before index *at, which then moves on. */
static struct value *bring(struct work *w, struct brought **list, struct value *host, struct region *r, int *at)
{
    for (int i = 0; i < arrlen(*list); i++)
        if ((*list)[i].host == host && (*list)[i].r == r) {
            int made = index_in(r, (*list)[i].device->def);
            if (made >= *at)
                move(r, made, (*at)++);
            return (*list)[i].device;
        }
    struct node like = {.phase = r->nodes[0]->phase, .stage = r->nodes[0]->stage, .path = r->nodes[*at]->path};
    struct value *device = copy(w, r, *at, &op_to_device, host, &like);
    (*at)++;
    arrput(*list, ((struct brought){host, r, device}));
    return device;
}

static enum phase phase_of(struct work *w, struct region *r)
{
    return hmget(w->phases, top(r));
}

static bool is_backward(enum phase f)
{
    return f == PHASE_BACKWARD || f == PHASE_WEIGHT;
}

/* The regions of other roots in which v is read, each once; NULL with *whole where it is read in a way that no copy
 * serves. With `all` those of v's own root count too. */
static struct region **homes(struct work *w, const struct value *v, bool all, bool *whole)
{
    struct region **list = NULL;
    *whole = false;
    for (int i = 0; i < arrlen(w->uses[v->id]); i++) {
        const struct use *u = &w->uses[v->id][i];
        struct region *r = home(u, v);
        bool known = false, own = top(u->n->region) == top(v->region);
        *whole |= !r || (u->operand < 0 && (all || !own));
        for (int k = 0; k < arrlen(list); k++)
            known |= list[k] == r;
        if (r && !known && (all || (!own && is_backward(phase_of(w, r)))))
            arrput(list, r);
    }
    return *whole ? NULL : list;
}

/* ---- activations ---- */

/* The same for a view, so that what comes back lies where its base's copy does. */
static void view_in_backward(struct work *w, struct value *v, struct value *base, struct value *host,
                             struct brought **list)
{
    bool whole;
    struct region **regions = homes(w, v, false, &whole);
    for (int i = 0; i < arrlen(regions); i++) {
        struct region *r = regions[i];
        int at = within(r, first_use(w, v, r));
        struct value *from = host;
        if (host->host) {
            struct region *outer = around(r, base);
            int there = outer == r ? at : index_in(outer, r->owner);
            from = bring(w, list, host, outer, &there);
            at = outer == r ? there : at;
        }
        rename_uses(w, v, r, view_again(w, v, base, from, r, &at));
    }
}

static bool offloaded_param(const struct work *w, const struct value *v)
{
    if (!v->def || v->def->op != &op_param)
        return false;
    const struct param *q = node_ptr(v->def, "param");
    return w->p->module->plan->offload & (q->is_state && q->of ? OFFLOAD_OPTIMIZER : OFFLOAD_PARAMETERS);
}

static void activation(struct work *w, struct value *v, struct value **hosts, struct brought **list)
{
    bool whole;
    struct value *base = viewed(v);
    struct region **regions = homes(w, v, false, &whole);
    enum phase f = phase_of(w, v->region);
    if (!regions || !v->ndim || (f != PHASE_FORWARD && f != PHASE_BACKWARD))
        return;
    const struct node *def = base->def;
    if (offloaded_param(w, base)) {                        /* made again from the parameter, which is read by any region */
        view_in_backward(w, v, base, base, list);
        return;
    }
    bool fixed = def ? (def->op->flags & OP_SOURCE) != 0 : base == base->region->index;
    if (f != PHASE_FORWARD || fixed || !(w->p->module->plan->offload & OFFLOAD_ACTIVATIONS))
        return;
    struct value **host = &hosts[base->id];
    if (!*host) {
        struct region *r = base->region;
        int at = within(r, def ? index_in(r, def) + 1 : 0);
        struct node like = {.phase = r->nodes[0]->phase, .stage = r->nodes[0]->stage, .path = def ? def->path : r->nodes[0]->path};
        *host = copy(w, r, at, &op_to_host, base, &like);
    }
    view_in_backward(w, v, base, *host, list);
}

/* ---- parameters and states ---- */

/* Whole stacks are not copied: such a parameter stays on the device. */
static bool stays(struct work *w, const struct param *q, int values)
{
    for (int i = 0; i < values; i++) {
        const struct value *v = w->g->values[i];
        bool whole;
        if (!v->def || v->def->op != &op_param || node_ptr(v->def, "param") != q)
            continue;
        homes(w, v, true, &whole);
        if (whole)
            return true;
    }
    return false;
}

static void parameter(struct work *w, struct value *v, struct brought **list)
{
    bool whole;
    struct region **regions = homes(w, v, true, &whole), *own = v->region;
    move(own, index_in(own, v->def), within(own, 0));      /* so that copies of it may start early */
    v->host = true;
    for (int i = 0; i < arrlen(regions); i++) {
        struct region *r = regions[i];
        int at = first_use(w, v, r);
        if (at < 0)
            continue;
        at = within(r, at);
        rename_uses(w, v, r, bring(w, list, v, r, &at));
    }
    for (int i = 0; i < arrlen(w->uses[v->id]); i++) {
        struct node *n = w->uses[v->id][i].n;
        if (n->op == &op_store && w->uses[v->id][i].operand == 0)
            n->in[1] = copy(w, n->region, index_in(n->region, n), &op_to_host, n->in[1], n);
    }
}

/* ---- copies beside kernels ---- */

/* A wait for the copies of nodes [from, to) of r, before index `at`. */
static void wait_for(struct work *w, struct region *r, int from, int to, int at)
{
    struct node *first = r->nodes[from], *last = r->nodes[to - 1], **copies = NULL;
    for (int i = from; i < to; i++)
        if (r->nodes[i]->op == first->op)
            arrput(copies, r->nodes[i]);
    bool out = first->op == &op_to_host;
    struct node *n = insert(w, r, at, &op_copied, out ? first->in[0] : first->out[0], first);
    for (int i = 1; i < arrlen(copies); i++)
        node_in(n, out ? copies[i]->in[0] : copies[i]->out[0]);
    node_set_int(n, "event", node_int(last, "event", 0));
    n->span = last->span;
}

static int first_reader(const struct region *r, const struct node *c)
{
    for (int i = index_in(r, c) + 1; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        for (int k = 0; k < arrlen(n->in); k++)
            if (n->in[k] == c->out[0])
                return i;
        if (n->body)                                       /* it may be read inside */
            return i;
    }
    return (int)arrlen(r->nodes);
}

/* Copies in: in groups by reader. A group starts before the reader of the group before it. */
static void start_early(struct work *w, struct region *r)
{
    struct node *before = NULL;                            /* reader of the last group */
    for (int i = 0; i < arrlen(r->nodes); i++) {
        if (r->nodes[i]->op != &op_to_device)
            continue;
        int end = i;
        while (end < arrlen(r->nodes) && r->nodes[end]->op == &op_to_device)
            end++;
        int reader = (int)arrlen(r->nodes);
        for (int k = i; k < end; k++) {
            int at = first_reader(r, r->nodes[k]);
            reader = at < reader ? at : reader;
        }
        struct node *next = reader < arrlen(r->nodes) ? r->nodes[reader] : NULL;
        wait_for(w, r, i, end, next ? reader : end);
        struct node *wait = r->nodes[next ? reader : end];
        int start = before ? index_in(r, before) : i;
        for (int k = i; k < end && start < i; k++)
            move(r, k, start + k - i);
        before = wait;
        i = index_in(r, wait);
    }
}

/* Copies out: a group waits for the next group to start, the last one for the region's end. */
static void wait_late(struct work *w, struct region *r)
{
    int from = -1, to = -1;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        if (r->nodes[i]->op != &op_to_host)
            continue;
        int end = i;
        while (end < arrlen(r->nodes) && (r->nodes[end]->op == &op_to_host || r->nodes[end]->op == &op_store))
            end++;
        while (r->nodes[end - 1]->op != &op_to_host)
            end--;
        if (from >= 0) {
            wait_for(w, r, from, to, i);
            i++;
            end++;
        }
        from = i;
        to = end;
        i = end - 1;
    }
    if (from >= 0)
        wait_for(w, r, from, to, within(r, (int)arrlen(r->nodes)));
}

void offload(struct physical *p, struct stage *s)
{
    struct work w = {.p = p, .s = s, .g = s->graph};
    struct brought *brought = NULL;
    unsigned what = p->module->plan->offload;
    if (!what)
        return;
    note_uses(&w);
    int values = (int)arrlen(w.g->values);
    struct value **hosts = NEW_ARRAY(struct value *, values + 1);
    for (int i = 0; i < values; i++)
        if (arrlen(w.uses[i]))
            activation(&w, w.g->values[i], hosts, &brought);
    note_uses(&w);
    for (int i = 0; i < values; i++) {
        struct value *v = w.g->values[i];
        if (arrlen(w.uses[i]) && offloaded_param(&w, v) && !stays(&w, node_ptr(v->def, "param"), values))
            parameter(&w, v, &brought);
    }
    for (int i = 0; i < arrlen(w.touched); i++) {
        start_early(&w, w.touched[i]);
        wait_late(&w, w.touched[i]);
    }
}
