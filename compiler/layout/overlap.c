/* `prefetch 1`: the collectives of a repeat's shares run beside the compute of another block than their own.
 *
 * A parameter that a repeat gathers block by block is gathered a block ahead: attribute "ahead" of the gather. A reduction of
 * gradients to shares that a block's end would wait for is waited for in the next block, before the reduction there starts,
 * and of the last block behind the repeat: attribute "late" of the collective and of the accumulations of its results, which
 * nobody in the repeat may read. What is under way meanwhile has a second copy, in which blocks take turns. */
#include "../op.h"
#include "place.h"

static void two_copies(struct buffer *b)
{
    if (b->depth)
        return;                          /* each block has its own */
    b->ring = true;
    b->blocks = 2;
}

static void gather_ahead(struct node *n)
{
    const struct param *from = n->op == &op_box_all_gather ? value_param(n->in[0]) : NULL;
    if (!from || node_int(n, "dim", 0) != DIM_FLAT)
        return;
    node_set_int(n, "ahead", 1);
    two_copies(n->out[0]->buffer);
}

/* May blocks take turns with two copies of what v is in? Not where it is handed on, or is a part of something else. */
static bool takes_turns(const struct value *v, const struct region *r)
{
    const struct buffer *b = v->buffer;
    if (b->depth)
        return true;
    for (int i = 0; i < arrlen(b->values); i++) {
        if (b->values[i]->region != r || !b->values[i]->def)
            return false;
        for (int k = 0; k < arrlen(r->results); k++)
            if (r->results[k] == b->values[i])
                return false;
    }
    return !b->persistent && !b->host && !b->bucket;
}

static bool reads_one_of(const struct node *n, const struct node *of)
{
    for (int k = 0; k < arrlen(n->in); k++)
        if (n->in[k] && n->in[k]->def == of)
            return true;
    return false;
}

static bool read_within(const struct region *r, const struct node *of)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (reads_one_of(r->nodes[i], of) || (r->nodes[i]->body && read_within(r->nodes[i]->body, of)))
            return true;
    return false;
}

static void reduce_late(struct region *r, struct node *n)
{
    if (n->op != &op_box_reduce_scatter || !node_attr(n, "posted") || node_int(n, "rest", -1) >= 0 || n->wide)
        return;
    for (int k = 0; k < arrlen(n->in); k++)
        if (!takes_turns(n->in[k], r) || !takes_turns(n->out[k], r))
            return;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *reader = r->nodes[i];
        if (reader->body && read_within(reader->body, n))
            return;
        if (!reads_one_of(reader, n))
            continue;
        /* who reads the sum of micro-batches in this block, to reduce it over another axis, would read it too early */
        if (reader->op != &op_box_accumulate || reader->wide || read_within(r, reader))
            return;
    }
    node_set_int(n, "late", 1);
    for (int k = 0; k < arrlen(n->in); k++) {
        two_copies(n->in[k]->buffer);
        two_copies(n->out[k]->buffer);
    }
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (reads_one_of(r->nodes[i], n))
            node_set_int(r->nodes[i], "late", 1);
}

void blocks_overlap(struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (n->body)
            blocks_overlap(n->body);
        if (!r->owner || r->count < 2)
            continue;
        gather_ahead(n);
        reduce_late(r, n);
    }
}
