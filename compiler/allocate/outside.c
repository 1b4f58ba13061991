/* What a rank needs beside its arena, from the runtime's own rules: the slots of its links, and the room in which
 * collectives pack what is cut along an inner dim; and, listed apart, its part of the memory that the ranks of one host share
 * to meet in. Not counted: scratch of each thread, on cpu 1 to 4 MiB for products. */
#include "../module.h"
#include "../op.h"
#include "../target.h"
#include "outside.h"
#include <string.h>

int64_t outside_links(const struct physical *p, const struct stage *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < arrlen(p->links); i++) {
        const struct link *l = &p->links[i];
        int64_t one = value_local_bytes(l->sent, p->mesh);
        if (l->from == s->index)
            bytes += l->slots_sent * one;
        if (l->to == s->index)
            bytes += l->slots_received * one;
    }
    return bytes;
}

static int64_t whole(const struct physical *p, const struct node *n, const struct value *v)
{
    int64_t bytes = value_local_bytes(v, p->mesh);
    for (const struct region *r = v->region; r != n->region && r->parent; r = r->parent)
        bytes *= r->count;
    return bytes;
}

/* What is cut along dim d, seen as rows of n entries, one part of which goes to each of k ranks. */
struct cut { int64_t rows, n, k; };

static struct cut cut_of(const struct physical *p, const struct node *n, const struct value *v, int d)
{
    struct cut c = {1, value_extent(v, d, p->mesh, NULL), 1};
    for (const struct region *r = v->region; r != n->region && r->parent; r = r->parent)
        c.rows *= r->count;
    for (int k = 0; k < d; k++)
        c.rows *= value_extent(v, k, p->mesh, NULL);
    for (int a = 0; a < p->mesh->naxis; a++)
        if (node_int(n, "axes", 0) >> a & 1)
            c.k *= p->mesh->axis[a].size;
    return c;
}

/* Parts of one row lie in rank order; where they are packed into pieces of one size, they must be equal too. */
static bool cut_packs(struct cut c, bool pieces)
{
    return c.rows > 1 || (pieces && c.n % c.k);
}

/* The largest part's piece of v, all rows of it. */
static int64_t piece(const struct physical *p, const struct node *n, const struct value *v, struct cut c)
{
    return c.n ? whole(p, n, v) / c.n * ((c.n + c.k - 1) / c.k) : 0;
}

static void most(int64_t *to, int64_t bytes)
{
    *to = bytes > *to ? bytes : *to;
}

/* Shares lie in rank order; only a piece that ends before the last share does is copied, zeros behind it. */
static bool ends_early(const struct physical *p, const struct value *in, const struct value *share)
{
    for (int d = 0; d < in->ndim; d++)
        if (in->dim[d]->phys % layout_parts(&in->lay, d, p->mesh))
            return true;                 /* on some ranks */
    return value_local_bytes(in, p->mesh) < value_local_bytes(share, p->mesh) * layout_parts(&share->lay, DIM_FLAT, p->mesh);
}

/* The largest of each: one after the other they use the same. On cuda every communicator has its own, as they may be under
 * way together; on cpu they share one, which is as large as the largest of them. */
static void look(const struct physical *p, const struct region *r, struct room *rooms)
{
    bool pieces = target_of(p->module)->packs;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        int d = (int)node_int(n, "dim", 0);
        int comm = (int)node_int(n, "comm", -1);
        struct room *room = &rooms[comm >= 0 ? comm : 0];
        bool gather = n->op == &op_box_all_gather, scatter = n->op == &op_box_reduce_scatter;
        if (n->body)
            look(p, n->body, rooms);
        for (int k = 0; k < arrlen(n->in) && (gather || scatter || n->op == &op_box_all_to_all); k++) {
            const struct value *in = n->in[k], *out = n->out[k], *joined = gather ? out : in;
            if (d == DIM_FLAT) {
                if (scatter && pieces && ends_early(p, in, out))
                    most(&room->first, value_local_bytes(out, p->mesh) * layout_parts(&out->lay, DIM_FLAT, p->mesh));
                continue;
            }
            struct cut c = cut_of(p, n, joined, gather || scatter ? d : (int)node_int(n, "dim_to", 0));
            if (!gather && !scatter) {           /* pieces of one size along both dims, all that go out and all that come in */
                most(&room->first, pieces ? 2 * c.k * piece(p, n, in, c) : whole(p, n, in));
                most(&room->second, pieces ? 0 : whole(p, n, out));
            } else if (cut_packs(c, pieces)) {
                int64_t one = piece(p, n, joined, c);
                most(pieces || !gather ? &room->first : &room->second, pieces ? (c.k + 1) * one : whole(p, n, joined));
                most(&room->second, pieces ? one : 0);
            }
        }
    }
}

int64_t outside_packing(const struct physical *p, struct stage *s)
{
    struct room *rooms = s->rooms = NEW_ARRAY(struct room, arrlen(p->comms) + 1);
    int64_t bytes = 0;
    for (int e = 0; e < ENTRIES; e++) {
        struct root *roots = stage_roots(s, (enum entry)e);
        for (int i = 0; i < arrlen(roots); i++)
            look(p, roots[i].region, rooms);
    }
    struct room largest = {0};
    for (int i = 0; i <= arrlen(p->comms); i++) {
        bytes += rooms[i].first + rooms[i].second;
        most(&largest.first, rooms[i].first);
        most(&largest.second, rooms[i].second);
    }
    return target_of(p->module)->packs ? bytes : largest.first + largest.second;
}

static bool takes_part(const struct comm *c, int stage)
{
    for (int i = 0; i < arrlen(c->stages); i++)
        if (c->stages[i] == stage)
            return true;
    return !arrlen(c->stages);
}

int64_t outside_meeting(const struct physical *p, const struct stage *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < arrlen(p->comms); i++)
        bytes += takes_part(&p->comms[i], s->index) ? target_of(p->module)->meeting_bytes : 0;
    return bytes;
}

int64_t outside_bytes(const struct stage *s)
{
    return s->link_bytes + s->packing_bytes;
}
