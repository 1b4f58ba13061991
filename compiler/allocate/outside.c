/* What a rank needs beside its arena, from the runtime's own rules: the slots of its links, and the room in which
 * collectives pack what is cut along an inner dim. Not counted: a few rows or tiles of scratch for each thread, at most 1 MiB
 * in a contraction; on cpu the slots in which the ranks of one host meet, at most 2 MiB for each communicator. */
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

/* The largest of each: one after the other they use the same. On cuda every communicator has its own, as they may be under
 * way together. */
struct room { int64_t send, recv; };

static int64_t whole(const struct physical *p, const struct node *n, const struct value *v)
{
    int64_t bytes = value_local_bytes(v, p->mesh);
    for (const struct region *r = v->region; r != n->region && r->parent; r = r->parent)
        bytes *= r->count;
    return bytes;
}

/* Is there more than one row of what is cut along dim d? */
static bool inner(const struct physical *p, const struct node *n, const struct value *v, int d)
{
    int64_t outer = v->region == n->region ? 1 : v->region->count;
    for (int k = 0; k < d; k++)
        outer *= value_extent(v, k, p->mesh, NULL);
    return outer > 1;
}

static void most(int64_t *to, int64_t bytes)
{
    *to = bytes > *to ? bytes : *to;
}

static void look(const struct physical *p, const struct region *r, struct room *rooms)
{
    bool packs = target_of(p->module)->packs;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        int d = (int)node_int(n, "dim", 0);
        int comm = (int)node_int(n, "comm", -1);
        struct room *room = &rooms[packs && comm >= 0 ? comm : 0];
        bool gather = n->op == &op_box_all_gather, scatter = n->op == &op_box_reduce_scatter;
        if (d == DIM_FLAT) {                 /* shares lie in rank order; only a piece that ends early is copied */
            for (int k = 0; k < arrlen(n->in) && scatter && packs; k++)
                most(&room->send, value_share(n->out[k], p->mesh) * 4 * layout_parts(&n->out[k]->lay, DIM_FLAT, p->mesh));
            continue;
        }
        for (int k = 0; k < arrlen(n->in) && (gather || scatter || n->op == &op_box_all_to_all); k++) {
            int64_t in = whole(p, n, n->in[k]), out = whole(p, n, n->out[k]);
            if (gather && inner(p, n, n->out[k], d)) {
                most(&room->recv, out);
                most(&room->send, packs ? 2 * in : 0);
            } else if (scatter && inner(p, n, n->in[k], d)) {
                most(&room->send, in);
                most(&room->recv, packs ? 2 * out : 0);
            } else if (!gather && !scatter) {
                most(&room->send, in);
                most(&room->recv, out);
            }
        }
        if (n->body)
            look(p, n->body, rooms);
    }
}

int64_t outside_packing(const struct physical *p, const struct stage *s)
{
    struct room *rooms = NEW_ARRAY(struct room, arrlen(p->comms) + 1);
    int64_t bytes = 0;
    for (int e = 0; e < ENTRIES; e++) {
        struct root *roots = stage_roots(s, (enum entry)e);
        for (int i = 0; i < arrlen(roots); i++)
            look(p, roots[i].region, rooms);
    }
    for (int i = 0; i <= arrlen(p->comms); i++)
        bytes += rooms[i].send + rooms[i].recv;
    return bytes;
}
