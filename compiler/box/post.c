/* Posts: where a collective starts ahead of where it stands. What UPDATE reduces of the backward is complete, block by block,
 * long before: in the last micro-batch a box_post behind the last of a bucket's gradients starts the collective for them,
 * and the collective itself, in its place in UPDATE, only waits. So what is reduced, and in which order of adding, is as
 * without; when is another matter.
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

void stage_post(struct physical *p, struct stage *s)
{
    struct region *update = s->phase[ENTRY_TRAIN][PHASE_UPDATE][0];
    int number = 0;
    for (int i = 0; update && i < arrlen(update->nodes); i++) {
        struct node *n = update->nodes[i];
        if (!(n->op->flags & OP_BOXING) || n->op == &op_box_stage_reduce || node_int(n, "comm", -1) < 0)
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
