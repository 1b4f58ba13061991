/* States that no entry reads or updates once what is dead has gone: no rank holds them, and no file can. */
#include "../base/diag.h"
#include "../module.h"
#include "rewrite.h"

static void see(struct node *n, void *context)
{
    bool *held = context;
    const struct param *p = n->op == &op_param ? node_ptr(n, "param") : NULL;
    if (p)
        held[p->index] = true;
}

void warn_unread(struct module *m)
{
    bool *held = NEW_ARRAY(bool, arrlen(m->params) + 1);
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            region_walk(m->graph[e]->root, see, held);
    for (int i = 0; i < arrlen(m->params); i++) {
        const struct param *p = m->params[i];
        if (!p->is_state || p->of || held[p->index])
            continue;
        struct diag *d = diag_warning(W_UNREAD_STATE, p->span, "nothing reads state %s", p->path);
        diag_note(d, "no `update` changes it, and no result needs it: it would be in no checkpoint and in no export");
        const char *name = strrchr(p->path, '.');
        diag_help(d, "read it, write `update %s = ..`, or take it out", name ? name + 1 : p->path);
    }
}
