/* The repeat that the pipeline cuts, and how many of its blocks each stage gets. */
#include "place.h"
#include <string.h>

/* "h" of a path "h[*].attn" inside the repeat node n; NULL when it carries no index of n's own. */
static const char *label_of(const struct node *n, const char *path)
{
    const char *p = path;
    for (int depth = region_depth(n->region); p && depth > 0; depth--) {
        p = strstr(p, "[*]");
        p = p ? p + 3 : NULL;
    }
    const char *end = p ? strstr(p, "[*]") : NULL;
    return end ? intern_n(path, (size_t)(end - path)) : NULL;
}

static void note(const char ***names, const char *name)
{
    for (int k = 0; k < arrlen(*names); k++)
        if (!strcmp((*names)[k], name))
            return;
    arrput(*names, name);
}

static struct node *find(struct region *r, const char *label, const char ***names)
{
    struct node *found = NULL;
    for (int i = 0; i < arrlen(r->nodes); i++) {
        struct node *n = r->nodes[i];
        if (!n->body || n->body->mirror || n->phase != PHASE_FORWARD)
            continue;
        for (int k = 0; k < arrlen(n->body->nodes); k++) {
            const struct node *inside = n->body->nodes[k];
            const char *path = arrlen(inside->out) && inside->out[0]->path ? inside->out[0]->path : inside->path;
            const char *own = path ? label_of(n, path) : NULL;
            if (own && names)
                note(names, own);
            if (own && !strcmp(own, label) && !n->body->first)
                found = n;
        }
        if (!found)
            found = find(n->body, label, names);
    }
    return found;
}

struct node *split_find(const struct graph *g, const char *label, const char ***names)
{
    return find(g->root, label, names);
}

/* "4 stages" or "4 stages of 2 chunks" */
static const char *stages_text(const struct plan *plan)
{
    int stages = plan_stages(plan), chunks = plan_chunks(plan);
    return chunks == 1 ? mem_printf("%d stages", stages) : mem_printf("%d stages of %d chunks", stages, chunks);
}

/* "8, 8, 7, 7", and of many stages "5 x 12, 4 x 4", as a map is written. */
static const char *uneven_text(int64_t blocks, int stages)
{
    long long least = blocks / stages, more = blocks % stages;
    const char *map = "";
    if (stages > 12)
        return mem_printf("%lld x %lld, %lld x %lld", least + 1, more, least, stages - more);
    for (int s = 0; s < stages; s++)
        map = mem_printf("%s%s%lld", map, s ? ", " : "", least + (s < more));
    return map;
}

int64_t *split_counts(const struct plan *plan, const struct node *repeat)
{
    int chunks = plan_chunks(plan), stages = plan_stages(plan) * chunks;
    int64_t blocks = repeat->body->total, *cut = NULL;
    const char *axis = plan->mesh.axis[plan->mesh.pipe].name;
    arrput(cut, 0);
    if (plan->split_counts) {
        int64_t sum = 0;
        for (int k = 0; k < arrlen(plan->split_counts); k++) {
            sum += plan->split_counts[k];
            arrput(cut, sum);
        }
        if (arrlen(plan->split_counts) != stages) {
            struct diag *d = diag_error(E_STAGES, plan->split_span, "the stage map of '%s' has %d entries, but '%s' has %s",
                                        plan->split, (int)arrlen(plan->split_counts), axis, stages_text(plan));
            diag_label(d, plan->mesh.axis[plan->mesh.pipe].span, "%s", stages_text(plan));
            diag_help(d, "give one number of blocks for each %s; `8 x 14` is 14 times 8", chunks > 1 ? "chunk, in the order of the blocks" : "stage");
            return NULL;
        }
        if (sum != blocks) {
            struct diag *d = diag_error(E_STAGES, plan->split_span, "the stage map of '%s' covers %lld of its %lld blocks",
                                        plan->split, (long long)sum, (long long)blocks);
            diag_label(d, repeat->span, "%lld blocks", (long long)blocks);
            diag_help(d, "the numbers must add up to %lld", (long long)blocks);
            return NULL;
        }
        return cut;
    }
    if (blocks % stages && !plan->split_uneven) {
        struct diag *d = diag_error(E_STAGES, plan->split_span, "the %lld blocks of '%s' cannot be cut evenly into %s",
                                    (long long)blocks, plan->split, stages_text(plan));
        diag_label(d, repeat->span, "%lld blocks", (long long)blocks);
        const char *map = uneven_text(blocks, stages);
        if (chunks > 1)
            diag_help(d, "write `split %s uneven` (%s blocks), or take fewer chunks", plan->split, map);
        else
            diag_help(d, "write `split %s uneven` (%s blocks), or take '%s' of size %s", plan->split, map, axis,
                      divisors_text(blocks));
        return NULL;
    }
    for (int s = 0; s < stages; s++)
        arrput(cut, arrlast(cut) + blocks / stages + (s < blocks % stages));
    return cut;
}
