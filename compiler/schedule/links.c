/* Slots at the two ends of a link. The runtime copies between a slot and the value's own place at box_send and box_recv,
 * so a slot is held for one message's way only: with two, one message is under way while the next is made, or while the
 * one before is read. A link that passes stages by, or one in an order that lets a stage run ahead, may need more: its
 * messages wait for what goes the long way, and a sender without a slot would hold up just that. */
#include "../module.h"
#include "../prove/certificate.h"
#include "links.h"

enum { MESSAGES = 2 };

/* The link in a circle of waits whose sender only lacks a slot, the one with the least bytes; NULL: there is none. */
static struct link *short_of_slots(const struct physical *p, const struct certificate *c)
{
    struct link *least = NULL;
    for (int i = 0; i < arrlen(c->cycle); i++) {
        const struct event *e = certificate_at(c, c->cycle[i]);
        if (!e || e->kind != EVENT_WAIT_SEND || p->links[e->link].slots_sent >= p->module->plan->microbatches)
            continue;
        struct link *l = &p->links[e->link];
        if (!least || value_local_bytes(l->sent, p->mesh) < value_local_bytes(least->sent, p->mesh))
            least = l;
    }
    return least;
}

void links_widen(struct physical *p)
{
    for (int e = 0; e < ENTRIES && arrlen(p->links); e++) {
        const struct certificate *c;
        while (p->module->graph[e] && !(c = certificate_make(p, (enum entry)e))->complete) {
            struct link *l = short_of_slots(p, c);
            if (!l)
                break;           /* slots are no help: prove tells where it hangs */
            l->slots_sent++;
        }
    }
}

void links_slots(struct physical *p)
{
    int m = (int)p->module->plan->microbatches;
    for (int i = 0; i < arrlen(p->links); i++) {
        struct link *l = &p->links[i];
        l->slots_sent = l->slots_received = phase_per_microbatch(l->phase) && m > 1 ? MESSAGES : 1;
    }
}
