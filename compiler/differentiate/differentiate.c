/* differentiate: from the forward graph of the train entry to the whole training step. backward.c appends the
 * gradients, update.c the norm and the optimizer. In all entries counts of inputs leave the repeats they are written in. */
#include "../base/diag.h"
#include "../passes.h"
#include "../rewrite/rewrite.h"
#include "tape.h"

static void warn_untrained(struct differentiation *d)
{
    for (int i = 0; i < arrlen(d->trained); i++) {
        const struct param *p = d->trained[i].param;
        if (d->trained[i].grad)
            continue;
        struct diag *x = diag_warning(W_NO_GRADIENT, p->span, "parameter %s gets no gradient", p->path);
        diag_note(x, d->trained[i].value ? "the loss does not depend on it, or only through detach or a comparison"
                                         : "nothing that the loss needs reads it");
        diag_help(x, "write `frozen %s` in train if that is meant", p->path);
    }
}

void differentiate(struct module *m)
{
    struct graph *g = m->graph[ENTRY_TRAIN];
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e])
            count_ahead(m->graph[e]);
    if (!g || !m->train.present)
        return;
    if (!g->loss)
        BUG("the train entry has no loss");
    remove_dead(g);                      /* what the loss does not need has no gradient either, not even of zeros */
    struct differentiation d = {.g = g};
    find_needs(&d);
    if (!backward(&d))
        return;
    warn_untrained(&d);
    update(&d);
}
