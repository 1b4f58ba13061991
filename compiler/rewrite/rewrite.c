/* rewrite: makes every graph say only what is to be done, in ops that the later passes can lay out. */
#include "rewrite.h"
#include "../passes.h"

void rewrite(struct module *m)
{
    for (int e = 0; e < ENTRIES; e++)
        if (m->graph[e]) {
            replace_nodes(m->graph[e]);
            remove_dead(m->graph[e]);
            set_precision(m->graph[e]);
            join_losses(m->graph[e]);
            recompute(m->graph[e]);
            clear_padding(m->graph[e]);
            split_backward(m->graph[e]);
        }
    warn_unread(m);
}
