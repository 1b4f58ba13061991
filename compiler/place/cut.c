/* The repeat that the plan splits gets its cut: found by the label of its blocks, its blocks dealt out to the virtual stages,
 * in all its pieces and in all regions that walk the same blocks. */
#include "place.h"
#include <string.h>

int first_stage(const int64_t *cut)
{
    int s = 0;
    while (s < (int)arrlen(cut) - 2 && cut[s + 1] == cut[s])
        s++;
    return s;
}

int last_stage(const int64_t *cut)
{
    int s = (int)arrlen(cut) - 2;
    while (s > 0 && cut[s + 1] == cut[s])
        s--;
    return s;
}

static void cut_mirrors(struct region *r, struct region *origin)
{
    for (int i = 0; i < arrlen(r->nodes); i++)
        if (r->nodes[i]->body) {
            if (region_origin(r->nodes[i]->body) == origin)
                r->nodes[i]->body->cut = origin->cut;
            cut_mirrors(r->nodes[i]->body, origin);
        }
}

/* The call with the label h[..] in the source, wherever it stands. */
static const struct ast *labelled(const struct ast *a, const char *name)
{
    const struct ast *label = a && a->kind == AST_LABEL ? a->kids[0] : NULL, *found = NULL;
    bool indexed = label && label->kind == AST_INDEX;
    while (label && label->kind == AST_INDEX)
        label = label->kids[0];
    if (indexed && label->kind == AST_NAME && !strcmp(label->name, name))
        return a;
    for (int i = 0; a && i < ast_count(a) && !found; i++)
        found = labelled(a->kids[i], name);
    return found;
}

/* What each stage has of a piece, counted from the piece's first block. */
static int64_t *share_of(const int64_t *map, const struct region *piece)
{
    int64_t *cut = NULL;
    for (int s = 0; s < arrlen(map); s++) {
        int64_t at = map[s] - piece->first;
        arrput(cut, at < 0 ? 0 : at > piece->count ? piece->count : at);
    }
    return cut;
}

bool find_cut(struct placing *p)
{
    const char **names = NULL;
    if (!p->plan->split)
        return true;
    p->cut = split_find(p->g, p->plan->split, &names);
    if (!p->cut) {
        const struct ast *label = NULL;
        for (int k = 0; k < arrlen(p->m->programs) && !label; k++)
            label = labelled(p->m->programs[k], p->plan->split);
        struct diag *d = diag_error(E_STAGES, p->plan->split_span, label ? "`split %s` names a repeat that is not used" :
                                    "`split %s` names no repeat", p->plan->split);
        const char *near = suggest(p->plan->split, names), *all = "";
        if (label) {
            diag_label(d, label->span, "neither the loss nor an output depends on it, so it is left out");
            return false;
        }
        for (int k = 0; k < arrlen(names); k++)
            all = mem_printf("%s%s%s", all, k ? ", " : "", names[k]);
        if (near)
            diag_help(d, "did you mean `split %s`?", near);
        else if (*all)
            diag_help(d, "the model's repeats are: %s", all);
        else
            diag_help(d, "the model has no repeat whose blocks have a label with an index, as in `h[i]: Block(x)`");
        return false;
    }
    if (p->cut->region->owner) {
        struct diag *d = diag_error(E_STAGES, p->plan->split_span, "`split %s` names a repeat inside another one", p->plan->split);
        diag_label(d, p->cut->span, "it runs within a block");
        diag_help(d, "split the outer repeat");
        return false;
    }
    int64_t *cut = split_counts(p->plan, p->cut);
    if (!cut)
        return false;
    p->map = cut;
    p->first = first_stage(cut);
    p->last = last_stage(cut);
    for (struct region *body = p->cut->body; body; body = body->next) {
        body->cut = body->next || body->first ? share_of(cut, body) : cut;
        cut_mirrors(p->g->root, body);
    }
    return true;
}
