/* Posts: where a collective starts ahead of where it stands. What UPDATE reduces of the backward is complete, block by block,
 * long before: in the last micro-batch a box_post behind the last of a bucket's gradients starts the collective for them,
 * and the collective itself, in its place in UPDATE, only waits. So what is reduced, and in which order of adding, is as
 * without; when is another matter.
 *
 * Shares of gradients (ZeRO-2 and 3) are made in the backward itself, in every micro-batch. There the collectives of a
 * bucket become one, which stands at the end of the region with the accumulations behind it; the post stands where the last of
 * its operands is made.
 *
 * A post stands in the region of its operands and is made once per block of it, or once for several (`buckets`); the text
 * does not grow with either. Posts over one communicator are made in the order of the program, on all ranks of the stage. */
#include "boxer.h"
#include "post.h"

bool post_possible(const struct stage *s, const struct value *v)
{
    const struct region *root = v->region;
    while (root->parent)
        root = root->parent;
    for (int chunk = 0; chunk < s->nchunk; chunk++)
        if (root == s->phase[ENTRY_TRAIN][PHASE_BACKWARD][chunk] || root == s->phase[ENTRY_TRAIN][PHASE_WEIGHT][chunk])
            return v->def != NULL;
    return false;
}

static int place_in(const struct region *r, const struct node *n)
{
    int i = 0;
    while (i < arrlen(r->nodes) && r->nodes[i] != n)
        i++;
    return i;
}

struct posting {
    struct physical *p;
    struct stage *s;
    struct node *of;             /* the collective */
    int64_t limit;               /* bytes of a bucket; 0: none */
    int *number;                 /* posts of the stage so far */
    int64_t *posted;             /* stb_ds array: by operand, the number of its post, or -1 */
};

/* A post of these operands, behind the last of them in their region. */
static void post(struct posting *w, struct region *r, const int *operands, int64_t blocks)
{
    struct node *n = node_new(w->s->graph, r, &op_box_post, w->of->span);
    int64_t *list = NULL;
    int at = 0;
    for (int i = 0; i < arrlen(operands); i++) {
        struct value *v = w->of->in[operands[i]];
        node_in(n, v);
        arrput(n->need, v->lay);
        arrput(list, operands[i]);
        int def = place_in(r, v->def);
        at = def > at ? def : at;
        w->posted[operands[i]] = *w->number;
    }
    node_set_int(n, "number", (*w->number)++);
    node_set_str(n, "over", w->p->comms[node_int(w->of, "comm", 0)].name);
    node_set_int(n, "blocks", blocks);
    node_set_ints(n, "operands", list, (int)arrlen(list));
    node_set_ptr(n, "of", w->of);
    if (!node_finish(w->s->graph, n))
        BUG("a post has no shape");
    n->phase = w->of->in[operands[0]]->def->phase;
    n->stage = w->of->stage;
    n->path = w->of->in[operands[0]]->def->path;
    for (int i = (int)arrlen(r->nodes) - 1; i > at + 1; i--)
        r->nodes[i] = r->nodes[i - 1];
    r->nodes[at + 1] = n;
}

/* Is there a repeat between the two places? Then the first need not wait for the second. */
static bool repeat_between(const struct region *r, int from, int to)
{
    for (int i = from + 1; i <= to; i++)
        if (r->nodes[i]->body)
            return true;
    return false;
}

/* Cuts the operands that are made in one region into buckets, in the order in which they are made there. */
static void post_region(struct posting *w, struct region *r)
{
    int *bucket = NULL, last = -1, buckets = 0;
    int64_t bytes = 0;
    struct { int *operands; } *all = NULL;
    for (int i = 0; i < arrlen(r->nodes); i++)
        for (int k = 0; k < arrlen(w->of->in); k++) {
            const struct value *v = w->of->in[k];
            if (v->region != r || v->def != r->nodes[i])
                continue;
            int64_t more = value_local_bytes(v, w->p->mesh);
            if (bucket && ((w->limit && bytes + more > w->limit) || (!r->parent && repeat_between(r, last, i)))) {
                arrput(all, ((typeof(*all)){bucket}));
                bucket = NULL;
                bytes = 0;
            }
            arrput(bucket, k);
            bytes += more;
            last = i;
        }
    if (!bucket)
        return;
    arrput(all, ((typeof(*all)){bucket}));
    int64_t blocks = 1;
    buckets = (int)arrlen(all);
    if (region_depth(r) == 1 && buckets == 1 && w->limit && bytes)
        blocks = w->limit / bytes < r->count ? w->limit / bytes : r->count;
    for (int i = 0; i < buckets; i++)
        post(w, r, all[i].operands, blocks > 1 ? blocks : 1);
}

static void post_regions(struct posting *w, struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i]->body)
            post_regions(w, r->nodes[i]->body);
    post_region(w, r);
}

static void post_shares(struct physical *p, struct stage *s, struct region *r, int *number);

void stage_post(struct physical *p, struct stage *s)
{
    struct region *update = s->phase[ENTRY_TRAIN][PHASE_UPDATE][0];
    int number = 0;
    struct root *micro = stage_roots(s, ENTRY_TRAIN);
    for (int k = 0; k < arrlen(micro); k++)
        if (micro[k].phase == PHASE_BACKWARD || micro[k].phase == PHASE_WEIGHT)
            post_shares(p, s, micro[k].region, &number);
    for (int i = 0; update && i < arrlen(update->nodes); i++) {
        struct node *n = update->nodes[i];
        if (n->op != &op_box_all_reduce && n->op != &op_box_reduce_scatter)          /* what can be posted: flow_rt.h */
            continue;
        struct posting w = {.p = p, .s = s, .of = n, .limit = p->module->plan->shard.bucket_bytes, .number = &number};
        int before = number;
        for (int k = 0; k < arrlen(n->in); k++)
            arrput(w.posted, -1);
        struct root *roots = stage_roots(s, ENTRY_TRAIN);
        for (int k = 0; k < arrlen(roots); k++)
            if (roots[k].phase == PHASE_BACKWARD || roots[k].phase == PHASE_WEIGHT)
                post_regions(&w, roots[k].region);
        if (number == before)
            continue;
        node_set_ints(n, "posted", w.posted, (int)arrlen(w.posted));
        int rest = 0;
        for (int k = 0; k < arrlen(n->in); k++)
            rest += w.posted[k] < 0;
        if (rest > 1)
            node_set_int(n, "rest", number++);
    }
}

/* ---- shares of gradients, in the backward ---- */

static void find_readers(const struct region *r, const struct value *v, struct node ***readers)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        for (int k = 0; k < arrlen(r->nodes[i]->in); k++)
            if (r->nodes[i]->in[k] == v)
                arrput(*readers, r->nodes[i]);
        if (r->nodes[i]->body)
            find_readers(r->nodes[i]->body, v, readers);
    }
}

/* A reduction to shares whose result nobody in the region reads but an accumulation: it may end late. */
static bool ends_late(const struct region *r, const struct node *n, struct node **accumulate)
{
    struct node **readers = NULL;
    *accumulate = NULL;
    if (n->op != &op_box_reduce_scatter || node_int(n, "dim", 0) != DIM_FLAT || arrlen(n->in) != 1 || n->in[0]->region != r ||
        !n->in[0]->def)
        return false;
    find_readers(r, n->out[0], &readers);
    for (int i = 0; i < arrlen(r->results); i++)
        if (r->results[i] == n->out[0])
            return false;
    if (arrlen(readers) == 1 && readers[0]->op == &op_box_accumulate && arrlen(readers[0]->in) == 1 && readers[0]->region == r)
        *accumulate = readers[0];
    return !arrlen(readers) || *accumulate;
}

static void take_out(struct region *r, const struct node *n)
{
    arrdel(r->nodes, place_in(r, n));
}

/* Before what is sent on, which stands last. */
static void put_last(struct region *r, struct node *n)
{
    int at = (int)arrlen(r->nodes);
    while (at && r->nodes[at - 1]->op == &op_box_send)
        at--;
    arrins(r->nodes, at, n);
}

static bool alike(const struct node *a, const struct node *b)
{
    return node_int(a, "comm", -1) == node_int(b, "comm", -1) && node_int(a, "axes", 0) == node_int(b, "axes", 0) &&
           node_int(a, "reduce", 0) == node_int(b, "reduce", 0) && a->in[0]->type == b->in[0]->type;
}

struct late { struct node **nodes, **accumulates; int64_t bytes; };

static void end_late(struct physical *p, struct stage *s, struct region *r, struct late *l, int *number)
{
    struct node *all = l->nodes[0];
    struct posting w = {.p = p, .s = s, .of = all, .number = number};
    int *operands = NULL;
    for (int i = 0; i < arrlen(l->nodes); i++) {
        take_out(r, l->nodes[i]);
        if (i) {
            struct value *out = l->nodes[i]->out[0];
            arrput(all->in, l->nodes[i]->in[0]);
            arrput(all->need, l->nodes[i]->need[0]);
            arrput(all->out, out);
            out->def = all;
            out->def_index = i;
        }
        if (l->accumulates[i])
            take_out(r, l->accumulates[i]);
        arrput(operands, i);
        arrput(w.posted, -1);
    }
    put_last(r, all);
    for (int i = 0; i < arrlen(l->nodes); i++)
        if (l->accumulates[i])
            put_last(r, l->accumulates[i]);
    post(&w, r, operands, 1);
    node_set_ints(all, "posted", w.posted, (int)arrlen(w.posted));
}

enum { DEFAULT_BUCKET = 4 << 20 };       /* of shares without a `buckets` line: small gradients go along with large ones */

static void post_shares(struct physical *p, struct stage *s, struct region *r, int *number)
{
    int64_t limit = p->module->plan->shard.bucket_bytes ? p->module->plan->shard.bucket_bytes : DEFAULT_BUCKET;
    struct late *buckets = NULL;
    bool open = false;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i], *accumulate;
        if (n->body) {
            post_shares(p, s, n->body, number);
            open = false;
        }
        if (!ends_late(r, n, &accumulate))
            continue;
        int64_t more = value_local_bytes(n->in[0], p->mesh);
        open = open && alike(arrlast(buckets).nodes[0], n) && arrlast(buckets).bytes + more <= limit;
        if (!open)
            arrput(buckets, ((struct late){0}));
        open = true;
        arrput(arrlast(buckets).nodes, n);
        arrput(arrlast(buckets).accumulates, accumulate);
        arrlast(buckets).bytes += more;
    }
    for (int i = 0; i < arrlen(buckets); i++)
        end_late(p, s, r, &buckets[i], number);
}

bool post_each(const struct node *n)
{
    return ((const struct node *)node_ptr(n, "of"))->region == n->region;
}

bool post_due(const struct node *n, int64_t block, int64_t *first, int64_t *end)
{
    const struct region *r = n->region;
    int64_t blocks = node_int(n, "blocks", 1);
    *first = block / blocks * blocks;
    *end = r->owner && *first + blocks > r->count ? r->count : *first + blocks;
    return r->reverse ? block == *first : block + 1 == *end;
}

struct collect { struct node **posts; };

static void collect(struct node *n, void *context)
{
    if (n->op == &op_box_post)
        arrput(((struct collect *)context)->posts, n);
}

struct node **stage_posts(const struct stage *s)
{
    struct collect c = {0};
    struct root *roots = stage_roots(s, ENTRY_TRAIN);
    for (int i = 0; i < arrlen(roots); i++)
        region_walk(roots[i].region, collect, &c);
    for (int i = 1; i < arrlen(c.posts); i++)
        for (int k = i; k && node_int(c.posts[k], "number", 0) < node_int(c.posts[k - 1], "number", 0); k--) {
            struct node *n = c.posts[k];
            c.posts[k] = c.posts[k - 1];
            c.posts[k - 1] = n;
        }
    return c.posts;
}

int64_t post_times(const struct node *n)
{
    int64_t blocks = node_int(n, "blocks", 1);
    return (region_blocks(n->region) + blocks - 1) / blocks;
}

int64_t post_bytes(const struct physical *p, const struct node *n)
{
    int64_t bytes = 0;
    for (int k = 0; k < arrlen(n->in); k++)
        bytes += value_local_bytes(n->in[k], p->mesh);
    return bytes;
}
