/* What is reduced beside the backward costs only what sticks out of it: the posts of a phase go over the wire one after the
 * other, each from where it stands, while the phase computes; what is not through at its end is waited for. Where ranks share
 * the cores of a host, these also do the reducing, and nothing is hidden. */
#include "../box/post.h"
#include "../op.h"
#include "cluster.h"
#include "predict.h"
#include <math.h>

struct line {                    /* of the phase: where the compute stream is, and until when the wire is taken */
    const struct physical *p;
    double now, wire, total;     /* total: what UPDATE would take for it */
    double late;                 /* when what the next block waits for is through */
};

static double region_seconds(const struct physical *p, const struct region *r)
{
    double sum = 0;
    for (int i = 0; i < arrlen(r->nodes); i++)
        sum += r->nodes[i]->body ? region_seconds(p, r->nodes[i]->body) * (double)r->nodes[i]->body->count
                                 : node_seconds(p, r->nodes[i]);
    return sum;
}

static bool has_posts(const struct region *r)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i]->op == &op_box_post || (r->nodes[i]->body && has_posts(r->nodes[i]->body)))
            return true;
    return false;
}

static void walk(struct line *l, const struct region *r, int64_t block)
{
    for (int i = 0; i < arrlen(r->nodes); i++) {
        const struct node *n = r->nodes[i];
        int64_t first = block, end = block + 1;
        if (n->body && !has_posts(n->body)) {
            l->now += region_seconds(l->p, n->body) * (double)n->body->count;
        } else if (n->body) {
            for (int64_t b = 0; b < n->body->count; b++)
                walk(l, n->body, n->body->reverse ? n->body->count - 1 - b : b);
            l->now = fmax(l->now, l->late);
        } else if (node_attr(n, "posted")) {
            if (!node_int(n, "late", 0))
                l->now = fmax(l->now, l->wire);
        } else if (n->op != &op_box_post) {
            l->now += node_seconds(l->p, n);
        } else if (region_depth(r) != 1 || post_due(n, block, &first, &end)) {
            bool late = node_int(node_ptr(n, "of"), "late", 0);
            l->now = late ? fmax(l->now, l->late) : l->now;
            double lasts = collective_seconds(l->p, node_ptr(n, "of"), (double)post_bytes(l->p, n) * (double)(end - first));
            l->wire = fmax(l->wire, l->now) + lasts;
            l->late = late ? l->wire : l->late;
            l->total += post_each(n) ? 0 : lasts;
        }
    }
}

static bool hides(const struct physical *p, const struct region *r)
{
    const struct cluster *c = p->mesh->cluster ? p->mesh->cluster : cluster_default();
    return r && !c->cores && has_posts(r);
}

double hidden_seconds(const struct physical *p, int stage)
{
    double hidden = 0;
    struct root *roots = stage_roots(&p->stages[stage], ENTRY_TRAIN);
    for (int i = 0; i < arrlen(roots); i++) {
        struct line l = {.p = p};
        if (!hides(p, roots[i].region))
            continue;
        walk(&l, roots[i].region, 0);
        hidden += fmax(l.total - fmax(l.wire - l.now, 0), 0);
    }
    return hidden;
}

double phase_hidden_seconds(const struct physical *p, const struct region *root)
{
    struct line l = {.p = p};
    if (!hides(p, root))
        return 0;
    walk(&l, root, 0);
    return fmax(region_seconds(p, root) - l.now, 0);
}
