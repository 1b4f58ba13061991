/* Boxing carried out between the ranks of a machine, and between machines. Every local conversion and collective is the
 * same thing: each rank's result is met by what the ranks of its group hold, entry by entry of the logical tensor. */
#include "machine.h"
#include "box/post.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Offset in t of global index at[], or -1 when t does not hold it. */
static int64_t offset_of(const struct tensor *t, const int64_t *at)
{
    int64_t o = 0;
    for (int d = 0; d < t->ndim; d++) {
        int64_t i = at[d] - t->base[d];
        if (i < 0 || i >= t->n[d])
            return -1;
        o = o * t->n[d] + i;
    }
    o -= t->first;
    return t->flat && (o < 0 || o >= t->count) ? -1 : o;
}

void tensor_meet(struct tensor *to, const struct tensor *from, const enum reduce *reduce)
{
    int64_t count = tensor_elements(to);
    for (int64_t i = 0; i < count; i++) {
        int64_t at[MAX_DIM], left = i + to->first;
        for (int d = to->ndim - 1; d >= 0; d--) {
            at[d] = to->base[d] + left % to->n[d];
            left /= to->n[d];
        }
        int64_t o = offset_of(from, at);
        if (o < 0)
            continue;
        double x = from->data[o], *y = &to->data[i];
        *y = !reduce ? x : *reduce == REDUCE_SUM ? *y + x : *reduce == REDUCE_MAX ? fmax(*y, x) : fmin(*y, x);
    }
}

static void fill_identity(struct tensor *t, enum reduce r)
{
    int64_t count = tensor_elements(t);
    for (int64_t i = 0; i < count; i++)
        t->data[i] = reduce_identity[r];
}

/* Do the two ranks differ only along the axes? */
static bool same_group(const struct mesh *m, const struct rank *a, const struct rank *b, unsigned axes)
{
    for (int i = 0; i < m->naxis; i++)
        if (!(axes >> i & 1) && a->coord[i] != b->coord[i])
            return false;
    return true;
}

static bool first_of_group(const struct rank *k, const struct mesh *m, unsigned axes)
{
    for (int i = 0; i < m->naxis; i++)
        if (axes >> i & 1 && k->coord[i])
            return false;
    return true;
}

/* The next axis along which the ranks of a stage differ. */
static unsigned next_axis(const struct mesh *m, unsigned axes)
{
    int last = 0;
    for (int i = 0; i < m->naxis; i++)
        if (axes >> i & 1)
            last = i;
    for (int k = 1; k <= m->naxis; k++) {
        int i = (last + k) % m->naxis;
        if (m->axis[i].size > 1 && i != m->pipe && !m->axis[i].time && !(axes >> i & 1))
            return 1u << i;
    }
    return axes;
}

static double *room_for_posted(struct cell *c, const struct tensor *t)
{
    c->posted = c->posted ? c->posted : malloc(sizeof(double) * (size_t)tensor_elements(t) + 1);
    if (!c->posted)
        BUG("out of memory");
    return c->posted;
}

/* What a collective takes of a rank: the operand, or, where a post starts it, what that was then. What no post has started
 * is nothing that anyone could have meant. */
static struct tensor part(struct machine *m, struct rank *k, const struct node *n, int operand, int64_t block)
{
    struct tensor t = *cell_read(m, k, n->in[operand], block);
    struct cell *c = cell_of(m, k, n->in[operand], block);
    const int64_t *posted = node_ints(n, "posted");
    if (!posted || posted[operand] < 0)
        return t;
    t.data = room_for_posted(c, &t);
    for (int64_t i = 0; c->posted_step != m->run->step + 1 && i < tensor_elements(&t); i++)
        t.data[i] = 1e30;
    return t;
}

static void post(struct machine *m, const struct node *n)
{
    int64_t first, end, block = region_block(m, n->region);
    const struct mesh *mesh = m->run->mesh;
    if (!post_each(n) && m->run->microbatch != (n->spoilt == FAULT_EARLY ? 0 : mesh->axis[mesh->mb].size - 1))
        return;
    if (region_depth(n->region) > 1) {
        first = block;
        end = block + 1;
    } else if (!post_due(n, block, &first, &end)) {
        return;
    }
    for (int64_t b = first; b < end; b++)
        for (int k = 0; k < arrlen(n->in); k++)
            for (int r = 0; r < m->nrank; r++) {
                const struct tensor *t = cell_read(m, &m->ranks[r], n->in[k], b);
                struct cell *c = cell_of(m, &m->ranks[r], n->in[k], b);
                memcpy(room_for_posted(c, t), t->data, sizeof(double) * (size_t)tensor_elements(t));
                c->posted_step = m->run->step + 1;
            }
}

static void convert(struct machine *m, const struct node *n, int operand, int64_t from_block, int64_t to_block)
{
    const struct value *from = n->in[operand], *to = n->out[operand];
    const struct mesh *mesh = m->run->mesh;
    unsigned axes = (unsigned)node_int(n, "axes", 0);
    enum reduce reduce = (enum reduce)node_int(n, "reduce", REDUCE_SUM);
    int times = has_fault(n, operand, FAULT_TWICE) ? 2 : 1;
    bool drop = has_fault(n, operand, FAULT_DROP);
    axes = drop ? 0 : has_fault(n, operand, FAULT_GROUP) ? next_axis(mesh, axes) : axes;
    for (int r = 0; r < m->nrank; r++) {
        struct rank *k = &m->ranks[r];
        if (n->op == &op_box_accumulate && cell_of(m, k, to, to_block)->filled && !drop) {
            if (has_fault(n, operand, FAULT_EARLY) && m->run->microbatch == mesh->axis[mesh->mb].size - 1)
                continue;
            for (int i = 1; i < times; i++)
                tensor_meet(&cell_of(m, k, to, to_block)->t, cell_read(m, k, from, from_block), &reduce);
            tensor_meet(&cell_of(m, k, to, to_block)->t, cell_read(m, k, from, from_block), &reduce);
            cell_seen(m, k, to, to_block);
            continue;
        }
        struct tensor *out = cell_write(m, k, to, to_block);
        bool local = n->op == &op_box_slice || n->op == &op_box_mask || n->op == &op_box_pad ||
                     n->op == &op_box_accumulate;
        bool reduces = n->op == &op_box_all_reduce || n->op == &op_box_reduce_scatter;
        if (reduces || n->op == &op_box_mask || n->op == &op_box_pad)
            fill_identity(out, reduce);
        if (local) {
            if (n->op != &op_box_mask || first_of_group(k, mesh, axes))
                tensor_meet(out, cell_read(m, k, from, from_block), NULL);
        } else {
            for (int q = 0; q < m->nrank; q++)
                for (int i = 0; i < times && same_group(mesh, k, &m->ranks[q], axes); i++) {
                    struct tensor t = part(m, &m->ranks[q], n, operand, from_block);
                    tensor_meet(out, &t, reduces ? &reduce : NULL);
                }
        }
        cell_seen(m, k, to, to_block);
    }
}

/* One slot per link and rank of a stage. */
static int mail_slot(struct run *r, int link, int rank)
{
    int ranks = r->machines[0].nrank, count = (int)arrlen(r->physical->links) * ranks;
    if (arrlen(r->mail) < count) {
        arrsetlen(r->mail, count);
        memset(r->mail, 0, sizeof *r->mail * (size_t)count);
    }
    return link * ranks + rank;
}

/* Ranks of two stages correspond by their place within the stage. */
static bool send(struct machine *m, struct node *n)
{
    struct run *run = m->run;
    for (int r = 0; r < m->nrank; r++) {
        int s = mail_slot(run, (int)node_int(n, "link", -1), r);
        if (run->mail[s].full)
            return false;
        const struct tensor *t = cell_read(m, &m->ranks[r], n->in[0], region_block(m, n->in[0]->region));
        size_t bytes = sizeof(double) * (size_t)tensor_elements(t);
        double *data = run->mail[s].t.data;
        if (!data)
            data = malloc(bytes + 1);
        memcpy(data, t->data, bytes);
        run->mail[s].t = *t;
        run->mail[s].t.data = data;
        run->mail[s].full = true;
    }
    return true;
}

static bool receive(struct machine *m, struct node *n)
{
    struct run *run = m->run;
    for (int r = 0; r < m->nrank; r++) {
        int s = mail_slot(run, (int)node_int(n, "link", -1), r);
        if (!run->mail[s].full)
            return false;
    }
    for (int r = 0; r < m->nrank; r++) {
        int link = (int)node_int(n, "link", -1), s = mail_slot(run, link, r);
        struct tensor *t = cell_write(m, &m->ranks[r], n->out[0], 0);
        if (tensor_elements(t) != tensor_elements(&run->mail[s].t))
            BUG("link %d: %s is received with other extents than it was sent", link, n->out[0]->path);
        if (!has_fault(n, -1, FAULT_DROP))
            memcpy(t->data, run->mail[s].t.data, sizeof(double) * (size_t)tensor_elements(t));
        run->mail[s].full = false;
        cell_seen(m, &m->ranks[r], n->out[0], 0);
    }
    return true;
}

static struct meeting *find_meeting(struct run *r, int comm, int number)
{
    for (int i = 0; i < arrlen(r->meetings); i++)
        if (r->meetings[i].comm == comm && r->meetings[i].number == number &&
            r->meetings[i].phase_count == r->phase_count)
            return &r->meetings[i];
    arrput(r->meetings, ((struct meeting){.comm = comm, .number = number, .phase_count = (int)r->phase_count}));
    return &arrlast(r->meetings);
}

static int64_t met_block(struct machine *m, const struct node *n, int operand)
{
    return n->in[operand]->region == n->region ? region_block(m, n->region) : 0;
}

/* The same on the ranks of all stages that have one place in their stage: it is added up once. */
static const struct tensor *summed(const struct meeting *meet, int operand, int rank, const struct tensor *like)
{
    for (int i = 0; i < arrlen(meet->sums); i++) {
        const struct tensor *t = meet->sums[i].t;
        bool same = meet->sums[i].operand == operand && meet->sums[i].rank == rank && t->ndim == like->ndim;
        for (int d = 0; same && d < t->ndim; d++)
            same = t->n[d] == like->n[d] && t->base[d] == like->base[d];
        if (same && t->flat == like->flat && t->first == like->first && t->count == like->count)
            return t;
    }
    return NULL;
}

/* Values of several stages are added; each may hold other parts, and the mesh axes of the comm take part as well. */
static bool stage_reduce(struct machine *m, struct node *n)
{
    struct run *run = m->run;
    int comm = (int)node_int(n, "comm", -1);
    struct comm *c = &run->physical->comms[comm];
    int number = 0;              /* how many reduces over this comm this phase has passed */
    for (int i = 0; i < m->at; i++)
        number += m->running->nodes[i]->op == &op_box_stage_reduce &&
                  node_int(m->running->nodes[i], "comm", -1) == comm;
    struct meeting *meet = find_meeting(run, comm, number);
    bool here = false;
    for (int i = 0; i < arrlen(meet->parts); i++)
        here |= meet->parts[i].stage == m->stage;
    if (!here) {
        for (int k = 0; k < arrlen(n->in); k++)
            for (int r = 0; r < m->nrank; r++) {
                struct tensor t = *cell_read(m, &m->ranks[r], n->in[k], met_block(m, n, k));
                arrput(meet->parts, ((typeof(*meet->parts)){m->stage, r, t}));
            }
        meet->arrived++;
    }
    int expected = arrlen(c->stages) ? (int)arrlen(c->stages) : run->nmachine;
    if (meet->arrived < expected)
        return false;
    enum reduce reduce = (enum reduce)node_int(n, "reduce", REDUCE_SUM);
    for (int k = 0; k < arrlen(n->in); k++)
        for (int r = 0; r < m->nrank; r++) {
            struct tensor *out = cell_write(m, &m->ranks[r], n->out[k], met_block(m, n, k));
            const struct tensor *known = n->spoilt ? NULL : summed(meet, k, r, out);
            if (known)
                memcpy(out->data, known->data, sizeof(double) * (size_t)tensor_elements(out));
            else
                fill_identity(out, reduce);
            for (int s = 0; s < run->nmachine && !known; s++) {
                int seen = 0;
                for (int i = 0; i < arrlen(meet->parts); i++) {
                    if (meet->parts[i].stage != s)
                        continue;
                    int operand = seen++ / run->machines[s].nrank;
                    unsigned pipe = run->mesh->pipe >= 0 ? 1u << run->mesh->pipe : 0;
                    const struct rank *q = &run->machines[s].ranks[meet->parts[i].rank];
                    if (has_fault(n, -1, FAULT_DROP) && (s != m->stage || q != &m->ranks[r]))
                        continue;
                    for (int t = has_fault(n, -1, FAULT_TWICE) ? 2 : 1; t > 0 && operand == k; t--)
                        if (same_group(run->mesh, &m->ranks[r], q, c->axes | pipe))
                            tensor_meet(out, &meet->parts[i].t, &reduce);
                }
            }
            if (!n->spoilt && !known)
                arrput(meet->sums, ((typeof(*meet->sums)){k, r, out}));
            cell_seen(m, &m->ranks[r], n->out[k], met_block(m, n, k));
        }
    return true;
}

bool box_run(struct machine *m, struct node *n)
{
    if (n->op == &op_box_send)
        return send(m, n);
    if (n->op == &op_box_recv)
        return receive(m, n);
    if (n->op == &op_box_stage_reduce)
        return stage_reduce(m, n);
    if (n->op == &op_box_post) {
        post(m, n);
        return true;
    }
    for (int k = 0; k < arrlen(n->in); k++) {
        /* A collective may stand outside the repeat whose values it converts: then it converts whole stacks. */
        bool inside = n->in[k]->region == n->region || region_depth(n->in[k]->region) <= region_depth(n->region);
        if (inside) {
            convert(m, n, k, region_block(m, n->in[k]->region), region_block(m, n->out[k]->region));
            continue;
        }
        int64_t blocks = region_blocks(n->in[k]->region);
        for (int64_t b = 0; b < blocks; b++)
            convert(m, n, k, b, b);
    }
    return true;
}
